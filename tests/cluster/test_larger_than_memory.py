"""Data larger than memory: the source is read in pieces, by tasks or the driver, which change no byte of the store."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster
from small_runs import (
    assert_same_bytes,
    bytes_of,
    run_here,
    times_begun,
    workers_at_work,
    write_config,
    write_features,
)

from pairloom import PairwiseSVC
from pairloom.cluster.config.config_file import load_config
from pairloom.cluster.drive.driver import drive, load_data, prepare_run, unfinished_units
from pairloom.cluster.drive.schedule import Stop
from pairloom.cluster.watch.progress import Quiet
from pairloom.pipeline.features import row_sources
from pairloom.pipeline.machines import normalisation as class_scatter
from pairloom.pipeline.run import run_directory
from pairloom.pipeline.run.feature_store import read_class
from pairloom.pipeline.run.run_directory import open_group, rows_per_file, stamp_groups
from pairloom.pipeline.stages.run_file import write_run

MEGABYTE = 2**20
STORING = ("order", "features", "samples", "draws", "statistics", "whitening")


@pytest.fixture
def small_pieces(monkeypatch):
    """Many files, parts and batches, although there are few rows."""
    monkeypatch.setattr(run_directory, "_NUMBERS_PER_CHUNK", 12)
    monkeypatch.setattr(run_directory, "_CHUNKS_PER_FILE", 4)
    monkeypatch.setattr(class_scatter, "_BATCH_NUMBERS", 50)


def shuffled_arrays(folder):
    with np.load(write_features(folder / "plain.npz", classes=7, rows=20, features=6, samples=40)) as archive:
        arrays = dict(archive)
    order = np.random.default_rng(0).permutation(140)
    return arrays | {"X_train": arrays["X_train"][order], "y_train": arrays["y_train"][order]}


def as_npz(folder, arrays):
    np.savez(folder / "data.npz", **arrays)
    return folder / "data.npz"


def as_npy(folder, arrays):
    (folder / "data").mkdir()
    for name, values in arrays.items():
        np.save(folder / "data" / f"{name}.npy", values)
    return folder / "data"


def as_zarr(folder, arrays, chunk=9):
    group = zarr.create_group(folder / "data.zarr")
    for name, values in arrays.items():
        values = values.astype(np.dtypes.StringDType()) if values.dtype.kind == "U" else values
        group.create_array(name, data=values, chunks=(chunk, *values.shape[1:]))
    return folder / "data.zarr"


@pytest.mark.quick("as_npy", "as_zarr")
@pytest.mark.parametrize("store", [as_npz, as_npy, as_zarr])
def test_the_store_is_the_same_from_any_format_in_pieces_of_any_size(
    store, small_pieces, client, tmp_path, monkeypatch
):
    arrays = shuffled_arrays(tmp_path)
    config = write_config(tmp_path / "run.toml", store(tmp_path, arrays))
    plan = run_here(config, tmp_path / "run", client, until="whitening")
    reference = write_config(tmp_path / "reference.toml", tmp_path / "reference.npz")
    np.savez(tmp_path / "reference.npz", **arrays)
    expected = run_here(reference, tmp_path / "reference", client, until="whitening")
    assert plan.fingerprints == expected.fingerprints
    assert len(list((tmp_path / "run/features.zarr/train/c").glob("*/0"))) == -(-140 // 8)
    for size in (1, 100):
        monkeypatch.setattr(row_sources, "PIECE_BYTES", size)
        run_here(config, tmp_path / f"pieces of {size}", client, until="whitening")
        assert_same_bytes(tmp_path / f"pieces of {size}", bytes_of(tmp_path / "reference"))
    assert_same_bytes(tmp_path / "run", bytes_of(tmp_path / "reference"))


@pytest.mark.long  # workers are processes, which import the package
@pytest.mark.parametrize(("store", "by_tasks"), [(as_npz, False), (as_npy, True), (as_zarr, True)])
def test_tasks_store_the_rows_of_a_source_that_they_can_read(store, by_tasks, tmp_path):
    """In processes of their own: the driver stores two numbers per row, and no row."""
    config = write_config(tmp_path / "run.toml", store(tmp_path, shuffled_arrays(tmp_path)))
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        run = run_here(config, tmp_path / "run", client, until="samples")
        worker = next(iter(client.run(os.getpid).values()))
    at_work = {name: workers_at_work(run.directory, name) for name in ("order", "features", "samples")}
    stores_rows = {worker if by_tasks else os.getpid()}
    assert at_work == {"order": {os.getpid()} if by_tasks else set()} | dict.fromkeys(
        ("features", "samples"), stores_rows
    )


def test_the_driver_stores_the_rows_of_a_source_that_workers_cannot_read(small_pieces, client, tmp_path):
    """The source is not there for a moment, as it is on a worker of another host."""
    source = as_npy(tmp_path, shuffled_arrays(tmp_path))
    settings = load_config(write_config(tmp_path / "run.toml", source))
    expected = run_here(tmp_path / "run.toml", tmp_path / "expected", client, until="samples")
    run, data = prepare_run(settings, tmp_path / "run")
    elsewhere = replace(run, config=settings.model_copy(update={"data": elsewhere_of(settings.data)}))
    (tmp_path / "run").mkdir()
    write_run(elsewhere)
    noted = Noted()
    drive(elsewhere, data, lambda: contextlib.nullcontext(client), Stop(), noted, run.stages[:3])
    assert "the driver stores the rows" in noted.lines[0]
    assert_same_bytes(tmp_path / "run", bytes_of(expected.directory))


@pytest.mark.long
def test_a_run_goes_on_when_its_data_have_moved_to_another_format(small_pieces, client, tmp_path):
    """While rows are being stored, and later, when their source is no longer asked for."""
    arrays = shuffled_arrays(tmp_path)
    npy, npz = (write_config(tmp_path / f"{s.__name__}.toml", s(tmp_path, arrays)) for s in (as_npy, as_npz))
    expected = run_here(npz, tmp_path / "expected", client, until="model").directory
    for begun_until in ("order", "features", "model"):
        directory = tmp_path / begun_until
        run_here(npy, directory, client, until=begun_until)
        assert times_begun(directory, "order") == {0: 1}
        finished = run_here(npz, directory, client, until="model")
        done = finished.stages[: finished.stage_names.index("model") + 1]
        assert not any(unfinished_units(finished, done).values())
        assert_same_bytes(directory, bytes_of(expected))
        assert set(times_begun(directory, "machines").values()) == {1}
        read = PairwiseSVC.from_run(directory)
        np.testing.assert_array_equal(read.machines_[0], PairwiseSVC.from_run(expected).machines_[0])


def elsewhere_of(data):
    return data.model_copy(update={"features": f"{data.features}-elsewhere"})


class Noted(Quiet):
    def __init__(self):
        super().__init__()
        self.lines = []

    def note(self, line):
        self.lines.append(line)


@pytest.mark.parametrize("whiten", ["0.8", "auto", "none"])
def test_files_parts_and_batches_leave_the_two_doors_equal_to_the_bit(whiten, small_pieces, client, tmp_path):
    config = write_config(tmp_path / "run.toml", as_zarr(tmp_path, shuffled_arrays(tmp_path)))
    plan = run_here(config, tmp_path / "run", client, f"model.whiten={whiten}", until="model")
    data = load_data(plan.config).load()
    model = PairwiseSVC(**plan.estimator_parameters).fit(data.X_train, np.array(data.classes)[data.y_train])
    read = PairwiseSVC.from_run(tmp_path / "run")
    for ours, theirs in zip(model.machines_, read.machines_, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("store", [as_npz, as_npy, as_zarr])
def test_a_number_that_is_not_finite_is_found_in_the_last_piece_before_anything_is_written(
    store, tmp_path, monkeypatch
):
    monkeypatch.setattr(row_sources, "PIECE_BYTES", 100)
    arrays = shuffled_arrays(tmp_path)
    arrays["X_train"][139, 4] = np.nan
    config = write_config(tmp_path / "run.toml", store(tmp_path, arrays))
    with pytest.raises(ValueError, match=r"X_train must be finite, .* in 1 rows, first in row 139, column 4"):
        prepare_run(load_config(config), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_crowded_class_among_small_ones_pads_none_of_them(client, tmp_path):
    random = np.random.default_rng(0)
    sizes = np.append(random.integers(2, 39, 200), 100_000)
    y = np.repeat(np.arange(201), sizes)
    X = random.standard_normal((len(y), 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", X_train=X, y_train=y, X_test=X[:20], y_test=y[:20])
    config = write_config(tmp_path / "run.toml", tmp_path / "data.npz")
    settings = ("graph.family=star", "run.memory_limit=100GiB")
    plan = run_here(config, tmp_path / "run", client, *settings, until="whitening")
    stored = [path for path in (tmp_path / "run/features.zarr/train/c").rglob("*") if path.is_file()]
    assert len(stored) == -(-len(y) // rows_per_file(4))
    assert sum(path.stat().st_size for path in stored) < 1.1 * X.nbytes
    run = plan
    centre = open_group(run.directory, "features.zarr")["centre"][:].astype(np.float32)
    for c in (0, 117, 200):
        expected = np.ldexp(X[y == c] - centre, -run.exponent)
        np.testing.assert_array_equal(read_class(run, c), expected)


# What a process takes that plans, as the driver, and stores the first and the last rows, as a worker. Resident memory
# is the most that the process ever had: a mapped file would count, the cache of the file system does not.
DRIVER = """
import json, sys
from pathlib import Path
from pairloom.benchmarks.memory import peak_bytes
from pairloom.cluster.config.config_file import load_config
from pairloom.cluster.drive.driver import prepare_run
from pairloom.cluster.drive.tasks import run_unit
from pairloom.pipeline.stages.run_file import write_run
from pairloom.pipeline.run.run_directory import stamp_groups

config, directory = load_config(sys.argv[1]), Path(sys.argv[2])
before = peak_bytes()
plan, data = prepare_run(config, directory)
planned = peak_bytes()
directory.mkdir()
write_run(plan)
stamp_groups(directory, plan.shape)
run_unit(plan, plan.stage("order"), 0, data)
for unit in (0, 1, plan.units("features") - 1):
    run_unit(plan, plan.stage("features"), unit)
print(json.dumps({"before": before, "planned": planned, "stored": peak_bytes(), "rows": sum(plan.shape.rows)}))
"""


def resident_memory(folder, rows):
    """The resident memory for so many rows of 512 float32: zeros in a sparse file, and one row of each class."""
    (folder / "data").mkdir()
    X = np.lib.format.open_memmap(folder / "data/X_train.npy", mode="w+", dtype=np.float32, shape=(rows, 512))
    X[:100] = np.random.default_rng(0).standard_normal((100, 512))
    del X
    y = np.arange(rows) % 100
    small = {"y_train": y, "X_test": np.ones((10, 512), np.float32), "y_test": y[:10]}
    for name, values in small.items():
        np.save(folder / "data" / f"{name}.npy", values)
    config = write_config(folder / "run.toml", folder / "data")
    config.write_text(config.read_text().replace("complete", "path"))
    arguments = [sys.executable, "-c", DRIVER, str(config), str(folder / "run")]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
def test_a_gigabyte_is_planned_and_stored_in_a_fraction_of_its_size(tmp_path):
    found = resident_memory(tmp_path, 2**19)
    assert found["rows"] == 2**19
    assert found["stored"] - found["before"] < 300 * MEGABYTE, found


@pytest.mark.long
def test_twenty_gigabytes_are_planned_and_stored_in_less_than_one(tmp_path):
    found = resident_memory(tmp_path, 20 * 2**19)
    assert found["stored"] < 1024 * MEGABYTE, found


@pytest.mark.long
@pytest.mark.parametrize("store", [as_npz, as_npy, as_zarr])
def test_no_unit_takes_more_memory_than_it_says(store, tmp_path):
    random = np.random.default_rng(0)
    y = random.permutation(np.repeat(np.arange(40), np.append(np.full(39, 300), 9000)))
    X = random.standard_normal((len(y), 512)).astype(np.float32)
    config = write_config(
        tmp_path / "run.toml", store(tmp_path, {"X_train": X, "y_train": y, "X_test": X[:99]})
    )
    directory = tmp_path / "run"
    plan, data = prepare_run(load_config(config), directory)
    write_run(plan)
    stamp_groups(directory, plan.shape)
    for name in STORING:
        for unit in range(plan.units(name)):
            tracemalloc.start()
            plan.stage(name).work(plan, unit, data if plan.stage(name).runs_in(plan) == "driver" else None)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < plan.stage(name).task_bytes(plan) + 4 * MEGABYTE, name


@pytest.mark.faults
@pytest.mark.parametrize("store", [as_npz, as_npy])
def test_a_driver_that_is_killed_while_rows_are_stored_is_resumed_to_the_same_bytes(store, client, tmp_path):
    """The driver stores the rows of an archive, tasks those of a folder of arrays."""
    random = np.random.default_rng(0)
    y = random.permutation(np.repeat(np.arange(20), 3000))
    X = random.standard_normal((len(y), 512)).astype(np.float32)
    source = store(tmp_path, {"X_train": X, "y_train": y, "X_test": X[:20], "y_test": y[:20]})
    config, directory = write_config(tmp_path / "run.toml", source), tmp_path / "run"
    run_here(config, tmp_path / "undisturbed", client, until="whitening")
    driver = subprocess.Popen(
        [sys.executable, "-m", "pairloom", "run", str(config), "--directory", str(directory)]
    )
    while len(list((directory / "ledger/features").glob("*.json"))) < 2:
        assert driver.poll() is None
        time.sleep(0.01)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert len(list((directory / "ledger/features").glob("*.json"))) < 8
    run_here(config, directory, client, until="whitening")
    assert_same_bytes(directory, bytes_of(tmp_path / "undisturbed"))
    assert not list(directory.rglob("*.partial"))
