"""Bad input to the commands: a documented exit code, a message on standard error, no traceback, nothing written.

A row is a command as one types it, its exit code and a pattern of its message. Commands run in the folder of `place`,
which has `data.npz`, `config.toml`, `run` (a finished run) and the files of `FILES`.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pairloom.cluster import lock
from pairloom.cluster.cli import main
from pairloom.cluster.config import (
    ClusterConfig,
    DataConfig,
    GraphConfig,
    GrowthConfig,
    JobQueueConfig,
    ModelConfig,
    RunConfig,
)
from pairloom.pipeline.storage.digests import sealed, unsealed

CODES = {0, 1, 2, 3, 4, 130, 143}  # as docs/runs.md has them

y = np.repeat(np.arange(4), 8)
X = np.random.default_rng(1).standard_normal((32, 3)) + y[:, None]
POOL = {"X": X, "y": y}
SPLIT = {"X_train": X, "y_train": y, "X_test": X, "y_test": y}
dates = np.datetime64("2026-01-01") + y


def archive(**arrays) -> bytes:
    """The bytes of a .npz file."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def zipped(**members: bytes) -> bytes:
    """The bytes of an archive of anything."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, content in members.items():
            made.writestr(name.replace("_npy", ".npy"), content)
    return file.getvalue()


def flipped(content: bytes, place: int) -> bytes:
    """The bytes with one bit changed."""
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


HUGE_HEADER = (
    b"\x93NUMPY\x01\x00v\x00"
    + repr({"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)}).ljust(117).encode()
    + b"\n"
)
FILES = {
    "text.npz": b"hello",
    "empty.npz": b"",
    "cut.npz": archive(**POOL)[:600],
    "flipped.npz": flipped(archive(**POOL), 300),
    "no_members.npz": zipped(),
    "no_arrays.npz": zipped(X_npy=b"hello", y_npy=b""),
    "endless.npz": zipped(X_npy=HUGE_HEADER, y_npy=HUGE_HEADER),
    "no_X.npz": archive(y=y),
    "no_y.npz": archive(X=X),
    "X_vector.npz": archive(X=X[:, 0], y=y),
    "X_cube.npz": archive(X=X[None], y=y),
    "X_number.npz": archive(X=3.0, y=y),
    "X_no_columns.npz": archive(X=X[:, :0], y=y),
    "X_no_rows.npz": archive(X=X[:0], y=y[:0]),
    "X_complex.npz": archive(X=X * 1j, y=y),
    "X_text.npz": archive(X=X.astype(str), y=y),
    "X_objects.npz": archive(X=X.astype(object), y=y),
    "X_nan.npz": archive(X=np.where(X > 4, np.nan, X), y=y),
    "X_infinite.npz": archive(X=np.where(X > 4, np.inf, X), y=y),
    "X_too_large.npz": archive(X=np.where(X > 1, 1e308, -1e308), y=y),
    "y_short.npz": archive(X=X, y=y[:-1]),
    "y_long.npz": archive(X=X, y=np.append(y, 0)),
    "y_matrix.npz": archive(X=X, y=np.eye(4)[y]),
    "y_number.npz": archive(X=X, y=3),
    "y_one_class.npz": archive(X=X, y=y * 0),
    "y_objects.npz": archive(X=X, y=y.astype(object)),
    "y_nan.npz": archive(X=X, y=np.where(y, y, np.nan)),
    "y_no_time.npz": archive(X=X, y=np.where(y, dates, np.datetime64("NaT"))),
    "y_bytes.npz": archive(X=X, y=np.array([b"a", b"b", b"\xff", b"d"])[y]),
    "y_beyond.npz": archive(X=X, y=y + 10, classes=list("abcd")),
    "y_few.npz": archive(X=X[::8], y=y[::8]),
    "classes_twice.npz": archive(**POOL, classes=list("abca")),
    "classes_fewer.npz": archive(**POOL, classes=list("abc")),
    "classes_more.npz": archive(**POOL, classes=list("abcde")),
    "classes_none.npz": archive(**POOL, classes=np.array([], str)),
    "classes_one.npz": archive(**POOL, classes="a"),
    "classes_matrix.npz": archive(**POOL, classes=[list("abcd")]),
    "classes_objects.npz": archive(**POOL, classes=np.array(list("abcd"), object)),
    "test_columns.npz": archive(**SPLIT | {"X_test": X[:, :2]}),
    "test_short.npz": archive(**SPLIT | {"y_test": y[:3]}),
    "test_labels.npz": archive(**SPLIT | {"y_test": y + 9}),
    "test_dates.npz": archive(**SPLIT | {"y_test": dates}),
    "test_nan.npz": archive(**SPLIT | {"X_test": X * np.nan}),
    "two_columns.npz": archive(X=X[:, :2]),
    "no_samples.npz": archive(X=X[:0]),
    "far.npz": archive(X=X * 1e300),
    "folder.npz/X.npy": b"hello",
    "folders/X.npy/deeper": b"",
    "group/zarr.json": b"hello",
    "notes.txt": b"theirs",
    "theirs.csv": b"theirs",
    "no_label.csv": b"a,b,kind\n1,2,x\n2,1,y\n",
    "odd.toml": b"[data]\nfeatures = 'data.npz'",
    "a_file": b"theirs",
    "empty.toml": b"",
    "text.toml": b"hello",
    "bytes.toml": b"\xff\xfe",
    "deep.toml": b"a = " + b"[" * 3000,
    "digits.toml": b"[data]\nfeatures = " + b"9" * 5000,
    "no_features.toml": b"[data]",
    "table.toml": b"run = 3\n[data]\nfeatures = 'data.npz'",
    "tables.toml": b"[[data]]\nfeatures = 'data.npz'",
    "number.toml": b"data = 3",
    "section.toml": b"[bogus]\na = 1\n[data]\nfeatures = 'data.npz'",
    "int_section.toml": b"[int]\n[data]\nfeatures = 'data.npz'",
    "int_key.toml": b"float = 1\n[data]\nfeatures = 'data.npz'",
    "str_key.toml": b"[model]\nstr = 1\nint = 2\n[data]\nfeatures = 'data.npz'",
    "int_in_slurm.toml": b"[cluster.slurm]\nint = 1\n[data]\nfeatures = 'data.npz'",
    "int_in_weights.toml": b"[model.class_weight]\nint = 'x'\n[data]\nfeatures = 'data.npz'",
    "list.json": b"[1, 2]",
    "text.json": b"hello",
    "number.json": b'{"address": 3}',
    "evil.json": b'{"address": "tcp://10.255.255.1:1"}',
}


@pytest.fixture(scope="module")
def here(place) -> Path:
    """The folder that commands run in."""
    for name, content in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    (place / "nothing").mkdir()
    return place


@pytest.fixture
def pairloom(here, monkeypatch):
    """Run a command there; check that it ends as commands end."""
    monkeypatch.chdir(here)
    monkeypatch.delenv("PAIRLOOM_DATA", raising=False)
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.02)  # how long a damaged record is waited for

    def call(command: str):
        done = CliRunner().invoke(main, shlex.split(command))
        assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
        assert done.exit_code in CODES
        assert "Traceback" not in done.output
        return done

    return call


def snapshot(folder: Path):
    """The bytes of every file below a folder, and the names of the folders."""
    return {path: path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def assert_refused(pairloom, here, command, code, message):
    before = snapshot(here)
    done = pairloom(command)
    assert done.exit_code == code, done.output
    assert re.search(message, done.stderr, re.DOTALL), done.stderr
    assert snapshot(here) == before


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
def test_a_configuration_that_cannot_be_read_is_refused(command, config, message, pairloom, here):
    assert_refused(pairloom, here, f"{command} {config}", 2, message)


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
        "model.kernel must be .*'linear', 'rbf', 'poly' or 'sigmoid', got 'precomputed'",
    ),
    ("model.gamma=0", 2, "model.gamma must be greater than 0 or 'scale' or 'auto', got 0"),
    ("model.degree=0", 2, "model.degree must be greater than or equal to 1, got 0"),
    ("model.coef0=nan", 2, "model.coef0 must be a finite number, got nan"),
    (f"model.C={'[' * 3000}", 2, r"model.C must be a number, 'auto' or 'scale' or a list, got '\["),
    ("data.features=''", 2, "data.features must have at least 1 character, got ''"),
    ("data.features=missing.npz", 2, "data.features: no such file or folder: missing.npz"),
    (f"data.features={'x' * 5000}", 2, "data.features: no such file or folder: xxx"),
    ("data.features=$PAIRLOOM_DATA/x", 2, r"data.features is '\$PAIRLOOM_DATA/x': set PAIRLOOM_DATA"),
    ("data.test=missing.npz", 2, "data.test: no such file or folder: missing.npz"),
    ("data.test_fraction=0", 2, "data.test_fraction must be greater than 0, got 0"),
    ("data.test_fraction=nan", 2, "data.test_fraction must be .* got nan"),
    ("data.test_fraction=0.999", 2, "data.test_fraction must leave training samples .* got 0.999"),
    ("model.C=-1", 2, "model.C must be greater than 0, 'auto' or 'scale' or a list, got -1"),
    ("model.C=nan", 2, "model.C must be a finite number, .* got nan"),
    ("model.C=true", 2, "model.C must be a number, .* got True"),
    ("model.C=[]", 2, r"model.C must have at least one value, got \[\]"),
    ("model.C='[1, \"x\"]'", 2, "model.C.1 must be a number or 'auto' or 'scale', got 'x'"),
    ("model.C=1e308", 2, r"C must be a number that fits the size of the features, got 1e\+308"),
    ("model.folds=1", 2, "model.folds must be greater than or equal to 2 or 'auto', got 1"),
    ("model.folds=true", 2, "model.folds must be an integer or 'auto', got True"),
    (
        "model.folds=99",
        2,
        "model: folds must be at least 2 and at most the size of the largest class, 6, got 99",
    ),
    ("model.fit_on=x", 2, "model.fit_on must be .* got 'x'"),
    ("model.calibration=x", 2, "model.calibration must be 'auto', 'distance' or 'platt', got 'x'"),
    ("model.coupled_calibration=x", 2, "model.coupled_calibration must be .* got 'x'"),
    ("model.calibration_samples=0", 2, "model.calibration_samples must be .* got 0"),
    (f"model.calibration_samples={10**24}", 2, "model.calibration_samples must be .* 2147483647, got 1000"),
    ("model.whiten=2", 2, "model.whiten must be between 0 and 1, 'auto' or 'none', got 2"),
    ("model.whiten=nan", 2, "model.whiten must be between 0 and 1, .* got nan"),
    ("model.learn=couple", 2, "model.learn must be 'machines' or 'coupled', got 'couple'"),
    ("model.learn=3", 2, "model.learn must be 'machines' or 'coupled', got 3"),
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
    ("model.thresholds=yes", 2, "model.thresholds must be a boolean, got 'yes'"),
    ("model.priors=[1]", 2, r"model.priors must be 4 non-negative numbers, .* got \[1.0\]"),
    ("model.priors=[1,1,1,-1]", 2, r"model.priors must be 4 non-negative .* got \[1.0, 1.0, 1.0, -1.0\]"),
    ("model.priors='[\"a\"]'", 2, "model.priors.0 must be a number, got 'a'"),
    ("model.class_weight={x=1.0}", 2, "model.class_weight must name classes of the data, got 'x'"),
    ("model.class_weight={0=-1.0}", 2, "model.class_weight must be positive, got -1 for class '0'"),
    ("model.class_weight={0=inf}", 2, "model.class_weight.0 must be a finite number, got inf"),
    ("model.tol=0", 2, "model.tol must be greater than 0, got 0"),
    ("model.tol=1", 2, "model.tol must be less than 1, got 1"),
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
def test_a_setting_that_cannot_be_is_refused(setting, code, message, pairloom, here):
    assert_refused(pairloom, here, f"plan config.toml --set {setting}", code, message)


SECTIONS = {
    "data": DataConfig,
    "graph": GraphConfig,
    "model": ModelConfig,
    "growth": GrowthConfig,
    "cluster": ClusterConfig,
    "cluster.slurm": JobQueueConfig,
    "run": RunConfig,
}
KEYS = [f"{name}.{key}" for name, section in SECTIONS.items() for key in section.model_fields]


@pytest.mark.parametrize("key", KEYS)
def test_every_key_of_the_configuration_has_a_type(key, pairloom, here):
    # No key takes a date.
    assert_refused(
        pairloom, here, f"plan config.toml --set {key}=1979-05-27", 2, rf"{key} must be .* got datetime.date"
    )


DATA = [
    ("text.npz", "data.features: text.npz is damaged or not what its name says: not a .npz archive"),
    ("empty.npz", "data.features: empty.npz is damaged"),
    ("cut.npz", "data.features: cut.npz is damaged"),
    ("flipped.npz", "flipped.npz"),
    ("no_members.npz", "no_members.npz: must hold .* got nothing"),
    ("no_arrays.npz", "data.features: no_arrays.npz is damaged .* is not an array"),
    ("endless.npz", "data.features: endless.npz cannot be read: Unable to allocate|endless.npz: "),
    ("no_X.npz", "no_X.npz: must hold .* or X and y, got y"),
    ("no_y.npz", "no_y.npz: must hold .* or X and y, got X"),
    ("X_vector.npz", r"X must be a matrix \(samples, features\), got shape \(32,\)"),
    ("X_cube.npz", r"X must be a matrix \(samples, features\), got shape \(1, 32, 3\)"),
    ("X_number.npz", r"X must be a matrix \(samples, features\), got shape \(\)"),
    ("X_no_columns.npz", r"X must be a matrix \(samples, features\), got shape \(32, 0\)"),
    ("X_no_rows.npz", "y_train must have two classes or more, got nothing"),
    ("X_complex.npz", "X must be real numbers, got dtype complex128"),
    ("X_text.npz", "X must be real numbers, got dtype <U"),
    ("X_objects.npz", "X cannot be read without unpickling"),
    ("X_nan.npz", "X_train must be finite, got NaN or infinity in"),
    ("X_infinite.npz", "X_train must be finite, got NaN or infinity in"),
    ("X_too_large.npz", "X_train must have columns whose range float64 can hold, got larger ones"),
    ("y_short.npz", r"y must be one label for each of 32 samples, got shape \(31,\)"),
    ("y_long.npz", r"y must be one label for each of 32 samples, got shape \(33,\)"),
    ("y_matrix.npz", r"y must be one label per sample, got shape \(32, 4\)"),
    ("y_number.npz", r"y must be one label per sample, got shape \(\)"),
    ("y_one_class.npz", "y_train must have two classes or more, got 0"),
    ("y_objects.npz", "y cannot be read without unpickling"),
    ("y_nan.npz", "y must be labels, got nan among them"),
    ("y_no_time.npz", "y must be labels, got NaT among them"),
    ("y_bytes.npz", r"y must be text in UTF-8, got b'\\xff'"),
    ("y_beyond.npz", "y_train must be labels of the 4 classes, got 10, 11, 12, 13"),
    ("y_few.npz", "model: a class must have at least 2 samples, to hold one out, got one of each class"),
    ("classes_twice.npz", "classes must be different names, got a more than once"),
    ("classes_fewer.npz", "y_train must be labels of the 3 classes, got 3"),
    ("classes_more.npz", "every class must have training samples, e have none"),
    ("classes_none.npz", r"classes must be a list of two names or more, got shape \(0,\)"),
    ("classes_one.npz", r"classes must be a list of two names or more, got shape \(\)"),
    ("classes_matrix.npz", r"classes must be a list of two names or more, got shape \(1, 4\)"),
    ("classes_objects.npz", "classes cannot be read without unpickling"),
    ("test_columns.npz", "X_test must have 3 features as X_train has, got 2"),
    ("test_short.npz", r"y_test must be one label for each of 32 samples, got shape \(3,\)"),
    ("test_labels.npz", "y_test must be labels of the 4 classes, got 9, 10, 11, 12"),
    ("test_dates.npz", r"y_test must be labels of the type of y_train, int64, got datetime64\[D\]"),
    ("test_nan.npz", "X_test must be finite, got NaN or infinity in 32 rows"),
    ("folder.npz", "folder.npz: X cannot be read without unpickling"),
    ("folders", "data.features: folders cannot be read: .*Is a directory"),
    ("group", "data.features: group is damaged"),
    ("nothing", "nothing: must hold .* got nothing"),
    ("notes.txt", "data.features must be a .npz file, .* got notes.txt"),
    ("/dev/null", "data.features must be a .npz file, .* got /dev/null"),
]


@pytest.mark.parametrize(("source", "message"), DATA, ids=[row[0] for row in DATA])
def test_data_that_cannot_be_used_are_refused(source, message, pairloom, here):
    assert_refused(
        pairloom, here, f"run config.toml --directory new --set data.features={source}", 2, message
    )


COMMANDS = [
    ("init gone.csv --label kind", 2, "DATA must be a file or folder, or an embedded set .* got 'gone.csv'"),
    (
        "init no_label.csv",
        2,
        "--label must name the column with the classes, got none.*All columns: 'a', 'b', 'kind'",
    ),
    ("init no_label.csv --label sort", 2, "--label must name a column, got 'sort'"),
    (
        "init no_label.csv --label a",
        2,
        "no_label.csv: .*got none: b: .*kind: text, 2 different|a class must have",
    ),
    ("init empty.npz --out new.toml", 2, "data.features: empty.npz is damaged"),
    ("init y_one_class.npz", 2, "y_train must have two classes or more, got 0"),
    ("init X_nan.npz", 2, "X_train must be finite, got NaN or infinity in"),
    ("init data.npz --label y", 2, "--label is for tables .* got it for data.npz"),
    ("init data.npz --out odd.toml", 3, "odd.toml exists. Pass --force to replace it"),
    ("init data.npz --out odd.txt", 2, "--out must end in .toml, got odd.txt"),
    ("init data.npz --out gone/x.toml", 2, "--out must lie in a folder that exists, got gone/x.toml"),
    ("init s3://bucket/x.csv", 2, "DATA must be a path, not a URL"),
    ("config digit", 2, "NAME must be a configuration that ships .* got 'digit'. Did you mean 'digits'?"),
    ("config digits --schema", 2, "--schema is of all configurations"),
    ("ls gone", 2, "'gone' does not exist"),
    ("compare run", 2, "compare needs two run directories or more"),
    ("compare run nothing", 1, "nothing/run.json: no such file"),
    ("run config.toml --set data.label=kind", 2, "data.label, .* must not be set, since they are for tables"),
    (
        "plan config.toml --set data.features=no_label.csv",
        2,
        "data.label must name the column with the classes",
    ),
    ("bogus", 2, "No such command 'bogus'"),
    ("run", 2, "Missing argument 'CONFIG'"),
    ("run config.toml --bogus", 2, "No such option:? '?--bogus"),
    ("run config.toml --workers 0", 2, "Invalid value for '--workers': 0"),
    ("run config.toml --directory a_file", 3, "--directory must be a folder, got a_file, which is a file"),
    ("run config.toml --directory a_file/x", 3, "--directory must be .* a_file/x, where a_file is a file"),
    ("run config.toml --directory .", 2, "data.features must not lie in the run directory ., got data.npz"),
    (
        "run config.toml --directory group",
        3,
        "--directory must be new, .* got group, which holds 'zarr.json'",
    ),
    ("run config.toml --directory /proc/nowhere", 1, "/proc/nowhere"),
    ("run config.toml --directory new --scheduler x", 2, "cluster.scheduler must be an address .* got 'x'"),
    (
        "run config.toml --directory new --scheduler tls://127.0.0.1:1",
        2,
        "tls://127.0.0.1:1 uses TLS. Pass --tls",
    ),
    (
        "run config.toml --directory new --scheduler tcp://127.0.0.1/@evil.invalid:8786",
        3,
        "tcp://127.0.0.1/@evil.invalid:8786 is not on loopback",
    ),
    (
        "run config.toml --directory new --scheduler tcp://10.255.255.1:1",
        3,
        "tcp://10.255.255.1:1 is not on loop",
    ),
    (
        "run config.toml --directory new --scheduler-file list.json",
        4,
        "--scheduler-file must be .* got list.json",
    ),
    (
        "run config.toml --directory new --scheduler-file text.json",
        4,
        "--scheduler-file must be .* got text.json",
    ),
    (
        "run config.toml --directory new --scheduler-file nothing",
        4,
        "--scheduler-file must be .* got nothing",
    ),
    (
        "run config.toml --directory new --scheduler-file gone.json",
        4,
        "--scheduler-file must be .* got gone.json",
    ),
    ("run config.toml --directory new --scheduler-file number.json", 3, "scheduler 3 is not on loopback"),
    (
        "run config.toml --directory new --scheduler-file evil.json",
        3,
        "tcp://10.255.255.1:1 is not on loopback",
    ),
    (
        "run config.toml --directory new --tls-ca-file x",
        2,
        "tls_ca_file, tls_cert and tls_key must be set together",
    ),
    ("run config.toml --local --scheduler tcp://127.0.0.1:1", 2, "cluster.kind must be .* got 'processes'"),
    ("submit config.toml", 2, "submit needs a running cluster: pass --scheduler ADDRESS"),
    ("submit config.toml --scheduler tls://127.0.0.1:1", 2, "tls://127.0.0.1:1 uses TLS"),
    ("submit config.toml --scheduler-file list.json", 4, "--scheduler-file must be .* got list.json"),
    ("submit missing.toml --scheduler tcp://127.0.0.1:1", 2, "CONFIG must be .* got missing.toml"),
    *(
        (f"{command} {directory}", code, message)
        for command in ("status", "attach", "cancel", "report", "resume")
        for directory, code, message in (
            ("gone", 2, "'gone' does not exist"),
            ("a_file", 2, "'a_file' is a file"),
            ("nothing", 1, "nothing/run.json: no such file. This is not a run directory"),
        )
    ),
    ("resume run --set nonsense", 2, "--set must be SECTION.KEY=VALUE, got 'nonsense'"),
    ("resume run --set cluster.kind=x", 2, "cluster.kind must be .* got 'x'"),
    ("resume run --set data.features=gone.npz", 2, "data.features: no such file or folder: gone.npz"),
    ("predict gone --features data.npz --out p.csv", 2, "'gone' does not exist"),
    ("predict a_file --features data.npz --out p.csv", 2, "'a_file' is a file"),
    ("predict nothing --features data.npz --out p.csv", 1, "nothing is not a run directory"),
    ("predict run --features data.npz", 2, "Missing option '--out'"),
    ("predict run --out p.csv", 2, "Missing option '--features'"),
    ("predict run --features gone.npz --out p.csv", 2, "--features: no such file or folder: gone.npz"),
    ("predict run --features notes.txt --out p.csv", 2, "--features must be a .npz file, .* got notes.txt"),
    ("predict run --features text.npz --out p.csv", 2, "--features: text.npz is damaged"),
    ("predict run --features no_X.npz --out p.csv", 2, r"no_X.npz: must contain X \(or X_test\), got y"),
    (
        "predict run --features two_columns.npz --out p.csv",
        2,
        "X must have 3 features, as the model has, got 2",
    ),
    ("predict run --features no_samples.npz --out p.csv", 2, r"X must have at least one sample, .* \(0, 3\)"),
    ("predict run --features X_vector.npz --out p.csv", 2, r"X must be a matrix .* got shape \(32,\)"),
    ("predict run --features X_text.npz --out p.csv", 2, "X must be real numbers, got dtype <U"),
    ("predict run --features X_complex.npz --out p.csv", 2, "X must be real numbers, got dtype complex128"),
    ("predict run --features X_nan.npz --out p.csv", 2, "X must be finite, got NaN or infinity"),
    ("predict run --features X_objects.npz --out p.csv", 2, "X cannot be read without unpickling"),
    ("predict run --features far.npz --out p.csv", 2, "X must have features of the size of the fit's"),
    (
        "predict run --features data.npz --out p.txt",
        2,
        "--out must end in one of .npz, .csv, .zarr, got p.txt",
    ),
    ("predict run --features data.npz --out theirs.csv", 3, "--out must be new, got theirs.csv"),
    (
        "predict run --features data.npz --out gone/p.csv",
        2,
        "--out must lie in a folder that exists, got gone/p",
    ),
    (
        "predict run --features data.npz --out a_file/p.csv",
        2,
        "--out must lie in a folder that exists, got a_file",
    ),
    (
        "predict run --features data.npz --out p.csv --coupling x",
        2,
        "coupling must be one of stratified, .* got 'x'",
    ),
]


@pytest.mark.parametrize(("command", "code", "message"), COMMANDS, ids=[row[0] for row in COMMANDS])
def test_a_command_that_cannot_be_done_is_refused(command, code, message, pairloom, here):
    assert_refused(pairloom, here, command, code, message)


def test_other_settings_are_refused_and_only_the_driver_is_recorded(pairloom, here):
    before = snapshot(here)
    done = pairloom("resume run --set model.folds=3")
    assert done.exit_code == 3
    assert "model.folds: was 2, is 3" in done.stderr
    after = snapshot(here)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert {path.relative_to(here).parts[:2] for path in changed} <= {("run", "drivers"), ("run", "log.txt")}


def edited(**changes):
    """The plan of the run with other values, sealed as if it were sound."""
    return lambda plan: sealed(unsealed(plan) | changes)


PLANS = [
    ("text", lambda plan: b"hello", 1, "run.json: damaged: it is truncated, or not sealed JSON"),
    ("nothing", lambda plan: b"", 1, "run.json: damaged"),
    ("a list", lambda plan: b"[]", 1, "run.json: damaged"),
    ("nested", lambda plan: b"[" * 50_000, 1, "run.json: damaged"),
    ("cut", lambda plan: plan[:-30], 1, "run.json: damaged"),
    ("flipped", lambda plan: flipped(plan, len(plan) // 2), 1, "run.json: damaged"),
    ("older", edited(format=1), 3, "run.json: format must be 5, got 1"),
    ("newer", edited(format=99), 3, "run.json: format must be 5, got 99"),
    ("of no version", edited(format=None), 3, "run.json: format must be 5, got None"),
]


@pytest.fixture
def copied(here, tmp_path):
    """A copy of the run, to be damaged."""
    return Path(shutil.copytree(here / "run", tmp_path / "run"))


@pytest.mark.parametrize(("what", "plan", "code", "message"), PLANS, ids=[row[0] for row in PLANS])
@pytest.mark.parametrize("command", ["status", "attach", "cancel", "report", "resume"])
def test_a_plan_that_cannot_be_used_is_refused(command, what, plan, code, message, pairloom, copied):
    (copied / "run.json").write_bytes(plan((copied / "run.json").read_bytes()))
    assert_refused(pairloom, copied, f"{command} {copied}", code, message)


RECORDS = [
    "[]",
    "{}",
    "null",
    "3",
    "hello",
    "",
    "[" * 50_000,
    '{"pid": "x"}',
    '{"host": 1, "pid": 2, "process_start": 3.0, "since": 4}',
    '{"host": "HERE", "pid": -1, "process_start": 1.0, "since": "x"}',
    '{"host": "HERE", "pid": 99999999999999999999, "process_start": 1.0, "since": "x"}',
    '{"host": "HERE", "pid": 1.5, "process_start": 1.0, "since": "x"}',
    '{"host": "HERE", "pid": "1", "process_start": NaN, "since": "x"}',
    '{"host": "\\ud800", "pid": 1, "process_start": 1.0, "since": "x", "ended": "x"}',
    '{"host": "x", "pid": 1, "process_start": 1.0, "since": "x", "ended": "x", "outcome": [1]}',
    '{"host": "x", "pid": 1, "process_start": 1.0, "since": "x", "unknown": 1}',
]


@pytest.mark.parametrize("record", RECORDS, ids=[record[:60] for record in RECORDS])
def test_nonsense_in_the_record_of_a_driver_stops_no_command(record, pairloom, copied):
    newest = max((copied / "drivers").glob("*.json"))
    newest.write_text(record.replace("HERE", lock.socket.gethostname()))
    before = snapshot(copied)
    for command in ("status", "attach", "cancel"):
        done = pairloom(f"{command} {copied}")
        assert done.exit_code == 0, done.output
    assert snapshot(copied) == before
    assert pairloom(f"resume {copied}").exit_code == 0


NAMES = [
    "two\nlines",
    "<b>bold</b>",
    "[red]markup[/red]",
    "long " * 1000,
    "\N{GRINNING FACE}",
    "=cmd()",
    r"$\foo$",
    "Case",
    "case",
    'comma, "quote"',
    " ",
]


def test_class_names_are_data_whatever_they_are(pairloom, tmp_path):
    labels = np.repeat(np.arange(len(NAMES)), 4)
    random = np.random.default_rng(0)
    features = 3 * random.standard_normal((len(NAMES), 3))[labels] + random.standard_normal((len(labels), 3))
    np.savez(
        tmp_path / "odd.npz", X_train=features, y_train=labels, X_test=features, y_test=labels, classes=NAMES
    )
    done = pairloom(f"run config.toml --directory {tmp_path}/run --set data.features={tmp_path}/odd.npz")
    assert done.exit_code == 0, done.output
    for command in ("status", "report"):
        assert pairloom(f"{command} {tmp_path}/run").exit_code == 0
    page = (tmp_path / "run" / "report" / "index.html").read_text()
    assert "<b>bold</b>" not in page
    done = pairloom(f"predict {tmp_path}/run --features {tmp_path}/odd.npz --out {tmp_path}/p.csv")
    assert done.exit_code == 0, done.output
    with (tmp_path / "p.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    # A spreadsheet would compute a cell that begins with "=".
    assert header == ["prediction", *("'=cmd()" if name == "=cmd()" else name for name in NAMES)]
    assert len(rows) == len(labels)


def test_a_run_may_have_no_test_samples(pairloom, tmp_path):
    np.savez(tmp_path / "none.npz", **SPLIT | {"X_test": X[:0], "y_test": y[:0]})
    done = pairloom(f"run config.toml --directory {tmp_path}/run --set data.features={tmp_path}/none.npz")
    assert done.exit_code == 0, done.output
    assert pairloom(f"report {tmp_path}/run").exit_code == 0


def test_a_process_ends_as_the_command_does(here):
    done = subprocess.run(
        [sys.executable, "-m", "pairloom", "plan", "config.toml", "--set", "data.features=y_short.npz"],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    # Other packages may have warned before.
    assert done.stderr.splitlines()[-1].startswith(
        "Error: y_short.npz: y must be one label for each of 32 samples"
    )
    assert "Traceback" not in done.stderr
