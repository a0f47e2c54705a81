"""Simulated clusters: the time of a run on a cluster that need not exist, and the resource that limits it.

``simulated_cluster`` describes a cluster, ``workload`` a run and its sizes, ``unit_costs`` the measured times of its
units of work. The files of the stages say how times and bytes depend on the sizes. ``simulation`` plays the run, stage
by stage, by the rules of ``cluster.drive.schedule``; ``stage_kernels`` has the events of one stage.
"""

from pairloom.cluster.simulator.forecast import stage_seconds
from pairloom.cluster.simulator.simulated_cluster import SimulatedCluster
from pairloom.cluster.simulator.simulation import RunForecast, StageForecast, simulate
from pairloom.cluster.simulator.unit_costs import UnitCosts, costs_of_run, measure_costs
from pairloom.cluster.simulator.workload import Workload, imagined_workload, planned_workload

__all__ = [
    "RunForecast",
    "SimulatedCluster",
    "StageForecast",
    "UnitCosts",
    "Workload",
    "costs_of_run",
    "imagined_workload",
    "measure_costs",
    "planned_workload",
    "simulate",
    "stage_seconds",
]
