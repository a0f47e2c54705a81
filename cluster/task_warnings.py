"""Write the warnings of a task to the log of its run: workers have no terminal, or share one with a progress bar.

Those of planning are shown, and kept for the report.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["warnings_kept", "warnings_written"]

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
        pass  # forgets which were shown: a process that plans a second run is warned of it too
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
