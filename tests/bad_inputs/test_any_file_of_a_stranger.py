"""Any saved model, run, data or configuration: what it is or an error, no code, and no memory but for its own bytes.

Whoever changes a file can make the digests agree again, so the tests do. What once went wrong is kept in ``corpus/``,
one mutation per file, and tried with the quick tests.
"""

from __future__ import annotations

import json
import shutil
import tracemalloc
from pathlib import Path

import numcodecs.pickles
import numpy as np
import pytest
import zarr
from hostile_arrays import make_pickled_array, reseal, reseal_run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import Mutation, mutations

from pairloom import PairwiseSVC
from pairloom.cluster.config.config_file import load_config
from pairloom.pipeline.config.config import ConfigError
from pairloom.pipeline.features.feature_set import open_features
from pairloom.pipeline.features.tables import TableColumns
from pairloom.pipeline.storage.digests import sealed

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))
#: What reading any of these small files may take, whatever they claim.
MOST_BYTES = 64 * 2**20
#: Errors that the readers document. Commands end with exit code 1 or 2 and one message for each.
DOCUMENTED = (ValueError, FileNotFoundError)
examples = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

y = np.repeat(np.arange(4), 8)
X = np.random.default_rng(0).standard_normal((32, 3)) + 3 * y[:, None]


def make_model(folder):
    PairwiseSVC(random_state=0, whiten=0.5, C=1.0, folds=2, coupled_calibration="edges").fit(X, y).save(
        folder
    )


def make_kernel_model(folder):
    PairwiseSVC(random_state=0, kernel="rbf", C=1.0, folds=2).fit(X, y).save(folder)


def make_group(folder, zarr_format=3):
    group = zarr.create_group(folder, zarr_format=zarr_format)
    group.create_array("X", data=X, chunks=(8, 3))
    group.create_array("y", data=y + 1)
    group.create_array("feature_names", data=np.array([b"a", b"b", b"c"]))


def make_tables(folder):
    folder.mkdir()
    rows = "".join(f"{a},{b},{'wxyz'[c]}\n" for (a, b, _), c in zip(X.round(3), y, strict=True))
    (folder / "t.csv").write_text(f"a,b,kind\n{rows}")


def make_parquet(folder):
    pyarrow = pytest.importorskip("pyarrow")
    folder.mkdir()
    table = pyarrow.table({"a": X[:, 0], "b": X[:, 1], "kind": y})
    pytest.importorskip("pyarrow.parquet").write_table(table, folder / "t.parquet")


def make_npz(folder):
    folder.mkdir()
    np.savez_compressed(folder / "t.npz", X=X, y=y)


def make_npy(folder):
    folder.mkdir()
    np.save(folder / "X.npy", np.asfortranarray(X))
    np.save(folder / "y.npy", y)


def load(folder):
    reseal_description(folder)
    PairwiseSVC.load(folder)


def from_run(folder):
    reseal_description(folder)
    PairwiseSVC.from_run(folder)


def reseal_description(folder):
    """Make ``model.json``, whatever it says now, sealed; then the digests in it agree, if it has any."""
    content = json.loads((folder / "model.json").read_bytes())
    if not isinstance(content, dict):
        return
    content.pop("seal", None)
    (folder / "model.json").write_bytes(sealed(content))
    if isinstance(content.get("files"), dict):
        (reseal_run if (folder / "run.json").exists() else reseal)(folder)


def open_data(folder):
    files = [path for path in folder.iterdir() if path.suffix in (".csv", ".parquet", ".npz")]
    source = files[0] if len(files) == 1 else folder
    columns = TableColumns("kind") if source.suffix in (".csv", ".parquet") else None
    data = open_features(str(source), columns=columns)
    data.X_train.read(slice(None))


TARGETS = {
    "model": (make_model, load),
    "kernel_model": (make_kernel_model, load),
    "run": (None, from_run),
    "zarr": (make_group, open_data),
    "zarr2": (lambda folder: make_group(folder, 2), open_data),
    "csv": (make_tables, open_data),
    "parquet": (make_parquet, open_data),
    "npz": (make_npz, open_data),
    "npy": (make_npy, open_data),
}


@pytest.fixture(scope="module")
def originals(place, tmp_path_factory):
    """The folder that each target reads, made when it is asked for."""
    folder = tmp_path_factory.mktemp("originals")

    def original(target: str) -> Path:
        if not (folder / target).exists():
            make, _ = TARGETS[target]
            if make is None:
                shutil.copytree(place / "run", folder / target)
            else:
                make(folder / target)
        return folder / target

    return original


def assert_read_or_refused(target: str, original: Path, mutation: Mutation, folder: Path) -> None:
    """Read a copy with the mutation: no other error, no code, no memory."""
    shutil.rmtree(folder / "copy", ignore_errors=True)
    copy = shutil.copytree(original, folder / "copy")
    mutation.apply(copy)
    read = TARGETS[target][1]
    tracemalloc.start()
    try:
        read(copy)
    except DOCUMENTED as error:
        assert str(error)  # noqa: PT017
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < MOST_BYTES


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", TARGETS)
def test_any_mutation_is_read_or_refused(target, originals, tmp_path):
    original = originals(target)
    assert_read_or_refused(target, original, Mutation(0, (0,), 0), tmp_path)  # compiles, imports

    @examples
    @given(mutations(*(name for name in ("model.json",) if (original / name).exists())))
    def check(mutation):
        assert_read_or_refused(target, original, mutation, tmp_path)

    check()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("file", CORPUS, ids=lambda path: path.stem)
def test_what_once_went_wrong_is_read_or_refused(file, originals, tmp_path):
    kept = json.loads(file.read_text())
    mutation = Mutation(kept["file"], tuple(kept["steps"]), kept["value"])
    assert_read_or_refused(kept["target"], originals(kept["target"]), mutation, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("target", ["model", "run", "zarr"])
def test_no_array_that_becomes_a_pickle_runs_it(target, originals, tmp_path, monkeypatch):
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True)
    original, mark = originals(target), tmp_path / "code was run"
    arrays = [path.parent.relative_to(original) for path in original.rglob("zarr.json")]
    for array in arrays:
        copy = shutil.copytree(original, tmp_path / "copy")
        make_pickled_array(copy / array, mark)
        try:
            TARGETS[target][1](copy)
        except DOCUMENTED as error:
            assert str(error)  # noqa: PT017
        assert not mark.exists(), array
        shutil.rmtree(copy)


CONFIGURATION = b"""
[data]
features = "data.npz"
[model]
folds = 2
C = [0.1, "scale"]
[cluster]
kind = "threads"
workers = 1
"""


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(0, len(CONFIGURATION)), st.binary(max_size=6)), min_size=1, max_size=4))
@examples
def test_any_text_is_a_configuration_or_refused(tmp_path, changes):
    data = CONFIGURATION
    for place, new in changes:
        data = data[:place] + new + data[place + max(1, len(new) // 2) :]
    (tmp_path / "config.toml").write_bytes(data)
    try:
        load_config(tmp_path / "config.toml")
    except ConfigError as error:
        assert str(error)  # noqa: PT017
