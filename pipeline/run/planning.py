"""Facts about the data that the plan of a run needs: pairs, candidates, class weights, and the time per pair."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.blas import one_blas_thread
from pairloom.pipeline.features.class_distances import class_means, distances_from, mean_distances
from pairloom.pipeline.features.feature_set import FeatureSet
from pairloom.pipeline.machines.linear_machines import train_edges
from pairloom.pipeline.machines.linear_model import whitened_rows
from pairloom.pipeline.machines.normalisation import fit_normalisation
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.machines.whitening import Shrinkage, centring
from pairloom.pipeline.model.choice import Candidate, Probe, linear_candidates, plan_probe
from pairloom.pipeline.model.model_settings import ModelSettings
from pairloom.pipeline.model.neighbours import asks_for_neighbours, with_chosen_neighbours
from pairloom.pipeline.model.training_set import TrainingSet
from pairloom.pipeline.run.choosing import train_on

__all__ = ["ModelPlan", "check_size", "plan_model", "seconds_per_pair"]

_MEASURED_PAIRS = 4
#: Classes of a graph that is built from all their distances: matrices of half a gigabyte, a few seconds.
MOST_COMPARED_CLASSES = 8192
#: Pairs of a plan: networkx takes about a gigabyte for so many.
MOST_PLANNED_PAIRS = 2_000_000


class ModelPlan(NamedTuple):
    """The model graph, the candidates for its settings, the part on which they are compared if there are several, and
    the exponent of the normalised features."""

    graph: nx.Graph
    candidates: tuple[Candidate, ...]
    probe: Probe | None
    exponent: int


def plan_model(
    data: FeatureSet,
    graph: Mapping[str, Any],
    C: Any,
    whiten: Shrinkage | Literal["auto"],
    calibration: str,
    settings_of: Callable[[tuple[Candidate, ...]], ModelSettings],
    class_weights: Sequence[float] | None,
) -> ModelPlan:
    """Build the graph and list the candidates, as `PairwiseSVC.fit` does.

    ``settings_of(candidates)`` are the settings of the model, ``class_weights`` the weights of its samples by class.
    """
    check_size(graph, len(data.classes))
    normalisation = fit_normalisation(data.X_train, "data.features: X_train")
    X, n = normalisation(data.X_train), len(data.classes)
    distances = functools.cache(lambda: mean_distances(X, data.y_train, n))
    candidates = linear_candidates(C, whiten, calibration, X, normalisation)
    settings = settings_of(candidates)
    if asks_for_neighbours(graph, n):
        weight = None if class_weights is None else np.array(class_weights)[data.y_train]
        training = TrainingSet(X, data.y_train.astype(np.int64), n, weight)
        with one_blas_thread():
            graph = with_chosen_neighbours(graph, training, distances, settings, train_on)
    asked = graphs.requested_graph(graph, data.classes, distances, "graph.family")
    probe = None
    if len(candidates) > 1:
        means = class_means(X, data.y_train, n)
        probe = plan_probe(asked, functools.partial(distances_from, means), settings.seed)
    return ModelPlan(asked, candidates, probe, normalisation.exponent)


def check_size(graph: Mapping[str, Any], n: int) -> None:
    """Raise if the graph that was asked for cannot be built in seconds and in bounded memory, before it is tried."""
    family = graph["family"]
    if (graphs.needs_distances(family) or family == "grown") and n > MOST_COMPARED_CLASSES:
        raise ValueError(
            f"graph.family = {family!r} compares every class with every other: {n:,} classes would take"
            f" {8 * n**2 / 2**30:,.0f} GiB per matrix; it can have at most {MOST_COMPARED_CLASSES:,} classes."
            " Choose star, path, tree or bipartite."
        )
    hubs = graph.get("hubs", 1)
    d = hubs if isinstance(hubs, int) else len(hubs)
    pairs = {"complete": n * (n - 1) // 2, "bipartite": d * (n - d)}.get(family, n)
    if pairs > MOST_PLANNED_PAIRS:
        raise ValueError(
            f"graph.family = {family!r} has {pairs:,} pairs for {n:,} classes; a run can have at most"
            f" {MOST_PLANNED_PAIRS:,}. Choose a sparser graph, such as bipartite with fewer hubs."
        )


def seconds_per_pair(data: FeatureSet, edges: NDArray[np.int64], settings: MachineSettings) -> float:
    """Median time to train a pair on this computer, over pairs spread over the plan, after a warm-up."""
    chosen = edges[np.linspace(0, len(edges) - 1, min(len(edges), _MEASURED_PAIRS)).astype(int)]
    X = fit_normalisation(data.X_train, "data.features: X_train")(data.X_train)
    rows = whitened_rows({int(c): X[data.y_train == c] for c in np.unique(chosen)}, centring(X))
    seconds = []
    for edge in [chosen[0], *chosen]:
        started = time.perf_counter()
        train_edges(rows, edge[None], settings)
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds[1:]))
