"""Scaling of a run with its workers: strong scaling, the same run on more workers, and weak scaling, with more classes.

Workers are processes on this machine with one thread each. Before the clock starts they are started, and warmed up by
two runs of a few rows of the same classes; "start s" is the time to start them. `timed_run.py` describes the clocks and
the headings of the shares.

Strong: every number of workers does the same run. The efficiency is T(first) first / (T(w) w).

Weak: w of W workers do a run of the first classes of the data, as many as keep the pairs per worker about the same: a
share w / W of the classes, or its square root if the graph is complete. Test samples are those of these classes. The
pairs of both are printed, and the efficiency is corrected by them: it is the pairs per second and worker, relative to
the first.

Work other than training, applying and coupling is shown twice: "other stages" is the share of the wall-clock time in
stages of other kinds; "overhead" is the share of the worker-seconds outside of such computation, which includes reading
and writing the store within a stage, and waiting for its last task.

With several ways to keep the logits (stored in a tensor, or virtual) each is measured separately.

The forecast simulates the run on more workers, each with one core and a link of 1.25 GB/s to a store of 5 GB/s, from
the times of the units on the first number of workers, without the start of the workers, and says for which share of the
time each resource is busy. Numbers of workers that were measured too are forecast for this computer, which shows the
accuracy of the forecast.

All strong runs of a kind must write the same bytes; otherwise the benchmark ends with an error.
"""

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import dask
import numpy as np
from distributed import Client
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairloom.benchmarks.record import Column, Ratio, Record, add_ratios, summary
from pairloom.benchmarks.timed_run import (
    KINDS,
    TimedRun,
    WorkerTime,
    digest,
    store_seconds,
    timed_run,
    worker_time,
)
from pairloom.cluster.config.config_file import with_section
from pairloom.cluster.connect.connect import connected
from pairloom.cluster.drive.driver import load_data
from pairloom.cluster.simulator.forecast import validate
from pairloom.cluster.simulator.simulated_cluster import SimulatedCluster
from pairloom.cluster.simulator.simulation import RunForecast, simulate
from pairloom.cluster.simulator.unit_costs import UnitCosts, costs_of_run
from pairloom.cluster.simulator.workload import planned_workload
from pairloom.pipeline.config.cluster_config import ClusterConfig
from pairloom.pipeline.config.config import Config
from pairloom.pipeline.stages.run_file import read_run

#: Targets: efficiency of training, and the share of work other than training, applying and coupling.
EFFICIENCY, OVERHEAD = 0.9, 0.1
#: Classes, rows per class and test samples of the warm-up, with more classes than the limit for shortlists.
WARM_CLASSES, WARM_ROWS, WARM_TESTS = 60, 16, 200
#: Dask keeps the last thousand tasks by default.
MOST_TASKS = 1_000_000


class BytesDiffer(ValueError):
    """The same run on another number of workers wrote different bytes."""


@dataclass(frozen=True)
class Row:
    """One run, in wall-clock seconds. Shares are shares of the worker-seconds."""

    tensor: str
    mode: str
    workers: int
    classes: int
    pairs: int
    start_s: float
    seconds: float
    training_s: float
    speedup: float
    efficiency: float
    training_efficiency: float
    other_stages: float
    overhead: float
    overhead_with_start: float
    cpu: float
    shares: dict[str, float]
    stages: dict[str, float]
    work: dict[str, float]
    stage_cpu: dict[str, float]
    store: dict[str, float]


def _share_cell(name: str) -> Column:
    return Column(name, lambda row: f"{100 * row.shares[name]:.1f}%", 7)


COLUMNS = (
    Column("tensor", lambda row: row.tensor, 7, left=True),
    Column("", lambda row: row.mode, 6, left=True),
    Column("workers", lambda row: str(row.workers)),
    Column("classes", lambda row: str(row.classes)),
    Column("pairs", lambda row: str(row.pairs), 6),
    Column("start s", lambda row: f"{row.start_s:.1f}"),
    Column("run s", lambda row: f"{row.seconds:.2f}", 7),
    Column("training s", lambda row: f"{row.training_s:.2f}"),
    Column("speedup", lambda row: f"{row.speedup:.2f}"),
    Column("efficiency", lambda row: f"{row.efficiency:.3f}"),
    Column("in training", lambda row: f"{row.training_efficiency:.3f}"),
    Column("other stages", lambda row: f"{100 * row.other_stages:.1f}%"),
    Column("overhead", lambda row: f"{100 * row.overhead:.1f}%"),
    Column("with start", lambda row: f"{100 * row.overhead_with_start:.1f}%"),
    Column("CPU", lambda row: f"{100 * row.cpu:.0f}%", 4),
)
SHARE_COLUMNS = (*COLUMNS[:3], *(_share_cell(field.name) for field in fields(WorkerTime)))


@dataclass(frozen=True)
class ForecastRow:
    """A run on a number of workers, forecast and, if these were available, measured. Seconds of all stages."""

    tensor: str
    workers: int
    measured_s: float | None
    forecast_s: float
    speedup: float
    efficiency: float
    limited_by: str
    busy: dict[str, float]


#: The resources of a simulated cluster: see `StageForecast.busy`.
RESOURCES = ("cores", "store", "latency", "network", "scheduler", "driver")


def _busy_cell(name: str) -> Column:
    return Column(name, lambda row: f"{row.busy[name]:.0%}" if row.busy else "", 7)


FORECAST_COLUMNS = (
    Column("tensor", lambda row: row.tensor, 7, left=True),
    Column("workers", lambda row: str(row.workers)),
    Column("measured s", lambda row: "" if row.measured_s is None else f"{row.measured_s:.2f}"),
    Column("forecast s", lambda row: f"{row.forecast_s:.2f}"),
    Column("error", lambda row: f"{row.forecast_s / row.measured_s - 1:+.1%}" if row.measured_s else "", 6),
    Column("speedup", lambda row: f"{row.speedup:.2f}"),
    Column("efficiency", lambda row: f"{row.efficiency:.3f}"),
    Column("limited by", lambda row: row.limited_by, 20, left=True),
    *map(_busy_cell, RESOURCES),
)


@dataclass(frozen=True)
class StageRow:
    """Wall-clock, work and CPU seconds of one stage in all runs of one mode, by number of workers."""

    tensor: str
    mode: str
    stage: str
    seconds: dict[str, float]
    work: dict[str, float]
    cpu: dict[str, float]


def scale(
    record: Record,
    config: Config,
    workers: Sequence[int],
    *,
    weak: bool = True,
    warm_ups: int = 2,
    tensors: Sequence[str] = (),
    forecast: Sequence[int] = (),
) -> tuple[list[Row], list[ForecastRow]]:
    """The tables of both kinds of scaling, for each way to keep the logits, and the forecast."""
    numbers, rows, forecasts = sorted(set(workers)), list[Row](), list[ForecastRow]()
    record.begin("runs", COLUMNS, f"{config.run.name}: {config.graph.family}")
    for tensor in tensors or (config.run.tensor,):
        settings = with_section(config, "run", {"tensor": tensor})
        with tempfile.TemporaryDirectory() as folder, _long_task_stream():
            for row in _rows(settings, numbers, weak and len(numbers) > 1, warm_ups, Path(folder)):
                rows.append(row)
                record.add(row)
            if forecast:
                forecasts += _forecasts(rows[-1].tensor, Path(folder), numbers, forecast)
    record.show(SHARE_COLUMNS, rows, "shares of the worker-seconds")
    for row in rows:
        longest = [f"{name} {seconds:.2f} s" for name, seconds in list(row.store.items())[:5]]
        record.note(f"store, {row.tensor} {row.mode} {row.workers}: {', '.join(longest) or 'not sampled'}")
    record.note("The same bytes on every number of workers.")
    record.note(
        "CPU: CPU seconds of the workers over their seconds in tasks. Far below 100%, others had the cores."
    )
    for kind in dict.fromkeys((row.tensor, row.mode) for row in rows):
        _add_stages(record, [row for row in rows if (row.tensor, row.mode) == kind])
    if forecasts:
        title = f"forecast, from the units on {numbers[0]} workers; efficiency is relative to these"
        record.begin("forecast", FORECAST_COLUMNS, title)
        for found in forecasts:
            record.add(found)
    ratios = list(verdicts(rows))
    add_ratios(record, "targets", ratios, "targets", ours="first", theirs="second")
    record.note(summary(ratios))
    return rows, forecasts


def _forecasts(
    tensor: str, folder: Path, numbers: Sequence[int], more: Sequence[int]
) -> Iterator[ForecastRow]:
    """Forecasts for the measured numbers of workers, on this computer, and for more, on a cluster."""
    first = folder / f"strong-{numbers[0]}"
    costs, work = costs_of_run(first), planned_workload(read_run(first))
    measured = {w: _stage_total(folder / f"strong-{w}", costs) for w in numbers}
    base = measured[numbers[0]][0]

    def row(
        w: int, actual: float | None, seconds: float, limited_by: str, busy: dict[str, float]
    ) -> ForecastRow:
        speedup = base / seconds
        return ForecastRow(tensor, w, actual, seconds, speedup, speedup * numbers[0] / w, limited_by, busy)

    for w, (actual, seconds) in measured.items():
        yield row(w, actual, seconds, "this computer", {})
    for w in sorted(set(more)):
        cluster = SimulatedCluster(workers=w, memory="16GiB", startup=0.0)
        played = simulate(work, costs, cluster)
        yield row(w, None, played.seconds, played.limited_by, busy_shares(played))


def busy_shares(played: RunForecast) -> dict[str, float]:
    """The share of the time of a simulated run for which each resource was busy."""
    total = dict.fromkeys(RESOURCES, 0.0)
    for stage in played.stages:
        for name, share in ({"driver": 1.0} if stage.where == "driver" else stage.busy).items():
            total[name] += share * stage.seconds / played.seconds
    return total


def _stage_total(directory: Path, costs: UnitCosts) -> tuple[float, float]:
    """Actual and forecast seconds of all stages of a finished run."""
    found = validate(directory, costs)
    return sum(found.actual.values()), sum(found.forecast.values())


def _rows(config: Config, numbers: Sequence[int], weak: bool, warm_ups: int, folder: Path) -> Iterator[Row]:
    """Every number of workers in turn, with both kinds of scaling."""
    strong, weaker, digests = list[Row](), list[Row](), set[str]()
    for w in numbers:
        with _warm_cluster(config, w, warm_ups, folder) as (client, start):
            run = timed_run(client, config, folder / f"strong-{w}")
            strong.append(_row("strong", w, start, run, strong[:1]))
            yield strong[-1]
            if weak and w < numbers[-1]:
                part = with_first_classes(config, weak_classes(config, w, numbers[-1]), folder)
                run = timed_run(client, part, folder / f"weak-{w}")
            if weak:  # the run with all workers has all classes in both modes
                weaker.append(_row("weak", w, start, run, weaker[:1]))
                yield weaker[-1]
        digests.add(digest(folder / f"strong-{w}"))
    if len(digests) > 1:
        raise BytesDiffer(f"{config.run.name}: runs on {list(numbers)} workers have written different bytes.")


def weak_classes(config: Config, w: int, most: int) -> int:
    """The number of classes for w of ``most`` workers; the pairs of a complete graph grow with its square."""
    power = 0.5 if config.graph.family == "complete" else 1.0
    n = len(load_data(config).classes)
    return max(2, round(n * (w / most) ** power))


def _row(mode: str, w: int, start: float, run: TimedRun, first: Sequence[Row]) -> Row:
    stages, spent = run.stage_seconds(), worker_time(run, w)
    training = stages["machines"]
    shape = run.plan.shape
    pairs, seconds = len(shape.edges), run.seconds
    # Relative to the first: pairs per second and worker, of the run and of its training.
    base = first[0] if first else None
    more = pairs / base.pairs if base else 1.0
    speedup = more * base.seconds / seconds if base else 1.0
    trained = more * base.training_s / training if base else 1.0
    added = base.workers / w if base else 1.0
    return Row(
        "stored" if shape.tensor_stored else "virtual",
        mode,
        w,
        len(shape.classes),
        pairs,
        start,
        seconds,
        training,
        speedup,
        speedup * added,
        trained * added,
        1 - sum(stages[stage] for stage in KINDS) / seconds,
        spent.overhead,
        with_start(spent, start, w),
        run.cpu / max(sum(task.end - task.begin for task in run.tasks), 1e-9),
        spent.shares(),
        stages,
        run.work,
        run.stage_cpu,
        store_seconds(run),
    )


def with_start(spent: WorkerTime, start: float, workers: int) -> float:
    """The share of overhead including the start of the workers."""
    total = spent.total + workers * start
    return (spent.overhead * spent.total + workers * start) / total


def verdicts(rows: Sequence[Row]) -> Iterator[Ratio]:
    """The targets that apply to the runs."""
    for tensor, mode in dict.fromkeys((row.tensor, row.mode) for row in rows):
        some = [row for row in rows if (row.tensor, row.mode) == (tensor, mode)]
        if len(some) > 1:
            first, last = some[0], some[-1]
            yield Ratio(
                f"{tensor} {mode}: efficiency of training on {last.workers} workers",
                first.training_s,
                last.training_s,
                "s",
                last.training_efficiency,
                ">=",
                EFFICIENCY,
            )
    for row in rows:
        if row.mode == "strong":
            for what, share in (("other stages", row.other_stages), ("overhead", row.overhead)):
                name = f"{row.tensor} strong: {what} on {row.workers} workers (of them, of all)"
                yield Ratio(name, row.seconds * share, row.seconds, "s", share, "<=", OVERHEAD)


def _add_stages(record: Record, rows: Sequence[Row]) -> None:
    numbers = [str(row.workers) for row in rows]

    def seconds(number: str) -> Column:
        return Column(f"{number}: s", lambda stage: f"{stage.seconds[number]:.3f}", 9)

    def work(number: str) -> Column:
        return Column(f"{number}: work s", lambda stage: f"{stage.work[number]:.3f}", 10)

    def cpu(number: str) -> Column:
        return Column(f"{number}: CPU s", lambda stage: f"{stage.cpu[number]:.3f}", 9)

    tensor, mode = rows[0].tensor, rows[0].mode
    columns = (
        Column("stage", lambda stage: stage.stage, 14, left=True),
        *map(seconds, numbers),
        *map(work, numbers),
        *map(cpu, numbers),
    )
    title = f"{tensor} {mode}, by number of workers: wall clock, work of all units (ledger), CPU of driver and workers"
    record.begin("stages", columns, title)
    for stage in dict.fromkeys(name for row in rows for name in row.stages):
        wall = {number: row.stages.get(stage, 0.0) for number, row in zip(numbers, rows, strict=True)}
        done = {number: row.work.get(stage, 0.0) for number, row in zip(numbers, rows, strict=True)}
        used = {number: row.stage_cpu.get(stage, 0.0) for number, row in zip(numbers, rows, strict=True)}
        record.add(StageRow(tensor, mode, stage, wall, done, used))


@contextlib.contextmanager
def _warm_cluster(
    config: Config, workers: int, warm_ups: int, folder: Path
) -> Iterator[tuple[Client, float]]:
    """A cluster whose workers have loaded all kernels of a run, and the seconds to start it."""
    began = time.perf_counter()
    with connected(ClusterConfig(workers=workers)) as client:
        client.wait_for_workers(workers)
        start = time.perf_counter() - began
        classes = min(WARM_CLASSES, len(load_data(config).classes))
        small = with_first_classes(config, classes, folder, WARM_ROWS, WARM_TESTS)
        for turn in range(warm_ups):
            warm = Path(tempfile.mkdtemp(dir=folder))
            timed_run(client, with_section(small, "model", {"random_state": turn}), warm / "run")
        yield client, start


def _long_task_stream() -> contextlib.AbstractContextManager[object]:
    """Make Dask keep all tasks of a run, not only the last thousand."""
    return dask.config.set({"distributed.scheduler.dashboard.tasks.task-stream-length": MOST_TASKS})


def with_first_classes(
    config: Config, classes: int, folder: Path, rows: int | None = None, tests: int | None = None
) -> Config:
    """The configuration for its first classes, with at most ``rows`` rows per class and ``tests`` test samples.

    The part is written to ``folder``.
    """
    data = load_data(config)
    y_test = data.y_test if data.y_test is not None else np.zeros(len(data.X_test), np.int64)
    limit = rows or len(data.y_train)
    train = np.concatenate([np.flatnonzero(data.y_train == c)[:limit] for c in range(classes)])
    test = np.flatnonzero(y_test < classes)[:tests]
    path = folder / f"first-{classes}-{limit}.npz"
    np.savez(
        path,
        X_train=data.X_train.read(train),
        y_train=data.y_train[train],
        X_test=data.X_test.read(test),
        y_test=y_test[test],
        classes=data.labels[:classes],
    )
    return with_section(config, "data", {"features": str(path), "test": None})


_COLOURS = {
    ("stored", "strong"): "#3465a4",
    ("stored", "weak"): "#729fcf",
    ("virtual", "strong"): "#c17d11",
    ("virtual", "weak"): "#e9b96e",
}


def scaling_figure(found: tuple[Sequence[Row], Sequence[ForecastRow]]) -> Figure:
    """Speedup with the ideal line, the shares of the workers' time and, if any, the forecast."""
    rows, forecasts = found
    figure = Figure(figsize=(18 if forecasts else 12, 4.5), layout="constrained")
    axes = figure.subplots(1, 3 if forecasts else 2)
    draw_speedup(axes[0], rows)
    draw_shares(axes[1], rows)
    if forecasts:
        draw_forecast(axes[2], forecasts)
    return figure


def draw_speedup(axes: Axes, rows: Sequence[Row]) -> None:
    """Speedup of the run and of its training against the number of workers."""
    numbers = sorted({row.workers for row in rows})
    axes.plot(numbers, [w / numbers[0] for w in numbers], "--", color="#888888", label="ideal")
    for kind in dict.fromkeys((row.tensor, row.mode) for row in rows):
        some, name = [row for row in rows if (row.tensor, row.mode) == kind], " ".join(kind)
        workers = [row.workers for row in some]
        axes.plot(
            workers, [row.speedup for row in some], "o-", color=_COLOURS[kind], label=f"{name}, whole run"
        )
        trained = [row.training_efficiency * row.workers / workers[0] for row in some]
        axes.plot(workers, trained, "s:", color=_COLOURS[kind], label=f"{name}, training")
    axes.set(xlabel="workers", ylabel="speedup (weak: pairs per second)", xticks=numbers)
    axes.legend(frameon=False, fontsize=8)
    axes.grid(alpha=0.3)


def draw_shares(axes: Axes, rows: Sequence[Row]) -> None:
    """The shares of the worker-seconds of every run, as stacked bars."""
    names = [f"{row.tensor}\n{row.mode}\n{row.workers}" for row in rows]
    bottom = [0.0] * len(rows)
    for heading in rows[0].shares:
        heights = [100 * row.shares[heading] for row in rows]
        axes.bar(names, heights, bottom=bottom, label=heading)
        bottom = [low + high for low, high in zip(bottom, heights, strict=True)]
    axes.set(ylabel="share of the worker-seconds, %")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def draw_forecast(axes: Axes, rows: Sequence[ForecastRow]) -> None:
    """Seconds of all stages against the number of workers: forecast as lines, measured as points."""
    for tensor in dict.fromkeys(row.tensor for row in rows):
        some, colour = [row for row in rows if row.tensor == tensor], _COLOURS[tensor, "strong"]
        played = [row for row in some if row.measured_s is None]
        if played:
            workers, seconds = [row.workers for row in played], [row.forecast_s for row in played]
            axes.plot(workers, seconds, "-", color=colour, label=f"{tensor}, forecast")
        measured = [row for row in some if row.measured_s is not None]
        workers, taken = [row.workers for row in measured], [row.measured_s or 0.0 for row in measured]
        axes.plot(workers, taken, "o", color=colour, label=f"{tensor}, measured")
    axes.set(xlabel="workers", ylabel="seconds of all stages", xscale="log", yscale="log")
    axes.legend(frameon=False, fontsize=8)
    axes.grid(alpha=0.3)
