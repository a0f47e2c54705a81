"""How a run went, as its report tells it: configuration, versions, data, times, warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["RunRecord", "RunTimes", "WorkSpan", "WrittenWarning"]


class WrittenWarning(NamedTuple):
    """A warning of a run, and how often it was given."""

    message: str
    times: int


class WorkSpan(NamedTuple):
    """One unit of work: its stage, who did it, when it was begun (seconds since 1970) and how long it took."""

    stage: str
    worker: str
    begun: float
    seconds: float


class RunTimes(NamedTuple):
    """Seconds by stage: of work, summed over workers; that passed; and the least and most that were planned.

    What passed is missing for a stage that several drivers worked on, what was planned is None for a run without a
    forecast. ``spans`` are the units of work whose beginning is known, and ``drivers`` how many drivers they had.
    ``at_work`` is from when to when each driver was at work, ``worker_starts`` from when to when workers were started.
    """

    work: Mapping[str, float]
    elapsed: Mapping[str, float]
    planned: Mapping[str, tuple[float, float]] | None = None
    workers: Mapping[str, Mapping[str, float]] = {}
    spans: Sequence[WorkSpan] = ()
    drivers: int = 1
    at_work: Sequence[tuple[float, float]] = ()
    worker_starts: Sequence[tuple[float, float]] = ()


class RunRecord(NamedTuple):
    """What a report tells about a run besides its results.

    Attributes
    ----------
    name
        Name of the run directory.
    begun
        When its first unit was begun, ISO 8601; empty if the log does not tell.
    configuration
        All keys of the configuration, by section.
    changed
        Those keys, with dots, that differ from their defaults.
    versions, fingerprints
        Of packages, and of the data.
    graph
        Label of the model graph: its family and parameters.
    warnings
        Of planning, then of all tasks, most frequent first.
    growth_ended
        Why a run that grew grows no further, such as "the budget of 60 seconds is spent".
    """

    name: str
    begun: str
    configuration: Mapping[str, Any]
    changed: frozenset[str]
    versions: Mapping[str, str]
    fingerprints: Mapping[str, str]
    graph: Mapping[str, Any]
    warnings: Sequence[WrittenWarning]
    growth_ended: str | None = None
