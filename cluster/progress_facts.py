"""What the progress of a run knows from its plan."""

from __future__ import annotations

from pairloom.cluster.crude_forecast import crude_seconds, start_seconds
from pairloom.cluster.forecast_file import Ranges
from pairloom.cluster.plan import Plan
from pairloom.cluster.run_progress import RunFacts

__all__ = ["run_facts"]


def run_facts(plan: Plan, forecast: Ranges | None) -> RunFacts:
    """The facts of a plan; without a forecast, its times are guessed from its sizes."""
    seconds = crude_seconds(plan)
    if forecast is not None:
        seconds |= {stage: (low + high) / 2 for stage, (low, high) in forecast.items()}
    return RunFacts(
        name=plan.config.run.name,
        classes=len(plan.shape.classes),
        pairs_per_unit=[tile.stop - tile.start for tile in plan.tiles],
        seconds=seconds,
        seconds_to_start=start_seconds(plan),
        most_pairs=None if plan.config.growth is None else plan.most_pairs,
        machines_on="pairs" if plan.shape.code is None else "columns",
    )
