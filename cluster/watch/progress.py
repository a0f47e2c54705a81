"""Show the progress of a run: a view of all stages on a terminal, otherwise a line per stage and per interval.

`RunProgress` has the numbers. This file turns them into text and shows it.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, ConsoleOptions, ConsoleRenderable, Group, RenderableType
from rich.control import Control
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import ControlType, Segment
from rich.table import Table
from rich.text import Text

from pairloom.cluster.drive.tasks import Receipt
from pairloom.cluster.watch.run_progress import RunProgress, StageProgress, run_facts
from pairloom.graphs.text import duration, printable
from pairloom.pipeline.accelerate import COMPILE_SECONDS, Compilation
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_log import Ranges

__all__ = ["LINE_SECONDS", "Lines", "Quiet", "View", "can_redraw", "progress_for", "run_view"]

#: Seconds between two lines of a log: at first, and at most, in a long run.
LINE_SECONDS, _MOST_LINE_SECONDS = 10.0, 60.0
_DRAW_SECONDS = 0.2
_STYLES = {"done": "dim", "running": "bold", "to come": ""}
# Minimum width of a terminal with a bar beside the counts, and the maximum width of the bar.
_WIDTH_WITH_BAR, _WIDEST_BAR = 56, 30
_COMPILING = f"compiling kernels for this machine, once, about {COMPILE_SECONDS:.0f} s"
# A run with more seconds left shows the time of day at which it should end.
_LONG_SECONDS = 600.0


class Quiet:
    """The interface to the progress of a run. This base class shows nothing; subclasses do."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Show nothing more, so that the caller can write below. It may be called again."""

    def say(self, what: str | None) -> None:
        """Name the work outside of the stages, such as reading the data; None when the workers are ready."""

    def forecast(self, seconds: Ranges) -> None:
        """Set the measured forecast of the stages. Without one, their times are guessed from their sizes."""

    def expect(self, plan: Run) -> None:
        """Set the plan of the run, or the longer plan of a run that has grown."""

    def set_done(self, done: Mapping[str, int]) -> None:
        """Set the units of every stage that were finished before."""

    def begin(self, stage: str, done: int, total: int) -> None:
        """Start a stage; ``done`` of its ``total`` units are finished."""

    def advance(self, receipt: Receipt) -> None:
        """Count one more finished unit."""

    def reach(self, done: int, pairs: int = 0) -> None:
        """Set the finished units of the running stage; ``pairs`` were trained since the last call."""

    def compiling(self, compilation: Compilation) -> None:
        """Show that this process, or a worker, compiles a kernel or has finished."""

    def score(self, log_loss: float | None) -> None:
        """Set the best log loss so far."""

    def note(self, line: str) -> None:
        """Show a message to the user."""


class _Display(Quiet):
    """Counts, and shows the counts when they change and, by a thread, as time passes."""

    def __init__(self, run: RunProgress | None = None) -> None:
        self.run = run or RunProgress()
        self._plan: Run | None = None
        self._seconds: Ranges | None = None
        self._has_compiled = False
        # Held while counting and showing. It is re-entrant because a message may be written while counting.
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

    def expect(self, plan: Run) -> None:
        self._plan, facts = plan, run_facts(plan, self._seconds)
        with self._lock:
            self.run.plan(facts, {stage: plan.units(stage) for stage in plan.keys})

    def set_done(self, done: Mapping[str, int]) -> None:
        with self._lock:
            self.run.set_done(done)

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

    def compiling(self, compilation: Compilation) -> None:
        with self._lock:
            if compilation.state == "waiting":  # the process that compiles reports it
                return
            self.run.compile(compilation.kernel, ended=compilation.state == "compiled")
            if self.run.compiling.total and not self._has_compiled and self.run.doing is None:
                self._has_compiled = True
                self._said()

    def score(self, log_loss: float | None) -> None:
        with self._lock:
            if log_loss is not None:
                self.run.log_loss = log_loss

    def _closed(self) -> None:
        """Show the last state."""

    def _said(self) -> None:
        """Show the work outside of the stages."""

    def _counted(self) -> None:
        """Show that a unit was finished."""

    def _time_passed(self) -> None:
        """Show that time has passed."""


class Lines(_Display):
    """Prints a line when a stage has ended, and one per interval in between, without control characters."""

    def __init__(self, stream: TextIO, run: RunProgress | None = None) -> None:
        super().__init__(run)
        self._stream, self._shown_at = stream, 0.0

    def note(self, line: str) -> None:
        with self._lock, contextlib.suppress(ValueError):  # the stream may be closed
            self._stream.write(f"{printable(line)}\n")
            self._stream.flush()

    def _said(self) -> None:
        name = f"{self.run.facts.name}: " if self.run.facts else ""
        self._show(f"{name}{_doing(self.run)}")

    def _counted(self) -> None:
        stage = self.run.stages[self.run.running or ""]
        if stage.is_done:
            self._show(_finished_line(self.run, stage))

    def _time_passed(self) -> None:
        elapsed = self.run.elapsed
        interval = min(_MOST_LINE_SECONDS, max(LINE_SECONDS, elapsed / 30))
        if elapsed - self._shown_at >= interval and (self.run.facts is not None or self.run.doing):
            self._show(_progress_line(self.run))

    def _show(self, line: str) -> None:
        self._shown_at = self.run.elapsed
        self.note(line)


class View(_Display):
    """Draws all stages in place, below the messages. Text that is written to standard error meanwhile is a message."""

    def __init__(self, console: Console, run: RunProgress | None = None) -> None:
        super().__init__(run)
        self._live = _FoldedLive(console=console, auto_refresh=False, redirect_stdout=False)

    def __enter__(self) -> Self:
        self._live.start()
        # Rich hides the cursor; a driver that is killed could not show it again.
        self._live.console.show_cursor(True)
        self._time_passed()
        return super().__enter__()

    def note(self, line: str) -> None:
        self._live.console.print(printable(line), highlight=False, markup=False, soft_wrap=True)

    def _closed(self) -> None:
        self._time_passed()
        self._live.stop()

    def _said(self) -> None:
        self._time_passed()

    def _time_passed(self) -> None:
        self._live.draw(run_view(self.run, self._live.console))


class _FoldedLive(Live):
    """A live display that survives when its window is made narrower.

    Terminals that fold long lines (tmux, GNOME's, and others) then show the last view on more rows than were drawn.
    Rich moves the cursor up only over the lines that it drew, and would leave the topmost rows behind.
    """

    _lines: list[list[Segment]] = []  # noqa: RUF012 (replaced, never changed)
    _columns = 0

    def draw(self, view: ConsoleRenderable) -> None:
        """Draw a view, unless it is equal to the last one."""
        lines = self.console.render_lines(view, pad=False)
        if (lines, self.console.width) != (self._lines, self._columns):
            self.update(view, refresh=True)

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Move the cursor to the first row of the last view, then print, then draw the view again below."""
        to_top, *others = super().process_renderables(renderables)
        width, height = self.console.size
        rows = sum(max(1, -(-Segment.get_line_length(line) // width)) for line in self._lines)
        folded = min(rows, height) - len(self._lines)
        self._lines = self.console.render_lines(self.renderable, pad=False)[:height]
        self._columns = width
        over_folded = [(ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)] * max(folded, 0)
        return [to_top, Control(*over_folded), *others]


def run_view(run: RunProgress, console: Console) -> ConsoleRenderable:
    """All stages and a summary. If the console is too low, some finished stages are left out."""
    width, height = console.size
    heading = [Text(_heading(run), style="cyan", no_wrap=True, overflow="ellipsis")] if run.facts else []
    summary = Text(_summary(run), style="cyan")
    room = height - 1 - len(heading) - len(summary.wrap(console, width))
    stages = [stage for stage in run.stages.values() if stage.total]
    if len(stages) > room:
        # Stages that are running or to come, and as many finished ones as fit.
        others = [stage for stage in stages if not stage.is_done]
        done = [stage for stage in stages if stage.is_done]
        kept = max(0, room - len(others))
        stages = [*done[len(done) - kept :], *others][: max(room, 1)]
    return _Trimmed(Group(*heading, *([_stage_table(run, stages, console)] if stages else []), summary))


class _Trimmed:
    """The last lines of a renderable that fit, without trailing spaces.

    A table pads its lines to one width, and a window that is made narrower would fold all of them.
    """

    def __init__(self, renderable: ConsoleRenderable) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        # Use the options of the console: those passed with a message above would say that nothing is wrapped.
        lines = console.render_lines(self._renderable, console.options, pad=False)
        for line in lines[-max(options.size.height - 1, 1) :]:
            while line and not line[-1].text.strip():
                line.pop()
            yield from line
            yield Segment.line()


def _stage_table(run: RunProgress, stages: list[StageProgress], console: Console) -> Table:
    marks = {"done": "*", "running": ">"} if console.options.ascii_only else {"done": "✓", "running": "▸"}
    table = Table.grid(padding=(0, 1))
    for justify in ("left", "left", "right", "right"):
        table.add_column(justify=justify, no_wrap=True)
    table.add_column(max_width=_WIDEST_BAR)
    table.add_column(justify="right", no_wrap=True)
    for stage in stages:
        state = _state(run, stage)
        spent = duration(stage.seconds) if stage.seconds else ""
        cells: list[RenderableType] = [marks.get(state, " "), stage.name, _count(stage), spent]
        if state == "running" and console.width >= _WIDTH_WITH_BAR:
            cells += [ProgressBar(stage.total, stage.done), f"{stage.share:.0%}"]
        table.add_row(*cells, style="" if console.no_color else _STYLES[state])
    return table


def _state(run: RunProgress, stage: StageProgress) -> str:
    if stage.is_done:
        return "done"
    return "running" if stage.name == run.running else "to come"


def _heading(run: RunProgress) -> str:
    assert run.facts is not None
    facts = run.facts
    text = f"{facts.name}: {facts.classes:,} classes, {facts.pairs:,} {facts.machines_on}"
    if facts.most_pairs is not None and facts.most_pairs > facts.pairs:
        text += f" of at most {facts.most_pairs:,}"
    return text


def _count(stage: StageProgress) -> str:
    return f"{stage.done:,} of {stage.total:,}"


def _summary(run: RunProgress) -> str:
    """The whole run in one line: present work, share done, time, pace, and log loss."""
    return _joined(_doing(run), _total(run), duration(run.elapsed), _time_left(run), _pace(run), _score(run))


def _doing(run: RunProgress) -> str:
    """The work outside of the stages, as text."""
    return run.doing or (_COMPILING if run.compiling.total else "")


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _total(run: RunProgress) -> str:
    if run.is_growing and run.running is not None:
        return "growing"
    share = run.share
    return "" if share is None else f"{share:.0%} of the run"


def _time_left(run: RunProgress) -> str:
    """The time that is left, as text; empty if it is unknown or zero."""
    seconds = run.remaining
    if not seconds:
        return ""
    text = f"{'at most' if run.is_growing else 'about'} {duration(seconds)} left"
    if seconds < _LONG_SECONDS:
        return text
    end = datetime.now() + timedelta(seconds=seconds)
    return f"{text} (until {end:%H:%M})" if seconds < 86_400 else f"{text} (until {end:%d %b %H:%M})"


def _pace(run: RunProgress) -> str:
    rate, facts = run.pairs_per_second, run.facts
    if rate is None or facts is None:
        return ""
    return f"{rate:{',.0f' if rate >= 10 else '.2g'}} {facts.machines_on} per second"


def _score(run: RunProgress) -> str:
    return "" if run.log_loss is None else f"best held-out log loss {run.log_loss:.4f}"


def _progress_line(run: RunProgress) -> str:
    """The running stage and the whole run, on one line."""
    if run.running is None:
        return f"{run.facts.name if run.facts else 'pairloom'}: {_summary(run)}"
    return f"{run.running}: {_count(run.stages[run.running])}; {_summary(run)}"


def _finished_line(run: RunProgress, stage: StageProgress) -> str:
    """A stage that has just ended, and the time that is left, on one line."""
    took = f"{_count(stage)} in {duration(stage.seconds)}"
    pace = _pace(run) if stage.stage.trains else ""
    score = _score(run) if stage.stage.scores else ""
    return f"{stage.name}: {_joined(took, pace, _time_left(run), score)}"


def can_redraw(console: Console) -> bool:
    """Whether a console is a terminal that understands cursor movement.

    FORCE_COLOR, which only asks for colours, makes rich treat a file as a terminal.
    """
    real = console.file.isatty() and console.is_terminal
    return real and not console.is_dumb_terminal and not console.legacy_windows


def progress_for(console: Console, run: RunProgress | None = None) -> View | Lines:
    """A view on a terminal, lines elsewhere."""
    if can_redraw(console):
        return View(console, run)
    return Lines(sys.stderr if console.stderr else sys.stdout, run)
