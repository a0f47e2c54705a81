"""Standard output and error of a command: the line that it has started, and pipes that readers close early.

This module imports only the standard library, because the first line is written while everything else is imported.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import IO, NoReturn, TextIO

__all__ = ["closed_pipe_is_no_error", "exit_interrupted", "silence_closed_pipes", "start_line"]

_START_TEXT, _START_DELAY = "Starting pairloom", 0.4
# Commands that show their progress.
_LONG_COMMANDS = {"run", "resume", "attach"}


@contextlib.contextmanager
def start_line(arguments: Sequence[str], stream: TextIO) -> Iterator[None]:
    """Write a line if the block takes longer than a moment. On a terminal it is erased afterwards.

    Elsewhere it is written only for commands that show their progress.

    Parameters
    ----------
    arguments
        The arguments of the command line.
    stream
        Standard error.
    """
    terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    if not terminal and not _LONG_COMMANDS.intersection(arguments[:1]):
        yield
        return
    timer = threading.Timer(_START_DELAY, _write, [stream, _START_TEXT if terminal else f"{_START_TEXT}\n"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if terminal:
            _write(stream, f"\r{' ' * len(_START_TEXT)}\r")


def exit_interrupted(code: int) -> NoReturn:
    """Exit with this code after Ctrl-C or SIGTERM, under ``python -m`` too.

    CPython marks a KeyboardInterrupt that leaves code run by `exec` as unhandled, even if it is caught later, and
    ``python -m`` then dies of SIGINT instead of exiting with its code. Dataclasses, named tuples and Numba use `exec`,
    so an interrupt during the imports often hits such code. Any later `exec` clears the mark.
    """
    exec("")
    sys.exit(code)


def _write(stream: TextIO, text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        stream.write(text)
        stream.flush()


@contextlib.contextmanager
def closed_pipe_is_no_error() -> Iterator[None]:
    """End the command quietly if its output is no longer read, as in ``pairloom ls | head -1``."""
    try:
        yield
        sys.stdout.flush()  # here, because Python would print an error at the end of the process
    except BrokenPipeError:
        if not silence_closed_pipes():
            raise
        sys.exit(0)


def silence_closed_pipes() -> bool:
    """Redirect streams whose reader is gone to the null device. Return whether there were any.

    There are none if a BrokenPipeError came from a socket.
    """
    closed = [stream for stream in (sys.stdout, sys.stderr) if _reader_is_gone(stream)]
    for stream in closed:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    return bool(closed)


def _reader_is_gone(stream: IO[str]) -> bool:
    """Whether a stream is a pipe without a reader. Assumed on platforms without poll()."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return False
    if not hasattr(select, "poll"):
        return True
    pipe = select.poll()
    pipe.register(descriptor, select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in pipe.poll(0))
