"""Output that nobody reads any more: ``pairloom ls | head -1`` closes its pipe early, which is no error."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Iterator
from typing import IO, Any

import click
from rich.console import Console

__all__ = ["QuietConsole", "QuietGroup", "closed_pipe_is_no_error", "silence_closed_pipes"]


@contextlib.contextmanager
def closed_pipe_is_no_error() -> Iterator[None]:
    """End the command quietly if the reader of its output has gone."""
    try:
        yield
        sys.stdout.flush()  # not at the end of the process, where Python would complain
    except BrokenPipeError:
        if not silence_closed_pipes():
            raise
        sys.exit(0)


def silence_closed_pipes() -> bool:
    """Send output whose reader has gone nowhere; whether there was any. (A broken pipe may also be a socket.)"""
    closed = [stream for stream in (sys.stdout, sys.stderr) if _reader_is_gone(stream)]
    for stream in closed:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    return bool(closed)


def _reader_is_gone(stream: IO[str]) -> bool:
    """Whether a stream is a pipe that nobody reads. Where that cannot be asked, it is taken to be one."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return False
    if not hasattr(select, "poll"):
        return True
    pipe = select.poll()
    pipe.register(descriptor, select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in pipe.poll(0))


class QuietConsole(Console):
    """A console of rich that leaves a closed pipe to the command, which knows whether it is done."""

    def on_broken_pipe(self) -> None:
        """Raise, where rich would end the process as failed."""
        raise BrokenPipeError


class QuietGroup(click.Group):
    """Commands, and their help, whose output may be cut off."""

    def make_context(self, *arguments: Any, **keywords: Any) -> click.Context:
        """Read the arguments; ``--help`` prints."""
        with closed_pipe_is_no_error():
            return super().make_context(*arguments, **keywords)

    def invoke(self, context: click.Context) -> Any:
        """Call the command."""
        with closed_pipe_is_no_error():
            return super().invoke(context)
