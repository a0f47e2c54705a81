"""Fitting in one process: choose among the candidates, train the edges, calibrate the coupled model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import (
    CoupledCalibration,
    HeldOut,
    calibrate_coupled,
)
from pairloom.pipeline.calibration.out_of_fold import out_of_fold_edge_logits
from pairloom.pipeline.calibration.scale import ScaleChoice, choose_scale
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.machines.estimator_model import EstimatorModel
from pairloom.pipeline.machines.linear_model import LinearModel
from pairloom.pipeline.machines.whitening import is_whitened
from pairloom.pipeline.model.choice import (
    PROBE_SAMPLES,
    Candidate,
    JudgedCandidate,
    best_candidate,
    probe_graph,
)
from pairloom.pipeline.model.class_table import ClassTable
from pairloom.pipeline.model.fitted_model import FittedModel
from pairloom.pipeline.model.model_settings import ModelSettings
from pairloom.pipeline.model.training_set import TrainingSet

__all__ = ["Fit", "Resources", "fit_model"]

#: ``train(edges, candidate)`` returns the machines of the edges at the candidate's C and whitening.
Train = Callable[[NDArray[np.int64], Candidate], LinearModel | EstimatorModel]


class Resources(TypedDict):
    """What a fit may use. Nothing here changes its result."""

    n_jobs: int | None
    memory_limit: int


class Fit(NamedTuple):
    """A fitted model, the candidate that was chosen for it, and all candidates if there was a choice."""

    model: FittedModel
    chosen: Candidate
    judged: list[JudgedCandidate]


class _Compared(NamedTuple):
    """A candidate that was trained, and its scale if it was found on the samples that calibrate the model."""

    judged: JudgedCandidate
    trained: LinearModel | EstimatorModel
    found: ScaleChoice | None


def fit_model(
    training: TrainingSet,
    classes: ClassTable,
    graph: nx.Graph,
    settings: ModelSettings,
    train: Train,
    *,
    distances: Callable[[], ArrayLike],
    resources: Resources,
    **facts: Any,
) -> Fit:
    """Fit a model over a graph.

    Parameters
    ----------
    training, classes, graph, settings
    train : callable
        ``train(edges, candidate)``.
    distances : callable
        Returns the (N, N) distances between the classes, for the graph on which candidates are compared.
    resources : Resources
    **facts
        Further fields of `FittedModel`.
    """
    chosen, compared = settings.candidates[0], []
    on_own_graph = True
    if len(settings.candidates) > 1:
        probe = probe_graph(graph, distances)
        on_own_graph = probe is graph
        compared = _compare(training, probe, on_own_graph, settings, train, resources)
        chosen = best_candidate([one.judged for one in compared])
    kept = {one.judged.candidate: one for one in compared if on_own_graph}.get(chosen)
    trained = kept.trained if kept else train(graphs.edge_array(graph), chosen)
    found = kept.found if kept else None
    model = FittedModel(
        classes=classes,
        graph=graph,
        trained=trained,
        settings=settings.machines(chosen.C),
        whiten=chosen.whiten,
        coupling=settings.coupling,
        coupled=_coupled(training, graph, settings, trained, chosen, found, resources),
        calibration_samples=settings.calibration_samples,
        **facts,
    )
    return Fit(model, chosen, [one.judged for one in compared])


def _compare(
    training: TrainingSet,
    graph: nx.Graph,
    on_own_graph: bool,
    settings: ModelSettings,
    train: Train,
    resources: Resources,
) -> list[_Compared]:
    """Train and judge every candidate on a graph."""
    edges, completion = graphs.edge_array(graph), plan_completion(graph)
    most = settings.compared_samples(on_own_graph, PROBE_SAMPLES)
    compared = []
    for candidate in settings.candidates:
        trained = train(edges, candidate)
        logits, y, weight = _held_out(training, trained, edges, settings, most, settings.may_whiten)
        choice = choose_scale(logits, y, completion, settings.coupling, weight=weight, **resources)
        as_calibrated = settings.may_whiten == is_whitened(candidate.whiten)
        found = choice if as_calibrated or training.draws_are_the_same(most) else None
        judged = JudgedCandidate(candidate, choice.log_loss, choice.losses)
        compared.append(_Compared(judged, trained, found))
    return compared


def _coupled(
    training: TrainingSet,
    graph: nx.Graph,
    settings: ModelSettings,
    trained: LinearModel | EstimatorModel,
    chosen: Candidate,
    found: ScaleChoice | None,
    resources: Resources,
) -> CoupledCalibration:
    """Calibrate the coupled model on samples held out from its machines."""
    level, edges = settings.coupled_calibration, graphs.edge_array(graph)
    if level == "none":
        return CoupledCalibration.uniform(level, 1.0, len(edges))
    if level == "scale" and found is not None:
        return CoupledCalibration.uniform(level, found.scale, len(edges))
    most, whitened = settings.calibration_samples, is_whitened(chosen.whiten)
    held_out = _held_out(training, trained, edges, settings, most, whitened)
    return calibrate_coupled(
        held_out, plan_completion(graph), settings.coupling, level, found=found, **resources
    )


def _held_out(
    training: TrainingSet,
    trained: LinearModel | EstimatorModel,
    edges: NDArray[np.int64],
    settings: ModelSettings,
    most: int,
    whitened: bool,
) -> HeldOut:
    """Out-of-fold logits of some training samples, as many of every class."""
    rows, classes, folds = training.drawn(settings, most, whitened)
    scheme = settings.machines().scheme
    logits = out_of_fold_edge_logits(trained.logits, edges, scheme, training.X[rows], classes, folds)
    return HeldOut(logits, classes, None if training.weight is None else training.weight[rows])
