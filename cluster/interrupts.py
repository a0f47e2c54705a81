"""Ctrl-C and SIGTERM, remembered: an interrupt that a library swallows stops the command a little later.

Python raises KeyboardInterrupt wherever the main thread happens to be, and code in C that asks whether an object has an
attribute drops it with every other error. So the handlers also keep a note of the signal, and the driver looks at it
after every unit of work.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import NoReturn

__all__ = ["Terminated", "raise_if_interrupted", "remembered_interrupts"]

_received: list[int] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM, which batch systems send before they kill a job."""


@contextlib.contextmanager
def remembered_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C and `Terminated` on SIGTERM, and remember either. For the main thread."""

    def received(number: int, frame: object) -> NoReturn:
        _received.append(number)
        _raise(number)

    before = {number: signal.signal(number, received) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        _received.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_if_interrupted() -> None:
    """Raise what a remembered signal raised, if that was swallowed."""
    if _received:
        _raise(_received[0])


def _raise(number: int) -> NoReturn:
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
