"""A complete run on a connected, warm cluster: the times of its stages and tasks, and the use of its worker-seconds.

Three clocks, none of them inside the pipeline:

- the wall clock of the driver at the start of every stage. The stage "plan" is reading and checking the data and
  planning; a stage ends when the next begins, so that it includes the comparison of files with the ledger;
- Dask's task stream: the start, end and transfers of each task on its worker;
- Dask's profiler, which samples the stack of every working thread each 100 ms. The share of its samples inside zarr,
  `pipeline/storage`, `run_directory.py` and the ledger is the share of the task's time that the store takes.

The seconds of every unit are also in the ledger of the run, measured by the worker that did it. The CPU seconds of the
driver and of all workers, which other work on the machine hardly changes, are read at the start of every stage.
"""

import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import zarr
from distributed import Client

from pairloom.cluster.drive.driver import adopt_run, drive, prepare_run
from pairloom.cluster.drive.schedule import Stop
from pairloom.cluster.watch.progress import Quiet
from pairloom.pipeline import storage
from pairloom.pipeline.config.config import Config
from pairloom.pipeline.run import ledger, run_directory
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.stages import STAGE_NAMES, STAGES
from pairloom.pipeline.stages.run_file import read_run

GROUPS = ("machines.zarr", "logits.zarr", "probabilities.zarr")
#: Files and folders whose code reads and writes the run directory.
STORE = (
    str(Path(zarr.__file__).parent),
    str(Path(storage.__file__).parent),
    run_directory.__file__,
    ledger.__file__,
)
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
IN_TURN = {stage.name for stage in STAGES if stage.where == "in turn"}


class Interval(NamedTuple):
    """A stage of the driver, in seconds since the epoch. A run that grows has some stages more than once."""

    stage: str
    begin: float
    end: float


class TaskSpan(NamedTuple):
    """One task on a worker: its stage, start and end, and the seconds of transferring its arguments."""

    stage: str
    worker: str
    begin: float
    end: float
    transfer: float


class TimedRun(NamedTuple):
    """A finished run.

    Parameters
    ----------
    plan
        Its plan.
    intervals, tasks
        The stages and the tasks, in the order of time.
    work
        Seconds of all units per stage, from the ledger.
    store_parts
        Share of the tasks' time per stage in each function of the store, from the profiler.
    cpu
        CPU seconds of all workers together.
    stage_cpu
        CPU seconds of the driver (with the scheduler) and all workers, per stage.
    """

    plan: Run
    intervals: tuple[Interval, ...]
    tasks: tuple[TaskSpan, ...]
    work: dict[str, float]
    store_parts: dict[str, dict[str, float]]
    cpu: float
    stage_cpu: dict[str, float]

    @property
    def seconds(self) -> float:
        """Wall-clock seconds from reading the data to the end of the last stage."""
        return self.intervals[-1].end - self.intervals[0].begin

    def store_share(self, stage: str) -> float:
        """Share of the tasks' time of a stage in the store."""
        return sum(self.store_parts.get(stage, {}).values())

    def stage_seconds(self) -> dict[str, float]:
        """Wall clock per stage."""
        seconds: dict[str, float] = {}
        for stage, begin, end in self.intervals:
            seconds[stage] = seconds.get(stage, 0.0) + end - begin
        return seconds


class StageClock(Quiet):
    """Notes the start of each stage of a run, by the wall clock and in CPU seconds. The first stage is "plan"."""

    def __init__(self, cpu_seconds: Callable[[], float]) -> None:
        self._cpu_seconds = cpu_seconds
        self._begun: list[tuple[str, float, float]] = []
        self.begin("plan", 0, 0)

    def begin(self, stage: str, done: int, total: int) -> None:
        """Note both times."""
        self._begun.append((stage, time.time(), self._cpu_seconds()))

    def end(self) -> tuple[tuple[Interval, ...], dict[str, float]]:
        """The stages and their CPU seconds; the last ends now."""
        self.begin("end", 0, 0)
        intervals, cpu = list[Interval](), dict[str, float]()
        for (stage, begin, before), (_, end, after) in pairwise(self._begun):
            intervals.append(Interval(stage, begin, end))
            cpu[stage] = cpu.get(stage, 0.0) + after - before
        return tuple(intervals), cpu


def timed_run(client: Client, config: Config, directory: Path) -> TimedRun:
    """Do a run of a configuration in a new directory."""
    client.get_task_stream()  # starts the recording
    cpu, began = _cpu_seconds(client), time.time()
    clock = StageClock(lambda: _cpu_seconds(client) + _own_cpu_seconds())
    fresh, data = prepare_run(config, directory)
    directory.mkdir(parents=True)
    plan = adopt_run(directory, config, fresh)
    drive(plan, data, lambda: contextlib.nullcontext(client), Stop(), clock)
    intervals, stage_cpu = clock.end()
    plan = read_run(directory)  # again, since the plan of a growing run is longer now
    tasks = tuple(_task_span(task) for task in client.get_task_stream(start=began))
    # Workers store their samples once a second.
    profiled = {stage: client.profile(key=stage, start=began - 1) for stage in {task.stage for task in tasks}}
    return TimedRun(
        plan,
        intervals,
        tuple(sorted(tasks, key=lambda task: task.begin)),
        ledger_seconds(directory, plan),
        {stage: store_parts(tree) for stage, tree in profiled.items()},
        _cpu_seconds(client) - cpu,
        stage_cpu,
    )


def ledger_seconds(directory: Path, plan: Run) -> dict[str, float]:
    """Seconds of all units per stage, as their workers measured them."""
    ledger = Ledger(directory)
    return {
        stage: sum(entry.seconds for entry in ledger.claimed(stage, plan.keys[stage]))
        for stage in STAGE_NAMES
    }


def digest(directory: Path, groups: tuple[str, ...] = GROUPS) -> str:
    """Digest of all files that the workers wrote."""
    total = hashlib.sha256()
    for group in groups:
        for path in sorted((directory / group).rglob("*")):
            if path.is_file():
                total.update(path.relative_to(directory).as_posix().encode() + path.read_bytes())
    return total.hexdigest()


def store_parts(tree: Mapping[str, Any]) -> dict[str, float]:
    """Share of the samples of a profile in each function by which the store was entered."""
    samples = list(_samples(tree, entered=""))
    total, parts = sum(count for count, _ in samples), Counter[str]()
    for count, entered in samples:
        if entered and count:
            parts[entered] += count
    return {name: count / total for name, count in parts.most_common()}


def _samples(node: Mapping[str, Any], entered: str) -> Iterator[tuple[int, str]]:
    """Number of samples that end at every node of a profile, and the store's outermost function on their stack."""
    frame = node.get("description") or {"filename": "", "name": ""}
    if not entered and frame["filename"].startswith(STORE):
        entered = f"{Path(frame['filename']).name}: {frame['name']}"
    children = node["children"].values()
    yield node["count"] - sum(child["count"] for child in children), entered
    for child in children:
        yield from _samples(child, entered)


def _task_span(task: Mapping[str, Any]) -> TaskSpan:
    spans = task["startstops"]
    transfer = sum(span["stop"] - span["start"] for span in spans if span["action"] != "compute")
    begin, end = min(span["start"] for span in spans), max(span["stop"] for span in spans)
    return TaskSpan(task["key"].partition("-")[0], task["worker"], begin, end, transfer)


def _cpu_seconds(client: Client) -> float:
    return sum(client.run(_own_cpu_seconds).values())


def _own_cpu_seconds() -> float:
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)


@dataclass(frozen=True)
class WorkerTime:
    """The use of the workers' time: every worker-second of a run belongs to exactly one heading.

    W workers in a run of T seconds have W T worker-seconds. A worker either has a task or not:

    - training, applying, coupling: in a task of that kind, outside the store;
    - store: in a task, reading or writing the run directory, including digests and ledger (the profiler's share);
    - transfer: in a task, fetching arguments from other workers or deserialising them (the task stream);
    - scheduler: without a task although the stage has tasks that no worker has started, or while no worker has one: the
      round trip through scheduler and driver and, at the end of a stage, the comparison of the next stage's files;
    - idle: without a task because the stage has no more tasks while another worker is still busy: the tail of a stage,
      and stages that run their tasks in turn;
    - driver: the driver does a stage itself, or plans;
    - other: in a task of another stage (draws, statistics, whitening, the description of the model, the report).
    """

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
        """Share of everything except training, applying and coupling."""
        return 1 - (self.training + self.applying + self.coupling) / self.total if self.total else 0.0

    def shares(self) -> dict[str, float]:
        """Share of every heading."""
        return {field.name: getattr(self, field.name) / self.total for field in fields(self)}


def worker_time(run: TimedRun, workers: int) -> WorkerTime:
    """The worker-seconds of a run."""
    seconds_of = dict.fromkeys((field.name for field in fields(WorkerTime)), 0.0)
    for heading, seconds in (*_in_tasks(run), *_between_tasks(run, workers)):
        seconds_of[heading] += seconds
    return WorkerTime(**seconds_of)


def _in_tasks(run: TimedRun) -> Iterator[tuple[str, float]]:
    for stage, _, begin, end, transfer in run.tasks:
        computing = end - begin - transfer
        store = run.store_share(stage) * computing
        yield from ((KINDS.get(stage, "other"), computing - store), ("store", store), ("transfer", transfer))


def store_seconds(run: TimedRun) -> dict[str, float]:
    """Worker-seconds in every function of the store, the longest first."""
    of_function: dict[str, float] = {}
    for stage, _, begin, end, transfer in run.tasks:
        for name, share in run.store_parts.get(stage, {}).items():
            of_function[name] = of_function.get(name, 0.0) + share * (end - begin - transfer)
    return dict(sorted(of_function.items(), key=lambda item: -item[1]))


def _between_tasks(run: TimedRun, workers: int) -> Iterator[tuple[str, float]]:
    for stage, begin, end in run.intervals:
        here = [task for task in run.tasks if task.stage == stage and begin <= task.begin < end]
        if not here:
            yield "driver", workers * (end - begin)
            continue
        # Tasks that run in turn wait for one another, not for a worker.
        waiting_until = max(task.begin for task in here) if stage not in IN_TURN else begin
        times = sorted(
            {begin, end, *(min(max(t, begin), end) for task in here for t in (task.begin, task.end))}
        )
        for since, until in pairwise(times):
            busy = sum(task.begin <= since and until <= task.end for task in here)
            heading = "scheduler" if until <= waiting_until or not busy else "idle"
            yield heading, (workers - busy) * (until - since)
