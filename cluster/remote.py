"""The driver of a submitted run: a task on a worker, which outlives the shell that submitted it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from distributed import worker_client

from pairloom.cluster.connect import check_worker_versions
from pairloom.cluster.driver import adopt_plan, drive, prepare_run
from pairloom.cluster.lock import STALE_SECONDS, Locked, RunLock
from pairloom.cluster.plan import Plan
from pairloom.cluster.progress import Quiet
from pairloom.cluster.schedule import Stop
from pairloom.cluster.units import log_line

__all__ = ["drive_on_worker"]


def drive_on_worker(directory: str) -> str:
    """Drive the run whose plan is in ``directory``, and return its outcome.

    If this worker dies, Dask starts the task again on another worker, which resumes the run. It takes over the lock
    of the dead driver: immediately on the same host, on another host when the heartbeat has been missing long enough.
    """
    where, stop = Path(directory), Stop()
    with worker_client() as client, contextlib.ExitStack() as stack:
        lock = _lock_in_time(where, stop, stack)
        try:
            check_worker_versions(client)
            config = Plan.read(where).config
            fresh, data = prepare_run(config, where)
            plan = adopt_plan(where, config, fresh)
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
