"""Forecasts of the time of each stage of a run, and their comparison with finished runs."""

from __future__ import annotations

import math
import os
import time
from typing import NamedTuple

import psutil

from pairloom.cluster.simulator.simulated_cluster import SimulatedCluster
from pairloom.cluster.simulator.simulation import simulate
from pairloom.cluster.simulator.unit_costs import UnitCosts, costs_of_run, measure_costs
from pairloom.cluster.simulator.workload import Workload, cost_of_stage, planned_sizes, planned_workload
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.run.costs import RunSizes
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.run import Run, Stage
from pairloom.pipeline.run.run_log import Ranges, begin_times
from pairloom.pipeline.run.tiles import crude_training_seconds, numbers_per_row
from pairloom.pipeline.stages.run_file import read_run
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import Location

__all__ = [
    "MARGIN",
    "Validation",
    "crude_seconds",
    "forecast_overhead",
    "forecast_seconds",
    "is_worth_a_forecast",
    "process_seconds",
    "stage_seconds",
    "start_seconds",
    "validate",
]


#: Forecasts were within this share of real runs on one and two workers: see docs/scaling.md.
MARGIN = 0.15
_SEEDS = 3


def stage_seconds(
    plan: Run, costs: UnitCosts, workers: int, cluster: SimulatedCluster | None = None
) -> dict[str, tuple[float, float]]:
    """The minimum and maximum seconds that each stage of a plan should take.

    Parameters
    ----------
    plan
        The plan of a run. If the run grows, only the planned waves count.
    costs
        Measured times of units: `costs_of_run` of an earlier run, or `measure_costs`.
    workers
        Number of workers.
    cluster
        Another cluster than processes on this computer. Its number of workers is replaced.

    Returns
    -------
    dict
        ``{stage: (low, high)}``, in the order of the run: the extremes of three simulations, and `MARGIN` on either
        side. The lower end is lower if units are many times larger than the measured ones, because part of the measured
        time does not grow with the work, and for the report, which may find no errors to explain. The start of the
        workers is not included.
    """
    where = cluster or SimulatedCluster.this_computer(workers)
    where, work = where.model_copy(update={"workers": workers}), planned_workload(plan)
    forecasts = [_by_stage(work, costs, where, seed) for seed in range(_SEEDS)]
    return {
        stage: (
            min(found[stage] for found in forecasts) / (1 + MARGIN) / _optimism(stage, costs, work),
            max(found[stage] for found in forecasts) * (1 + MARGIN),
        )
        for stage in forecasts[0]
    }


def _optimism(stage: str, costs: UnitCosts, work: Workload) -> float:
    """The factor by which larger units may be faster than scaled measured ones: 0.5 more for every factor of ten.

    It is 1 for training if its growth with the rows was measured.
    """
    cost = cost_of_stage(stage)
    if cost.trains and costs.row_exponent:
        return 1.0
    if cost.least_work is not None:
        return cost.work(work.sizes) / cost.least_work(work.sizes)
    enlarged = costs.enlargement(stage, work.units().get(stage, 0), work.sizes)
    return 1 + 0.5 * math.log10(max(1.0, enlarged))


def _by_stage(work: Workload, costs: UnitCosts, cluster: SimulatedCluster, seed: int) -> dict[str, float]:
    by_stage: dict[str, float] = {}
    for stage in simulate(work, costs, cluster, seed=seed).stages:
        by_stage[stage.stage] = by_stage.get(stage.stage, 0.0) + stage.seconds
    return by_stage


# A run whose training takes less time is over before anyone has read a forecast.
_LONG_SECONDS = 60.0
# The start of the workers, relative to the command's imports: they import a little less, but all of them at once.
_WORKER_START = (0.75, 1.5)
# Time to end the workers and print the result.
_END_SECONDS = (0.3, 1.0)


def forecast_seconds(plan: Run, data: OpenFeatures) -> Ranges:
    """The minimum and maximum seconds of each stage on the workers of the plan. Measuring takes seconds."""
    return stage_seconds(plan, measure_costs(plan, data), plan.config.cluster.expected_workers)


def forecast_overhead(plan: Run, imports: float, planning: float) -> tuple[float, float]:
    """The minimum and maximum seconds of the command ``pairloom run`` besides its stages: its start and its end.

    Parameters
    ----------
    plan
        The plan of the run. Workers of a cluster other than this computer are assumed to be running.
    imports, planning
        Seconds that this process took for imports, and then for reading the data and planning.
    """
    in_turn = max(1.0, plan.config.cluster.expected_workers / (os.cpu_count() or 1))
    starts = _WORKER_START if plan.config.cluster.kind == "processes" else (0.0, 0.0)
    low, high = (
        imports + planning + start * imports * in_turn + end
        for start, end in zip(starts, _END_SECONDS, strict=True)
    )
    return low, high


def process_seconds() -> float:
    """The age of this process."""
    return time.time() - float(psutil.Process().create_time())


def is_worth_a_forecast(plan: Run) -> bool:
    """Whether a run is long enough to measure a part of its data first."""
    shape, folds = plan.shape, plan.settings.folds
    rows = shape.rows_per_edge
    width = numbers_per_row(shape.numbers_per_row, rows, plan.kernel is not None)
    seconds = crude_training_seconds(plan.most_pairs, rows, width, folds)
    return seconds / plan.config.cluster.expected_workers > _LONG_SECONDS


# Seconds until one worker process per core has started: 2.4 to 3.2 on a quiet computer.
_START_SECONDS = 3.0


def crude_seconds(run: Run) -> dict[str, float]:
    """Seconds of each stage of a run on its expected workers, to an order of magnitude.

    For runs that are too short to measure anything first. The progress needs only the ratios of the stages; it learns
    the speed of this computer as it goes.
    """
    sizes, workers = planned_sizes(run), run.config.cluster.expected_workers
    return {stage.name: _crude_seconds(run, stage, sizes, workers) for stage in run.stages}


def _crude_seconds(run: Run, stage: Stage, sizes: RunSizes, workers: int) -> float:
    units = run.units(stage.name)
    if not units:
        return 0.0
    per_unit, per_work = stage.cost.seconds
    at_once = min(workers, units) if stage.runs_in(run) == "cluster" else 1
    return (per_unit * units + per_work * stage.cost.work(sizes)) / at_once


def start_seconds(plan: Run) -> float:
    """Seconds until the workers that a run starts on this computer are ready, to an order of magnitude."""
    cluster = plan.config.cluster
    if cluster.kind != "processes":
        return 0.0
    return _START_SECONDS * max(1.0, cluster.expected_workers / (os.cpu_count() or 1))


class Validation(NamedTuple):
    """Actual and forecast seconds of the stages of a run; and of the start of its workers, included in neither."""

    directory: Location
    workers: int
    startup: float
    actual: dict[str, float]
    forecast: dict[str, float]

    @property
    def error(self) -> float:
        """The relative error of the forecast of the whole run: positive if it is too long."""
        return sum(self.forecast.values()) / sum(self.actual.values()) - 1


def validate(directory: Location, costs: UnitCosts | None = None, *, seed: int = 0) -> Validation:
    """Forecast a finished run from the times of its units, or from those of another run.

    Raises
    ------
    ValueError
        If the run is not finished, grows, or was done by several drivers, so that its log does not show one pass.
    """
    plan = read_run(directory)
    if plan.config.growth is not None or len(Folder(directory).names("drivers")) > 1:
        raise ValueError(
            f"{directory}: the run must have been done in one go, by one driver, and must not grow. "
            "Validate by a new run."
        )
    own = costs_of_run(directory)
    startup, actual, workers = _actual(directory, plan)
    cluster = SimulatedCluster.this_computer(workers, startup=0.0)
    forecast = simulate(planned_workload(plan), costs or own, cluster, seed=seed)
    return Validation(
        directory, workers, startup, actual, {stage.stage: stage.seconds for stage in forecast.stages}
    )


def _actual(directory: Location, plan: Run) -> tuple[float, dict[str, float], int]:
    """Seconds until the workers had started; seconds of every stage, from the end of the stage before; and workers."""
    begun, ledger, ended = begin_times(directory), Ledger(directory), 0.0
    startup, actual, workers = 0.0, dict[str, float](), set[str]()
    for stage, keys in plan.keys.items():
        entries = list(ledger.claimed(stage, keys))
        if not entries:
            continue
        first = min(begun[stage, entry.unit] for entry in entries)
        last = max(begun[stage, entry.unit] + entry.seconds for entry in entries)
        if plan.stage(stage).runs_in(plan) != "driver":
            startup = startup if workers else first - ended
            ended = ended if workers else first
            workers |= {entry.worker for entry in entries}
        actual[stage] = last - (ended or first)
        ended = last
    return startup, actual, plan.config.cluster.workers or len(workers)
