"""The one way in which this package compiles a kernel: when it is first called, once per machine, and not in silence.

numba keeps compiled kernels in a folder, one file per kernel and types of its arguments. This module adds a lock per
kernel, so that one of several processes compiles it and the others load it, and reports what is going on.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from llvmlite import ir
from numba import config, njit, types
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic

if sys.platform != "win32":
    import fcntl

__all__ = [
    "REORDERED",
    "SIMD",
    "Compilation",
    "compilations_reported",
    "inline_kernel",
    "kernel",
    "maximum",
    "simd_kernel",
]

#: Sums become SIMD only if they may be reordered. These flags leave NaN and infinities alone; fastmath=True does not.
SIMD = {"reassoc", "contract"}
#: Maxima need more: a NaN must not reach a kernel that is compiled with these.
REORDERED = SIMD | {"nnan", "nsz"}

# Less is not worth a line. The kernels of a first fit take some 15 s.
_WORTH_A_LINE = 1.0
_COMPILING = "Compiling kernels for this machine, about 15 s, once."
_COMPILING_AGAIN = (
    "Compiling kernels, about 15 s, each time: no folder to keep them in is writable (set NUMBA_CACHE_DIR)."
)
_WAITING = "Waiting for another process that compiles kernels for this machine, about 15 s, once."
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
    dispatcher = njit(function, nogil=True, error_model="numpy", **options)
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
        self._depth += 1
        self._report("compiling", now)

    def on_end(self, event: Any) -> None:
        """Come back to the caller, or to the end."""
        self._depth -= 1
        if not self._depth:
            self._report("compiled", time.monotonic())

    def _report(self, state: Literal["compiling", "compiled"], now: float) -> None:
        cached = self._dispatcher.stats.cache_path is not None
        _report(Compilation(state, _name(self._dispatcher), now - self._began, cached))


def _name(dispatcher: Any) -> str:
    return f"{dispatcher.py_func.__module__.rpartition('.')[2]}.{dispatcher.py_func.__name__}"


def _report(compilation: Compilation) -> None:
    for listener in dict.fromkeys(_listeners) or [_announcement]:
        listener(compilation)


class _Announcement:
    """One line on standard error per process, once compiling has taken more than a moment."""

    def __init__(self) -> None:
        self._spent, self._done = 0.0, False

    def __call__(self, compilation: Compilation) -> None:
        if compilation.state == "compiled":
            self._spent += compilation.seconds
        elif not self._done and self._spent + compilation.seconds > _WORTH_A_LINE:
            self._done = True
            # From the start of the line, since a bar may be there.
            start = "\r" if sys.stderr.isatty() else ""
            print(f"{start}{self._text(compilation)}", file=sys.stderr, flush=True)

    def _text(self, compilation: Compilation) -> str:
        if compilation.state == "waiting":
            return _WAITING
        return _COMPILING if compilation.cached else _COMPILING_AGAIN


_announcement = _Announcement()


@intrinsic
def maximum(typing_context, a, b):
    """max(a, b) of two floats of one type, not NaN, in the form that LLVM vectorises as a reduction.

    Numba's own max() does not carry the flags of REORDERED to the comparison: to choose a partner among 400
    rows (`svm_kernels.best_partner`) takes 535 ns with it and 100 ns with this.
    """
    if a != b or not isinstance(a, types.Float):
        return None

    def generate(context, builder, signature, arguments):
        real = arguments[0].type
        function = builder.module.declare_intrinsic(
            "llvm.maxnum", [real], ir.FunctionType(real, [real, real])
        )
        return builder.call(function, arguments, fastmath=("nnan", "nsz"))

    return a(a, a), generate
