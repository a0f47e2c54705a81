"""The tasks of workers: some units of one stage, each recorded in the ledger when it is finished.

Their warnings go to the log of the run, because workers have no terminal or share it with a progress view.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, NamedTuple

from distributed import Reschedule, get_worker
from distributed.core import Status

import pairloom
from pairloom.pipeline.accelerate import Compilation, compilations_reported
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.run.ledger import Entry, Ledger
from pairloom.pipeline.run.run import Run, Stage
from pairloom.pipeline.run.run_log import log_line, this_process
from pairloom.pipeline.run.source_rows import source_problem
from pairloom.pipeline.stages.run_file import read_run
from pairloom.pipeline.storage.folder import Folder, Version, fenced
from pairloom.pipeline.storage.location import Location, location_of
from pairloom.pipeline.storage.object_store import requests
from pairloom.pipeline.storage.unit_memory import remembering
from pairloom.pipeline.threads import one_blas_thread

__all__ = [
    "COMPILATIONS",
    "DirectoryUnseen",
    "Receipt",
    "StaleTask",
    "Task",
    "VersionMismatch",
    "check_directory_seen",
    "keep_freed_memory",
    "problem_with_source",
    "run_task",
    "run_unit",
    "warnings_kept",
    "warnings_written",
]


#: Topic of Dask's events under which workers report the kernels that they compile.
COMPILATIONS = "pairloom-compilations"


class Task(NamedTuple):
    """Some units of one stage of the run in ``directory``, with their keys in the plan of the driver.

    ``version`` is the driver's version of pairloom.
    """

    directory: str
    stage: str
    units: dict[int, str]
    version: str


class Receipt(NamedTuple):
    """The answer of a worker for one unit. It never contains an array.

    ``requests`` counts those that ``process`` had sent to object stores before the unit, and after it.
    """

    stage: str
    unit: int
    seconds: float
    computed: bool
    process: str = ""
    requests: tuple[int, int] = (0, 0)


class StaleTask(RuntimeError):
    """The task belongs to another plan than the run directory has now."""


class VersionMismatch(RuntimeError):
    """A worker has another version of pairloom than the driver."""


class DirectoryUnseen(RuntimeError):
    """A worker does not see the run directory of the driver under its path."""


def check_directory_seen(directory: Location) -> None:
    """Raise unless this process sees the plan of a run. A worker must not create a directory that nobody else sees."""
    if not Folder(directory).exists("run.json"):
        raise _unseen(directory)


def _unseen(directory: Location) -> DirectoryUnseen:
    return DirectoryUnseen(
        f"The run directory must have the same path on all workers, got {directory}, where {this_process()} sees "
        "no run.json. Choose a --directory that they share."
    )


def run_task(task: Task) -> list[Receipt]:
    """Do the unfinished units of a task."""
    if task.version != pairloom.__version__:
        raise VersionMismatch(
            f"Workers must have the driver's version of pairloom, {task.version}, got {pairloom.__version__} on "
            f"{this_process()}. Install the same version on both."
        )
    keep_freed_memory()
    receipts = []
    with compilations_reported(_report_compilation):
        for unit, key in task.units.items():
            _give_up_if_unwanted()
            receipts.append(_run_wanted(task, unit, key))
    return receipts


def _report_compilation(compilation: Compilation) -> None:
    """Tell the driver, for its progress display, that this worker compiles a kernel."""
    with contextlib.suppress(ValueError):  # this process is not a worker
        get_worker().log_event(COMPILATIONS, tuple(compilation))


async def problem_with_source(directory: str) -> str | None:
    """Why this worker reads other rows of a source than the driver, or none; None if it does. Others are served too."""

    def look() -> str | None:
        with remembering(), one_blas_thread():
            return source_problem(_run_in(location_of(directory, "directory")))

    return await asyncio.to_thread(look)


def _give_up_if_unwanted() -> None:
    """Give up a task that was cancelled, or whose worker is leaving.

    Dask interrupts neither. Another worker, or the driver that resumes the run, begins its units again.
    """
    try:
        worker = get_worker()
    except ValueError:  # this process is not a worker
        return
    if worker.status in (Status.closing_gracefully, Status.closing, Status.closed):
        raise Reschedule
    state = worker.state.tasks.get(worker.get_current_task())
    if state is None or state.state == "cancelled":
        raise CancelledError("The driver of this task no longer waits for it.")


def _run_wanted(task: Task, unit: int, key: str) -> Receipt:
    """Do a unit of a task. Raise if its driver is gone and the directory holds another plan."""
    run = _planned(location_of(task.directory, "directory"), task.stage, unit, key)
    return run_unit(run, run.stage(task.stage), unit)


def _planned(directory: Location, stage: str, unit: int, key: str) -> Run:
    """The run in a directory, if its plan has this unit with this key."""
    run = _run_in(directory)
    if run.keys[stage][unit : unit + 1] != (key,):
        raise StaleTask(f"{directory}: dropped a task of an older plan.")
    return run


def run_unit(run: Run, stage: Stage, unit: int, data: OpenFeatures | None = None) -> Receipt:
    """Do one unit and record it, unless it is in the ledger. The entry is written last.

    Nothing is written once the directory has a plan without this unit, because another driver has taken over with other
    settings. Under the same plan, two processes that do a unit write the same bytes.
    """
    directory, ledger, key = run.directory, Ledger(run.directory), run.keys[stage.name][unit]
    before = requests.total()
    done = ledger.read(stage.name, unit)
    if done is not None and done.key == key:
        return Receipt(stage.name, unit, done.seconds, computed=False)
    log_line(directory, f"begin {stage.name} {unit}")
    started = time.perf_counter()
    with fenced(functools.partial(_planned, directory, stage.name, unit, key)), remembering():
        with (
            one_blas_thread(),
            warnings_written(lambda line: log_line(directory, f"warning {line}")),
            compilations_reported(CompilationLog(directory)),
        ):
            files = ledger.seal_files(stage.work(run, unit, data))
        seconds = time.perf_counter() - started
        ledger.record(Entry(stage.name, unit, key, files, seconds, this_process()))
    return Receipt(stage.name, unit, seconds, True, this_process(), (before, requests.total()))


@dataclass(frozen=True)
class CompilationLog:
    """Writes to the log of a run when a worker starts to compile or wait for a kernel, and how long compiling took."""

    directory: Location

    def __call__(self, compilation: Compilation) -> None:
        state, kernel, seconds, _ = compilation
        if state == "compiled":
            log_line(self.directory, f"compiled {kernel} in {seconds:.1f} s")
        elif seconds == 0:
            log_line(self.directory, f"{'waiting for' if state == 'waiting' else state} {kernel}")


def _run_in(directory: Location) -> Run:
    """The run in a directory, read again only if run.json has changed."""
    try:
        version = Folder(directory).version("run.json")
    except OSError:
        raise _unseen(directory) from None
    return _stored_run(directory, version)


@functools.lru_cache(maxsize=4)
def _stored_run(directory: Location, version: Version) -> Run:
    return read_run(directory)


#: Pieces of memory below the first size, in bytes, are reused; freed memory up to the second is kept.
_LARGEST_PIECE, _KEPT = 2**25, 2**27
# Names of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


@functools.cache
def keep_freed_memory() -> bool:
    """Make glibc keep freed memory, if Dask told it not to. Return whether it does; otherwise nothing is changed."""
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, or Windows
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_PIECE) and mallopt(_M_TRIM_THRESHOLD, _KEPT))


Write = Callable[[str], None]

_lock = threading.Lock()
_of_thread = threading.local()
_tasks = 0
_shown_before: Callable[..., Any] = warnings.showwarning


@contextlib.contextmanager
def warnings_written(write: Write) -> Iterator[None]:
    """Pass the warnings of this thread to ``write``. Those of other threads are shown as before.

    `warnings.catch_warnings` does not work here: it is shared by all threads, which leave it in any order.
    """
    with _heard(write, shown=False):
        yield


@contextlib.contextmanager
def warnings_kept() -> Iterator[list[str]]:
    """The warnings of this thread, in the order in which they are shown."""
    kept: list[str] = []
    with warnings.catch_warnings():
        pass  # resets the record of shown warnings, so that a second plan in this process warns again
    with _heard(kept.append, shown=True):
        yield kept


@contextlib.contextmanager
def _heard(write: Write, *, shown: bool) -> Iterator[None]:
    _begin()
    _of_thread.write, _of_thread.shown = write, shown
    try:
        yield
    finally:
        _of_thread.write = None
        _end()


def _begin() -> None:
    global _tasks, _shown_before
    with _lock:
        if _tasks == 0:
            _shown_before, warnings.showwarning = warnings.showwarning, _show
        _tasks += 1


def _end() -> None:
    global _tasks
    with _lock:
        _tasks -= 1
        if _tasks == 0 and warnings.showwarning is _show:
            warnings.showwarning = _shown_before


def _show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    write: Write | None = getattr(_of_thread, "write", None)
    if write is not None:
        write(f"{category.__name__}: {message}")
    if write is None or _of_thread.shown:
        _shown_before(message, category, *where, **more)
