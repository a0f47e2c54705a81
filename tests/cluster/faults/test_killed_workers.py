"""Workers are killed or leave: only their tasks are done again, and the bytes are the same."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from dask_processes import finish, kill_and_reap, local_workers, wait_until
from distributed import Client
from disturbed_runs import (
    assert_finished,
    assert_stopped_clean,
    starts_workers,
    stop_in_mid_unit,
    trains,
    units_begun_again,
)
from small_runs import (
    assert_same_bytes,
    bytes_of,
    run_here,
    times_begun,
    workers_at_work,
    write_config,
    write_regions,
)

from pairloom.pipeline.stages import STAGE_NAMES

pytestmark = pytest.mark.faults


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


def test_a_worker_is_killed_while_it_learns(start_driver, directory, dask_processes, client, tmp_path):
    settings = ("model.learn=coupled", "run.also_couple=[]")
    config = write_config(tmp_path / "learns.toml", write_regions(tmp_path / "regions.npz"))
    run_here(config, tmp_path / "whole", client, *settings)
    record = (tmp_path / "whole" / "learning" / "record.json").read_bytes()
    assert json.loads(record)["iterations"] > 0
    workers = {
        worker.pid: worker for worker in (dask_processes.start_worker(), dask_processes.start_worker())
    }
    options = [option for setting in settings for option in ("--set", setting)]
    scheduler = ("--scheduler-file", dask_processes.scheduler_file)
    driver = start_driver(directory, *scheduler, *options, config=config)
    pid, unit = stop_in_mid_unit(directory, "learning", set(workers))
    kill_and_reap(workers[pid])
    code, errors = finish(driver)
    assert_finished(code, errors, directory, bytes_of(tmp_path / "whole"))
    assert (directory / "learning" / "record.json").read_bytes() == record
    assert times_begun(directory, "learning")[unit] == 2
    assert set(times_begun(directory, "machines").values()) == {1}


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
