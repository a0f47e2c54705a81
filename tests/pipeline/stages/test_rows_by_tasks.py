"""Tasks read rows from their source and store the bytes that the driver would store."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import zarr

from pairloom.cluster.drive.driver import load_data
from pairloom.pipeline.config.config import Config
from pairloom.pipeline.features import row_sources
from pairloom.pipeline.features.feature_set import open_features
from pairloom.pipeline.features.row_sources import Origin, PlacedRows
from pairloom.pipeline.run import run_directory, source_rows
from pairloom.pipeline.run.run_directory import stamp_groups
from pairloom.pipeline.run.source_rows import planned_source, source_problem
from pairloom.pipeline.stages.planning import plan_run
from pairloom.pipeline.stages.run_file import read_run, write_run
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.threads import pieces

CLASSES, ROWS, D = 7, 30, 6


@pytest.fixture(autouse=True)
def small_files(monkeypatch):
    """Many files and units, although there are few rows: files of eight rows, units of at most four files."""
    monkeypatch.setattr(run_directory, "_NUMBERS_PER_CHUNK", 12)
    monkeypatch.setattr(run_directory, "_CHUNKS_PER_FILE", 4)
    monkeypatch.setattr(row_sources, "PIECE_BYTES", 500)
    monkeypatch.setattr(source_rows, "_UNIT_BYTES", 4 * 8 * D * 8)  # float64


@pytest.fixture
def arrays():
    random = np.random.default_rng(0)
    y_train, y_test = (random.permutation(np.repeat(np.arange(1, CLASSES + 1), n)) for n in (ROWS, 5))
    centres = random.standard_normal((CLASSES + 1, D))
    X_train, X_test = (centres[y] + random.standard_normal((len(y), D)) for y in (y_train, y_test))
    return {"X_train": X_train, "y_train": y_train, "X_test": X_test, "y_test": y_test}


def as_npy(folder, arrays):
    folder.mkdir()
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    return {"features": str(folder)}


def as_columns(folder, arrays):
    return as_npy(folder, {name: np.asfortranarray(values) for name, values in arrays.items()})


def as_float32(folder, arrays):
    return as_npy(
        folder, {name: v.astype(np.float32) if v.dtype.kind == "f" else v for name, v in arrays.items()}
    )


def as_zarr(folder, arrays, chunk=9):
    group = zarr.create_group(folder)
    for name, values in arrays.items():
        group.create_array(name, data=values, chunks=(chunk, *values.shape[1:]))
    return {"features": str(folder)}


def as_sorted_zarr(folder, arrays):
    order = np.argsort(arrays["y_train"], kind="stable")
    return as_zarr(folder, arrays | {name: arrays[name][order] for name in ("X_train", "y_train")}, chunk=4)


def as_pool(folder, arrays):
    return as_zarr(folder, {"X": arrays["X_train"], "y": arrays["y_train"]})


def as_two_sources(folder, arrays):
    """The test samples are in another source, with its columns in another order and one more of them."""
    folder.mkdir()
    names = np.array(list("abcdef"))
    train = {name: arrays[name] for name in ("X_train", "y_train", "X_test", "y_test")}
    config = as_npy(folder / "train", train | {"feature_names": names})
    order = [5, 3, 1, 0, 2, 4]
    X = np.column_stack([arrays["X_test"][:, order], np.ones(len(arrays["X_test"]))])
    test = as_zarr(folder / "test.zarr", {"X_test": X, "y_test": arrays["y_test"]})
    names = np.array([*names[order], "x"], np.dtypes.StringDType())
    zarr.open_group(folder / "test.zarr").create_array("feature_names", data=names)
    return config | {"test": test["features"]}


def as_parquet(folder, arrays):
    """A table with rows that are left out, in row groups of several sizes."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder.mkdir()
    columns = {name: arrays["X_train"][:, place].copy() for place, name in enumerate("abcdef")}
    columns["c"][[3, 77]] = np.nan
    counts = np.arange(len(arrays["y_train"]))
    table = pyarrow.table(columns | {"kind": [f"class {c}" for c in arrays["y_train"]], "count": counts})
    with parquet.ParquetWriter(folder / "t.parquet", table.schema) as file:
        for first in range(0, len(counts), 37):
            file.write_table(table.slice(first, 37), row_group_size=20)
    return {"features": str(folder / "t.parquet"), "label": "kind", "missing": "leave_out_rows"}


def planned(data_config, directory):
    """The data, and a plan that is written, in which tasks read the rows."""
    config = Config.model_validate(
        {
            "data": data_config,
            "model": {"folds": 2, "kernel": "linear", "C": 1.0},
            "run": {"samples_per_slab": 8},
            "cluster": {"workers": 8},
        }
    )
    data = load_data(config)
    run = plan_run(config, data, directory)
    stamp_groups(directory, run.shape)
    write_run(run)
    return data, run


def stored(run, data, by_tasks):
    for name in ("order", "features", "samples"):
        for unit in range(run.units(name)):
            run.stage(name).work(run, unit, None if by_tasks and name != "order" else data)
    folder = Folder(run.directory)
    return {path: folder.read(path) for path in folder.below("features.zarr")}


@pytest.mark.parametrize(
    "store", [as_npy, as_columns, as_float32, as_zarr, as_sorted_zarr, as_pool, as_two_sources, as_parquet]
)
def test_tasks_store_the_bytes_of_the_driver(store, arrays, tmp_path):
    data, run = planned(store(tmp_path / "data", arrays), tmp_path / "tasks")
    shape = run.shape._replace(train_source=None, test_source=None)
    alone = replace(run, shape=shape, directory=tmp_path / "driver")
    stamp_groups(alone.directory, shape)
    expected = stored(alone, data, by_tasks=False)
    data.close()
    # A worker has the plan and the source, and nothing else of the driver.
    worker = read_run(tmp_path / "tasks")
    assert all(worker.stage(name).runs_in(worker) == "cluster" for name in ("features", "samples"))
    assert alone.stage("features").runs_in(alone) == "driver"
    assert stored(worker, data, by_tasks=True) == expected


def test_a_shuffled_source_in_chunks_is_read_once_for_many_blocks_and_others_block_by_block(arrays, tmp_path):
    for store, blocks in ((as_npy, 1), (as_sorted_zarr, 1), (as_zarr, 4)):
        _, run = planned(store(tmp_path / store.__name__, arrays), tmp_path / f"run of {store.__name__}")
        assert run.shape.train_source.blocks == blocks, store
        assert len(run.row_blocks) == -(-CLASSES * ROWS // 8)
        assert run.units("features") == -(-len(run.row_blocks) // blocks)
        assert [block for unit in run.row_units for block in unit] == run.row_blocks


@pytest.mark.parametrize("store", [as_npy, as_columns, as_zarr])
@pytest.mark.parametrize(("stage", "part"), [("features", "train"), ("samples", "test")])
def test_rows_that_have_changed_since_the_check_are_not_stored(stage, part, store, arrays, tmp_path):
    _, run = planned(store(tmp_path / "data", arrays), tmp_path / "run")
    run.stage("order").work(run, 0, open_features(run.config.data.features))
    assert source_problem(run) is None
    unit = 1
    place = int(Folder(run.directory).array(f"source.zarr/{part}_place")[:][_first_row(run, stage, unit)])
    X = arrays[f"X_{part}"]
    X[place, 1] = 100.0
    if store is as_zarr:
        zarr.open_group(tmp_path / "data")[f"X_{part}"][:] = X
    else:
        np.save(tmp_path / "data" / f"X_{part}.npy", np.asfortranarray(X) if store is as_columns else X)
    assert run.stage(stage).work(run, 0, None), "these rows are as they were"
    with pytest.raises(ValueError, match=rf"X_{part} must not change while it is read, but row {place} is"):
        run.stage(stage).work(run, unit, None)


def _first_row(run, stage, unit):
    return (run.row_units[unit][0] if stage == "features" else run.slabs[unit]).start


def test_a_source_that_is_gone_or_has_other_rows_is_not_seen(arrays, tmp_path):
    _, run = planned(as_zarr(tmp_path / "data", arrays), tmp_path / "run")
    run.stage("order").work(run, 0, open_features(run.config.data.features))
    assert source_problem(run) is None
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    source_rows._open.cache_clear()  # another process
    assert "no such file or folder" in source_problem(run)
    as_zarr(tmp_path / "data", arrays | {"X_test": arrays["X_test"] + 1})
    assert "X_test must not change" in source_problem(run)


def placed_rows(places, together, of):
    checks = np.zeros(len(places), np.uint32)
    return PlacedRows(Origin("data.features", "X"), places, None, checks, together, of)


def test_the_driver_stores_the_rows_where_tasks_would_read_the_source_too_often_or_lack_memory(monkeypatch):
    monkeypatch.setattr(source_rows, "_UNIT_BYTES", 40 * 100)
    n = 100 * 100
    places = np.random.default_rng(0).permutation(n)
    shuffled = placed_rows(places, 100, n)

    def plan(placed, workers=64, row_bytes=40, memory=2**30):
        return planned_source(placed, pieces(n, 100), row_bytes, workers, memory, together=True)

    # 100 rows lie in 63 of 100 chunks: four times per worker is that often for 16 workers.
    assert plan(shuffled, workers=15) is None
    found = plan(shuffled, workers=16)
    assert found.blocks == 1
    assert 62.5 < found.reads < 64
    single = plan(placed_rows(places, 1, n), workers=1)
    assert (single.blocks, single.reads) == (1, 1.0)
    assert plan(placed_rows(np.arange(n), n, n), row_bytes=2**20) is None
    assert plan(shuffled, memory=2**10) is None
    assert plan(shuffled._replace(checksums=None)) is None
    assert plan(None) is None


@pytest.mark.long
def test_a_set_that_is_generated_is_generated_by_tasks(tmp_path):
    """Its classes need not end where blocks do: a unit generates no class of which it stores nothing."""
    data = open_features("imagenet50-synthetic")
    placed = data.placed("train")
    assert (placed.together, placed.of) == (200, 10_000)
    np.testing.assert_array_equal(placed.places.reshape(50, 200) % 200, [np.arange(200)] * 50)
    blocks = pieces(10_000, 350)
    source = planned_source(placed, blocks, 2048, 2, 2**30, together=True)
    assert source.blocks == 1
    assert source.reads < 1.7
