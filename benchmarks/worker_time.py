"""Where the time of the workers goes: every worker-second of a run belongs to exactly one heading.

W workers that a run of T seconds had gave it W T worker-seconds. A worker is either in a task, or it is not:

- training, applying, coupling: in a task of that kind, outside the store;
- store: in a task, reading or writing the run directory, digests and ledger included (the profiler's share);
- transfer: in a task, fetching arguments from other workers or deserialising them (the task stream);
- scheduler: without a task although the stage has tasks that nobody has begun, or while no worker has one: the round
  trip through scheduler and driver, at the end of a stage also the comparison of the next stage's files;
- idle: without a task, because the stage has no more of them but another worker is still at one: the tail of a stage,
  and stages that run their tasks in turn;
- driver: the driver does a stage itself, or plans;
- other: in a task of another stage (draws, statistics, whitening, the description of the model, the report).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

from pairloom.benchmarks.timed_run import Interval, TaskSpan, TimedRun
from pairloom.cluster.stages import STAGES

TRAINING, APPLYING, COUPLING = (
    ("candidates", "machines"),
    ("held_out", "logits"),
    ("growth", "calibration", "learning", "probabilities"),
)
KINDS = {
    stage: kind
    for kind, stages in (("training", TRAINING), ("applying", APPLYING), ("coupling", COUPLING))
    for stage in stages
}
WHERE = {"plan": "driver", **{stage.name: stage.where for stage in STAGES}}


@dataclass(frozen=True)
class WorkerTime:
    """Worker-seconds of a run, by heading."""

    training: float = 0.0
    applying: float = 0.0
    coupling: float = 0.0
    store: float = 0.0
    transfer: float = 0.0
    scheduler: float = 0.0
    idle: float = 0.0
    driver: float = 0.0
    other: float = 0.0

    @property
    def total(self) -> float:
        """All worker-seconds."""
        return sum(getattr(self, field.name) for field in fields(self))

    @property
    def overhead(self) -> float:
        """Share of what is neither training, nor applying, nor coupling."""
        return 1 - (self.training + self.applying + self.coupling) / self.total if self.total else 0.0

    def shares(self) -> dict[str, float]:
        """Share of every heading."""
        return {field.name: getattr(self, field.name) / self.total for field in fields(self)}


def worker_time(run: TimedRun, workers: int) -> WorkerTime:
    """The worker-seconds of a run."""
    found = dict.fromkeys((field.name for field in fields(WorkerTime)), 0.0)
    for heading, seconds in (
        *_in_tasks(run),
        *_between_tasks(run.intervals, run.tasks, workers),
    ):
        found[heading] += seconds
    return WorkerTime(**found)


def _in_tasks(run: TimedRun) -> Iterator[tuple[str, float]]:
    for stage, _, begin, end, transfer in run.tasks:
        computing = end - begin - transfer
        store = run.store_share(stage) * computing
        yield from ((KINDS.get(stage, "other"), computing - store), ("store", store), ("transfer", transfer))


def store_seconds(run: TimedRun) -> dict[str, float]:
    """Worker-seconds in every function of the store, the longest first."""
    found: dict[str, float] = {}
    for stage, _, begin, end, transfer in run.tasks:
        for name, share in run.store_parts.get(stage, {}).items():
            found[name] = found.get(name, 0.0) + share * (end - begin - transfer)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _between_tasks(
    intervals: Iterable[Interval], tasks: Sequence[TaskSpan], workers: int
) -> Iterator[tuple[str, float]]:
    for stage, begin, end in intervals:
        if WHERE[stage] == "driver":
            yield "driver", workers * (end - begin)
            continue
        here = [task for task in tasks if task.stage == stage and begin <= task.begin < end]
        # Tasks that run in turn do not wait for a worker, but for one another.
        waiting_until = (
            max((task.begin for task in here), default=begin) if WHERE[stage] == "cluster" else begin
        )
        times = sorted(
            {begin, end, *(min(max(t, begin), end) for task in here for t in (task.begin, task.end))}
        )
        for since, until in pairwise(times):
            busy = sum(task.begin <= since and until <= task.end for task in here)
            heading = "scheduler" if until <= waiting_until or not busy else "idle"
            yield heading, (workers - busy) * (until - since)
