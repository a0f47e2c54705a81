"""One thread of BLAS while this package computes: the number of threads decides how a product is split and rounded."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]

_lock = threading.Lock()
_limits = contextlib.ExitStack()
_users = 0


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give BLAS one thread, and what it had before when the last of all threads that asked for this is done.

    A limit is one for the whole process. Threads that each set it and set it back would do so in any order, and leave
    BLAS with one thread for good.
    """
    global _users
    with _lock:
        if _users == 0:
            _limits.enter_context(_controller().limit(limits=1, user_api="blas"))
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limits.close()


@functools.cache
def _controller() -> ThreadpoolController:
    """The libraries of this process. To look for them takes 5 ms, so it is done once."""
    return ThreadpoolController()
