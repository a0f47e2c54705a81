"""Faults, with real processes: what is left of a run after each, and that `resume` ends in the same bytes.

Run alone with ``pytest -m faults``.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest
from dask_processes import finish, kill_and_reap, pairloom_process, wait_until
from small_runs import assert_same_bytes, bytes_of, run_here, times_begun, write_config, write_features

import pairloom
from pairloom.cluster.ledger import Ledger
from pairloom.cluster.plan import DamagedPlan, Plan
from pairloom.cluster.stages import STAGE_NAMES
from pairloom.cluster.status import run_status
from pairloom.cluster.units import Task, run_task

pytestmark = pytest.mark.faults


@pytest.fixture(scope="session")
def faulty_config(tmp_path_factory) -> Path:
    """Pairs that take a while: 66 in 17 tiles."""
    folder = tmp_path_factory.mktemp("faulty")
    features = write_features(folder / "data.npz", classes=12, rows=150, features=200, samples=120)
    return write_config(folder / "faulty.toml", features, edges_per_tile=4, samples_per_slab=32)


@pytest.fixture(scope="session")
def undisturbed(faulty_config, client, tmp_path_factory) -> dict[str, bytes]:
    directory = tmp_path_factory.mktemp("undisturbed") / "run"
    run_here(faulty_config, directory, client)
    return bytes_of(directory)


@pytest.fixture
def directory(tmp_path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def begin(faulty_config, directory, dask_processes):
    """Start a driver, as a process, on the cluster of processes."""
    scheduler = ("--scheduler-file", dask_processes.scheduler_file)
    return lambda: pairloom_process("run", faulty_config, "--directory", directory, *scheduler)


@pytest.fixture
def resume(directory, dask_processes):
    return lambda *arguments: finish(
        pairloom_process("resume", directory, "--scheduler-file", dask_processes.scheduler_file, *arguments)
    )


def stop_in_mid_unit(directory: Path, stage: str, pids: set[int]) -> tuple[int, int]:
    """Freeze one of these processes while it is at a unit that the ledger does not have; its pid and the
    unit."""
    log, ledger = directory / "log.txt", Ledger(directory)

    def frozen() -> tuple[int, int] | None:
        lines = log.read_text().splitlines() if log.exists() else []
        for words in (line.split() for line in reversed(lines)):
            if words[2:4] != ["begin", stage]:
                continue
            pid, unit = int(words[1].rpartition(":")[2]), int(words[4])
            if pid in pids and ledger.read(stage, unit) is None:
                os.kill(pid, signal.SIGSTOP)
                # A stopped process may yet have finished the unit before the signal arrived.
                time.sleep(0.05)
                if ledger.read(stage, unit) is None:
                    return pid, unit
                os.kill(pid, signal.SIGCONT)
        return None

    return wait_until(frozen, f"a worker in the middle of {stage}")


def units_begun_again(directory: Path, stage: str) -> int:
    return sum(times - 1 for times in times_begun(directory, stage).values())


def test_a_worker_is_killed_in_mid_tile(begin, directory, dask_processes, undisturbed):
    workers = {
        worker.pid: worker for worker in (dask_processes.start_worker(), dask_processes.start_worker())
    }
    driver = begin()
    pid, unit = stop_in_mid_unit(directory, "machines", set(workers))
    kill_and_reap(workers[pid])
    code, errors = finish(driver)
    assert code == 0, errors
    assert_same_bytes(directory, undisturbed)
    assert times_begun(directory, "machines")[unit] == 2
    assert units_begun_again(directory, "machines") == 1


def test_workers_are_killed_every_second_ten_times(begin, directory, dask_processes, undisturbed):
    workers = [dask_processes.start_worker(), dask_processes.start_worker()]
    driver = begin()
    wait_until(lambda: (directory / "ledger" / "machines").exists(), "the first tile")
    for _ in range(10):
        time.sleep(1.0)
        kill_and_reap(workers.pop(0))
        workers.append(dask_processes.start_worker())
    code, errors = finish(driver)
    assert code == 0, errors
    assert_same_bytes(directory, undisturbed)
    assert sum(units_begun_again(directory, stage) for stage in STAGE_NAMES) <= 10


def test_the_scheduler_is_killed(begin, resume, directory, dask_processes, undisturbed):
    worker = dask_processes.start_worker()
    driver = begin()
    stop_in_mid_unit(directory, "machines", {worker.pid})
    kill_and_reap(dask_processes.scheduler)
    kill_and_reap(worker)
    code, errors = finish(driver)
    assert code == 4, errors
    assert "pairloom resume" in errors
    dask_processes.start_scheduler()
    dask_processes.start_worker()
    code, errors = resume()
    assert code == 0, errors
    assert_same_bytes(directory, undisturbed)
    assert units_begun_again(directory, "machines") == 1


def test_the_driver_is_killed(begin, resume, directory, dask_processes, undisturbed):
    worker = dask_processes.start_worker()
    driver = begin()
    stop_in_mid_unit(directory, "machines", {worker.pid})
    kill_and_reap(driver)
    assert run_status(directory).state == "unfinished"
    os.kill(worker.pid, signal.SIGCONT)
    code, errors = resume()
    assert code == 0, errors
    assert f"pid {driver.pid}" in errors, "the dead driver is named"
    assert_same_bytes(directory, undisturbed)
    # The worker may have been told to finish the killed driver's task: nothing is begun twice then.
    assert units_begun_again(directory, "machines") <= 1


def test_the_driver_is_terminated(begin, resume, directory, dask_processes, undisturbed):
    worker = dask_processes.start_worker()
    driver = begin()
    stop_in_mid_unit(directory, "machines", {worker.pid})
    driver.terminate()
    os.kill(worker.pid, signal.SIGCONT)
    code, errors = finish(driver)
    assert code == 143, errors
    assert f"pairloom resume {directory}" in errors
    code, errors = resume()
    assert code == 0, errors
    assert_same_bytes(directory, undisturbed)
    assert units_begun_again(directory, "machines") <= 1


def test_the_disk_fills(begin, resume, directory, dask_processes, undisturbed):
    # Room for a line of the log and for an entry of the ledger, not for the weights of a tile.
    limit = len(undisturbed["machines.zarr/coef/c/0/0/0"]) // 2
    full = dask_processes.start_worker(
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    )
    code, errors = finish(begin())
    assert code == 4, errors
    assert "could not be written" in errors
    status = run_status(directory, verify=True)
    assert status.state == "unfinished"
    assert not any("machines" in path for path in status.damaged), "nothing half-written is believed"
    kill_and_reap(full)
    dask_processes.start_worker()
    code, errors = resume()
    assert code == 0, errors
    assert_same_bytes(directory, undisturbed)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(bytes(content))


@pytest.fixture
def copied_run(small_run, tmp_path) -> Path:
    shutil.copytree(small_run, tmp_path / "run")
    return tmp_path / "run"


def files_of(directory: Path) -> list[Path]:
    """Every file of a run that a result is read from: all but the log and the records of drivers."""
    files = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.stat().st_size]
    return [path for path in files if path.name != "log.txt" and path.parent.name != "drivers"]


def is_seen_to_be_damaged(directory: Path) -> bool:
    try:
        return run_status(directory, verify=True).state == "unfinished"
    except DamagedPlan:
        return True


DAMAGES = pytest.mark.parametrize(
    "damage", [truncate, flip_a_bit, Path.unlink], ids=["truncated", "flipped", "deleted"]
)


@DAMAGES
def test_damage_to_any_file_is_seen(damage, copied_run):
    files = files_of(copied_run)
    assert len(files) > 100
    for path in files:
        content = path.read_bytes()
        damage(path)
        assert is_seen_to_be_damaged(copied_run), path
        path.write_bytes(content)
    assert run_status(copied_run, verify=True).state == "finished"


@DAMAGES
def test_what_is_damaged_is_computed_again(damage, copied_run, small_config, client):
    reference, files = bytes_of(copied_run), files_of(copied_run)
    for first in range(10):
        for path in files[first::10]:
            damage(path)
        run_here(small_config, copied_run, client, until="report")
        assert run_status(copied_run, verify=True).state == "finished"
        assert_same_bytes(copied_run, reference)


def test_the_configuration_or_the_data_are_changed(begin, resume, directory, dask_processes, faulty_config):
    dask_processes.start_worker()
    assert finish(begin())[0] == 0
    before = bytes_of(directory)
    code, errors = resume("--set", "model.folds=3", "--set", "graph.family=star")
    assert code == 3
    assert "model.folds: was 4, is 3" in errors
    assert "graph.family: was 'complete', is 'star'" in errors
    content = json.loads((directory / "run.json").read_text())
    data = Path(content["config"]["data"]["features"])
    original = data.read_bytes()
    try:
        write_features(data, classes=12, rows=150, features=200, samples=120, seed=1)
        code, errors = resume()
    finally:
        data.write_bytes(original)
    assert code == 3
    assert "fingerprint of train samples" in errors
    assert "fingerprint of test samples" in errors
    assert bytes_of(directory) == before


@pytest.mark.parametrize("cluster", [("processes", 1), ("processes", 2), ("threads", 2)], ids=str)
def test_any_cluster_gives_the_same_bytes(cluster, faulty_config, directory, undisturbed):
    kind, workers = cluster
    options = ("--set", f"cluster.kind={kind}", "--workers", workers)
    code, errors = finish(pairloom_process("run", faulty_config, "--directory", directory, *options))
    assert code == 0, errors
    assert_same_bytes(directory, undisturbed)


def test_the_driver_and_a_worker_of_a_growing_run_are_killed(
    faulty_config, directory, client, dask_processes, tmp_path
):
    """After the first wave, and in the middle of one of the others."""
    settings = ("graph.family=star", "growth.wave=8", "growth.pairs=45", "growth.plateau=never")
    run_here(faulty_config, tmp_path / "undisturbed", client, *settings)
    options = [word for setting in settings for word in ("--set", setting)]
    scheduler = ("--scheduler-file", dask_processes.scheduler_file)
    worker = dask_processes.start_worker()
    driver = pairloom_process("run", faulty_config, "--directory", directory, *scheduler, *options)
    wait_until(lambda: Ledger(directory).read("growth", 1) is not None, "the judgement of the first wave")
    kill_and_reap(driver)
    grown = len(Plan.read(directory).waves)
    assert 2 <= grown < 6, "it was to be killed while it grew"
    resumed = pairloom_process("resume", directory, *scheduler)
    stop_in_mid_unit(directory, "machines", {worker.pid})
    kill_and_reap(worker)
    dask_processes.start_worker()
    code, errors = finish(resumed)
    assert code == 0, errors
    assert len(Plan.read(directory).shape.edges) == 45
    assert_same_bytes(directory, bytes_of(tmp_path / "undisturbed"))


def test_a_tile_is_run_twice_at_once(faulty_config, directory, client, undisturbed):
    plan = run_here(faulty_config, directory, client, until="whitening")
    tiles = dict(enumerate(plan.keys["machines"]))
    task = Task(str(directory), "machines", tiles, pairloom.__version__)
    twice = [threading.Thread(target=run_task, args=(task,)) for _ in range(2)]
    for thread in twice:
        thread.start()
    for thread in twice:
        thread.join()
    assert units_begun_again(directory, "machines") > 0, "they never met"
    run_here(faulty_config, directory, client)
    assert_same_bytes(directory, undisturbed)


def test_a_worker_has_another_version(begin, directory, dask_processes, tmp_path):
    other = tmp_path / "other" / "pairloom"
    other.mkdir(parents=True)
    here = Path(pairloom.__file__).parent
    for room in ("graphs", "pipeline", "cluster", "configs"):
        (other / room).symlink_to(here / room)
    (other / "__init__.py").write_text('__version__ = "9.9.9"\n')
    dask_processes.start_worker(env={**os.environ, "PYTHONPATH": str(other.parent)})
    driver = begin()
    code, errors = finish(driver)
    assert code == 3, errors
    assert "9.9.9" in errors
    assert pairloom.__version__ in errors
    assert not (directory / "ledger" / "machines").exists()
