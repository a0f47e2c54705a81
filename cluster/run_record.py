"""What the report of a run tells about how it went, from its plan, its ledger and its log."""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pairloom.cluster.forecast_file import read_forecast
from pairloom.cluster.growing_run import end_of_growth
from pairloom.cluster.ledger import Entry
from pairloom.cluster.run_log import (
    begin_times,
    driver_spans,
    driver_starts,
    elapsed_seconds,
    first_time,
    worker_starts,
    written_warnings,
)
from pairloom.pipeline.report.run_record import RunRecord, RunTimes, WorkSpan, WrittenWarning

if TYPE_CHECKING:
    from pairloom.cluster.plan import Plan

__all__ = ["run_record", "run_times"]


def run_record(directory: Path, plan: Plan) -> RunRecord:
    """Configuration, versions, data and warnings of a run."""
    config = plan.config.model_dump(mode="json", exclude_none=True)
    changed = plan.config.model_dump(mode="json", exclude_defaults=True)
    return RunRecord(
        name=directory.resolve().name,
        begun=first_time(directory),
        configuration=config,
        changed=frozenset(_leaves(changed)),
        versions=plan.versions,
        fingerprints=plan.fingerprints,
        graph=plan.graph,
        warnings=_warnings(directory, plan),
        growth_ended=end_of_growth(directory, plan),
    )


def _warnings(directory: Path, plan: Plan) -> list[WrittenWarning]:
    """Of planning, then of tasks, most frequent first."""
    found = Counter(plan.warnings).most_common() + written_warnings(directory).most_common()
    return [WrittenWarning(*one) for one in found]


def run_times(directory: Path, stages: Sequence[str], entries: Sequence[Entry]) -> RunTimes:
    """Times of stages and workers, by their entries in the ledger."""
    begun, starts = begin_times(directory), driver_starts(directory)
    spans = [
        WorkSpan(entry.stage, entry.worker, begun[entry.stage, entry.unit], entry.seconds)
        for entry in entries
        if (entry.stage, entry.unit) in begun
    ]
    end = max((span.begun + span.seconds for span in spans), default=0.0)
    workers = defaultdict[str, dict[str, float]](dict)
    for entry in entries:
        own = workers[entry.worker]
        own[entry.stage] = own.get(entry.stage, 0.0) + entry.seconds
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


def _leaves(values: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """The keys of a configuration, with dots."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}"
