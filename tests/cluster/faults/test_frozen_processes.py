"""Workers and drivers stop for a while, are given up, and wake."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from dask_processes import DaskProcesses, finish, pairloom_process, wait_until
from disturbed_runs import assert_finished, assert_stopped_clean, stop_in_mid_unit, trains
from small_runs import times_begun

pytestmark = pytest.mark.faults

# A worker sends no heartbeat while it imports, so it does that before it counts as one. A connection has 11 s at least.
IMPATIENT = {
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s",
    "DASK_DISTRIBUTED__WORKER__PRELOAD": "['pairloom.cluster.drive.tasks']",
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
    elsewhere = {"host": "another.invalid", "boot": "another boot"}
    record.write_text(json.dumps({**json.loads(record.read_text()), **elsewhere}))
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
