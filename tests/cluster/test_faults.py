"""Faults, with real processes: what is left of a run after each, and that `resume` ends in the same bytes.

Run alone with ``pytest -m faults``.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from dask_processes import (
    DaskProcesses,
    busy_processes,
    finish,
    kill_and_reap,
    local_workers,
    pairloom_process,
    wait_until,
)
from distributed import Client
from small_runs import (
    assert_same_bytes,
    bytes_of,
    run_here,
    times_begun,
    workers_at_work,
    write_config,
    write_features,
)

import pairloom
from pairloom.cluster.cli import main
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
def start_driver(faulty_config):
    """Start a driver as a process, which does not outlive the test."""
    drivers: list[subprocess.Popen[str]] = []

    def start_driver(directory: Path, *options: object, **env: str) -> subprocess.Popen[str]:
        arguments = ("run", faulty_config, "--directory", directory, *options)
        drivers.append(pairloom_process(*arguments, env={**os.environ, **env}))
        return drivers[-1]

    yield start_driver
    for driver in drivers:
        kill_and_reap(driver)


@pytest.fixture
def begin(start_driver, directory, dask_processes):
    """Start a driver on the cluster of processes."""
    return lambda: start_driver(directory, "--scheduler-file", dask_processes.scheduler_file)


@pytest.fixture
def resume(directory, dask_processes):
    return lambda *arguments: finish(
        pairloom_process("resume", directory, "--scheduler-file", dask_processes.scheduler_file, *arguments)
    )


@pytest.fixture
def begin_here(start_driver, directory):
    """Start a driver that starts workers of its own."""
    return lambda workers, **env: start_driver(directory, "--workers", workers, **env)


@pytest.fixture
def resume_here(directory):
    return lambda: finish(pairloom_process("resume", directory, "--local", "--workers", 2))


def assert_stopped_clean(code: int, errors: str, expected: int, directory: Path) -> None:
    """One message, which says how to resume, and no traceback."""
    assert code == expected, errors
    assert "Traceback" not in errors, errors
    assert errors.count("Stopped") == 1, errors
    assert errors.rstrip().endswith(f"Resume with: pairloom resume {directory}"), errors


def assert_finished(code: int, errors: str, directory: Path, undisturbed: dict[str, bytes]) -> None:
    """The same bytes, every file as its checksum says, and no unit counted twice."""
    assert code == 0, errors
    assert_same_bytes(directory, undisturbed)
    assert run_status(directory, verify=True).state == "finished"
    assert all(int(done) <= int(total) for done, total in re.findall(r"^\w+: (\d+) of (\d+)$", errors, re.M))


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


def test_the_scheduler_is_killed_and_the_run_is_resumed_on_workers_of_its_own(
    begin, resume_here, directory, dask_processes, undisturbed
):
    dask_processes.start_worker()
    driver = begin()
    wait_until(lambda: Ledger(directory).read("machines", 0) is not None, "the first tile")
    kill_and_reap(dask_processes.scheduler)
    assert_stopped_clean(*finish(driver), 4, directory)
    code, errors = resume_here()
    assert_finished(code, errors, directory, undisturbed)


def test_the_scheduler_is_killed_while_a_driver_waits_for_workers(begin, directory, dask_processes):
    driver = begin()
    assert driver.stderr is not None
    assert any("no workers yet" in line for line in driver.stderr)
    kill_and_reap(dask_processes.scheduler)
    code, errors = finish(driver)
    assert code == 4, errors
    assert "Traceback" not in errors
    assert "Lost the connection to the Dask scheduler" in errors
    assert not directory.exists(), "nothing is written before there is a cluster"


def test_one_of_the_workers_that_a_driver_started_is_killed_and_the_others_go_on(
    begin_here, directory, undisturbed
):
    driver = begin_here(3)
    workers = wait_until(lambda: workers_at_work(directory, "machines"), "a worker at work")
    pid, unit = stop_in_mid_unit(directory, "machines", workers)
    os.kill(pid, signal.SIGKILL)
    code, errors = finish(driver)
    assert_finished(code, errors, directory, undisturbed)
    assert times_begun(directory, "machines")[unit] == 2
    assert units_begun_again(directory, "machines") == 1
    assert len(workers_at_work(directory, "machines")) >= 3


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


def starts_workers(driver: subprocess.Popen[str], directory: Path) -> bool:
    return len(local_workers(driver)) == 2


def trains(driver: subprocess.Popen[str], directory: Path) -> bool:
    return Ledger(directory).read("machines", 0) is not None


@pytest.mark.parametrize("moment", [starts_workers, trains])
def test_a_driver_with_workers_of_its_own_is_terminated(
    moment, begin_here, resume_here, directory, undisturbed
):
    driver = begin_here(2)
    wait_until(lambda: moment(driver, directory), moment.__name__)
    workers = local_workers(driver)
    driver.terminate()
    assert_stopped_clean(*finish(driver), 143, directory)
    wait_until(lambda: not any(worker.is_running() for worker in workers), "the end of the workers")
    code, errors = resume_here()
    assert_finished(code, errors, directory, undisturbed)


def test_the_driver_is_killed_while_its_workers_start(begin_here, resume_here, directory, undisturbed):
    driver = begin_here(2)
    workers = wait_until(lambda: local_workers(driver), "a starting worker")
    kill_and_reap(driver)
    wait_until(lambda: not any(worker.is_running() for worker in workers), "the end of the workers")
    assert run_status(directory).state == "unfinished"
    code, errors = resume_here()
    assert_finished(code, errors, directory, undisturbed)


@pytest.mark.parametrize("number", [1, 2])
def test_workers_that_die_while_they_start_end_the_run_with_one_message(
    number, begin_here, resume_here, directory, undisturbed
):
    driver = begin_here(2)
    workers = wait_until(lambda: starts_workers(driver, directory) and local_workers(driver), "two workers")
    for worker in workers[:number]:
        worker.kill()
    killed_at = time.monotonic()
    code, errors = finish(driver)
    assert_stopped_clean(code, errors, 4, directory)
    assert "died while it started" in errors
    assert time.monotonic() - killed_at < 60
    code, errors = resume_here()
    assert_finished(code, errors, directory, undisturbed)


# A worker sends no heartbeat while it imports, so it does that before it counts as one. A connection has 11 s at least.
IMPATIENT = {
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s",
    "DASK_DISTRIBUTED__WORKER__PRELOAD": "['pairloom.cluster.units']",
}
FROZEN_SECONDS = 12.0


@pytest.fixture
def impatient_processes(tmp_path):
    processes = DaskProcesses(tmp_path, env=IMPATIENT)
    yield processes
    processes.close()


@pytest.fixture
def begin_impatiently(start_driver, directory, impatient_processes):
    scheduler = ("--scheduler-file", impatient_processes.scheduler_file)
    return lambda: start_driver(directory, *scheduler, **IMPATIENT)


def test_a_worker_is_frozen_given_up_and_wakes_while_another_does_its_work(
    begin_impatiently, directory, impatient_processes, undisturbed
):
    workers = {impatient_processes.start_worker().pid for _ in range(2)}
    driver = begin_impatiently()
    pid, unit = stop_in_mid_unit(directory, "machines", workers)
    wait_until(lambda: times_begun(directory, "machines")[unit] == 2, "another worker at that unit")
    os.kill(pid, signal.SIGCONT)
    code, errors = finish(driver)
    assert_finished(code, errors, directory, undisturbed)


def test_a_worker_is_frozen_and_wakes_after_the_end_of_the_run(
    begin_impatiently, directory, impatient_processes, undisturbed
):
    workers = {worker.pid: worker for worker in (impatient_processes.start_worker() for _ in range(2))}
    driver = begin_impatiently()
    pid, unit = stop_in_mid_unit(directory, "machines", set(workers))
    code, errors = finish(driver)
    assert_finished(code, errors, directory, undisturbed)
    entry = directory / "ledger" / "machines" / f"{unit:06d}.json"
    written = entry.stat().st_mtime_ns
    os.kill(pid, signal.SIGCONT)
    wait_until(
        lambda: workers[pid].poll() is not None or entry.stat().st_mtime_ns != written,
        "the end of the frozen worker or of its unit",
    )
    assert_finished(code, errors, directory, undisturbed)


def test_the_driver_is_frozen_and_no_other_takes_its_place(
    begin_impatiently, directory, impatient_processes, undisturbed
):
    for _ in range(2):
        impatient_processes.start_worker()
    driver = begin_impatiently()
    wait_until(lambda: trains(driver, directory), "the first tile")
    os.kill(driver.pid, signal.SIGSTOP)
    frozen_at = time.monotonic()
    code, errors = finish(pairloom_process("resume", directory, "--local"))
    assert code == 3, errors
    assert f"pid {driver.pid}" in errors
    wait_until(lambda: time.monotonic() > frozen_at + FROZEN_SECONDS, "the timeouts of Dask")
    os.kill(driver.pid, signal.SIGCONT)
    code, errors = finish(driver)
    assert_finished(code, errors, directory, undisturbed)


def test_a_driver_that_was_frozen_and_replaced_stops_when_it_wakes(
    begin_impatiently, directory, impatient_processes, undisturbed
):
    worker = impatient_processes.start_worker()
    driver = begin_impatiently()
    stop_in_mid_unit(directory, "machines", {worker.pid})
    os.kill(driver.pid, signal.SIGSTOP)
    # Its process is not seen from another host, where it counts as dead after a minute without a heartbeat.
    record = directory / "drivers" / "0001.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "host": "another.invalid"}))
    os.utime(record, (0, 0))
    second = pairloom_process("resume", directory, "--scheduler-file", impatient_processes.scheduler_file)
    wait_until((directory / "drivers" / "0002.json").exists, "the second driver")
    os.kill(driver.pid, signal.SIGCONT)
    code, errors = finish(driver)
    assert_stopped_clean(code, errors, 4, directory)
    assert "Another driver took over" in errors
    # The second driver waited for the versions of the frozen worker, and the impatient scheduler may have given it up.
    os.kill(worker.pid, signal.SIGCONT)
    impatient_processes.start_worker()
    code, errors = finish(second)
    assert_finished(code, errors, directory, undisturbed)


def test_a_driver_with_workers_of_its_own_is_frozen(begin_here, directory, undisturbed):
    driver = begin_here(2, **IMPATIENT)
    wait_until(lambda: trains(driver, directory), "the first tile")
    os.kill(driver.pid, signal.SIGSTOP)
    frozen_at = time.monotonic()
    wait_until(lambda: time.monotonic() > frozen_at + FROZEN_SECONDS, "the timeouts of Dask")
    os.kill(driver.pid, signal.SIGCONT)
    code, errors = finish(driver)
    assert_finished(code, errors, directory, undisturbed)


def test_drivers_and_workers_are_killed_twenty_times_at_random_on_a_busy_computer(
    start_driver, dask_processes, tmp_path, undisturbed
):
    """Whenever a run is finished all the same, the next one begins."""
    chance, finished = random.Random(0), 0
    workers = [dask_processes.start_worker(), dask_processes.start_worker()]

    def drive() -> subprocess.Popen[str]:
        return start_driver(tmp_path / f"run {finished}", "--scheduler-file", dask_processes.scheduler_file)

    with busy_processes(1):
        driver = drive()
        for kill in range(20):
            time.sleep(chance.uniform(0.0, 6.0))
            if kill == 0 or chance.random() < 0.5:
                kill_and_reap(driver)
                driver = drive()
            else:
                kill_and_reap(workers.pop(chance.randrange(2)))
                workers.append(dask_processes.start_worker())
            if driver.poll() is not None:
                assert_finished(*finish(driver), tmp_path / f"run {finished}", undisturbed)
                finished += 1
                driver = drive()
        assert_finished(*finish(driver), tmp_path / f"run {finished}", undisturbed)


def test_a_run_that_printed_its_result_ends_within_seconds_on_a_busy_computer(small_config, directory):
    with busy_processes(2):
        driver = pairloom_process("run", small_config, "--directory", directory, "--workers", 2)
        assert driver.stdout is not None
        assert any(line.startswith("report: ") for line in driver.stdout)
        assert driver.wait(timeout=15) == 0


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
    # A newline at the end says nothing.
    path.write_bytes(path.read_bytes().rstrip(b"\n")[:-1])


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


def swap(first: Path, second: Path) -> None:
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def swap_weights(directory: Path, other: Path) -> set[str]:
    swapped = {f"machines.zarr/coef/c/{tile}/0/0" for tile in (0, 1)}
    swap(*(directory / path for path in swapped))
    return swapped


def swap_logits(directory: Path, other: Path) -> set[str]:
    swapped = {f"logits.zarr/tensor/c/0/0/{slab}" for slab in (0, 1)}
    swap(*(directory / path for path in swapped))
    return swapped


def take_whitening_of_another_run(directory: Path, other: Path) -> set[str]:
    taken = {"features.zarr/factor/c/0/0/0", "features.zarr/mean/c/0/0"}
    for path in taken:
        shutil.copyfile(other / path, directory / path)
    return taken


def change_byte_order(directory: Path, other: Path) -> set[str]:
    metadata = directory / "machines.zarr" / "parameters" / "zarr.json"
    content = metadata.read_text()
    assert '"little"' in content
    metadata.write_text(content.replace('"little"', '"big"'))
    return {"machines.zarr/parameters/zarr.json"}


@pytest.fixture(scope="session")
def other_run(client, tmp_path_factory) -> Path:
    """A run like `small_run`, of other samples."""
    folder = tmp_path_factory.mktemp("other")
    features = write_features(folder / "other.npz", classes=5, rows=20, features=6, samples=40, seed=1)
    config = write_config(folder / "other.toml", features, edges_per_tile=3, samples_per_slab=16)
    run_here(config, folder / "run", client, until="whitening")
    return folder / "run"


@pytest.mark.parametrize(
    "exchange", [swap_weights, swap_logits, take_whitening_of_another_run, change_byte_order]
)
def test_sound_files_in_the_wrong_place_are_named_refused_and_repaired(
    exchange, copied_run, other_run, small_config, client, tmp_path
):
    """Every file is one that a run has written, or valid metadata: only the checksums know better."""

    def command(*arguments: object) -> tuple[int, str]:
        result = CliRunner().invoke(main, [str(word) for word in arguments])
        return result.exit_code, result.output

    def predict(out: Path) -> tuple[int, str]:
        return command("predict", copied_run, "--features", small_config.with_suffix(".npz"), "--out", out)

    before = bytes_of(copied_run)
    assert predict(tmp_path / "before.csv")[0] == 0
    exchanged = exchange(copied_run, other_run)
    _, status = command("status", copied_run, "--verify")
    assert ": unfinished" in status
    assert exchanged == {line.removeprefix("damaged: ") for line in status.splitlines() if "damaged" in line}
    code, output = predict(tmp_path / "during.csv")
    if exchange is swap_logits:  # those of the test samples: a prediction does not read them
        assert code == 0
        assert (tmp_path / "during.csv").read_bytes() == (tmp_path / "before.csv").read_bytes()
    else:
        assert code == 1
        assert any(path in output for path in exchanged)
        assert not (tmp_path / "during.csv").exists()
    code, output = command("resume", copied_run, "--set", "cluster.kind=threads")
    assert code == 0, output
    assert_same_bytes(copied_run, before)
    assert run_status(copied_run, verify=True).state == "finished"
    assert predict(tmp_path / "after.csv")[0] == 0
    assert (tmp_path / "after.csv").read_bytes() == (tmp_path / "before.csv").read_bytes()


def test_the_configuration_or_the_data_are_changed(begin, resume, directory, dask_processes, faulty_config):
    dask_processes.start_worker()
    assert finish(begin())[0] == 0
    before = bytes_of(directory)
    code, errors = resume("--set", "model.folds=3", "--set", "graph.family=star")
    assert code == 3
    assert "model.folds: was 'auto', is 3" in errors
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


def another_pairloom(folder: Path) -> Path:
    """A pairloom with another version, which Python finds first."""
    other = folder / "pairloom"
    other.mkdir(parents=True)
    here = Path(pairloom.__file__).parent
    for room in ("graphs", "pipeline", "cluster", "configs"):
        (other / room).symlink_to(here / room)
    (other / "__init__.py").write_text('__version__ = "9.9.9"\n')
    return folder


def another_dask(folder: Path) -> Path:
    """The metadata of an older Dask, which Python finds first."""
    (folder / "distributed-2020.1.0.dist-info").mkdir(parents=True)
    metadata = folder / "distributed-2020.1.0.dist-info" / "METADATA"
    metadata.write_text("Metadata-Version: 2.1\nName: distributed\nVersion: 2020.1.0\n")
    return folder


@pytest.mark.parametrize(("other", "version"), [(another_pairloom, "9.9.9"), (another_dask, "2020.1.0")])
def test_a_worker_has_another_version(other, version, begin, directory, dask_processes, tmp_path):
    dask_processes.start_worker(env={**os.environ, "PYTHONPATH": str(other(tmp_path / "other"))})
    driver = begin()
    code, errors = finish(driver)
    assert code == 3, errors
    assert version in errors
    assert "Install the same version on both" in errors
    assert not directory.exists()


def test_a_cluster_without_workers_is_given_up_before_anything_is_written(
    start_driver, directory, dask_processes
):
    scheduler = ("--scheduler-file", dask_processes.scheduler_file)
    code, errors = finish(start_driver(directory, *scheduler, "--set", "cluster.worker_timeout=1"))
    assert code == 4, errors
    assert "none came within 1 s" in errors
    assert "cluster.worker_timeout" in errors
    assert not directory.exists()


def test_workers_come_go_and_are_killed_and_only_their_tasks_are_done_again(
    begin, directory, dask_processes, undisturbed
):
    """One worker, then three, one of them killed, then one again: two are retired as an adaptive cluster does it."""
    first = dask_processes.start_worker()
    driver = begin()
    wait_until(lambda: trains(driver, directory), "the first tile")
    os.kill(first.pid, signal.SIGSTOP)  # it would have done it all before the others have started
    others = [dask_processes.start_worker() for _ in range(2)]
    with Client(scheduler_file=str(dask_processes.scheduler_file), set_as_default=False) as client:
        client.wait_for_workers(3)
    os.kill(first.pid, signal.SIGCONT)
    three = {first.pid, *(worker.pid for worker in others)}
    wait_until(lambda: workers_at_work(directory, "machines") >= three, "work for all three")
    pid, unit = stop_in_mid_unit(directory, "machines", {worker.pid for worker in others})
    kill_and_reap(next(worker for worker in others if worker.pid == pid))
    finished = {path.name for path in (directory / "ledger" / "machines").iterdir()}
    with Client(scheduler_file=str(dask_processes.scheduler_file), set_as_default=False) as client:
        addresses = {pid: address for address, pid in client.run(os.getpid).items()}
        client.retire_workers([addresses[first.pid]], close_workers=True)
    code, errors = finish(driver)
    assert_finished(code, errors, directory, undisturbed)
    again = {unit: times - 1 for unit, times in times_begun(directory, "machines").items() if times > 1}
    assert again.pop(unit) == 1, "the unit of the killed worker"
    assert sum(again.values()) <= 1, "the unit that the retired worker was at"
    assert not {f"{unit:06d}.json" for unit in again} & finished
    assert sum(units_begun_again(directory, stage) for stage in STAGE_NAMES) <= 2
