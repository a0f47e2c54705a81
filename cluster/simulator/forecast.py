"""How long the stages of a plan will take: the interface of the planner."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pairloom.cluster.simulator.simulated_cluster import SimulatedCluster
from pairloom.cluster.simulator.simulation import simulate
from pairloom.cluster.simulator.stage_costs import cost_of_stage
from pairloom.cluster.simulator.unit_costs import UnitCosts
from pairloom.cluster.simulator.workload import Workload, planned_workload

if TYPE_CHECKING:
    from pairloom.cluster.plan import Plan

__all__ = ["MARGIN", "stage_seconds"]

#: Forecasts were within this share of real runs on one and two workers: see docs/scaling.md.
MARGIN = 0.15
_SEEDS = 3


def stage_seconds(
    plan: Plan, costs: UnitCosts, workers: int, cluster: SimulatedCluster | None = None
) -> dict[str, tuple[float, float]]:
    """The least and the most seconds that each stage of a plan should take.

    Parameters
    ----------
    plan
        The plan of a run. For a run that grows, the waves that it has.
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
        side. Where units are many times larger than those that were measured, the lower end is lower: a part of what
        was measured does not grow with the work. That of the report is lower too: it may find no errors to explain.
        The start of the workers is not among them.
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
    """By how much an enlarged unit may be faster than its measured ones: half as much again for every factor of ten.

    How the time of training grows was measured. A report without errors has nothing to explain.
    """
    if stage == "machines" and costs.row_exponent:
        return 1.0
    if stage == "report":
        report = cost_of_stage(stage).work
        return report(work.sizes) / report(work.sizes._replace(explained=0))
    enlarged = costs.enlargement(stage, work.units().get(stage, 0), work.sizes)
    return 1 + 0.5 * math.log10(max(1.0, enlarged))


def _by_stage(work: Workload, costs: UnitCosts, cluster: SimulatedCluster, seed: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for stage in simulate(work, costs, cluster, seed=seed).stages:
        found[stage.stage] = found.get(stage.stage, 0.0) + stage.seconds
    return found
