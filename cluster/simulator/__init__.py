"""Simulated clusters: how long a run would take on a cluster that need not exist, and what would limit it.

``simulated_cluster`` describes a cluster, ``workload`` a run and its sizes, ``unit_costs`` the measured times of its
units of work; how these and the bytes moved depend on the sizes is in the files of the stages. ``simulation`` plays the
run, stage by stage, by the rules of ``cluster.drive.schedule``; ``stage_kernels`` has the events of one stage.
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
