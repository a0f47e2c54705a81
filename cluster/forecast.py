"""The forecast of a run: how long its stages, start and end should take on the workers at hand, by a short measurement.

``pairloom plan`` shows it. A run that is long enough to be worth it makes one before it begins, and its report sets the
times that the stages took beside it. No result depends on a forecast.
"""

from __future__ import annotations

import os
import time

import psutil

from pairloom.cluster.forecast_file import Ranges
from pairloom.cluster.plan import Plan
from pairloom.cluster.simulator.forecast import stage_seconds
from pairloom.cluster.simulator.unit_costs import measure_costs
from pairloom.cluster.tiles import crude_training_seconds, numbers_per_row
from pairloom.pipeline.features.feature_set import OpenFeatures

__all__ = ["forecast_overhead", "forecast_seconds", "is_worth_a_forecast", "process_seconds"]

# A run whose training takes less than this is over before anyone has read a forecast.
_LONG_SECONDS = 60.0
# A worker process imports a little less than the command does, but as many of them at once as there are cores.
_WORKER_START = (0.75, 1.5)
# To end them, and to print the result.
_END_SECONDS = (0.3, 1.0)


def forecast_seconds(plan: Plan, data: OpenFeatures) -> Ranges:
    """The least and the most seconds of each stage on the workers of the plan. Measuring takes seconds."""
    return stage_seconds(plan, measure_costs(plan, data), plan.config.cluster.expected_workers)


def forecast_overhead(plan: Plan, imports: float, planning: float) -> tuple[float, float]:
    """The least and the most seconds of the command ``pairloom run`` besides its stages: its start and its end.

    Parameters
    ----------
    plan
        The plan of the run. The workers of another cluster than this computer are taken to be there.
    imports, planning
        How long the imports of this process took, and then reading the data and planning.
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


def is_worth_a_forecast(plan: Plan) -> bool:
    """Whether a run is long enough to measure its data first."""
    shape, folds = plan.shape, plan.settings.folds
    rows = shape.rows_per_edge
    width = numbers_per_row(shape.features, rows, plan.kernel is not None)
    seconds = crude_training_seconds(plan.most_pairs, rows, width, folds)
    return seconds / plan.config.cluster.expected_workers > _LONG_SECONDS
