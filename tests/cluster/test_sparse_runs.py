"""Runs on sparse rows: the estimator's model, from every source, resumed, predicted and reported."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from distributed import Client, LocalCluster
from scipy import sparse
from small_runs import assert_same_bytes, bytes_of, run_here

import pairloom
from pairloom import PairwiseSVC
from pairloom.benchmarks.memory import peak_bytes
from pairloom.cluster.commands.cli import main
from pairloom.cluster.config.config_file import load_config
from pairloom.cluster.drive.driver import load_data
from pairloom.pipeline.machines.sparse_machines import SparseWeights
from pairloom.pipeline.run.needs import disk_bytes, worker_bytes
from pairloom.pipeline.run.run_directory import open_group
from pairloom.pipeline.stages.planning import plan_run

N = 7


def texts(rows=42, words=400, classes=N, seed=0, length=8):
    """Made-up texts as TF-IDF: every class prefers some of the words."""
    random = np.random.default_rng(seed)
    likely = random.dirichlet(np.full(words, 0.3), classes)
    y = np.tile(np.arange(classes), rows)
    drawn = np.array([random.choice(words, length, p=likely[c]) for c in y])
    counts = sparse.csr_array(
        (np.ones(drawn.size, np.float32), (np.repeat(np.arange(len(y)), length), drawn.ravel())),
        shape=(len(y), words),
    )
    norms = np.sqrt(counts.multiply(counts).sum(axis=1))
    X = sparse.csr_array(counts.multiply(1 / norms[:, None]), dtype=np.float32)
    test = np.arange(len(y)) // classes % 3 == 0
    return {"X_train": X[~test], "y_train": y[~test], "X_test": X[test], "y_test": y[test]}


DATA = texts()


def write_folder(path, data):
    path.mkdir()
    for name, values in data.items():
        if sparse.issparse(values):
            sparse.save_npz(path / f"{name}.npz", values)
        else:
            np.save(path / f"{name}.npy", values)
    return path


def write_zarr(path, data, zarr_format=3, shape_as_array=False):
    """As AnnData and others write sparse matrices: a group for each."""
    group = zarr.create_group(path, zarr_format=zarr_format)
    for name, values in data.items():
        if not sparse.issparse(values):
            group.create_array(name, data=values)
            continue
        attributes = {} if shape_as_array else {"encoding-type": "csr_matrix", "shape": list(values.shape)}
        matrix = group.create_group(name, attributes=attributes)
        for part in ("data", "indices", "indptr"):
            # zarr leaves out chunks of zeros, which are refused
            matrix.create_array(
                part, data=getattr(values, part), chunks=(500,), config={"write_empty_chunks": True}
            )
        if shape_as_array:
            matrix.create_array("shape", data=np.array(values.shape))
    return path


SOURCES = {
    "npz": write_folder,
    "zarr": write_zarr,
    "zarr format 2": lambda path, data: write_zarr(path, data, 2),
    "zarr with shape": lambda path, data: write_zarr(path, data, shape_as_array=True),
}


def write_config(folder, features, *lines):
    file = folder / "text.toml"
    file.write_text(
        f"""
        [data]
        features = "{features}"
        [run]
        edges_per_tile = 4
        samples_per_slab = 32
        also_couple = ["normal"]
        """
        + "\n".join(lines)
    )
    return file


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sparse")
    return write_config(folder, write_folder(folder / "text", DATA))


def fitted(plan, coupling="stratified"):
    return PairwiseSVC(**plan.estimator_parameters | {"coupling": coupling}).fit(
        DATA["X_train"], DATA["y_train"]
    )


@pytest.mark.quick("hub_neighbours", "tensor")
@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param((), id="default"),
        pytest.param(("graph.family=hub_neighbours", "graph.neighbours=2"), id="hub_neighbours"),
        pytest.param(("model.C=[1.0, 10.0]", "model.coupled_calibration=edges"), id="edges"),
        pytest.param(("model.fit_on=fold", "model.standardise=true", "model.C=0.1"), id="standardised"),
        pytest.param(("run.tensor=stored", "model.calibration=platt"), id="tensor"),
        pytest.param(("run.tensor=virtual", "model.shortlist=3"), id="lists"),
        pytest.param(("run.edges_per_tile=1", "model.class_weight=balanced"), id="whole classes"),
        pytest.param(("graph.family=one_vs_rest", "run.also_couple=[]"), id="codes"),
    ],
)
def test_the_run_has_the_probabilities_of_the_estimator(overrides, config, client, tmp_path):
    plan = run_here(config, tmp_path / "run", client, *overrides, until="report")
    coupling = plan.shape.couplings[0]
    model, read = fitted(plan, coupling), PairwiseSVC.from_run(tmp_path / "run")
    assert isinstance(read.machines_.coef, SparseWeights)
    for name in ("start", "column", "values"):
        ours, theirs = (getattr(one.machines_.coef, name) for one in (model, read))
        np.testing.assert_array_equal(ours, theirs)
    for name in ("intercept", "platt", "crossfit", "dprime"):
        np.testing.assert_array_equal(getattr(model.machines_, name), getattr(read.machines_, name))
    expected = model.predict_proba(DATA["X_test"])
    stored = open_group(tmp_path / "run", "probabilities.zarr")[coupling][:]
    np.testing.assert_allclose(stored, expected, atol=1e-6)
    np.testing.assert_allclose(read.predict_proba(DATA["X_test"]), expected, atol=1e-6)
    np.testing.assert_allclose(read.predict_proba(DATA["X_test"].toarray()), expected, atol=1e-6)
    assert (expected.argmax(axis=1) == DATA["y_test"]).mean() > 0.8


@pytest.fixture(scope="module")
def whole(config, client, tmp_path_factory):
    """A finished run, and its bytes."""
    directory = tmp_path_factory.mktemp("whole") / "run"
    run_here(config, directory, client, until="report")
    return directory


@pytest.mark.quick("npz", "zarr")
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_bytes(source, whole, client, tmp_path):
    features = SOURCES[source](tmp_path / "source", DATA)
    run_here(write_config(tmp_path, features), tmp_path / "run", client)
    assert_same_bytes(tmp_path / "run", bytes_of(whole))


def test_rows_in_any_order_of_columns_are_the_same_rows(whole, client, tmp_path):
    def shuffled(X):
        """With columns in descending order, entries in two halves, and zeros that are stored."""
        coo = X.tocoo()
        rows, columns, values = (np.tile(some, 2)[::-1] for some in (coo.row, coo.col, coo.data / 2))
        rows, columns = np.append(rows, [0, 1]), np.append(columns, [3, 4])
        values = np.append(values, np.zeros(2, np.float32))
        order = np.argsort(rows, kind="stable")
        indptr = np.searchsorted(rows[order], np.arange(X.shape[0] + 1))
        return sparse.csr_array((values[order], columns[order], indptr), X.shape)

    odd = {name: shuffled(values) if sparse.issparse(values) else values for name, values in DATA.items()}
    assert odd["X_train"].nnz == 2 * DATA["X_train"].nnz + 2
    run_here(write_config(tmp_path, write_zarr(tmp_path / "odd", odd)), tmp_path / "run", client)
    assert_same_bytes(tmp_path / "run", bytes_of(whole))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The data type .FixedLengthUTF32")
def test_a_pool_is_split_and_ids_go_with_its_rows(client, tmp_path):
    X, y = (
        sparse.vstack([DATA["X_train"], DATA["X_test"]], "csr"),
        np.concatenate([DATA["y_train"], DATA["y_test"]]),
    )
    names = np.array([f"text {k}" for k in range(len(y))])
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape, "format": b"csr"}
    np.savez(tmp_path / "pool.npz", **parts, y=y, ids=names)
    flat = zarr.create_group(tmp_path / "flat.zarr", attributes={"shape": list(X.shape)})
    for name, values in {
        "data": X.data,
        "indices": X.indices,
        "indptr": X.indptr,
        "y": y,
        "ids": names,
    }.items():
        flat.create_array(name, data=values, config={"write_empty_chunks": True})
    runs = [tmp_path / "npz", tmp_path / "zarr"]
    for directory, features in zip(runs, (tmp_path / "pool.npz", tmp_path / "flat.zarr"), strict=True):
        plan = run_here(write_config(tmp_path, features), directory, client)
        data = load_data(plan.config)
        assert data.ids_test[0].startswith("text ")
        rows = [names.tolist().index(name) for name in data.ids_test.tolist()]
        np.testing.assert_array_equal(data.X_test.read(slice(None)).toarray(), X[rows].toarray())
    assert_same_bytes(runs[0], bytes_of(runs[1]))


def test_a_run_is_resumed_with_the_same_bytes(config, whole, client, tmp_path):
    directory = tmp_path / "run"
    run_here(config, directory, client, until="machines")
    lost = ["features.zarr/train_column/c/0/0", "machines.zarr/weight/c/1/0/0", "machines.zarr/column/c/2/0"]
    for number, path in enumerate(lost):
        content = bytearray((directory / path).read_bytes())
        if number:
            content[len(content) // 3] ^= 1
            (directory / path).write_bytes(bytes(content))
        else:
            (directory / path).unlink()
    run_here(config, directory, client)
    assert_same_bytes(directory, bytes_of(whole))


@pytest.mark.long
def test_the_command_line_takes_sparse_files(whole, tmp_path):
    X = DATA["X_test"].copy()
    X.data[0] = np.nan
    sparse.save_npz(tmp_path / "new.npz", X)
    run = CliRunner().invoke
    out = tmp_path / "p.csv"
    done = run(main, ["predict", str(whole), "--features", str(tmp_path / "new.npz"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "column" in done.stderr
    assert "must be finite, got nan" in done.stderr
    lines = out.read_text().splitlines()
    p = np.array([line.split(",")[3:] for line in lines[2:]], float)
    model = PairwiseSVC.from_run(whole)
    np.testing.assert_allclose(p, model.predict_proba(DATA["X_test"][1:]), atol=1e-6)
    folder = write_folder(tmp_path / "text", DATA)
    done = run(main, ["init", str(folder), "--out", str(tmp_path / "made.toml")])
    assert done.exit_code == 0, done.output
    assert "400 features, sparse" in done.output
    done = run(main, ["plan", str(tmp_path / "made.toml"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["edges"] == N * (N - 1) // 2
    page = (whole / "report" / "index.html").read_text()
    assert "feature " in page
    assert "nearest centroid" in page


@pytest.mark.long
def test_a_program_gives_sparse_arrays(whole, tmp_path):
    settings = {"cluster": {"kind": "threads"}, "run": {"edges_per_tile": 4, "samples_per_slab": 32}}
    data = DATA | {"X_train": DATA["X_train"].tocsc()}
    handle = pairloom.run(settings, data=data, directory=tmp_path / "run")
    p = handle.result(timeout=300).predict_proba(DATA["X_test"])
    np.testing.assert_array_equal(p, PairwiseSVC.from_run(whole).predict_proba(DATA["X_test"]))


@pytest.mark.long
def test_a_run_that_grows_stays_sparse(config, client, tmp_path):
    start = ("graph.family=star", "graph.centre=0")
    plan = run_here(
        write_config(tmp_path, config.parent / "text", "[growth]", "pairs = 12", "wave = 3"),
        tmp_path / "run",
        client,
        *start,
        "run.edges_per_tile=2",
        until="report",
    )
    model = PairwiseSVC.from_run(tmp_path / "run")
    assert len(model.edges_) == 12
    assert isinstance(model.machines_.coef, SparseWeights)
    assert plan.shape.sparse.tile >= 2 * np.diff(model.machines_.coef.start).max()
    assert model.score(DATA["X_test"], DATA["y_test"]) > 0.8


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.kernel=rbf", r"model.kernel must be 'auto' or 'linear' for sparse features, got 'rbf'"),
        ("model.whiten=0.5", r"model.whiten must be 'auto' or 'none' for sparse features, got 0.5"),
        ("model.learn=coupled", r"model.learn must be 'machines' for sparse features, got 'coupled'"),
    ],
)
def test_what_sparse_rows_cannot_have_is_refused_in_the_plan(setting, message, config):
    settings = load_config(config, [setting, "run.also_couple=[]"])
    with pytest.raises(ValueError, match=message):
        plan_run(settings, load_data(settings))


def test_the_disk_that_a_plan_foresees_is_enough(whole, config):
    settings = load_config(config)
    bounds = disk_bytes(plan_run(settings, load_data(settings), whole))
    sizes = {}
    for group in bounds:
        sizes[group] = sum(file.stat().st_size for file in (whole / group).rglob("*/c/*") if file.is_file())
    assert all(sizes[group] <= bounds[group] + 2**16 for group in bounds), (sizes, bounds)


@pytest.mark.long
def test_a_worker_stays_below_the_memory_of_its_plan(tmp_path):
    data = texts(rows=90, words=30_000, classes=150, length=60)
    config = write_config(
        tmp_path, write_folder(tmp_path / "text", data), "[graph]", 'family = "hub_neighbours"'
    )
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        settings = ("run.edges_per_tile=64", "run.samples_per_slab=256", "run.tensor=virtual")
        plan = run_here(config, tmp_path / "run", client, *settings, until="report")
        (peak,) = client.run(peak_bytes).values()
    assert peak < worker_bytes(plan) < 4 * peak
