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
    """Limit BLAS to one thread. The previous limit is restored when the last thread that asked for this is done.

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
