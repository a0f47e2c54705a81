"""The forecast of a run: how long each stage should take on the workers at hand, by a short measurement on its data.

``pairloom plan`` shows it. A run that is long enough to be worth it makes one before it begins, and its report sets the
times that the stages took beside it. No result depends on a forecast.
"""

from __future__ import annotations

from pairloom.cluster.crude_forecast import workers_of
from pairloom.cluster.forecast_file import Ranges
from pairloom.cluster.plan import Plan
from pairloom.cluster.simulator.forecast import stage_seconds
from pairloom.cluster.simulator.unit_costs import measure_costs
from pairloom.cluster.tiles import crude_training_seconds, numbers_per_row
from pairloom.pipeline.features.feature_set import OpenFeatures

__all__ = ["forecast_seconds", "is_worth_a_forecast", "workers_of"]

# A run whose training takes less than this is over before anyone has read a forecast.
_LONG_SECONDS = 60.0


def forecast_seconds(plan: Plan, data: OpenFeatures) -> Ranges:
    """The least and the most seconds of each stage on the workers of the plan. Measuring takes seconds."""
    return stage_seconds(plan, measure_costs(plan, data), workers_of(plan))


def is_worth_a_forecast(plan: Plan) -> bool:
    """Whether a run is long enough to measure its data first."""
    shape, folds = plan.shape, plan.settings.folds
    rows = shape.rows_per_edge
    width = numbers_per_row(shape.features, rows, plan.kernel is not None)
    seconds = crude_training_seconds(plan.most_pairs, rows, width, folds)
    return seconds / workers_of(plan) > _LONG_SECONDS
