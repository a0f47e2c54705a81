"""Show the progress of pictures: a bar on a terminal, otherwise one line per interval; both with a rate."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pairloom.cluster.printing import short_time
from pairloom.cluster.progress import LINE_SECONDS, can_redraw

__all__ = ["PictureBar", "PictureLines", "picture_progress_for"]


class PictureLines:
    """Prints a line when a step starts, one per interval, and one at its end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._what, self._done, self._total, self._from = "", 0, 0, 0
        self._began_at = self._shown_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def begin(self, what: str, done: int, total: int) -> None:
        """Start a step; ``done`` of its ``total`` pictures are finished."""
        self._what, self._done, self._total, self._from = what, done, total, done
        self._began_at = time.monotonic()
        self._show()

    def advance(self, count: int) -> None:
        """Count more finished pictures."""
        self._done += count
        if self._done == self._total or time.monotonic() - self._shown_at >= LINE_SECONDS:
            self._show()

    def note(self, line: str) -> None:
        """Show a message to the user."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    @property
    def _rate(self) -> float:
        """Pictures per second since the step began in this process."""
        return (self._done - self._from) / max(time.monotonic() - self._began_at, 1e-9)

    def _show(self) -> None:
        self._shown_at = time.monotonic()
        line = f"{self._what}: {self._done} of {self._total}"
        if self._done > self._from:
            line += f", {self._rate:.1f} per second"
            if self._done < self._total:
                line += f", {short_time((self._total - self._done) / self._rate)} left"
        self.note(line)


class PictureBar(PictureLines):
    """Shows one bar, over the pictures of the current step."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        columns = (TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn())
        rate = TextColumn("{task.fields[rate]:>10}")
        self._bar = Progress(*columns, rate, TimeElapsedColumn(), TimeRemainingColumn(), console=console)
        self._task = self._bar.add_task("", total=None, rate="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, what: str, done: int, total: int) -> None:
        """Start a step; ``done`` of its ``total`` pictures are finished."""
        self._bar.reset(self._task, rate="")
        super().begin(what, done, total)

    def advance(self, count: int) -> None:
        """Count more finished pictures."""
        self._done += count
        self._show()

    def _show(self) -> None:
        rate = f"{self._rate:.1f}/s" if self._done > self._from else ""
        self._bar.update(
            self._task, description=self._what, completed=self._done, total=self._total, rate=rate
        )


def picture_progress_for(console: Console) -> PictureBar | PictureLines:
    """A bar on a terminal, lines elsewhere."""
    return PictureBar(console) if can_redraw(console) else PictureLines(console)
