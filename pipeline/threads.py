"""Threads: split work into pieces, run the pieces in threads, and limit BLAS to one thread meanwhile.

Pieces never depend on the number of threads. BLAS does: its number of threads decides how a product is split, and so
how it is rounded.
"""

from __future__ import annotations

import contextlib
import functools
import numbers
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import threadpoolctl
from joblib import effective_n_jobs

__all__ = [
    "in_threads",
    "one_blas_thread",
    "pieces",
    "thread_count",
]


Piece = TypeVar("Piece")
Result = TypeVar("Result")


def pieces(length: int, size: int) -> list[slice]:
    """Cut ``range(length)`` into slices of ``size``, the last one shorter.

    Examples
    --------
    >>> pieces(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def thread_count(n_jobs: int | None, owner: str) -> int:
    """The number of threads for scikit-learn's ``n_jobs``: -1 means one per core.

    None means the number of the enclosing ``joblib.parallel_config(n_jobs=...)``, or one thread outside of it.
    """
    if n_jobs is None:
        return int(effective_n_jobs(None))
    if not isinstance(n_jobs, numbers.Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(f"{owner}: n_jobs must be None or an integer other than 0, got {n_jobs!r}.")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


def in_threads(work: Callable[[Piece], Result], pieces: Sequence[Piece], n_threads: int) -> list[Result]:
    """[work(piece) for piece in pieces], in threads, in the order of the pieces."""
    if n_threads == 1 or len(pieces) <= 1:  # starting a thread takes longer than predicting a sample
        return [work(piece) for piece in pieces]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, pieces))


_lock = threading.Lock()
_users = 0
_limits: Any = None


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread. The last thread that leaves the block restores the previous limit.

    The limit applies to the whole process. If every thread set and restored it, in any order, BLAS could be left with
    one thread.
    """
    _begin()
    try:
        yield
    finally:
        _end()


def _begin() -> None:
    global _users, _limits
    with _lock:
        if _users == 0:
            _take_control()
            _limits = _controller().limit(limits=1, user_api="blas")
        _users += 1


def _end() -> None:
    global _users, _limits
    with _lock:
        _users -= 1
        if _users == 0:
            _take_control()
            _limits.restore_original_limits()
            _take_control()


def _take_control() -> None:
    """Let this thread set the limit: since 3.7, threadpoolctl obeys only the first thread that set one."""
    openblas: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(openblas, "clear_controlling_thread"):
        openblas.clear_controlling_thread(force=True)


@functools.cache
def _controller() -> Any:
    """The libraries of this process. Finding them takes 5 ms, so it is done once."""
    return threadpoolctl.ThreadpoolController()
