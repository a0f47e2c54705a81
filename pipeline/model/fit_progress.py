"""The progress of a fit, phase by phase; with ``verbose=True`` it is printed, one bar per phase."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self, TextIO

from pairloom import graphs
from pairloom.pipeline.accelerate import compilations_announced

__all__ = ["NO_PROGRESS", "FitProgress", "PrintedProgress", "begin_training"]


class FitProgress:
    """Receives the phases of a fit. This base class ignores them."""

    def begin(self, name: str, total: int, of: str) -> None:
        """Begin a phase of ``total`` units, named ``of``, and end the phase before."""

    def advance(self, done: int) -> None:
        """Count ``done`` more units. Any thread may call this."""


NO_PROGRESS = FitProgress()


def begin_training(
    progress: FitProgress, name: str, decomposition: graphs.Decomposition, times: int = 1
) -> None:
    """Begin a phase that trains the machines of some pairs, or of a code, ``times`` times."""
    progress.begin(name, times * decomposition.n_machines, decomposition.unit)


_BAR, _DRAW_SECONDS = 24, 0.1


class PrintedProgress(FitProgress):
    """Prints one line per phase. On a terminal and in a notebook, the line is redrawn during the phase."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._characters, self._redraws = _bar_characters(self._stream), _can_redraw(self._stream)
        self._lock = threading.Lock()
        self._name, self._of, self._done, self._total, self._width = "", "", 0, 0, 0
        self._began_at = self._drawn_at = 0.0
        self._leaving = ExitStack()

    def __enter__(self) -> Self:
        self._leaving.enter_context(compilations_announced(self._write_above))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._leaving, self._lock:
            self._end(whole=kind is None)

    def begin(self, name: str, total: int, of: str) -> None:
        """Begin a phase, and end the phase before."""
        with self._lock:
            self._end(whole=True)
            self._name, self._of, self._done, self._total = name, of, 0, total
            self._began_at, self._width = time.monotonic(), 0
            self._redraw()

    def advance(self, done: int) -> None:
        """Count ``done`` more units of the phase."""
        with self._lock:
            self._done += done
            if time.monotonic() - self._drawn_at >= _DRAW_SECONDS:
                self._redraw()

    def _end(self, *, whole: bool) -> None:
        if not self._name:
            return
        self._done = self._total if whole else self._done
        start = "\r" if self._redraws else ""
        self._write(f"{start}{self._line()}\n")
        self._name = ""

    def _redraw(self) -> None:
        self._drawn_at = time.monotonic()
        if self._redraws:
            self._write(f"\r{self._line()}")

    def _write_above(self, line: str) -> None:
        """Write a line to standard error, above the bar if the bar is redrawn."""
        with self._lock:
            if self._redraws and self._width:
                self._write(f"\r{'':{self._width}}\r")
            print(line, file=sys.stderr, flush=True)
            if self._name:
                self._redraw()

    def _line(self) -> str:
        seconds, done = time.monotonic() - self._began_at, min(self._done, self._total)
        bar = _bar(done / max(self._total, 1), _BAR, self._characters)
        line = f"{self._name:<11} {bar} {done:,} of {self._total:,} {self._of}, {seconds:.1f} s"
        self._width = max(self._width, len(line))
        return line.ljust(self._width) if self._redraws else line

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _can_redraw(stream: TextIO) -> bool:
    """Whether a line can be redrawn: on a terminal, and in a notebook, whose stream is not a terminal."""
    terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    return terminal or type(stream).__module__.startswith("ipykernel.")


_BLOCKS, _ASCII = ("█", "░"), ("#", "-")


def _bar_characters(stream: TextIO) -> tuple[str, str]:
    """The full and the empty part of a bar: blocks if the encoding of the stream has them, otherwise ASCII."""
    try:
        "".join(_BLOCKS).encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return _ASCII
    return _BLOCKS


def _bar(share: float, width: int, characters: tuple[str, str] = _ASCII) -> str:
    """A bar of ``width`` characters, filled by ``share``. The last character is filled only at 1.

    Examples
    --------
    >>> _bar(0.5, 8), _bar(0.999, 8), _bar(1, 8)
    ('####----', '#######-', '########')
    """
    full = int(min(max(share, 0.0), 1.0) * width)
    return characters[0] * full + characters[1] * (width - full)
