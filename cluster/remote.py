"""The driver of a submitted run: a task on a worker, which outlives the shell that submitted it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from distributed import Future, fire_and_forget, worker_client

from pairloom.cluster.connect import check_workers
from pairloom.cluster.driver import adopt_plan, drive, prepare_run
from pairloom.cluster.lock import STALE_SECONDS, SUBMITTED, Locked, RunLock
from pairloom.cluster.plan import Plan
from pairloom.cluster.progress import Quiet
from pairloom.cluster.schedule import Stop
from pairloom.cluster.units import log_line
from pairloom.cluster.whole_run import ReadyRun, expect_run

__all__ = ["drive_on_worker", "submit_driver"]


def submit_driver(ready: ReadyRun) -> Future[str]:
    """Write the plan of a run, send its driver to a worker of the cluster, and return the driver's task."""
    directory = ready.directory
    with ready.connect() as client:
        directory.mkdir(parents=True, exist_ok=True)
        with RunLock(directory) as lock:
            adopt_plan(directory, ready.config, ready.fresh, update=ready.update)
            lock.end_as(SUBMITTED)
        # Every submission has its own key: for a known key, Dask would return the outcome of the driver before.
        driver = client.submit(drive_on_worker, str(directory), key=f"pairloom-driver-{time.time_ns()}")
        fire_and_forget(driver)
        return driver


def drive_on_worker(directory: str) -> str:
    """Drive the run whose plan is in ``directory``, and return its outcome.

    If this worker dies, Dask starts the task again on another worker, which resumes the run. It takes over the lock
    of the dead driver: immediately on the same host, on another host when the heartbeat has been missing long enough.
    """
    where, stop = Path(directory), Stop()
    with worker_client() as client, contextlib.ExitStack() as stack:
        lock = _lock_in_time(where, stop, stack)
        try:
            config = Plan.read(where).config
            check_workers(client, config.cluster.worker_timeout)
            fresh, data = prepare_run(config, where)
            plan = adopt_plan(where, config, fresh)
            expect_run(where, plan, data, Quiet())
            drive(where, plan, data, lambda: contextlib.nullcontext(client), stop, Quiet())
            outcome = "finished"
        except Exception as error:
            # Nobody waits for the result of this task. The outcome is in the record of the driver and in the log.
            outcome = f"{type(error).__name__}: {error}"
        lock.end_as(outcome)
        log_line(where, f"driver ended: {outcome}")
    return outcome


def _lock_in_time(directory: Path, stop: Stop, stack: contextlib.ExitStack) -> RunLock:
    deadline = time.monotonic() + 1.5 * STALE_SECONDS
    while True:
        try:
            return stack.enter_context(RunLock(directory, stop.request, submitted=True))
        except Locked:
            if time.monotonic() > deadline:
                raise
            time.sleep(2.0)
