"""How far a run is, told to a person: one bar on a terminal, one line an interval elsewhere."""

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
    """Says nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def begin(self, stage: str, done: int, total: int) -> None:
        """A stage begins, with some of its units done before."""

    def advance(self, receipt: Receipt) -> None:
        """One more unit is done."""

    def note(self, line: str) -> None:
        """Something that a person should know."""


class Lines(Quiet):
    """A line when a stage begins to do something, and then one an interval."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stage, self._done, self._total, self._said = "", 0, 0, 0.0

    def begin(self, stage: str, done: int, total: int) -> None:
        """A stage begins, with some of its units done before."""
        self._stage, self._done, self._total = stage, done, total
        if done < total:
            self._say()

    def advance(self, receipt: Receipt) -> None:
        """One more unit is done."""
        self._done += 1
        if self._done == self._total or time.monotonic() - self._said >= LINE_SECONDS:
            self._say()

    def note(self, line: str) -> None:
        """Something that a person should know."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _say(self) -> None:
        self._said = time.monotonic()
        self.note(f"{self._stage}: {self._done} of {self._total}")


class Bar(Lines):
    """One bar over the units of the stage."""

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

    def _say(self) -> None:
        self._bar.update(self._task, description=self._stage, completed=self._done, total=self._total)

    def begin(self, stage: str, done: int, total: int) -> None:
        """A stage begins, with some of its units done before."""
        self._bar.reset(self._task)
        super().begin(stage, done, total)

    def advance(self, receipt: Receipt) -> None:
        """One more unit is done."""
        self._done += 1
        self._say()


def progress_for(console: Console) -> Bar | Lines:
    """A bar where there is a terminal, lines where there is none."""
    return Bar(console) if console.is_terminal else Lines(console)
