"""The one way in which this package compiles a kernel: when it is first called, once per machine, and not in silence.

numba keeps compiled kernels in a folder, one file per kernel and types of its arguments. This module adds a lock per
kernel, so that one of several processes compiles it and the others load it, and reports what is going on. A process
compiles one kernel at a time, so the first fit has another process compile on a second core what it will need later.
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

#: Seconds for the kernels of a first fit on a core of its own: 6 to 15, by the kind of the machines.
COMPILE_SECONDS = 15.0
# Less is not worth a line.
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
# How many times longer than alone compiling is said to take, at most.
_MOST_CROWDED = 8.0
# A lock on a network drive may be held by a machine that is gone. To compile a kernel twice does no harm.
_PATIENCE, _POLL = 120.0, 0.02


class Compilation(NamedTuple):
    """A kernel that is compiled with those it calls, or waited for since another process compiles it.

    Attributes
    ----------
    state : {"waiting", "compiling", "compiled"}
        The first two are reported again and again while they last.
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
    """Compile a function when it is first called. Decorate with it, with or without options of `numba.njit`.

    Kernels are serial and release the GIL: the executor decides what runs in parallel, never a kernel. Division is as
    numpy does it (x / 0 is inf): a check that raises would keep a loop from being vectorised.
    """
    if function is None:
        return partial(kernel, **options)
    # Nobody calls kernels from C, so no entry point for that is compiled.
    dispatcher = njit(function, nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)
    dispatcher.compile = partial(_compile_once, dispatcher, dispatcher.compile)
    return dispatcher


simd_kernel = partial(kernel, fastmath=SIMD)
#: A part of the kernels that call it, compiled with their options. Use it for a large function with one caller, which
#: would be optimised twice, and for a small one in an inner loop.
inline_kernel = partial(njit, nogil=True, error_model="numpy", inline="always", fastmath=SIMD)


@contextlib.contextmanager
def compilations_reported(listener: Callable[[Compilation], None]) -> Iterator[None]:
    """Call ``listener`` for every kernel that this process compiles meanwhile, instead of a line on standard error.

    Listeners that are equal, such as those of tasks of one run in several threads, are called once.
    """
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


_listeners: list[Callable[[Compilation], None]] = []


@contextlib.contextmanager
def compilations_announced(write: Callable[[str], None]) -> Iterator[None]:
    """Have ``write`` put the line that kernels are compiled on standard error, where something else is shown there."""
    _writers.append(write)
    try:
        yield
    finally:
        _writers.remove(write)


@contextlib.contextmanager
def compiled_beside(work: Callable[..., Any], *arguments: str) -> Iterator[None]:
    """Once a kernel is compiled, have a process of its own call ``work``, which calls kernels that are needed later.

    That process keeps what it compiled in numba's cache, and ends by itself. Should it fail, or not have come to a
    kernel when that is needed, the kernel is compiled here. ``work`` is a function of a module.
    """
    process = _Beside(work, arguments)
    _beside.append(process)
    try:
        yield
    finally:
        _beside.remove(process)


class _Beside:
    """A process that compiles kernels beside this one, begun at most once per process and work."""

    _begun: ClassVar[dict[Callable[..., Any], subprocess.Popen[bytes] | None]] = {}

    def __init__(self, work: Callable[..., Any], arguments: tuple[str, ...]) -> None:
        self._work, self._arguments = work, arguments

    def begin(self) -> None:
        """Begin it, if there is a core for it. Processes that were started for a task leave that to each other."""
        if self._work in self._begun or _usable_cores() < 2 or parent_process() is not None:
            return
        self._begun[self._work] = None
        call = (
            f"from {self._work.__module__} import {self._work.__name__} as work; work(*{self._arguments!r})"
        )
        with contextlib.suppress(OSError):
            # -P: no module is taken from the folder that the user is in.
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
    """End a process that is still compiling: nobody waits for it any more."""
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
    """Compile a kernel for a signature, or load it if that has been done before."""
    if dispatcher.stats.cache_path is None and _has_a_place(dispatcher.py_func):
        # Not before it is needed: numba looks for a writable folder for each kernel, of which there are a hundred.
        with contextlib.suppress(RuntimeError):  # there is none, neither the package's nor the user's
            dispatcher.enable_caching()
    # numba's own lock comes first, as when a kernel compiles those that it calls: the order of locks is the same for
    # all threads, and between processes it is that of the calls.
    with global_compiler_lock, _sole_compiler(dispatcher), _watched(dispatcher):
        try:
            return compile_(signature)
        except OSError:  # it is compiled, but could not be kept
            return dispatcher.overloads[tuple(signature)].entry_point
        except (AttributeError, ImportError):
            # The index of the cache is a pickle. One that an older version of this package left may name what is gone.
            dispatcher._cache.flush()
            return compile_(signature)


def _has_a_place(function: Callable[..., Any]) -> bool:
    """Whether there is a folder to look for. A user without a home has none: numba would make "~" where it stands."""
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
    """Hold the lock of a kernel, where there is a folder for it. It is free again when its holder is gone."""
    folder, name = dispatcher.stats.cache_path, _name(dispatcher)
    if folder is None or name in _held or sys.platform == "win32":
        yield
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            file = stack.enter_context(Path(folder, f"{name}.lock").open("ab"))
            _lock(file.fileno(), name)
            # Said aloud, since a process that was forked meanwhile has the file open too.
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
    """Report what is compiled, unless this kernel is a part of one that is watched."""
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
    """Turns numba's events, one per function that it compiles, into reports on the kernel that needs them."""

    under_way = False

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher, self._depth, self._began = dispatcher, 0, 0.0

    def on_start(self, event: Any) -> None:
        """Begin to compile the kernel, or a function that it calls."""
        now = time.monotonic()
        if not self._depth:
            self._began = now
            self._begin_others()
        self._depth += 1
        self._report("compiling", now)

    def on_end(self, event: Any) -> None:
        """Come back to the caller, or to the end."""
        self._depth -= 1
        if not self._depth:
            self._report("compiled", time.monotonic())

    def _begin_others(self) -> None:
        if (
            self._dispatcher.stats.cache_path is not None and sys.platform != "win32"
        ):  # which has no locks here
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
    """One line per process, once compiling has taken more than a moment."""

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
        """Have the line written in a moment: numba is silent while LLVM works on a kernel, which may take long."""
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
            return  # of the processes of a cross-validation, the one that compiles says so
        _writers[-1](self._text(compilation).format(seconds=self._expected_seconds(compilation)))

    def _text(self, compilation: Compilation) -> str:
        if compilation.state == "waiting":
            return _WAITING
        return _COMPILING if compilation.cached else _COMPILING_AGAIN

    def _expected_seconds(self, compilation: Compilation) -> float:
        """Seconds for all kernels: longer where others use the cores, by the share of the time that was given to us."""
        if compilation.state == "waiting" or self._began_at is None:
            return COMPILE_SECONDS
        seconds, given = time.monotonic() - self._began_at[0], time.process_time() - self._began_at[1]
        if seconds < _WORTH_A_LINE / 2 or not given:  # too short to tell
            return COMPILE_SECONDS
        return 5 * round(COMPILE_SECONDS * min(max(seconds / given, 1.0), _MOST_CROWDED) / 5)


_announcement, _saying = _Announcement(), threading.Lock()
