from __future__ import annotations

from typing import get_args

import pytest

from pairloom.cluster.config.config_file import configured, load_config, named_configs, with_overrides
from pairloom.graphs import CODE_FAMILIES, FAMILIES
from pairloom.pipeline.config.config import Config, ConfigError, differing_keys
from pairloom.pipeline.config.sections import Coupling, Family, PairCoupling
from pairloom.pipeline.coupling.codes.couple_code import CODE_METHODS
from pairloom.pipeline.coupling.pairs.couple import METHODS
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS as PAPER_COUPLINGS
from pairloom.pipeline.storage.digests import digest_of


def write(folder, text):
    path = folder / "my.toml"
    path.write_text(text)
    return path


def test_every_named_configuration_is_sound():
    assert {"imagenet50-synthetic", "digits", "imagenet50", "clinc150", "tinyimagenet50"} <= set(
        named_configs()
    )
    for name in named_configs():
        assert load_config(name).run.name == name


@pytest.mark.parametrize("name", ["imagenet50-paper", "imagenet50-synthetic-paper"])
def test_the_papers_settings_are_the_papers(name):
    config = load_config(name)
    model = config.model
    assert (model.kernel, model.C, model.fit_on, model.folds) == ("linear", 1.0, "fold_alone", 4)
    assert (model.calibration, model.standardise, model.whiten) == ("platt", False, "none")
    assert (model.coupled_calibration, model.shortlist, config.graph.family) == ("none", "none", "complete")
    assert set(config.couplings) == set(PAPER_COUPLINGS)


def test_the_choices_are_those_that_there_are():
    assert set(get_args(Coupling)) == {*METHODS, *CODE_METHODS}
    assert set(get_args(PairCoupling)) == set(METHODS)
    assert set(get_args(Family)) == {*FAMILIES, *CODE_FAMILIES}


def test_the_couplings_are_the_models_own_and_others_that_were_asked_for():
    assert load_config("digits").couplings == ("auto",)
    asked = load_config("digits", ["model.coupling=normal", "run.also_couple=['vote', 'normal']"])
    assert asked.couplings == ("normal", "vote")


def test_everything_wrong_is_said_at_once(tmp_path):
    path = write(
        tmp_path,
        """
        [data]
        featurs = "x.npz"
        [grap]
        [model]
        folds = "4"
        C = -1.0
        [cluster.slurm]
        memry = "3GB"
        """,
    )
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    message = str(caught.value)
    for expected in [
        str(path),
        "data.features: missing",
        "data.featurs: unknown key. Did you mean 'features'?",
        "grap: unknown key. Did you mean 'graph'?",
        "model.folds must be an integer from 2 to 2147483647 or \"auto\", got '4'.",
        'model.C must be a positive number, "scale", "auto" or a list of these, got -1.0.',
        "cluster.slurm.memry: unknown key. Did you mean 'memory'?",
    ]:
        assert expected in message


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("graph.hubs=3", "hubs is not a parameter of the family 'complete'"),
        ("graph.family=bipartite", "graph.hubs must be set: the family 'bipartite' needs it."),
        ("cluster.scheduler=tcp://127.0.0.1:8786", 'cluster.kind must be "scheduler" if and only if'),
        ("cluster.kind=slurm", 'cluster.kind must be "slurm" if and only if'),
        ("cluster.tls_cert=a.pem", "must be set together"),
        ("run.also_couple=['normal', 'normal']", "twice"),
        ("model.C=[]", "or a list of these, got []."),
        ("model.C=inf", 'model.C must be a positive number, "scale", "auto" or a list of these, got inf.'),
        ("model.C=[1.0, -2.0]", "model.C.1 must be greater than 0 or 'scale' or 'auto', got -2.0."),
        (
            "model.kernel=rbg",
            'model.kernel must be one of "auto", "linear", "rbf", "poly", "sigmoid", got \'rbg\'. Did you mean',
        ),
        ("graph.family=grown", "graph.edges must be set: the family 'grown' needs it."),
        ("model.whiten=2.0", 'model.whiten must be a number from 0 to 1, "none" or "auto", got 2.0.'),
        ("run.name='a/b'", "run.name must be a name of letters, digits"),
        ("run.memory_limit=3x", "run.memory_limit must be a size such as '2GiB', got '3x'."),
    ],
)
def test_impossible_combinations_are_refused(override, complaint):
    with pytest.raises(ConfigError, match=r"digits\.toml") as caught:
        load_config("digits", [override])
    assert complaint in str(caught.value)


@pytest.mark.parametrize("kernel", [["model.kernel=sigmoid"], ["model.kernel=poly", "model.coef0=-1.0"]])
def test_distances_are_for_kernels_that_are_inner_products(kernel):
    with pytest.raises(
        ConfigError, match=r"needs .* a kernel that is an inner product, .* got model\.kernel = "
    ):
        load_config("digits", [*kernel, "model.calibration=distance"])
    assert load_config("digits", [*kernel, "model.calibration=auto"]).model.calibration == "auto"


def test_machines_with_a_kernel_do_not_grow():
    with pytest.raises(
        ConfigError, match=r'model\.kernel must be "linear" or "auto" with \[growth\], got \'rbf\''
    ):
        load_config("digits", ["model.kernel=rbf", "growth.pairs=40"])


def test_every_argument_of_a_batch_system_is_taken_and_others_get_the_nearest():
    pytest.importorskip("dask_jobqueue")
    here = ["cluster.kind=pbs", "cluster.pbs.resource_spec=select=1", "cluster.pbs.nanny=false"]
    taken = load_config("digits", [*here, "cluster.pbs.scheduler_options={port = 9000}"]).cluster.job_queue
    assert taken.model_extra == {
        "resource_spec": "select=1",
        "nanny": False,
        "scheduler_options": {"port": 9000},
    }
    with pytest.raises(ConfigError) as caught:
        load_config("digits", [*here, "cluster.pbs.resourcespec=x", "cluster.pbs.job_cpu=1", "model.folds=x"])
    assert "cluster.pbs.resourcespec: unknown key. Did you mean 'resource_spec'?" in str(caught.value)
    assert "cluster.pbs.job_cpu: unknown key." in str(caught.value), "only SLURM has it"
    assert "model.folds must be" in str(caught.value)


def test_a_configuration_comes_from_a_name_a_path_tables_or_another(tmp_path):
    tables = {"data": {"features": "digits"}}
    path = write(tmp_path, "[data]\nfeatures = 'digits'\n")
    for source, name in (("digits", "digits"), (path, "my"), (str(path), "my"), (tables, "run")):
        few = {"graph.family": "hub_neighbours", "graph.hubs": 5}
        config = configured(source, {**few, "growth.pairs": 40, "model.C": [1.0, "scale"]})
        assert (config.graph.hubs, config.growth.pairs, config.model.C) == (5, 40, [1.0, "scale"])
        assert config.run.name == name
        assert configured(config, {"graph.hubs": 6}).graph.hubs == 6
    assert tables == {"data": {"features": "digits"}}


@pytest.mark.parametrize(
    ("source", "overrides", "complaint"),
    [
        (3, {}, "config must be a name, a path, a mapping or a Config, got int"),
        ("digits", {"hubs": 5}, "overrides must have keys SECTION.KEY, got 'hubs'"),
        ("imagenet50", {"graph.hub": 5}, "graph.hub: unknown key. Did you mean 'hubs'?"),
        (
            {"data": {"features": "http://host/x.npz"}},
            {},
            "data.features must be a path, or a URL such as s3:",
        ),
        ({}, {}, "data: missing"),
    ],
)
def test_what_is_wrong_with_a_configuration_from_python_is_said(source, overrides, complaint):
    with pytest.raises(ConfigError) as caught:
        configured(source, overrides)
    assert complaint in str(caught.value)


def test_overrides_are_toml_or_plain_strings():
    config = load_config(
        "digits", ["graph.family=bipartite", "graph.hubs=3", "model.C=0.5", "model.random_state = 7"]
    )
    assert (config.graph.family, config.graph.hubs, config.model.C, config.model.random_state) == (
        "bipartite",
        3,
        0.5,
        7,
    )
    assert with_overrides(config, ["model.random_state=8"]).model.random_state == 8
    jobs = load_config("digits", ["cluster.kind=slurm", "cluster.slurm.walltime=00:10:00"]).cluster.slurm
    assert jobs.walltime == "00:10:00"


@pytest.mark.parametrize("override", ["seed=3", "model.random_state", "=3", "run.=3"])
def test_an_override_names_a_section_and_a_key(override):
    with pytest.raises(ConfigError, match="--set"):
        load_config("digits", [override])


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(ConfigError, match="Did you mean 'digits'"):
        load_config("digts")


def test_a_file_that_is_not_toml_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"my\.toml: not TOML"):
        load_config(write(tmp_path, "[data"))


def test_where_a_run_is_computed_is_not_part_of_its_result():
    here = load_config("digits")
    there = load_config("digits", ["cluster.kind=threads", "cluster.workers=7", "run.name=other"])
    assert here.result_settings() == there.result_settings()
    assert differing_keys(
        here.result_settings(), load_config("digits", ["model.folds=5"]).result_settings()
    ) == ["model.folds: was 'auto', is 5"]


def test_a_configuration_survives_json():
    config = load_config("imagenet50")
    assert Config.model_validate(config.model_dump(mode="json")) == config
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})


def test_a_job_has_memory_for_all_its_processes():
    jobs = ["cluster.kind=slurm", "cluster.slurm.cores=2", "cluster.slurm.processes=2"]
    with pytest.raises(
        ConfigError, match=r"cluster\.slurm\.memory must be at least 1\.10 GiB, 562\.50 MiB .* got 1GiB"
    ):
        load_config("digits", [*jobs, "cluster.slurm.memory=1GiB"])
    assert load_config("digits", [*jobs, "cluster.slurm.memory=2GiB"]).cluster.slurm is not None
