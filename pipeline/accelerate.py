"""Compilation of kernels: on the first call, once per machine, and reported. All kernels are compiled through here.

numba keeps compiled kernels in a folder, one file per kernel and types of its arguments. This module adds a lock per
kernel, so that one of several processes compiles it and the others load it, and reports to listeners or on standard
error. A process compiles one kernel at a time, so the first fit starts a second process, which compiles the kernels of
later steps on another core.
"""

from __future__ import annotations

import atexit
import contextlib
import inspect
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from numba import config, njit
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

if sys.platform != "win32":
    import fcntl

__all__ = [
    "COMPILE_SECONDS",
    "SIMD",
    "Compilation",
    "compilations_announced",
    "compilations_reported",
    "compiled_beside",
    "inline_kernel",
    "kernel",
    "simd_kernel",
]

#: Sums become SIMD only if they may be reordered. These flags leave NaN and infinities alone; fastmath=True does not.
SIMD = {"reassoc", "contract"}

#: Seconds to compile the kernels of a first fit on an idle core: 6 to 15, depending on the kind of machines.
COMPILE_SECONDS = 15.0
# Seconds of compiling after which a line says so.
_WORTH_A_LINE = 1.0
_COMPILING = "Compiling kernels for this machine, about {seconds:.0f} s. This happens once."
_COMPILING_AGAIN = (
    "Compiling kernels, about {seconds:.0f} s, in every process: there is no writable folder to keep them in. Set"
    " NUMBA_CACHE_DIR to one."
)
_WAITING = (
    "Waiting for another process, which compiles kernels for this machine, about {seconds:.0f} s. This happens"
    " once."
)
# The announced time is at most this many times that on an idle core.
_MOST_CROWDED = 8.0
# Seconds to wait for a lock, and between two attempts. A lock on a network drive may be held by a machine that is gone,
# and compiling a kernel twice does no harm.
_PATIENCE, _POLL = 120.0, 0.02


class Compilation(NamedTuple):
    """A kernel that this process compiles, with the functions it calls, or that another process compiles.

    Attributes
    ----------
    state : {"waiting", "compiling", "compiled"}
        The first two are reported repeatedly while they last.
    kernel : str
        Module and name.
    seconds : float
        Since it began: 0 in the first report.
    cached : bool
        Whether the kernel is kept for the next process.
    """

    state: Literal["waiting", "compiling", "compiled"]
    kernel: str
    seconds: float
    cached: bool


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile the decorated function on its first call. Takes the options of `numba.njit`, or none.

    Kernels are serial and release the GIL: the executor decides what runs in parallel, never a kernel. As in numpy,
    x / 0 is inf: a check that raises would keep a loop from being vectorised.
    """
    if function is None:
        return partial(kernel, **options)
    # Nobody calls kernels from C, so no entry point for C is compiled.
    dispatcher = njit(function, nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)
    dispatcher.compile = partial(_compile_once, dispatcher, dispatcher.compile)
    return dispatcher


simd_kernel = partial(kernel, fastmath=SIMD)
#: Inlines the decorated function into the kernels that call it. Use it for a large function with one caller, which
#: would otherwise be optimised twice, and for a small one in an inner loop.
inline_kernel = partial(njit, nogil=True, error_model="numpy", inline="always", fastmath=SIMD)


@contextlib.contextmanager
def compilations_reported(listener: Callable[[Compilation], None]) -> Iterator[None]:
    """Inside the block, call ``listener`` for every kernel that this process compiles, and write no line.

    Equal listeners, such as those of tasks of one run in several threads, are called once.
    """
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


_listeners: list[Callable[[Compilation], None]] = []


@contextlib.contextmanager
def compilations_announced(write: Callable[[str], None]) -> Iterator[None]:
    """Inside the block, pass the line about compiling to ``write``, if something else is shown on standard error."""
    _writers.append(write)
    try:
        yield
    finally:
        _writers.remove(write)


@contextlib.contextmanager
def compiled_beside(work: Callable[..., Any], *arguments: str) -> Iterator[None]:
    """When a kernel is compiled inside the block, start a process that calls ``work``, to compile later kernels.

    The process leaves the kernels in numba's cache, and ends by itself. A kernel that it has not compiled in time, or
    failed to compile, is compiled here. ``work`` must be a function of a module.
    """
    process = _Beside(work, arguments)
    _beside.append(process)
    try:
        yield
    finally:
        _beside.remove(process)


class _Beside:
    """A process that compiles kernels beside this one, started at most once per process and ``work``."""

    _begun: ClassVar[dict[Callable[..., Any], subprocess.Popen[bytes] | None]] = {}

    def __init__(self, work: Callable[..., Any], arguments: tuple[str, ...]) -> None:
        self._work, self._arguments = work, arguments

    def begin(self) -> None:
        """Start it, if there is a second core. Child processes of multiprocessing do not: each would start one."""
        if self._work in self._begun or _usable_cores() < 2 or parent_process() is not None:
            return
        self._begun[self._work] = None
        call = (
            f"from {self._work.__module__} import {self._work.__name__} as work; work(*{self._arguments!r})"
        )
        with contextlib.suppress(OSError):
            # -P: do not import modules from the current folder.
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", call],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            atexit.register(_end, process)
            self._begun[self._work] = process


_beside: list[_Beside] = []


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop a process that is still compiling: at exit nobody needs its kernels any more."""
    process.kill()
    process.wait()


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _write_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


_writers: list[Callable[[str], None]] = [_write_line]


def _compile_once(dispatcher: Any, compile_: Callable[[Any], Any], signature: Any) -> Any:
    """Compile a kernel for a signature, or load it from the cache."""
    if dispatcher.stats.cache_path is None and _has_a_place(dispatcher.py_func):
        # Not when it is decorated: numba looks for a writable folder per kernel, and imports define a hundred kernels.
        with contextlib.suppress(RuntimeError):  # neither the package's folder nor the user's is writable
            dispatcher.enable_caching()
    # numba's own lock comes first, as it does when a kernel compiles the kernels that it calls, so all threads take the
    # locks in the same order. Between processes that order is the order of the calls.
    with global_compiler_lock, _sole_compiler(dispatcher), _watched(dispatcher):
        try:
            return compile_(signature)
        except OSError:  # compiled, but the cache could not be written
            return dispatcher.overloads[tuple(signature)].entry_point
        except (AttributeError, ImportError):
            # numba's index of the cache is a pickle, and that of an older version may name modules that are gone.
            dispatcher._cache.flush()
            return compile_(signature)


def _has_a_place(function: Callable[..., Any]) -> bool:
    """Whether numba may look for a folder. Without a home it would create one named "~" in the current folder."""
    if config.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or _home_is_known():
        return True
    beside = Path(inspect.getfile(function)).parent
    folder = beside / "__pycache__" if (beside / "__pycache__").exists() else beside
    return folder.is_dir() and os.access(folder, os.W_OK)


def _home_is_known() -> bool:
    with contextlib.suppress(RuntimeError):
        return Path.home().is_absolute()
    return False


@contextlib.contextmanager
def _sole_compiler(dispatcher: Any) -> Iterator[None]:
    """Hold the lock of a kernel, if there is a folder for it. The system frees the lock of a process that dies."""
    folder, name = dispatcher.stats.cache_path, _name(dispatcher)
    if folder is None or name in _held or sys.platform == "win32":
        yield
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            file = stack.enter_context(Path(folder, f"{name}.lock").open("ab"))
            _lock(file.fileno(), name)
            # Closing the file does not free the lock if a process that was forked meanwhile has it open too.
            stack.callback(fcntl.flock, file, fcntl.LOCK_UN)
        _held.add(name)
        stack.callback(_held.remove, name)
        yield


# Kernels whose lock this process holds.
_held: set[str] = set()


def _lock(file: int, name: str) -> None:
    began, waited = time.monotonic(), 0.0
    while waited < _PATIENCE:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _report(Compilation("waiting", name, waited, True))
            time.sleep(_POLL)
            waited = time.monotonic() - began
        else:
            return


@contextlib.contextmanager
def _watched(dispatcher: Any) -> Iterator[None]:
    """Report the compilation of a kernel, unless it is compiled as part of another, which is reported."""
    if _Watch.under_way:
        yield
        return
    _Watch.under_way = True
    try:
        with event.install_listener("numba:compile", _Watch(dispatcher)):
            yield
    finally:
        _Watch.under_way = False


class _Watch(event.Listener):  # type: ignore[misc]
    """Turns numba's events, one per compiled function, into reports on the kernel that calls these functions."""

    under_way = False

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher, self._depth, self._began = dispatcher, 0, 0.0

    def on_start(self, event: Any) -> None:
        """numba begins to compile the kernel, or a function that it calls."""
        now = time.monotonic()
        if not self._depth:
            self._began = now
            self._begin_others()
        self._depth += 1
        self._report("compiling", now)

    def on_end(self, event: Any) -> None:
        """numba has compiled a function; at depth 0, the kernel."""
        self._depth -= 1
        if not self._depth:
            self._report("compiled", time.monotonic())

    def _begin_others(self) -> None:
        if (
            self._dispatcher.stats.cache_path is not None and sys.platform != "win32"
        ):  # without a cache or locks, the other process would compile in vain
            for process in _beside:
                process.begin()

    def _report(self, state: Literal["compiling", "compiled"], now: float) -> None:
        cached = self._dispatcher.stats.cache_path is not None
        _report(Compilation(state, _name(self._dispatcher), now - self._began, cached))


def _name(dispatcher: Any) -> str:
    return f"{dispatcher.py_func.__module__.rpartition('.')[2]}.{dispatcher.py_func.__name__}"


def _report(compilation: Compilation) -> None:
    for listener in dict.fromkeys(_listeners) or [_announcement]:
        listener(compilation)


class _Announcement:
    """Writes one line per process, once compiling has taken a second."""

    def __init__(self) -> None:
        self._spent, self._said = 0.0, False
        self._began_at: tuple[float, float] | None = None
        self._timer: threading.Timer | None = None

    def __call__(self, compilation: Compilation) -> None:
        if compilation.state == "compiled":
            self._spent += compilation.seconds
            self._end()
        elif self._said:
            return
        elif self._spent + compilation.seconds >= _WORTH_A_LINE:
            self._say(compilation)
        elif not compilation.seconds:
            self._begin(compilation)

    def _begin(self, compilation: Compilation) -> None:
        """Start a timer that writes the line: numba sends no events while LLVM compiles, which may take long."""
        self._end()
        self._began_at = self._began_at or (time.monotonic(), time.process_time())
        self._timer = threading.Timer(_WORTH_A_LINE - self._spent, self._say, [compilation])
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _say(self, compilation: Compilation) -> None:
        with _saying:
            if self._said:
                return
            self._said = True
        if compilation.state == "waiting" and parent_process() is not None:
            return  # in a cross-validation, the process that compiles writes the line
        _writers[-1](self._text(compilation).format(seconds=self._expected_seconds(compilation)))

    def _text(self, compilation: Compilation) -> str:
        if compilation.state == "waiting":
            return _WAITING
        return _COMPILING if compilation.cached else _COMPILING_AGAIN

    def _expected_seconds(self, compilation: Compilation) -> float:
        """Seconds for all kernels, times wall time per CPU time so far: others may use the cores too."""
        if compilation.state == "waiting" or self._began_at is None:
            return COMPILE_SECONDS
        seconds, given = time.monotonic() - self._began_at[0], time.process_time() - self._began_at[1]
        if seconds < _WORTH_A_LINE / 2 or not given:  # too short to tell
            return COMPILE_SECONDS
        return 5 * round(COMPILE_SECONDS * min(max(seconds / given, 1.0), _MOST_CROWDED) / 5)


_announcement, _saying = _Announcement(), threading.Lock()
