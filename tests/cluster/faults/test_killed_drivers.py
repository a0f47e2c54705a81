"""The driver is killed or terminated: `resume` ends in the same bytes."""

from __future__ import annotations

import os
import signal

import pytest
from dask_processes import finish, kill_and_reap, local_workers, pairloom_process, wait_until
from disturbed_runs import (
    assert_finished,
    assert_stopped_clean,
    starts_workers,
    stop_in_mid_unit,
    trains,
    units_begun_again,
)
from small_runs import assert_same_bytes, bytes_of, run_here

from pairloom.cluster.watch.status import run_status
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.stages.run_file import read_run

pytestmark = pytest.mark.faults


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


def test_a_submitted_run_that_was_cancelled_after_its_worker_was_killed_stays_cancelled(
    faulty_config, directory, dask_processes, resume, undisturbed
):
    """The scheduler starts the driver again on the next worker."""
    scheduler = ("--scheduler-file", dask_processes.scheduler_file)
    worker = dask_processes.start_worker(threads=2)
    submitted = pairloom_process("submit", faulty_config, "--directory", directory, *scheduler)
    assert finish(submitted)[0] == 0
    stop_in_mid_unit(directory, "machines", {worker.pid})
    kill_and_reap(worker)
    cancel = pairloom_process("cancel", directory)
    said, _ = cancel.communicate(timeout=60)
    assert cancel.returncode == 0
    assert "Cancelled: no driver is at work" in said
    begun = units_begun(directory)
    dask_processes.start_worker(threads=2)
    wait_until(lambda: "driver did not begin" in (directory / "log.txt").read_text(), "the driver again")
    assert run_status(directory).state == "unfinished"
    assert units_begun(directory) == begun
    code, errors = resume()
    assert code == 0, errors
    assert_same_bytes(directory, undisturbed)


def units_begun(directory):
    return (directory / "log.txt").read_text().count(" begin ")


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
    grown = len(read_run(directory).waves)
    assert 2 <= grown < 6, "it was to be killed while it grew"
    resumed = pairloom_process("resume", directory, *scheduler)
    stop_in_mid_unit(directory, "machines", {worker.pid})
    kill_and_reap(worker)
    dask_processes.start_worker()
    code, errors = finish(resumed)
    assert code == 0, errors
    assert len(read_run(directory).shape.edges) == 45
    assert_same_bytes(directory, bytes_of(tmp_path / "undisturbed"))
