"""Compare the forecast of a finished run with the times in its log."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pairloom.cluster.ledger import Ledger
from pairloom.cluster.plan import Plan
from pairloom.cluster.run_log import begin_times
from pairloom.cluster.simulator.simulated_cluster import SimulatedCluster
from pairloom.cluster.simulator.simulation import simulate
from pairloom.cluster.simulator.unit_costs import UnitCosts, costs_of_run
from pairloom.cluster.simulator.workload import planned_workload
from pairloom.cluster.stages import stage_named

__all__ = ["Validation", "validate"]


class Validation(NamedTuple):
    """Seconds of the stages of a run, as they were and as they are forecast; and of the start of its workers, which is
    measured and in neither."""

    directory: Path
    workers: int
    startup: float
    actual: dict[str, float]
    forecast: dict[str, float]

    @property
    def error(self) -> float:
        """The share by which the forecast of the whole run is too long, or too short if negative."""
        return sum(self.forecast.values()) / sum(self.actual.values()) - 1


def validate(directory: Path, costs: UnitCosts | None = None, *, seed: int = 0) -> Validation:
    """Forecast a finished run from the times of its units, or from those of another run.

    Raises
    ------
    ValueError
        If the run is not finished, grows, or was done by several drivers: its log is then no record of one pass.
    """
    plan = Plan.read(directory)
    if plan.config.growth is not None or len(list((directory / "drivers").glob("*.json"))) > 1:
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


def _actual(directory: Path, plan: Plan) -> tuple[float, dict[str, float], int]:
    """Seconds until the workers had started; seconds of every stage, from the end of the one before; and workers."""
    begun, ledger, ended = begin_times(directory), Ledger(directory), 0.0
    startup, actual, workers = 0.0, dict[str, float](), set[str]()
    for stage, keys in plan.keys.items():
        entries = list(ledger.claimed(stage, keys))
        if not entries:
            continue
        first = min(begun[stage, entry.unit] for entry in entries)
        last = max(begun[stage, entry.unit] + entry.seconds for entry in entries)
        if stage_named(stage).where != "driver":
            startup = startup if workers else first - ended
            ended = ended if workers else first
            workers |= {entry.worker for entry in entries}
        actual[stage] = last - (ended or first)
        ended = last
    return startup, actual, plan.config.cluster.workers or len(workers)
