"""The scheduler is killed: the driver says how to resume, and `resume` ends in the same bytes."""

from __future__ import annotations

import pytest
from dask_processes import finish, kill_and_reap, wait_until
from disturbed_runs import assert_finished, assert_stopped_clean, stop_in_mid_unit, units_begun_again
from small_runs import assert_same_bytes

from pairloom.pipeline.run.ledger import Ledger

pytestmark = pytest.mark.faults


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
