"""Where the time went: by stage, planned beside actual, and by worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.report.chart import Chart, round_ticks
from pairloom.pipeline.report.markup import drawing, element, escaped, number
from pairloom.pipeline.report.run_record import RunTimes, WorkSpan
from pairloom.pipeline.report.section import Section
from pairloom.pipeline.report.table import Cell, Column, table

__all__ = ["run_seconds", "short_seconds", "times_section"]

#: The figure: its width, the height of a lane, and the width of the names of workers.
_WIDTH, _LANE, _NAMES = 720, 18, 96
#: Workers of the timeline, and of the table.
_MOST_LANES, _MOST_WORKERS = 24, 200
#: Colours of the timeline, of page.css.
_COLOURS = 14
_WAITING = "worker start"


def times_section(times: RunTimes) -> Section:
    """The table of the stages, the timeline of the workers, and their work."""
    stages = [stage for stage, work in times.work.items() if work]
    body = table("stages", _stage_columns(times), _stage_rows(times, stages), "Time by stage")
    if times.planned is None:
        body += (
            "<p>No times were planned. A forecast is measured if training should take more than a minute; the time left"
            " of a shorter run is guessed from its sizes and corrected as it goes.</p>"
        )
    if times.drivers > 1:
        body += (
            f"<p>{times.drivers} drivers have worked on this run. The time of a stage that several of them worked on is"
            " not known.</p>"
        )
    if times.spans:
        body += _timeline(times, stages)
    if times.workers:
        body += _workers(times.workers)
    return Section("time", "Time", body)


def _stage_columns(times: RunTimes) -> list[Column]:
    planned = [Column("planned", True, "least and most, from the forecast")] if times.planned else []
    return [
        Column("stage"),
        *planned,
        Column("took", True, "from its first beginning to its last end"),
        Column("work", True, "sum over all workers"),
    ]


def _stage_rows(times: RunTimes, stages: Sequence[str]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for stage in stages:
        took = times.elapsed.get(stage)
        row: list[Cell] = [stage]
        if times.planned:
            low, high = times.planned.get(stage, (None, None))
            row.append("" if low is None or high is None else f"{low:.1f} to {high:.1f} s")
        rows.append([*row, "" if took is None else f"{took:.1f} s", f"{times.work[stage]:.1f} s"])
    return rows + _total_rows(times)


def _total_rows(times: RunTimes) -> list[list[Cell]]:
    """The start of workers, and the whole run."""
    planned: list[Cell] = [""] if times.planned else []
    rows: list[list[Cell]] = []
    if times.worker_starts:
        waited = sum(
            end - begin for begin, end in (_without_pauses(times, wait) for wait in times.worker_starts)
        )
        rows.append([_WAITING, *planned, f"{waited:.1f} s", ""])
    if times.spans:
        work = sum(times.work.values())
        rows.append(["all, before this report", *planned, f"{run_seconds(times):.1f} s", f"{work:.1f} s"])
    return rows


def _timeline(times: RunTimes, stages: Sequence[str]) -> str:
    """Who did what when: a lane per worker. Time in which there was no driver is left out."""
    spans = times.spans
    work = _seconds_by_worker(spans)
    workers = sorted(sorted(work, key=lambda worker: (-work[worker], worker))[:_MOST_LANES])
    lanes = {worker: lane for lane, worker in enumerate(workers)}
    starts, end = _without_pauses(times, [span.begun for span in spans]), run_seconds(times)
    plane = Chart(_NAMES, 6, _WIDTH - _NAMES - 8, _LANE * len(workers), (0.0, max(end, 1e-3)), (0.0, 1.0))
    paths = [
        f'<path class="stage-{place % _COLOURS}" d="{_bars(plane, spans, starts, lanes, stage)}">'
        f"<title>{escaped(stage)}</title></path>"
        for place, stage in enumerate(stages)
    ]
    ticks = round_ticks(0.0, plane.x_range[1], 6)
    grid = "".join(f'<path class="grid" d="M{number(x)} 6v{plane.height}"/>' for x in plane.x(ticks))
    few = "" if len(workers) == len(work) else f" The {_MOST_LANES} busiest of {len(work)} workers."
    alternative = (
        f"Timeline of {len(workers)} workers over {short_seconds(end)}. The table above has the times."
    )
    figure = drawing(
        _WIDTH,
        plane.height + 46,
        alternative,
        [
            _waits(plane, times),
            grid,
            *map(_lane_name, workers, range(len(workers))),
            *paths,
            plane.x_axis(ticks, "seconds"),
        ],
        class_="chart wide",
    )
    keys = "".join(
        f'<span class="key stage-{place % _COLOURS}">{escaped(stage)}</span>'
        for place, stage in enumerate(stages)
    )
    keys += f'<span class="key waits">{_WAITING}</span>' if times.worker_starts else ""
    caption = element("figcaption", f"A lane per worker.{few} {keys}", class_="legend")
    return element("figure", caption + element("div", figure, class_="scroll"))


def _waits(plane: Chart, times: RunTimes) -> str:
    """The times in which workers started, over all lanes."""
    return "".join(
        f'<rect class="waits" x="{number(left)}" y="6" width="{number(max(right - left, 1))}"'
        f' height="{plane.height}"><title>{_WAITING}</title></rect>'
        for left, right in (plane.x(_without_pauses(times, wait)) for wait in times.worker_starts)
    )


def _seconds_by_worker(spans: Sequence[WorkSpan]) -> dict[str, float]:
    work = dict[str, float]()
    for span in spans:
        work[span.worker] = work.get(span.worker, 0.0) + span.seconds
    return work


def _lane_name(worker: str, lane: int) -> str:
    """Host and process of a worker, at the left of its lane; of a long name the end, which differs most."""
    shown = worker if len(worker) <= 15 else f"…{worker[-14:]}"
    y = number(6 + lane * _LANE + 13)
    return f'<text class="tick end" x="{_NAMES - 6}" y="{y}">{escaped(shown)}<title>{escaped(worker)}</title></text>'


def run_seconds(times: RunTimes) -> float:
    """Seconds from the begin of the first driver to the end of the work, without those in which there was no driver."""
    return sum(end - begin for begin, end in _at_work(times))


def _at_work(times: RunTimes) -> list[tuple[float, float]]:
    """When there was a driver, or work that one had left to workers."""
    work = [(span.begun, span.begun + span.seconds) for span in times.spans]
    return _merged(sorted([*times.at_work, *work]), 0.0)


def _without_pauses(times: RunTimes, when: Sequence[float]) -> NDArray[np.float64]:
    """Moments on the clock of the run, which stands still while there is no driver."""
    begin, end = np.array(_at_work(times)).T
    return np.asarray(np.clip(np.asarray(when)[:, None] - begin, 0.0, end - begin).sum(axis=1))


def _bars(
    plane: Chart, spans: Sequence[WorkSpan], starts: NDArray[np.float64], lanes: Mapping[str, int], stage: str
) -> str:
    """The path of a stage: a bar per unit, units that no pixel separates as one."""
    own = sorted(
        (lanes[span.worker], float(start), float(start) + span.seconds)
        for span, start in zip(spans, starts, strict=True)
        if span.stage == stage and span.worker in lanes
    )
    pixel = (plane.x_range[1] - plane.x_range[0]) / plane.width
    path = []
    for lane, units in groupby(own, key=lambda unit: unit[0]):
        for begin, end in _merged([unit[1:] for unit in units], pixel):
            left, right = plane.x([begin, end])
            top, width = plane.top + lane * _LANE + 2, number(max(right - left, 1))
            path.append(f"M{number(left)} {number(top)}h{width}v{_LANE - 4}h-{width}z")
    return "".join(path)


def _merged(units: Sequence[tuple[float, float]], gap: float) -> list[tuple[float, float]]:
    """Intervals, by their beginnings, joined where less than a gap lies between them."""
    merged: list[tuple[float, float]] = []
    for begin, end in units:
        if merged and begin - merged[-1][1] < gap:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def _workers(workers: Mapping[str, Mapping[str, float]]) -> str:
    total = {worker: sum(by_stage.values()) for worker, by_stage in workers.items()}
    busiest = sorted(total, key=lambda worker: (-total[worker], worker))[:_MOST_WORKERS]
    rows: list[list[Cell]] = [
        [worker, f"{total[worker]:.1f} s", _largest(workers[worker])] for worker in busiest
    ]
    columns = [Column("worker"), Column("work", True), Column("most of it in")]
    few = "" if len(busiest) == len(workers) else f" (the {_MOST_WORKERS} busiest)"
    summary = f"<summary>Work of {len(workers)} workers{few}</summary>"
    return element("details", summary + table("workers", columns, rows, "Work by worker", sortable=True))


def _largest(by_stage: Mapping[str, float]) -> str:
    most = sorted(by_stage, key=lambda stage: -by_stage[stage])[:3]
    return ", ".join(f"{stage} {by_stage[stage]:.1f} s" for stage in most)


def short_seconds(seconds: float) -> str:
    """A time in the unit that suits it.

    Examples
    --------
    >>> short_seconds(0.25), short_seconds(61), short_seconds(5000)
    ('0.2 s', '61 s', '83 min')
    """
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
