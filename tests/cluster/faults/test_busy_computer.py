"""Other processes keep the computer busy."""

from __future__ import annotations

import random
import subprocess
import time

import pytest
from dask_processes import busy_processes, finish, kill_and_reap, pairloom_process
from disturbed_runs import assert_finished

pytestmark = pytest.mark.faults


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
