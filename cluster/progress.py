"""Show the progress of a run: a bar on a terminal, otherwise one line per interval."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from pairloom.cluster.units import Receipt

__all__ = ["Bar", "Lines", "Quiet", "progress_for"]

LINE_SECONDS = 10.0


class Quiet:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def begin(self, stage: str, done: int, total: int) -> None:
        """Start a stage; ``done`` of its ``total`` units are finished."""

    def advance(self, receipt: Receipt) -> None:
        """Count one more finished unit."""

    def note(self, line: str) -> None:
        """Show a message to the user."""


class Lines(Quiet):
    """Prints a line when a stage starts to work, then one per interval."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stage, self._done, self._total, self._shown_at = "", 0, 0, 0.0

    def begin(self, stage: str, done: int, total: int) -> None:
        """Start a stage; ``done`` of its ``total`` units are finished."""
        self._stage, self._done, self._total = stage, done, total
        if done < total:
            self._show_count()

    def advance(self, receipt: Receipt) -> None:
        """Count one more finished unit."""
        self._done += 1
        if self._done == self._total or time.monotonic() - self._shown_at >= LINE_SECONDS:
            self._show_count()

    def note(self, line: str) -> None:
        """Show a message to the user."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _show_count(self) -> None:
        self._shown_at = time.monotonic()
        self.note(f"{self._stage}: {self._done} of {self._total}")


class Bar(Lines):
    """Shows one bar, over the units of the current stage."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        columns = (TextColumn("{task.description:>13}"), BarColumn(), MofNCompleteColumn())
        self._bar = RichProgress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console)
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def _show_count(self) -> None:
        self._bar.update(self._task, description=self._stage, completed=self._done, total=self._total)

    def begin(self, stage: str, done: int, total: int) -> None:
        """Start a stage; ``done`` of its ``total`` units are finished."""
        self._bar.reset(self._task)
        super().begin(stage, done, total)

    def advance(self, receipt: Receipt) -> None:
        """Count one more finished unit."""
        self._done += 1
        self._show_count()


def progress_for(console: Console) -> Bar | Lines:
    """A bar on a terminal, lines elsewhere."""
    return Bar(console) if console.is_terminal else Lines(console)
