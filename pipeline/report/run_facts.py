"""The facts of a run: its data, the chosen model, configuration, versions, warnings, and times.

Times are given per stage, planned and actual, and per worker.
"""

from __future__ import annotations

import bisect
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from pairloom.graphs.text import duration
from pairloom.pipeline.config.cluster_config import shown_setting
from pairloom.pipeline.config.config import flattened
from pairloom.pipeline.report.page import Chart, Column, PageTable, Section, coordinate, round_ticks
from pairloom.pipeline.run.feature_store import read_normalisation
from pairloom.pipeline.run.ledger import Entry
from pairloom.pipeline.run.results import (
    candidate_rows,
    chosen_calibration,
    chosen_candidate,
    chosen_coupling,
    chosen_shortlist,
    judged_calibrations,
    read_calibrations,
    read_learning_record,
    read_mass_check,
)
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_log import (
    begin_times,
    driver_spans,
    driver_starts,
    elapsed_seconds,
    read_forecast,
    worker_starts,
    written_warnings,
)
from pairloom.pipeline.storage.location import Location

__all__ = [
    "RunTimes",
    "WorkSpan",
    "configuration_section",
    "model_section",
    "run_seconds",
    "run_times",
    "run_warnings",
    "times_section",
    "warnings_section",
]


def model_section(run: Run) -> Section:
    """The data, the machines, and the settings that the run chose."""
    shape, chosen, rows = run.shape, chosen_candidate(run), np.array(run.shape.rows)
    length = chosen_shortlist(run)
    spread = f"{rows.min():,}" if rows.min() == rows.max() else f"{rows.min():,} to {rows.max():,}"
    scale = read_calibrations(run)[shape.couplings[0]].scale
    C = read_normalisation(run).outer_C(chosen.C)
    facts = {
        "data": str(run.config.data.features) + (" (synthetic)" if shape.synthetic else ""),
        "training": f"{rows.sum():,} rows of {shape.features:,} features, {spread} per class",
        "test": f"{shape.samples:,} samples" + ("" if shape.labelled else ", without labels"),
        "machines": f"{shape.n_edges * shape.machines_per_edge:,}, {shape.machines_per_edge} per "
        + shape.decomposition.noun,
        "kernel": run.kernel_choice.why or _kernel_name(run),
        "C": f"{C:.4g}",
        "whitening": str(chosen.whiten),
        "calibration": f"{chosen_calibration(run)}, coupled scale {scale:.3g}",
        "coupling": chosen_coupling(run) + (f", of the {length} likeliest classes" if length else ""),
        **_lists(run),
        **_learning(run),
    }
    tables = {"candidates": _candidates(run), "calibrations": _calibrations(run)}
    return Section("model", "Data and model", {"facts": facts, **tables})


def _lists(run: Run) -> dict[str, str]:
    """The mass of the lists by the model, beside the share of held-out samples whose class is listed, if checked."""
    check = read_mass_check(run.directory, 0)
    if check is None:
        return {}
    return {
        "shortlist": f"holds the class of {check.found:.1%} of the held-out samples; the model says {check.said:.1%},"
        f" and one scale for list and rest would say {check.with_one_scale:.1%}"
    }


def _learning(run: Run) -> dict[str, str]:
    """The gain of learning through the coupling, if the run learns."""
    record = read_learning_record(run)
    if record is None:
        return {}
    if not record.iterations:
        return {"learning": f"no clear gain on {record.held_out:,} held-out samples: the machines were kept"}
    return {
        "learning": f"{record.iterations} steps through the coupling; log loss of {record.held_out:,} held-out samples"
        f" {record.held_out_before:.4f} before, {record.held_out_after:.4f} after"
    }


def _candidates(run: Run) -> PageTable | None:
    """The candidates that were compared, if there was a choice."""
    candidates = candidate_rows(run)
    if not candidates:
        return None
    (inner_C, whiten, _), standardised = chosen_candidate(run), run.shape.standardised
    C, gamma = read_normalisation(run).outer_C(inner_C), None if run.kernel is None else run.kernel.gamma
    chosen = (_kernel_name(run), gamma, standardised, C, whiten)
    rows = [
        [
            row["kernel"] if row["gamma"] is None else f"{row['kernel']}, gamma {row['gamma']:.4g}",
            "yes" if row["standardise"] else "no",
            f"{row['C']:.4g}",
            str(row["whiten"]),
            row["calibration"],
            f"{row['log_loss']:.4f}",
            "chosen" if tuple(row[name] for name in _CHOSEN) == chosen else "",
        ]
        for row in candidates
    ]
    columns = [
        Column("kernel"),
        Column("standardised"),
        Column("C", "number"),
        Column("whitening"),
        Column("calibration"),
        Column("held-out log loss", "number"),
        Column(""),
    ]
    return PageTable("candidates", "Candidates", columns, rows, sortable=True)


_CHOSEN = ("kernel", "gamma", "standardise", "C", "whiten")


def _kernel_name(run: Run) -> str:
    return "linear" if run.kernel is None else run.kernel.name


def _calibrations(run: Run) -> PageTable | None:
    """The calibrations and couplings that were compared on the run's machines, if there was a choice."""
    judged = judged_calibrations(run)
    if not judged:
        return None
    chosen = (chosen_calibration(run), chosen_coupling(run))
    rows = [
        [
            row["calibration"],
            row["coupling"],
            f"{row['log_loss']:.4f}",
            "chosen" if (row["calibration"], row["coupling"]) == chosen else "",
        ]
        for row in judged
    ]
    columns = [
        Column("calibration"),
        Column("coupling"),
        Column("held-out log loss", "number"),
        Column(""),
    ]
    return PageTable("calibrations", "Calibrations and couplings", columns, rows, sortable=True)


def configuration_section(run: Run) -> Section:
    """The configuration, keys that differ from their defaults first, and versions and fingerprints."""
    keys = [Column("key"), Column("value")]
    every = [
        [key, _code(shown_setting(key, value))]
        for key, value in flattened(run.config.model_dump(mode="json", exclude_none=True), levels=3)
    ]
    differing = dict(flattened(run.config.model_dump(mode="json", exclude_defaults=True), levels=3))
    changed = [row for row in every if row[0] in differing]
    prints = [[f"{part} samples", _code(text)] for part, text in run.fingerprints.items()]
    content = {
        "changed": PageTable("changed", "Changed keys", keys, changed),
        "every": PageTable("configuration", "Configuration", keys, every, search="a key"),
        "versions": PageTable(
            "versions", "Versions", [Column("package"), Column("version")], list(run.versions.items())
        ),
        "fingerprints": PageTable(
            "fingerprints", "Fingerprints of the data", [Column("data"), Column("SHA-256")], prints
        ),
    }
    return Section("configuration", "Configuration", content)


def _code(value: Any) -> Markup:
    """A value as JSON; a long list is cut."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Markup("<code>{}</code>").format(text if len(text) <= 300 else f"{text[:299]}…")


def run_warnings(run: Run) -> list[tuple[str, int]]:
    """The warnings of planning, then of tasks, each with its count, most frequent first."""
    return Counter(run.warnings).most_common() + written_warnings(run.directory).most_common()


def warnings_section(warnings: Sequence[tuple[str, int]]) -> Section:
    """The list of the warnings."""
    return Section("warnings", "Warnings", {"warnings": warnings})


#: The width of the timeline, the height of a lane, and the width of the names of workers.
_WIDTH, _LANE, _NAMES = 720, 18, 96
#: Maximum number of workers in the timeline, and in the table.
_MOST_LANES, _MOST_WORKERS = 24, 200


class WorkSpan(NamedTuple):
    """One unit of work: its stage, its worker, its start (seconds since 1970) and its duration."""

    stage: str
    worker: str
    begun: float
    seconds: float


class RunTimes(NamedTuple):
    """The times of a run, in seconds.

    Attributes
    ----------
    work
        Work per stage, summed over workers.
    elapsed
        Time that each stage took. Missing for a stage that several drivers worked on.
    planned
        Least and most time per stage; None for a run without a forecast.
    workers
        Work per worker and stage.
    spans
        The units of work whose start is known.
    drivers
        Number of drivers of those units.
    at_work, worker_starts
        Start and end of the work of each driver, and of each wait for workers.
    """

    work: Mapping[str, float]
    elapsed: Mapping[str, float]
    planned: Mapping[str, tuple[float, float]] | None = None
    workers: Mapping[str, Mapping[str, float]] = {}
    spans: Sequence[WorkSpan] = ()
    drivers: int = 1
    at_work: Sequence[tuple[float, float]] = ()
    worker_starts: Sequence[tuple[float, float]] = ()


def run_times(directory: Location, stages: Sequence[str], entries: Sequence[Entry]) -> RunTimes:
    """Times of stages and workers, from the entries in the ledger."""
    begun, starts = begin_times(directory), driver_starts(directory)
    spans = [
        WorkSpan(entry.stage, entry.worker, begun[entry.stage, entry.unit], entry.seconds)
        for entry in entries
        if (entry.stage, entry.unit) in begun
    ]
    end = max((span.begun + span.seconds for span in spans), default=0.0)
    workers = defaultdict[str, dict[str, float]](dict)
    for entry in entries:
        by_stage = workers[entry.worker]
        by_stage[entry.stage] = by_stage.get(entry.stage, 0.0) + entry.seconds
    return RunTimes(
        work={name: sum(entry.seconds for entry in entries if entry.stage == name) for name in stages},
        elapsed=elapsed_seconds(directory, entries),
        planned=read_forecast(directory),
        workers=workers,
        spans=spans,
        drivers=len({bisect.bisect_right(starts, span.begun) for span in spans}),
        at_work=driver_spans(directory, end),
        worker_starts=[(since, until) for since, until in worker_starts(directory) if until <= end],
    )


def times_section(times: RunTimes) -> Section:
    """The table of the stages, the timeline of the workers, and their work."""
    stages = [stage for stage, work in times.work.items() if work]
    content = {
        "stages": _stages_table(times, stages),
        "planned": times.planned is not None,
        "drivers": times.drivers,
        "timeline": _timeline(times, stages) if times.spans else None,
        "workers": _workers(times.workers) if times.workers else None,
    }
    return Section("time", "Time", content)


def _stages_table(times: RunTimes, stages: Sequence[str]) -> PageTable:
    """Planned time, actual time and work of every stage, of the wait for workers and of the whole run."""
    planned = {stage: f"{low:.1f} to {high:.1f} s" for stage, (low, high) in (times.planned or {}).items()}
    took = {stage: f"{seconds:.1f} s" for stage, seconds in times.elapsed.items()}
    rows = [
        [stage, planned.get(stage, ""), took.get(stage, ""), f"{times.work[stage]:.1f} s"] for stage in stages
    ]
    if times.worker_starts:
        waited = sum(end - begin for begin, end in _worker_starts(times))
        rows.append(["worker start", "", f"{waited:.1f} s", ""])
    if times.spans:
        work = sum(times.work.values())
        rows.append(["all, before this report", "", f"{run_seconds(times):.1f} s", f"{work:.1f} s"])
    columns = [
        Column("stage"),
        Column("planned", "number", "range of the forecast"),
        Column("took", "number", "from the start of its first task to the end of its last"),
        Column("work", "number", "sum over all workers"),
    ]
    if not planned:
        columns, rows = [columns[0], *columns[2:]], [[row[0], *row[2:]] for row in rows]
    return PageTable("stages", "Time by stage", columns, rows)


def _worker_starts(times: RunTimes) -> list[NDArray[np.float64]]:
    return [_without_pauses(times, start) for start in times.worker_starts]


def _timeline(times: RunTimes, stages: Sequence[str]) -> dict[str, Any]:
    """The work of every worker over time, one lane each, without time in which there was no driver."""
    work: defaultdict[str, float] = defaultdict(float)
    for span in times.spans:
        work[span.worker] += span.seconds
    workers = sorted(sorted(work, key=lambda worker: (-work[worker], worker))[:_MOST_LANES])
    lanes = {worker: lane for lane, worker in enumerate(workers)}
    starts, end = _without_pauses(times, [span.begun for span in times.spans]), run_seconds(times)
    plane = Chart(_NAMES, 6, _WIDTH - _NAMES - 8, _LANE * len(workers), (0.0, max(end, 1e-3)))
    return {
        "width": _WIDTH,
        "plane": plane,
        "ticks": round_ticks(0.0, plane.x_range[1], 6),
        "duration": duration(end),
        "workers": len(work),
        # A long name is cut at the front, because the ends of names differ most.
        "lanes": [
            {
                "worker": worker,
                "name": worker if len(worker) <= 15 else f"…{worker[-14:]}",
                "y": 6 + lane * _LANE + 13,
            }
            for worker, lane in lanes.items()
        ],
        "stages": [
            {"name": stage, "path": _bars(plane, times.spans, starts, lanes, stage)} for stage in stages
        ],
        "waits": [plane.x(start) for start in _worker_starts(times)],
    }


def run_seconds(times: RunTimes) -> float:
    """Seconds from the start of the first driver to the end of the work, without pauses that had no driver."""
    return sum(end - begin for begin, end in _at_work(times))


def _at_work(times: RunTimes) -> list[tuple[float, float]]:
    """Intervals in which a driver was at work, or workers finished its tasks."""
    work = [(span.begun, span.begun + span.seconds) for span in times.spans]
    return _merged(sorted([*times.at_work, *work]), 0.0)


def _without_pauses(times: RunTimes, when: Sequence[float]) -> NDArray[np.float64]:
    """Times on the clock of the run, which stops while there is no driver."""
    begin, end = np.array(_at_work(times)).T
    return np.asarray(np.clip(np.asarray(when)[:, None] - begin, 0.0, end - begin).sum(axis=1))


def _bars(
    plane: Chart, spans: Sequence[WorkSpan], starts: NDArray[np.float64], lanes: Mapping[str, int], stage: str
) -> str:
    """The path of a stage: a bar per unit. Units that are less than a pixel apart share a bar."""
    units = sorted(
        (lanes[span.worker], float(start), float(start) + span.seconds)
        for span, start in zip(spans, starts, strict=True)
        if span.stage == stage and span.worker in lanes
    )
    pixel = (plane.x_range[1] - plane.x_range[0]) / plane.width
    path = []
    for lane, in_lane in groupby(units, key=lambda unit: unit[0]):
        for begin, end in _merged([unit[1:] for unit in in_lane], pixel):
            left, right = plane.x([begin, end])
            top, width = plane.top + lane * _LANE + 2, coordinate(max(right - left, 1))
            path.append(f"M{coordinate(left)} {coordinate(top)}h{width}v{_LANE - 4}h-{width}z")
    return "".join(path)


def _merged(units: Sequence[tuple[float, float]], gap: float) -> list[tuple[float, float]]:
    """Sorted intervals, joined if they are less than ``gap`` apart."""
    merged: list[tuple[float, float]] = []
    for begin, end in units:
        if merged and begin - merged[-1][1] < gap:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def _workers(workers: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """The work of the busiest workers, and the stages that took most of it."""
    total = {worker: sum(by_stage.values()) for worker, by_stage in workers.items()}
    busiest = sorted(total, key=lambda worker: (-total[worker], worker))[:_MOST_WORKERS]
    rows = [[worker, f"{total[worker]:.1f} s", _largest(workers[worker])] for worker in busiest]
    columns = [Column("worker"), Column("work", "number"), Column("most of it in")]
    table = PageTable("workers", "Work by worker", columns, rows, sortable=True)
    return {"number": len(workers), "table": table}


def _largest(by_stage: Mapping[str, float]) -> str:
    most = sorted(by_stage, key=lambda stage: -by_stage[stage])[:3]
    return ", ".join(f"{stage} {by_stage[stage]:.1f} s" for stage in most)
