"""The tasks of workers: some units of one stage, each recorded in the ledger when it is finished."""

from __future__ import annotations

import functools
import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from distributed import Reschedule, get_worker
from distributed.core import Status

import pairloom
from pairloom.cluster.freed_memory import keep_freed_memory
from pairloom.cluster.ledger import Entry, Ledger
from pairloom.cluster.plan import Plan
from pairloom.cluster.stages import stage_named
from pairloom.cluster.task_warnings import warnings_written
from pairloom.pipeline.blas import one_blas_thread

__all__ = ["Receipt", "StaleTask", "Task", "VersionMismatch", "log_line", "run_task", "run_unit"]


class Task(NamedTuple):
    """Some units of one stage of the run in ``directory``, with their keys in the plan of the driver.

    ``version`` is the driver's version of pairloom.
    """

    directory: str
    stage: str
    units: dict[int, str]
    version: str


class Receipt(NamedTuple):
    """The answer of a worker for one unit. It never contains an array."""

    stage: str
    unit: int
    seconds: float
    computed: bool


class StaleTask(RuntimeError):
    """The driver of a task had another plan than the run directory has now."""


class VersionMismatch(RuntimeError):
    """A worker has another version of pairloom than the driver."""


def run_task(task: Task) -> list[Receipt]:
    """Do the unfinished units of a task."""
    if task.version != pairloom.__version__:
        raise VersionMismatch(
            f"Workers must have the driver's version of pairloom, {task.version}, got {pairloom.__version__} on "
            f"{_here()}. Install the same version on both."
        )
    keep_freed_memory()
    receipts = []
    for unit, key in task.units.items():
        _give_up_if_unwanted()
        receipts.append(_run_wanted(task, unit, key))
    return receipts


def _give_up_if_unwanted() -> None:
    """Give up a task whose worker is leaving, or that was cancelled.

    Dask interrupts neither. Somebody else, another worker or the driver that resumes the run, begins its units again.
    """
    try:
        worker = get_worker()
    except ValueError:  # this is no worker
        return
    if worker.status in (Status.closing_gracefully, Status.closing, Status.closed):
        raise Reschedule
    state = worker.state.tasks.get(worker.get_current_task())
    if state is None or state.state == "cancelled":
        raise CancelledError("The driver of this task no longer waits for it.")


def _run_wanted(task: Task, unit: int, key: str) -> Receipt:
    """Do a unit of a task. Raise if its driver is gone and the run directory has another plan."""
    directory = Path(task.directory)
    plan = _plan(directory)
    if plan.keys[task.stage][unit : unit + 1] != (key,):
        raise StaleTask(f"{directory}: dropped a task of an older plan.")
    stage = stage_named(task.stage)
    return run_unit(directory, task.stage, unit, key, lambda: stage.work(directory, plan, unit, None))


def run_unit(directory: Path, stage: str, unit: int, key: str, work: Callable[[], list[Path]]) -> Receipt:
    """Do one unit and record it, unless it is in the ledger. The entry is written last."""
    ledger = Ledger(directory)
    done = ledger.read(stage, unit)
    if done is not None and done.key == key:
        return Receipt(stage, unit, done.seconds, computed=False)
    log_line(directory, f"begin {stage} {unit}")
    started = time.perf_counter()
    with one_blas_thread(), warnings_written(lambda told: log_line(directory, f"warning {told}")):
        files = ledger.seal_files(work())
    seconds = time.perf_counter() - started
    ledger.record(Entry(stage, unit, key, files, seconds, _here()))
    return Receipt(stage, unit, seconds, computed=True)


def log_line(directory: Path, line: str) -> None:
    """Add a line to the log of the run, in a single append, so that lines of several processes do not mix."""
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    with (directory / "log.txt").open("ab", buffering=0) as log:
        log.write(f"{stamp} {_here()} {line}\n".encode())


def _plan(directory: Path) -> Plan:
    """The plan, read again only if the file has changed."""
    status = (directory / "run.json").stat()
    return _plan_of(directory, status.st_mtime_ns, status.st_ino)


@functools.lru_cache(maxsize=4)
def _plan_of(directory: Path, modified: int, inode: int) -> Plan:
    return Plan.read(directory)


def _here() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
