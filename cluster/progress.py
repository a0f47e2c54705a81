"""Show the progress of a run: a view of all stages on a terminal, otherwise a line per stage and per interval.

The view is drawn by hand: the cursor moves up over the lines that were drawn before. So it can account for a window
that was made narrower, which folds these lines.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console

from pairloom.cluster.forecast_file import Ranges
from pairloom.cluster.plan import Plan
from pairloom.cluster.progress_facts import run_facts
from pairloom.cluster.progress_view import Styled, finished_line, progress_line, view_lines
from pairloom.cluster.run_progress import RunProgress
from pairloom.cluster.units import Receipt
from pairloom.pipeline.progress_bar import marks_for

__all__ = ["LINE_SECONDS", "Lines", "Quiet", "View", "can_redraw", "progress_for"]

#: Seconds between two lines of a log at first; in a long run up to a minute.
LINE_SECONDS, _MOST_LINE_SECONDS = 10.0, 60.0
_DRAW_SECONDS = 0.2
_STYLES = {"done": "\x1b[2m", "running": "\x1b[1m", "to come": "", "summary": "\x1b[36m"}
_PLAIN, _UP, _ERASE_LINE, _ERASE_BELOW = "\x1b[0m", "\x1b[{}A", "\x1b[K", "\x1b[J"


class Quiet:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Show nothing more, so that others can write below. May be called again."""

    def say(self, what: str | None) -> None:
        """Say what is being done that is no stage, such as reading the data; None when there are workers."""

    def forecast(self, seconds: Ranges) -> None:
        """Set how long the stages should take, as it was measured. Otherwise it is guessed from their sizes."""

    def expect(self, plan: Plan) -> None:
        """Set the plan of the run, or the longer plan of a run that has grown."""

    def found(self, done: Mapping[str, int]) -> None:
        """Set the units of every stage that were finished by others."""

    def begin(self, stage: str, done: int, total: int) -> None:
        """Start a stage; ``done`` of its ``total`` units are finished."""

    def advance(self, receipt: Receipt) -> None:
        """Count one more finished unit."""

    def reach(self, done: int, pairs: int = 0) -> None:
        """Set the finished units of the running stage; ``pairs`` were trained since the last call."""

    def score(self, log_loss: float | None) -> None:
        """Set the best log loss so far."""

    def note(self, line: str) -> None:
        """Show a message to the user."""


class _Display(Quiet):
    """Counts, and shows the counts when they change and as time passes. A thread lets time pass."""

    def __init__(self, stream: TextIO, run: RunProgress | None = None) -> None:
        self.run = run or RunProgress()
        self._stream = stream
        self._plan: Plan | None = None
        self._seconds: Ranges | None = None
        # Whoever holds it may count, or write to the stream. A message may be written while counting.
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._clock = threading.Thread(target=self._pass_time, name="pairloom-progress", daemon=True)

    def __enter__(self) -> Self:
        self._clock.start()
        return self

    def close(self) -> None:
        if not self._ended.is_set():
            self._ended.set()
            self._clock.join()
            self._closed()

    def _pass_time(self) -> None:
        while not self._ended.wait(_DRAW_SECONDS):
            with self._lock:
                self.run.tick()
                self._time_passed()

    def say(self, what: str | None) -> None:
        with self._lock:
            is_new = what is not None and what != self.run.doing
            self.run.say(what)
            if is_new:
                self._said()

    def forecast(self, seconds: Ranges) -> None:
        self._seconds = seconds
        if self._plan is not None:
            self.expect(self._plan)

    def expect(self, plan: Plan) -> None:
        self._plan, facts = plan, run_facts(plan, self._seconds)
        with self._lock:
            self.run.plan(facts, {stage: plan.units(stage) for stage in plan.keys})

    def found(self, done: Mapping[str, int]) -> None:
        with self._lock:
            self.run.found(done)

    def begin(self, stage: str, done: int, total: int) -> None:
        with self._lock:
            self.run.begin(stage, done, total)

    def advance(self, receipt: Receipt) -> None:
        with self._lock:
            self.run.advance(receipt.unit)
            self._counted()

    def reach(self, done: int, pairs: int = 0) -> None:
        with self._lock:
            before = self.run.stages[self.run.running].done if self.run.running else done
            self.run.reach(done, pairs)
            if done > before:
                self._counted()

    def score(self, log_loss: float | None) -> None:
        with self._lock:
            if log_loss is not None:
                self.run.log_loss = log_loss

    def _closed(self) -> None:
        """Show the last state."""

    def _said(self) -> None:
        """Show what is being done."""

    def _counted(self) -> None:
        """Show that a unit was finished."""

    def _time_passed(self) -> None:
        """Show that time has passed."""


class Lines(_Display):
    """Prints a line when a stage has ended, and one per interval in between. Writes no control characters."""

    def __init__(self, stream: TextIO, run: RunProgress | None = None) -> None:
        super().__init__(stream, run)
        self._shown_at = 0.0

    def note(self, line: str) -> None:
        with self._lock, contextlib.suppress(ValueError):  # a stream that is closed
            self._stream.write(f"{line}\n")
            self._stream.flush()

    def _said(self) -> None:
        name = f"{self.run.facts.name}: " if self.run.facts else ""
        self._show(f"{name}{self.run.doing}")

    def _counted(self) -> None:
        stage = self.run.stages[self.run.running or ""]
        if stage.is_done:
            self._show(finished_line(self.run))

    def _time_passed(self) -> None:
        elapsed = self.run.elapsed
        interval = min(_MOST_LINE_SECONDS, max(LINE_SECONDS, elapsed / 30))
        if elapsed - self._shown_at >= interval and (self.run.facts is not None or self.run.doing):
            self._show(progress_line(self.run))

    def _show(self, line: str) -> None:
        self._shown_at = self.run.elapsed
        self.note(line)


class View(_Display):
    """Draws all stages in place, below the messages. Whatever is written to standard error meanwhile is a message."""

    def __init__(self, stream: TextIO, run: RunProgress | None = None, *, coloured: bool = True) -> None:
        super().__init__(stream, run)
        self._marks, self._coloured = marks_for(stream), coloured
        self._drawn: list[Styled] = []
        self._size = os.terminal_size((0, 0))
        self._redirection = contextlib.redirect_stderr(_Messages(self))

    def __enter__(self) -> Self:
        self._redirection.__enter__()
        return super().__enter__()

    def _closed(self) -> None:
        self._redirection.__exit__(None, None, None)
        self._draw()
        self._stream.write("\n")
        self._stream.flush()

    def note(self, line: str) -> None:
        with self._lock:
            self._draw(f"{line}\n")

    def _said(self) -> None:
        self._draw()

    def _time_passed(self) -> None:
        self._draw()

    def _draw(self, above: str = "") -> None:
        """Draw the view again, below a message, if anything has changed. The cursor stays on its last line.

        On an empty line below, a terminal that folds lines (tmux) would lose track of it. It also folds them a moment
        before it tells its new size. A view that is drawn in that moment leaves lines behind, so it is drawn seldom.
        """
        size = _size(self._stream)
        lines = view_lines(self.run, size.columns, size.lines - 1, self._marks)
        if not above and (lines, size) == (self._drawn, self._size):
            return
        text = "\n".join(f"{self._styled(line)}{_ERASE_LINE}" for line in lines)
        above = above.replace("\n", f"{_ERASE_LINE}\n")
        with contextlib.suppress(ValueError):  # a stream that is closed
            self._stream.write(f"\r{self._to_top(size)}{above}{text}{_ERASE_BELOW}")
            self._stream.flush()
        self._drawn, self._size = lines, size

    def _to_top(self, size: os.terminal_size) -> str:
        """Move to the first of the lines that were drawn. In a window that is narrower now they are folded."""
        rows = sum(max(1, -(-len(line.text) // size.columns)) for line in self._drawn)
        above_last = min(rows, size.lines) - 1
        return _UP.format(above_last) if above_last > 0 else ""

    def _styled(self, line: Styled) -> str:
        style = _STYLES[line.style] if self._coloured else ""
        return f"{style}{line.text}{_PLAIN}" if style else line.text


class _Messages(io.TextIOBase):
    """A stream whose lines are the messages of a view."""

    def __init__(self, view: View) -> None:
        self._view, self._rest = view, ""

    def write(self, text: str) -> int:
        *lines, self._rest = f"{self._rest}{text}".split("\n")
        for line in lines:
            self._view.note(line)
        return len(text)

    def isatty(self) -> bool:
        return True


def _size(stream: TextIO) -> os.terminal_size:
    """The size of the terminal that a stream writes to."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return os.terminal_size((80, 24))
    # Some report nothing.
    return os.terminal_size((size.columns or 80, size.lines or 24))


def can_redraw(console: Console) -> bool:
    """Whether a console is a terminal that understands cursor movement.

    FORCE_COLOR makes rich take a file for a terminal, and colours are all that it asks for.
    """
    real = console.file.isatty() and console.is_terminal
    return real and not console.is_dumb_terminal and not console.legacy_windows


def progress_for(console: Console, run: RunProgress | None = None) -> View | Lines:
    """A view on a terminal, lines elsewhere."""
    stream = sys.stderr if console.stderr else sys.stdout
    if can_redraw(console):
        return View(stream, run, coloured=not console.no_color)
    return Lines(stream, run)
