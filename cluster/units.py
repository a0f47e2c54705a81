"""What a worker does with a task: some units of one stage, each entered into the ledger when it is done."""

from __future__ import annotations

import functools
import os
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from threadpoolctl import threadpool_limits

import pairloom
from pairloom.cluster.ledger import Entry, Ledger
from pairloom.cluster.plan import Plan
from pairloom.cluster.stages import stage_named
from pairloom.cluster.task_warnings import warnings_written

__all__ = ["Receipt", "StaleTask", "Task", "VersionMismatch", "log_line", "run_task", "run_unit"]


class Task(NamedTuple):
    """Some units of one stage of the run in ``directory``, each with its key in the driver's plan.

    ``version`` is the driver's.
    """

    directory: str
    stage: str
    units: dict[int, str]
    version: str


class Receipt(NamedTuple):
    """What a worker sends back for a unit: a few words, never an array."""

    stage: str
    unit: int
    seconds: float
    computed: bool


class StaleTask(RuntimeError):
    """A task of a driver whose plan is no longer the plan of the run directory."""


class VersionMismatch(RuntimeError):
    """A worker that has another version of pairloom than the driver."""


def run_task(task: Task) -> list[Receipt]:
    """Do the units of a task that are not done yet."""
    if task.version != pairloom.__version__:
        raise VersionMismatch(
            f"the driver has pairloom {task.version}, the worker on {_here()} has {pairloom.__version__}"
        )
    return [_run_wanted(task, unit, key) for unit, key in task.units.items()]


def _run_wanted(task: Task, unit: int, key: str) -> Receipt:
    """Do a unit of a task, unless its driver is gone and the run directory has been given another plan."""
    directory = Path(task.directory)
    plan = _plan(directory)
    if plan.keys[task.stage][unit : unit + 1] != (key,):
        raise StaleTask(f"{directory}: a task of an older plan was dropped")
    stage = stage_named(task.stage)
    return run_unit(directory, task.stage, unit, key, lambda: stage.work(directory, plan, unit, None))


def run_unit(directory: Path, stage: str, unit: int, key: str, work: Callable[[], list[Path]]) -> Receipt:
    """Do one unit, unless the ledger has it, and enter it. The entry is the last thing that is written."""
    ledger = Ledger(directory)
    done = ledger.read(stage, unit)
    if done is not None and done.key == key:
        return Receipt(stage, unit, done.seconds, computed=False)
    _one_blas_thread()
    log_line(directory, f"begin {stage} {unit}")
    started = time.perf_counter()
    with warnings_written(functools.partial(log_line, directory)):
        files = ledger.seal_files(work())
    seconds = time.perf_counter() - started
    ledger.record(Entry(stage, unit, key, files, seconds, _here()))
    return Receipt(stage, unit, seconds, computed=True)


def log_line(directory: Path, line: str) -> None:
    """Add a line to the log of the run. One write in append mode: lines of several processes do not mix."""
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    with (directory / "log.txt").open("ab", buffering=0) as log:
        log.write(f"{stamp} {_here()} {line}\n".encode())


def _plan(directory: Path) -> Plan:
    """The plan, read again only when the file is another one."""
    status = (directory / "run.json").stat()
    return _plan_of(directory, status.st_mtime_ns, status.st_ino)


@functools.lru_cache(maxsize=4)
def _plan_of(directory: Path, modified: int, inode: int) -> Plan:
    return Plan.read(directory)


@functools.cache
def _one_blas_thread() -> threadpool_limits:
    """Give BLAS one thread, for the rest of this process: tasks are what runs in parallel.

    The number of threads decides how a product is split and so the last bits of a sum. It is never set back,
    as another task may be in the middle of one.
    """
    return threadpool_limits(1)


def _here() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
