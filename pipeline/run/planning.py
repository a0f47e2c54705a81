"""Facts about the data that the plan of a run needs: pairs, candidates, and the probe."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.graphs.families import check_code_size
from pairloom.pipeline.blas import one_blas_thread
from pairloom.pipeline.coupling.model_coupling import check_code_suits
from pairloom.pipeline.features.class_distances import distances_between, distances_from
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.normalisation import Normalisation, normalised_moments
from pairloom.pipeline.machines.whitening import Shrinkage
from pairloom.pipeline.model.choice import (
    Candidate,
    Probe,
    kernel_candidates,
    linear_candidates,
    part_of_class,
    plan_probe,
)
from pairloom.pipeline.model.model_settings import ModelSettings
from pairloom.pipeline.model.neighbours import asks_for_neighbours, with_chosen_neighbours
from pairloom.pipeline.model.training_set import TrainingSet
from pairloom.pipeline.run.choosing import train_on

__all__ = ["ModelPlan", "check_size", "plan_model"]

#: Classes of a graph that is built from all their distances: matrices of half a gigabyte, a few seconds.
MOST_COMPARED_CLASSES = 8192
#: Pairs of a plan: networkx takes about a gigabyte for so many.
MOST_PLANNED_PAIRS = 2_000_000


class ModelPlan(NamedTuple):
    """The model graph or code, the candidates for its settings, and the exponent of the normalised features.

    If there are several candidates, also the part on which they are compared.
    """

    graph: nx.Graph | graphs.ModelCode
    candidates: tuple[Candidate, ...]
    probe: Probe | None
    exponent: int


def plan_model(
    data: OpenFeatures,
    graph: Mapping[str, Any],
    C: Any,
    whiten: Shrinkage | Literal["auto"],
    calibration: str,
    settings_of: Callable[[tuple[Candidate, ...]], ModelSettings],
    class_weights: Sequence[float] | None,
    kernel: KernelFunction | None = None,
    *,
    standardise: bool = False,
) -> ModelPlan:
    """Build the graph and list the candidates, as `PairwiseSVC.fit` does.

    ``settings_of(candidates)`` are the settings of the model, ``class_weights`` the weights of its samples by class,
    ``kernel`` that of its machines, unless they are linear; ``standardise`` says whether columns are standardised.
    """
    check_size(graph, len(data.classes))
    moments = normalised_moments(data.moments, "data.features: X_train", standardise=standardise)
    distances = functools.cache(lambda: distances_between(moments.class_means))
    if kernel is None:
        candidates, exponent = (
            linear_candidates(C, whiten, calibration, moments),
            moments.normalisation.exponent,
        )
    else:
        candidates, exponent = kernel_candidates(C, calibration, kernel.is_inner_product), 0
    settings = settings_of(candidates)
    if kernel is None and asks_for_neighbours(graph, len(data.classes)):
        part_of = functools.partial(_part_of, data, moments.normalisation, class_weights, settings.seed)
        with one_blas_thread():
            graph = with_chosen_neighbours(graph, part_of, distances, settings, train_on)
    asked = graphs.requested_graph(graph, data.classes, distances, "graph.family")
    if isinstance(asked, graphs.ModelCode):
        check_code_suits(settings.coupling, asked, "model.coupling")
    probe = None
    if len(candidates) > 1:
        probe = plan_probe(asked, functools.partial(distances_from, moments.class_means), settings.seed)
    return ModelPlan(asked, candidates, probe, exponent)


def _part_of(
    data: OpenFeatures,
    normalisation: Normalisation,
    class_weights: Sequence[float] | None,
    seed: int,
    classes: NDArray[np.int64],
) -> TrainingSet:
    """The training samples of a probe, as `TrainingSet.part` would choose them from all. Only they are read."""
    rows_of = []
    for c in classes.tolist():
        own = data.of_class(c)
        rows_of.append(own[part_of_class(len(own), c, seed)])
    of_class = np.repeat(np.arange(len(classes)), [len(rows) for rows in rows_of])
    weight = None if class_weights is None else np.array(class_weights)[classes[of_class]]
    X = normalisation(_scattered_rows(data, np.concatenate(rows_of)))
    return TrainingSet(X, of_class, len(classes), weight)


def _scattered_rows(data: OpenFeatures, rows: NDArray[np.int64]) -> NDArray[np.floating]:
    """Training rows in any order, read in ascending order."""
    ascending = np.argsort(rows)
    X = np.empty((len(rows), data.X_train.shape[1]), data.X_train.dtype)
    X[ascending] = data.X_train.read(rows[ascending])
    return X


def check_size(graph: Mapping[str, Any], n: int) -> None:
    """Raise if the graph that was asked for cannot be built in seconds and in bounded memory, before it is tried."""
    family = graph["family"]
    if family in graphs.CODE_FAMILIES:
        check_code_size(family, n, "graph.family =")
        return
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
