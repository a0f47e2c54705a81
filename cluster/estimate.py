"""What a pair costs on this machine, measured before a run is begun."""

from __future__ import annotations

import time

import numpy as np

from pairloom.cluster.plan import Plan
from pairloom.cluster.units import machine_settings
from pairloom.pipeline.features.feature_set import FeatureSet
from pairloom.pipeline.machines.linear_machines import train_edges
from pairloom.pipeline.machines.whitening import centring

__all__ = ["seconds_per_pair"]

_PAIRS = 4


def seconds_per_pair(plan: Plan, data: FeatureSet) -> float:
    """Median seconds to train a pair, over pairs from all over the plan, after one that only warms up."""
    E = len(plan.shape.edges)
    chosen = plan.shape.edges[np.linspace(0, E - 1, min(E, _PAIRS)).astype(int)]
    centred = centring(data.X_train)
    rows = {int(c): centred(data.X_train[data.y_train == c]) for c in np.unique(chosen)}
    settings, seconds = machine_settings(plan), []
    for edge in [chosen[0], *chosen]:
        started = time.perf_counter()
        train_edges(rows, edge[None], settings)
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds[1:]))
