"""One thread of BLAS while this package computes: the number of threads decides how a product is split and rounded."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import threadpoolctl

__all__ = ["one_blas_thread"]

_lock = threading.Lock()
_users = 0
_limits: Any = None


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give BLAS one thread, and what it had before when the last of all threads that asked for this is done.

    A limit is one for the whole process. Threads that each set it and set it back would do so in any order, and leave
    BLAS with one thread for good.
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
    """Let this thread set the limit: since 3.7, threadpoolctl heeds the first thread that set one and no other."""
    openblas: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(openblas, "clear_controlling_thread"):
        openblas.clear_controlling_thread(force=True)


@functools.cache
def _controller() -> Any:
    """The libraries of this process. To look for them takes 5 ms, so it is done once."""
    return threadpoolctl.ThreadpoolController()
