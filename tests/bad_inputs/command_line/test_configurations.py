"""Configurations, and settings of them, that cannot be."""

from __future__ import annotations

import pytest
from configuration_sections import SECTIONS

CONFIGURATIONS = [
    ("missing.toml", "CONFIG must be a TOML file or .* got missing.toml"),
    ("nothing", "CONFIG must be a TOML file or .* got nothing"),
    ("digit", "CONFIG must be .* got digit. Did you mean 'digits'?"),
    ("''", "CONFIG must be a TOML file or"),
    ("empty.toml", "data: missing, and there is no default"),
    ("text.toml", "text.toml: not TOML: Expected '='"),
    ("bytes.toml", "bytes.toml: not TOML: 'utf-8' codec can't decode byte 0xff"),
    ("deep.toml", "deep.toml: not TOML: maximum recursion depth"),
    ("digits.toml", "digits.toml: not TOML: .*4300 digits"),
    ("no_features.toml", "data.features: missing, and there is no default"),
    ("table.toml", "run must be a table, got 3"),
    ("tables.toml", "data must be a table, got .*data.npz"),
    ("number.toml", "data must be a table, got 3"),
    ("section.toml", "bogus: unknown key. Known: data, graph"),
    ("int_section.toml", "int: unknown key. Known: data, graph"),
    ("int_key.toml", "float: unknown key. Known: data, graph"),
    ("str_key.toml", "model.str: unknown key.*model.int: unknown key"),
    ("int_in_slurm.toml", "cluster.slurm.int: unknown key. Known: queue"),
    ("int_in_weights.toml", "model.class_weight.int must be a number, got 'x'"),
]


@pytest.mark.parametrize(("config", "message"), CONFIGURATIONS, ids=[row[0] for row in CONFIGURATIONS])
@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_configuration_that_cannot_be_read_is_refused(command, config, message, assert_refused):
    assert_refused(f"{command} {config}", 2, message)


SETTINGS = [
    ("''", 2, "--set must be SECTION.KEY=VALUE, got ''"),
    ("nonsense", 2, "--set must be SECTION.KEY=VALUE, got 'nonsense'"),
    ("x=1", 2, "--set must be SECTION.KEY=VALUE, got 'x=1'"),
    ("a..b=1", 2, "a: unknown key"),
    ("run.name.x=3", 2, "got 'run.name.x=3': name is a key, not a section"),
    ("int.x=3", 2, "int: unknown key"),
    ("model.float=3", 2, "model.float: unknown key"),
    (
        "model.kernel=precomputed",
        2,
        'model.kernel must be one of "auto", "linear", "rbf", "poly", "sigmoid", got .precomputed.',
    ),
    ("model.gamma=0", 2, 'model.gamma must be a positive number, "scale" or "auto", got 0'),
    ("model.degree=0", 2, "model.degree must be an integer from 1 to 1000, got 0"),
    ("model.coef0=nan", 2, "model.coef0 must be a finite number, got nan"),
    (
        f"model.C={'[' * 3000}",
        2,
        r"model.C must be a positive number, .scale., .auto. or a list of these, got '\[",
    ),
    ("data.features=''", 2, "data.features must have at least 1 character, got ''"),
    ("data.features=missing.npz", 2, "data.features: no such file or folder: missing.npz"),
    (f"data.features={'x' * 5000}", 2, "data.features: no such file or folder: xxx"),
    ("data.features=$PAIRLOOM_DATA/x", 2, r"data.features is '\$PAIRLOOM_DATA/x': set PAIRLOOM_DATA"),
    ("data.test=missing.npz", 2, "data.test: no such file or folder: missing.npz"),
    ("data.test_fraction=0", 2, "data.test_fraction must be greater than 0, got 0"),
    ("data.test_fraction=nan", 2, "data.test_fraction must be .* got nan"),
    ("data.test_fraction=0.999", 2, "data.test_fraction must leave training samples .* got 0.999"),
    ("model.C=-1", 2, "model.C must be a positive number, .scale., .auto. or a list of these, got -1"),
    ("model.C=nan", 2, "model.C must be a positive number, .scale., .auto. or a list of these, got nan"),
    ("model.C=true", 2, "model.C must be a positive number, .scale., .auto. or a list of these, got True"),
    ("model.C=[]", 2, r"model.C must be a positive number, .scale., .auto. or a list of these, got \[\]"),
    ("model.C='[1, \"x\"]'", 2, "model.C.1 must be a number or 'scale' or 'auto', got 'x'"),
    ("model.C=1e308", 2, r"C must be a number that fits the size of the features, got 1e\+308"),
    ("model.folds=1", 2, "model.folds must be an integer from 2 to 2147483647 or .auto., got 1"),
    ("model.folds=true", 2, "model.folds must be an integer from 2 to 2147483647 or .auto., got True"),
    (
        "model.folds=99",
        2,
        "model: folds must be at least 2 and at most the size of the largest class, 6, got 99",
    ),
    ("model.fit_on=x", 2, "model.fit_on must be .* got 'x'"),
    (
        "model.calibration=x",
        2,
        'model.calibration must be one of "auto", "distance", "slopes", "platt", got .x.',
    ),
    ("model.coupled_calibration=x", 2, "model.coupled_calibration must be .* got 'x'"),
    ("model.calibration_samples=0", 2, "model.calibration_samples must be .* got 0"),
    (f"model.calibration_samples={10**24}", 2, "model.calibration_samples must be .* 2147483647, got 1000"),
    ("model.whiten=2", 2, "model.whiten must be a number from 0 to 1, .none. or .auto., got 2"),
    ("model.whiten=nan", 2, "model.whiten must be a number from 0 to 1, .* got nan"),
    ("model.learn=couple", 2, 'model.learn must be one of "machines", "coupled", got .couple.'),
    ("model.learn=3", 2, 'model.learn must be one of "machines", "coupled", got 3'),
    (
        "model.learn=coupled --set model.coupling=vote",
        2,
        "model.learn = \"coupled\" needs a coupling with a gradient, one of .*, got 'vote'",
    ),
    (
        "model.learn=coupled --set model.kernel=rbf",
        2,
        "model.learn = \"coupled\" needs linear machines, .* got model.kernel = 'rbf'",
    ),
    (
        "model.learn=coupled --set graph.family=dense",
        2,
        "model.learn = \"coupled\" needs machines on pairs of classes, .* got graph.family = 'dense'",
    ),
    (
        "model.learn=coupled --set model.coupling=normal --set model.machine_weight=counts",
        2,
        "all with the same weight, got graph.family = 'hub_neighbours', model.machine_weight = 'counts'",
    ),
    (
        "model.learn=coupled --set growth.pairs=6",
        2,
        r'model.learn must be "machines" with \[growth\], .* got "coupled"',
    ),
    (
        "model.learn=coupled --set 'run.also_couple=[\"normal\"]'",
        2,
        "run.also_couple must be empty with model.learn = .* got .'normal'.: make a run for each coupling",
    ),
    (
        "model.learn=coupled --set run.memory_limit=1KB",
        2,
        "run.memory_limit must be at least .* got 1KB",
    ),
    ("model.thresholds=yes", 2, "model.thresholds must be true or false, got 'yes'"),
    ("model.priors=[1]", 2, r"model.priors must be 4 non-negative numbers, .* got \[1.0\]"),
    ("model.priors=[1,1,1,-1]", 2, r"model.priors must be 4 non-negative .* got \[1.0, 1.0, 1.0, -1.0\]"),
    ("model.priors='[\"a\"]'", 2, "model.priors.0 must be a number, got 'a'"),
    ("model.class_weight={x=1.0}", 2, "model.class_weight must name classes of the data, got 'x'"),
    ("model.class_weight={0=-1.0}", 2, "model.class_weight must be positive, got -1 for class '0'"),
    ("model.class_weight={0=inf}", 2, "model.class_weight.0 must be a finite number, got inf"),
    ("model.tol=0", 2, "model.tol must be a number above 0 and below 1, got 0"),
    ("model.tol=1", 2, "model.tol must be a number above 0 and below 1, got 1"),
    ("model.random_state=-1", 2, "model.random_state must be greater than or equal to 0, got -1"),
    ("model.coupling=x", 2, "model.coupling must be .* got 'x'"),
    ("graph.family=x", 2, "graph.family must be .* got 'x'"),
    ("graph.centre=1", 2, "graph.centre is not a parameter of the family 'hub_neighbours'"),
    ("graph.hubs=0", 2, "hubs must be at least 1 .* got 0"),
    ("graph.hubs=[9]", 2, "class of hubs must be .* got 9"),
    ("graph.hubs=[0,0]", 2, "hubs must be distinct classes, got 0 more than once"),
    (f"graph.hubs={10**24}", 2, "hubs must be .* at most n = 4, got 1000"),
    ("graph.neighbours=-1", 2, "graph.neighbours must be greater than or equal to 0, got -1"),
    ("graph.neighbours=99", 2, "neighbours must be .* at most n - 1 = 3, got 99"),
    ("graph.family=tree", 2, "graph.parents must be set: the family 'tree' needs it"),
    (
        "graph.family=tree --set graph.parents=[-1,0]",
        2,
        "parents of family 'tree' must be for n = 4 .* got 2",
    ),
    ("graph.family=tree --set graph.parents=[-1,0,0,9]", 2, r"parents\[3\] must be .* got 9"),
    ("graph.family=bipartite --set graph.hubs=4", 2, "hubs must be at least 1 and at most .* got 4"),
    ("graph.family=star --set graph.centre=9", 2, "centre must be .* got 9"),
    ("graph.family=grown --set graph.edges=99", 2, "edges must be .* got 99"),
    ("graph.family=grown --set graph.edges=4 --set graph.seed=-1", 2, "graph.seed must be .* got -1"),
    ("graph.family=grown --set graph.edges=4 --set graph.cost=dprime", 2, "matrix must be given .* got None"),
    (
        "graph.family=grown --set graph.edges=4 --set graph.cost=dprime --set graph.matrix=[[1,2],[3]]",
        2,
        r"matrix must be a matrix of real numbers, got \[\[1.0, 2.0\], \[3.0\]\]",
    ),
    ("growth.cost=x", 2, "growth.cost must be .* got 'x'"),
    ("growth.wave=0", 2, "growth.wave must be .* got 0"),
    ("growth.pairs=0", 2, "growth.pairs must be .* got 0"),
    ("growth.pairs=1", 2, "growth.pairs must be at least 6, .* got 1"),
    ("growth.share=2", 2, "growth.share must be .* got 2"),
    ("growth.seconds=inf", 2, "growth.seconds must be a finite number, got inf"),
    ("growth.plateau=2", 2, "growth.plateau must be .* got 2"),
    ("growth.pairs=6 --set graph.family=path", 2, "graph.family must be one of .* got 'path'"),
    ("cluster.kind=x", 2, "cluster.kind must be .* got 'x'"),
    ("cluster.kind=slurm", 2, "cluster.kind must be \"slurm\" if and only if .* got 'slurm'"),
    ("cluster.workers=0", 2, "cluster.workers must be .* got 0"),
    ("cluster.retries=-1", 2, "cluster.retries must be .* got -1"),
    ("cluster.scheduler=x", 2, "cluster.scheduler must be an address .* got 'x'"),
    ("cluster.tls_cert=x", 2, "tls_ca_file, tls_cert and tls_key must be set together"),
    ("cluster.slurm.cores=0", 2, "cluster.slurm.cores must be .* got 0"),
    ("cluster.slurm.memory=x", 2, "cluster.slurm.memory must be a size .* got 'x'"),
    ("run.name=a/b", 2, "run.name must be a name of letters, .* got 'a/b'"),
    ("run.also_couple='[\"x\"]'", 2, "run.also_couple.0 must be .* got 'x'"),
    (
        "graph.family=dense --set model.coupling=stratified",
        2,
        "model.coupling must be 'auto' or one of 'bradley_terry', .* sets of classes, got 'stratified'",
    ),
    ("graph.family=dense --set model.shortlist=3", 2, "model.shortlist must be .* got 3"),
    ("graph.family=dense --set run.tensor=stored", 2, 'run.tensor must be .* got "stored"'),
    ("graph.family=dense --set growth.pairs=9", 2, "graph.family must be one of .* got 'dense'"),
    ("graph.family=dense --set graph.hubs=2", 2, "graph.hubs is not a parameter of the family 'dense'"),
    ("graph.family=code", 2, "graph.matrix must be set: the family 'code' needs it"),
    ("graph.family=code --set graph.matrix=[[1],[-1]]", 2, "one row for each of 4 classes, got 2 rows"),
    ("model.machine_weight=counts", 2, "model.coupling must be one of 'normal', .* got 'stratified'"),
    ('run.also_couple=\'["vote","vote"]\'', 2, "run.also_couple must not name a coupling twice"),
    ("run.tensor=x", 2, "run.tensor must be .* got 'x'"),
    ("run.edges_per_tile=0", 2, "run.edges_per_tile must be .* got 0"),
    ("run.samples_per_slab=0", 2, "run.samples_per_slab must be .* got 0"),
    ("run.memory_limit=x", 2, "run.memory_limit must be a size such as '2GiB', got 'x'"),
    ("run.memory_limit=0KB", 2, "run.memory_limit must be .* got 0KB"),
    (f"run.memory_limit={'9' * 400}TiB", 2, "run.memory_limit must be a size such as '2GiB', got '999"),
]


@pytest.mark.parametrize(("setting", "code", "message"), SETTINGS, ids=[row[0][:60] for row in SETTINGS])
def test_a_setting_that_cannot_be_is_refused(setting, code, message, assert_refused):
    assert_refused(f"plan config.toml --set {setting}", code, message)


KEYS = [f"{name}.{key}" for name, section in SECTIONS.items() for key in section.model_fields]


@pytest.mark.parametrize("key", KEYS)
def test_every_key_of_the_configuration_has_a_type(key, assert_refused):
    # No key takes a date. Of a key that may hold a secret only the type of the value is told.
    got = r"(datetime\.date|a date\.)"
    assert_refused(f"plan config.toml --set {key}=1979-05-27", 2, rf"{key} must be .* got {got}")
