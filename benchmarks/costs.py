"""The cost of runs and of the estimator as the work grows, with fitted powers.

Four axes: the number of classes, rows per class, features, and test rows. Along an axis one size grows and the others
stay at those of the base. Data are synthetic (`datasets.py`), the graph and the model have their defaults.

All seconds are CPU seconds, so that other work on the machine does not affect the curves:

- "run: STAGE": driver, scheduler and worker during a stage of a run on one warm worker (`timed_run.py`); "run: plan" is
  reading the data and planning, "run: whole" all of them together.
- "fit", "predict": `PairwiseSVC(n_jobs=2)` in a warm process of its own, all threads.
- "peak MB": the peak memory of that process.

The power is the slope of log seconds against log size over all sizes; "last" is that of the three largest sizes, which
is the better predictor for larger ones. "at most" is the power that the algorithm should have (`EXPECTED`, with the
reason). A cost is marked if its last power exceeds that by more than 0.15, and it takes at least 2% of the run and at
least 0.05 s.
"""

import functools
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from distributed import Client
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom.benchmarks.classifiers import OURS, THREADS
from pairloom.benchmarks.datasets import Split, synthetic_classes, write_split
from pairloom.benchmarks.peers import compare
from pairloom.benchmarks.record import Column, Record
from pairloom.benchmarks.timed_run import timed_run
from pairloom.cluster.connect.connect import connected
from pairloom.pipeline.config.cluster_config import ClusterConfig
from pairloom.pipeline.config.config import Config
from pairloom.pipeline.config.sections import DataConfig
from pairloom.pipeline.stages import STAGE_NAMES


@dataclass(frozen=True)
class Sizes:
    """Sizes of a synthetic set."""

    classes: int = 200
    rows: int = 40
    features: int = 384
    tests: int = 2000


AXES = {
    "classes": (100, 200, 400, 800, 1600),
    "rows": (20, 40, 80, 160, 320),
    "features": (96, 192, 384, 768, 1536),
    "tests": (1000, 2000, 4000, 8000, 16000),
}
SMALL_AXES = {"classes": (12, 24), "rows": (12, 24), "features": (8, 16), "tests": (50, 100)}
SMALL_BASE = Sizes(12, 12, 8, 50)
#: Tolerance above the expected power, and the minimum share of the whole and minimum seconds of a marked cost.
SLACK, LEAST_SHARE, LEAST_VALUE = 0.15, 0.02, 0.05
#: Stages that these runs do not have, because the driver stores the rows of a .npz file, and because they neither grow
#: nor learn through the coupling. They have the stages "collapsed" and "ranking" from thousands of classes on.
NOT_HERE = ("order", "growth", "learning")
#: Shorter times are noise, since the system counts CPU time in hundredths of a second.
LEAST_SECONDS = 0.03
#: Powers of (classes, rows per class, features, test rows). A class has a fixed number of pairs, so pairs grow like
#: classes; the samples that calibrate and the probe are capped; only the shortlist of a sample is coupled.
EXPECTED: dict[str, tuple[float, float, float, float]] = {
    "run: plan": (1, 1, 1, 1),  # with the distances between all classes, a third of it at 21,841 classes
    "run: features": (1, 1, 1, 0),
    "run: samples": (0, 0, 1, 1),
    "run: ids": (1, 1, 0, 1),  # one per row
    "run: draws": (1, 1, 1, 0),  # reads all rows to draw some
    "run: statistics": (1, 1, 2, 0),  # the scatter of all rows
    "run: whitening": (1, 0, 3, 0),  # the factors of a covariance
    "run: candidates": (1, 1, 2, 0),  # of a capped probe; whitens it
    "run: machines": (1, 1, 1, 0),  # a pair costs its rows times its features
    "run: slopes": (1, 0, 0, 0),
    "run: held_out": (1, 0, 1, 0),
    "run: calibration": (1, 0, 0, 0),  # ranks all classes of a capped number of samples
    "run: model": (1, 0, 1, 0),
    "run: collapsed": (1, 0, 1, 0),
    "run: ranking": (1, 0, 0, 0),  # a sparse system, solved by conjugate gradients
    "run: logits": (1, 0, 1, 1),
    "run: probabilities": (1, 0, 1, 1),  # from the machines, where the tensor is virtual
    "run: report": (1, 0, 0, 1),
    "run: whole": (1, 1, 1, 1),
    "fit": (1, 1, 1, 0),
    "predict": (1, 0, 1, 1),
    "peak MB": (1, 1, 1, 1),
}


@dataclass(frozen=True)
class Row:
    """One cost along one axis: seconds (or MB) at each size, the powers, and whether it grows too fast."""

    axis: str
    cost: str
    sizes: list[int]
    values: list[float]
    power: float
    last: float
    expected: float
    share: float
    too_fast: bool


def measure_costs(record: Record, axes: dict[str, tuple[int, ...]], base: Sizes, limit: float) -> list[Row]:
    """The table of every axis."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name, connected(ClusterConfig(workers=1)) as client:
        run_costs(client, synthetic_classes(60, 16, base.features, 200), Path(name) / "warm")

        @functools.cache  # the axes share their base
        def costs_at(sizes: Sizes) -> dict[str, float]:
            return costs_of(client, sizes, Path(tempfile.mkdtemp(dir=name)), limit)

        for axis, sizes in axes.items():
            others = {key: value for key, value in vars(base).items() if key != axis}
            fixed = ", ".join(f"{value} {key}" for key, value in others.items())
            record.begin(axis, columns(sizes), f"{axis} (and {fixed}): CPU seconds")
            costs = [costs_at(replace(base, **{axis: size})) for size in sizes]
            for row in rows_of(axis, sizes, costs):
                record.add(row)
                rows.append(row)
    for line in findings(rows):
        record.note(line)
    return rows


def columns(sizes: Sequence[int]) -> Iterator[Column]:
    """The columns of one axis."""

    def at(k: int) -> Column:
        return Column(str(sizes[k]), lambda row: f"{row.values[k]:.3f}", 9)

    yield Column("", lambda row: row.cost, 18, left=True)
    yield from map(at, range(len(sizes)))
    yield Column("power", lambda row: f"{row.power:.2f}", 6)
    yield Column("last", lambda row: f"{row.last:.2f}", 6)
    yield Column("at most", lambda row: f"{row.expected:g}")
    yield Column("share", lambda row: "" if math.isnan(row.share) else f"{row.share:.0%}")
    yield Column("", lambda row: "TOO FAST" if row.too_fast else "", left=True)


def costs_of(client: Client, sizes: Sizes, folder: Path, limit: float) -> dict[str, float]:
    """All costs at one size."""
    split = synthetic_classes(**vars(sizes))
    of_run = run_costs(client, split, folder)
    (row,) = compare("synthetic", split, [OURS], [THREADS], limit)
    return {**of_run, "fit": row.fit_cpu_s, "predict": row.predict_cpu_s, "peak MB": row.peak_bytes / 1e6}


def run_costs(client: Client, split: Split, folder: Path) -> dict[str, float]:
    """Seconds of every stage of a run."""
    folder.mkdir(exist_ok=True)
    path = folder / "features.npz"
    write_split(split, path)
    run = timed_run(client, Config(data=DataConfig(features=str(path))), folder / "run")
    stages = [stage for stage in ("plan", *STAGE_NAMES) if stage not in NOT_HERE]
    seconds = {f"run: {stage}": run.stage_cpu[stage] for stage in stages}
    return {**seconds, "run: whole": sum(seconds.values())}


def rows_of(axis: str, sizes: Sequence[int], costs: Sequence[dict[str, float]]) -> Iterator[Row]:
    """The rows of one axis, with their powers."""
    for cost in costs[0]:
        values = [costs_of_size[cost] for costs_of_size in costs]
        expected = EXPECTED[cost][list(AXES).index(axis)]
        fitted = fit_power(sizes, values) or PowerLaw(float("nan"), float("nan"))
        share = values[-1] / costs[-1]["run: whole"] if cost.startswith("run: ") else float("nan")
        matters = values[-1] >= LEAST_VALUE and not share < LEAST_SHARE
        too_fast = bool(matters and fitted.last > expected + SLACK)
        yield Row(axis, cost, list(sizes), values, *fitted, expected, share, too_fast)


class PowerLaw(NamedTuple):
    """The power over all sizes, and over at most the last three, which predicts larger sizes better."""

    power: float
    last: float


def fit_power(sizes: Sequence[float], seconds: Sequence[float]) -> PowerLaw | None:
    """The powers of a series; None if fewer than two of its times are long enough to measure."""
    usable = [(n, s) for n, s in zip(sizes, seconds, strict=True) if s >= LEAST_SECONDS]
    if len(usable) < 2:
        return None
    log_n, log_s = np.log(usable).T
    return PowerLaw(_slope(log_n, log_s), _slope(log_n[-3:], log_s[-3:]))


def _slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    return float(np.polyfit(x, y, 1)[0])


def findings(rows: Sequence[Row]) -> Iterator[str]:
    """A sentence for every cost that grows too fast."""
    fast = [row for row in rows if row.too_fast]
    for row in fast:
        yield (
            f"{row.cost} grows as {row.axis}^{row.last:.2f} up to {row.sizes[-1]} {row.axis} "
            f"({row.values[-2]:.3f}, then {row.values[-1]:.3f}); at most {row.expected:g} is expected."
        )
    if not fast:
        yield "Nothing grows faster than it should."


def costs_figure(rows: Sequence[Row]) -> Figure:
    """CPU seconds of the costs that matter against each size."""
    axes_of_work = list(dict.fromkeys(row.axis for row in rows))
    figure = Figure(figsize=(6 * len(axes_of_work), 5), layout="constrained")
    panels = figure.subplots(1, len(axes_of_work), squeeze=False)[0]
    for axes, axis in zip(panels, axes_of_work, strict=True):
        for row in rows:
            if row.axis == axis and row.cost != "peak MB" and not row.share < LEAST_SHARE:
                axes.plot(row.sizes, row.values, "o-", ms=3, label=f"{row.cost}, {row.power:.2f}")
        axes.set(xscale="log", yscale="log", xlabel=axis, ylabel="CPU seconds")
        axes.legend(frameon=False, fontsize=7)
        axes.grid(alpha=0.3, which="both")
    return figure
