"""A guess of how long the stages of a run take, from its sizes alone.

It is for runs that are too short to measure anything before. Their progress needs to know how the stages compare; how
fast this computer is, it finds out as it goes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pairloom.cluster.simulator.run_sizes import planned_sizes
from pairloom.cluster.simulator.stage_costs import cost_of_stage
from pairloom.cluster.stages import stage_named

if TYPE_CHECKING:
    from pairloom.cluster.plan import Plan

__all__ = ["crude_seconds", "start_seconds"]

# Seconds per unit, and per unit of the work of `stage_costs`, to one or two digits, of runs on a busy computer.
_SECONDS: dict[str, tuple[float, float]] = {
    "features": (0.005, 2.5e-8),
    "samples": (0.003, 1e-8),
    "draws": (0.3, 1e-8),
    "statistics": (0.025, 6e-11),
    "whitening": (0.03, 6e-10),
    "candidates": (0.4, 4.5e-8),
    "machines": (0.02, 2.1e-9),
    "held_out": (0.01, 2.5e-3),
    "growth": (0.05, 5e-9),
    "calibration": (0.02, 3e-9),
    "learning": (0.1, 1e-8),
    "model": (0.005, 2e-4),
    "logits": (0.01, 1e-10),
    "probabilities": (0.005, 3e-9),
    "report": (1.5, 0.0),
}
# Seconds until as many worker processes as there are cores have started: 2.4 to 3.2 on a quiet computer.
_START_SECONDS = 3.0


def crude_seconds(plan: Plan) -> dict[str, float]:
    """Seconds of each stage of a plan on the workers that it asks for, to an order of magnitude."""
    sizes, workers = planned_sizes(plan), plan.config.cluster.expected_workers
    found = {}
    for stage in plan.keys:
        units = plan.units(stage)
        per_unit, per_work = _SECONDS.get(stage, (0.1, 0.0))
        at_once = min(workers, units) if stage_named(stage).where == "cluster" else 1
        work = cost_of_stage(stage).work(sizes)
        found[stage] = (per_unit * units + per_work * work) / at_once if units else 0.0
    return found


def start_seconds(plan: Plan) -> float:
    """Seconds until the workers have started that a run starts on this computer, to an order of magnitude."""
    cluster = plan.config.cluster
    if cluster.kind != "processes":
        return 0.0
    return _START_SECONDS * max(1.0, cluster.expected_workers / (os.cpu_count() or 1))
