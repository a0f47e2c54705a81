"""Show the progress of pictures with their rate: a bar on a terminal, otherwise one line per interval."""

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

from pairloom.cluster.watch.progress import LINE_SECONDS, can_redraw
from pairloom.graphs.text import duration

__all__ = ["PictureProgress"]


class PictureProgress:
    """Shows the number of finished pictures of the current step."""

    def __init__(self, console: Console) -> None:
        self._console, self._redraws = console, can_redraw(console)
        self._bar = Progress(
            TextColumn("{task.description:>10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:>10}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not self._redraws,
        )
        self._task = self._bar.add_task("", total=None, rate="")
        self._what, self._done, self._total, self._done_before = "", 0, 0, 0
        self._began_at = self._shown_at = 0.0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, what: str, done: int, total: int) -> None:
        """Start a step; ``done`` of its ``total`` pictures are finished."""
        self._what, self._done, self._total, self._done_before = what, done, total, done
        self._began_at = time.monotonic()
        self._bar.reset(self._task, description=what, total=total, completed=done, rate="")
        if not self._redraws:
            self._print_line()

    def advance(self, count: int) -> None:
        """Count more finished pictures."""
        self._done += count
        if self._redraws:
            self._bar.update(self._task, completed=self._done, rate=f"{self._rate:.1f}/s")
        elif self._done == self._total or time.monotonic() - self._shown_at >= LINE_SECONDS:
            self._print_line()

    def note(self, line: str) -> None:
        """Show a message to the user."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    @property
    def _rate(self) -> float:
        """Pictures per second since the step began in this process."""
        return (self._done - self._done_before) / max(time.monotonic() - self._began_at, 1e-9)

    def _print_line(self) -> None:
        self._shown_at = time.monotonic()
        line = f"{self._what}: {self._done} of {self._total}"
        if self._done > self._done_before:
            line += f", {self._rate:.1f} per second"
            if self._done < self._total:
                line += f", {duration((self._total - self._done) / self._rate)} left"
        self.note(line)
