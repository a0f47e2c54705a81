"""Says that a command was started, while its imports take their time. Imports nothing that takes time itself."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from typing import TextIO

__all__ = ["start_line"]

_TEXT, _PATIENCE = "Starting pairloom", 0.4
# Commands that show their progress.
_LONG = ("run", "resume", "attach")


@contextlib.contextmanager
def start_line(arguments: Sequence[str], stream: TextIO) -> Iterator[None]:
    """Write a line unless the start takes but a moment: on a terminal until it is over, elsewhere for long commands.

    Parameters
    ----------
    arguments
        Those of the command line.
    stream
        Standard error.
    """
    terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    if not terminal and not set(arguments[:1]) & set(_LONG):
        yield
        return
    timer = threading.Timer(_PATIENCE, _write, [stream, _TEXT if terminal else f"{_TEXT}\n"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if terminal:
            _write(stream, f"\r{' ' * len(_TEXT)}\r")


def _write(stream: TextIO, text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        stream.write(text)
        stream.flush()
