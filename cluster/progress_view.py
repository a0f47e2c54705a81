"""The progress of a run as text: a view of all its stages for a terminal of any size, and a line for a log."""

from __future__ import annotations

import textwrap
from datetime import datetime, timedelta
from typing import NamedTuple

from pairloom.cluster.run_progress import RunProgress, StageProgress
from pairloom.pipeline.progress_bar import Marks, bar_text

__all__ = ["Styled", "finished_line", "progress_line", "time_left", "view_lines"]

# Widths of columns: the longest name is "probabilities", the longest time "119.9 s".
_NAME, _TIME = 13, 8
_LEAST_BAR, _MOST_BAR = 8, 30
# From here on, the time of day at which the run should end is worth reading.
_LONG_SECONDS = 600.0


class Styled(NamedTuple):
    """A line without control characters, and how to show it: "done", "running", "to come" or "summary"."""

    text: str
    style: str


def view_lines(run: RunProgress, width: int, height: int, marks: Marks) -> list[Styled]:
    """All stages and a summary, on lines shorter than ``width``; if there are more than ``height``, fewer stages."""
    width, summary = max(width - 1, 1), _summary(run)
    below = [Styled(line, "summary") for line in textwrap.wrap(summary, width, break_long_words=True)]
    heading = [Styled(_heading(run)[:width], "summary")] if run.facts is not None else []
    stages = [stage for stage in run.stages.values() if stage.total]
    counts = max((len(_count(stage)) for stage in stages), default=0)
    rows = [_stage_line(run, stage, counts, width, marks) for stage in stages]
    lines = [*heading, *_fitting(rows, height - len(heading) - len(below)), *below]
    return lines[-max(height, 1) :]


def _fitting(rows: list[Styled], room: int) -> list[Styled]:
    """The rows of a table that is too high: those that are running or to come, and as many as fit of those done."""
    if len(rows) <= room:
        return rows
    done = [row for row in rows if row.style == "done"]
    others = [row for row in rows if row.style != "done"]
    kept = max(0, room - len(others))
    return [*done[len(done) - kept :], *others][: max(room, 1)]


def _heading(run: RunProgress) -> str:
    assert run.facts is not None
    facts = run.facts
    text = f"{facts.name}: {facts.classes:,} classes, {facts.pairs:,} {facts.machines_on}"
    if facts.most_pairs is not None and facts.most_pairs > facts.pairs:
        text += f" of at most {facts.most_pairs:,}"
    return text


def _count(stage: StageProgress) -> str:
    return f"{stage.done:,} of {stage.total:,}"


def _stage_line(run: RunProgress, stage: StageProgress, counts: int, width: int, marks: Marks) -> Styled:
    style = _style(run, stage)
    mark = {"done": marks.done, "running": marks.running, "to come": " "}[style]
    spent = _duration(stage.seconds) if stage.seconds else ""
    text = f"{mark} {stage.name:<{_NAME}} {_count(stage):>{counts}} {spent:>{_TIME}}"
    room = width - len(text) - len("  100%")
    if style == "running" and room > _LEAST_BAR:
        text += f" {bar_text(stage.share, min(_MOST_BAR, room - 1), marks)} {stage.share:4.0%}"
    return Styled(text[:width].rstrip(), style)


def _style(run: RunProgress, stage: StageProgress) -> str:
    if stage.name == run.running and not stage.is_done:
        return "running"
    return "done" if stage.is_done else "to come"


def _summary(run: RunProgress) -> str:
    """The whole run in one line: what it does, how far it is, how fast, and how well."""
    parts = [run.doing or "", _total(run), _duration(run.elapsed), time_left(run), _pace(run), _score(run)]
    return ", ".join(part for part in parts if part)


def _total(run: RunProgress) -> str:
    if run.is_growing and run.running is not None:
        return "growing"
    share = run.share
    return "" if share is None else f"{share:.0%} of the run"


def time_left(run: RunProgress) -> str:
    """How long the run should still take; empty where nothing is known, or nothing is left."""
    seconds = run.remaining
    if not seconds:
        return ""
    text = f"{'at most' if run.is_growing else 'about'} {_duration(seconds)} left"
    if seconds < _LONG_SECONDS:
        return text
    end = datetime.now() + timedelta(seconds=seconds)
    return f"{text} (until {end:%H:%M})" if seconds < 86_400 else f"{text} (until {end:%d %b %H:%M})"


def _pace(run: RunProgress) -> str:
    rate, facts = run.pairs_per_second, run.facts
    if rate is None or facts is None:
        return ""
    return (
        f"{rate:,.0f} {facts.machines_on} per second"
        if rate >= 10
        else f"{rate:.2g} {facts.machines_on} per second"
    )


def _score(run: RunProgress) -> str:
    return "" if run.log_loss is None else f"best held-out log loss {run.log_loss:.4f}"


def progress_line(run: RunProgress) -> str:
    """The stage that is running, and the whole run, on one line."""
    name = run.running or (run.facts.name if run.facts else "pairloom")
    if run.running is None:
        return f"{name}: {_summary(run)}"
    return f"{name}: {_count(run.stages[name])}; {_summary(run)}"


def finished_line(run: RunProgress) -> str:
    """The stage that has just ended, and what is left, on one line."""
    assert run.running is not None
    stage = run.stages[run.running]
    parts = [f"{_count(stage)} in {_duration(stage.seconds)}"]
    if stage.name == "machines":
        parts.append(_pace(run))
    parts.append(time_left(run))
    if stage.name in ("growth", "calibration"):
        parts.append(_score(run))
    return f"{stage.name}: {', '.join(part for part in parts if part)}"


def _duration(seconds: float) -> str:
    """A time in whole seconds or more, since it changes on the screen.

    Examples
    --------
    >>> [_duration(s) for s in (0.31, 9.96, 61, 605, 5000, 200_000)]
    ['0.3 s', '10 s', '61 s', '10 min', '83 min', '56 h']
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"
