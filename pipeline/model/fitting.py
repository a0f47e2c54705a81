"""Fitting in one process: choose among the candidates, train the machines, calibrate the coupled model."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

import networkx as nx

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration, calibrate_coupled
from pairloom.pipeline.calibration.coupled_learning import sample_limit
from pairloom.pipeline.calibration.drawn_samples import draw_evenly
from pairloom.pipeline.completion.couplers import Coupler, coupler_of
from pairloom.pipeline.machines.kinds import TrainedMachines
from pairloom.pipeline.machines.linear_machines import LinearModel
from pairloom.pipeline.machines.whitening import is_whitened
from pairloom.pipeline.model.choice import (
    JudgedCandidate,
    best_candidate,
    drawn_logits,
    judge_trial,
    n_trials,
    trial,
)
from pairloom.pipeline.model.fit_progress import FitProgress, begin_training
from pairloom.pipeline.model.fitted_model import KEPT_SETTINGS, ClassTable, FittedModel
from pairloom.pipeline.model.learning import DrawnRows, Learned, check_weights, learn_weights
from pairloom.pipeline.model.settings import Candidate, ModelSettings
from pairloom.pipeline.model.training_set import TrainingSet, plan_probe

__all__ = ["Fit", "Resources", "fit_model"]


class Resources(TypedDict):
    """What a fit may use. Nothing here changes its result."""

    n_jobs: int | None
    memory_limit: int


class Fit(NamedTuple):
    """A fitted model, and all candidates if there was a choice."""

    model: FittedModel
    judged: list[JudgedCandidate]


def fit_model(
    training: TrainingSet,
    classes: ClassTable,
    graph: nx.Graph | graphs.ModelCode,
    settings: ModelSettings,
    *,
    resources: Resources,
    progress: FitProgress,
    **facts: Any,
) -> Fit:
    """Fit a model over a graph or a code.

    Parameters
    ----------
    training, classes, graph, settings
    resources : Resources
    progress : FitProgress
        Is told how far the fit is.
    **facts
        Further fields of `FittedModel`.
    """
    if settings.learn == "coupled" and isinstance(graph, nx.Graph):
        check_weights(graph.number_of_edges(), training.X.shape[1], "PairwiseSVC: learn='coupled'")
    judged = _judged(training, graph, settings, resources, progress)
    chosen = best_candidate(judged) if judged else settings.candidates[0]
    begin_training(progress, "machines", graphs.decomposition_of(graph))
    trained = training.train(settings, graphs.decomposition_of(graph), chosen, resources["n_jobs"], progress)
    coupler = coupler_of(graph, settings.counts_of(classes.totals))
    progress.begin("calibration", 1, "coupling")
    coupled = _coupled(training, coupler, settings, trained, chosen, resources)
    if settings.learn == "coupled":
        progress.begin("learning", 1, "model")
    model = FittedModel(
        classes=classes,
        graph=graph,
        trained=trained,
        settings=settings.machines(chosen.C, chosen.calibration),
        whiten=chosen.whiten,
        coupled=coupled,
        learned=_learned(training, coupler, settings, trained, coupled, resources),
        **{name: getattr(settings, name) for name in KEPT_SETTINGS},
        **facts,
    )
    return Fit(model, judged)


def _judged(
    training: TrainingSet,
    graph: nx.Graph | graphs.ModelCode,
    settings: ModelSettings,
    resources: Resources,
    progress: FitProgress,
) -> list[JudgedCandidate]:
    """The judged candidates; none if there is no choice."""
    judged: list[JudgedCandidate] = []
    if len(settings.candidates) == 1:
        return judged
    probe = plan_probe(graph, training.distances_from, settings.seed)
    part = training.part(probe.classes, settings.seed, probe.most_rows)
    # Calibrations share their machines, unless they have thresholds.
    sharing = len({one.calibration for one in settings.candidates}) if settings.thresholds else 1
    times = sharing * n_trials(settings.candidates)
    begin_training(progress, "candidates", graphs.decomposition_of(probe.graph), times)
    for number in range(n_trials(settings.candidates)):
        next_trial = trial(settings.candidates, number, judged)
        judged += judge_trial(part, probe.graph, settings, next_trial, **resources, progress=progress)
    return judged


def _coupled(
    training: TrainingSet,
    coupler: Coupler,
    settings: ModelSettings,
    trained: TrainedMachines,
    chosen: Candidate,
    resources: Resources,
) -> CoupledCalibration:
    """Calibrate the coupled model on samples held out from its machines."""
    level = settings.coupled_calibration
    if level == "none":
        return CoupledCalibration.scaled(level, 1.0, coupler, chosen.calibration, settings.coupling)
    drawn = drawn_logits(
        training, trained, settings, settings.calibration_samples, is_whitened(chosen.whiten)
    )
    held_out = drawn.held_out(coupler, settings, chosen.calibration, resources["memory_limit"])
    return calibrate_coupled(
        held_out,
        coupler,
        settings.coupling,
        level,
        calibration=chosen.calibration,
        n_jobs=resources["n_jobs"],
    )


def _learned(
    training: TrainingSet,
    coupler: Coupler,
    settings: ModelSettings,
    trained: TrainedMachines,
    coupled: CoupledCalibration,
    resources: Resources,
) -> Learned | None:
    """Learn the weights of the calibrated machines through the coupling, if that is asked for."""
    if settings.learn == "machines":
        return None
    assert isinstance(trained, LinearModel), "check_learnable has made sure"
    drawn = draw_evenly(training.classes, sample_limit(trained.n_edges), settings.folds, settings.seed)
    weight = None if training.weight is None else training.weight[drawn.rows]
    samples = DrawnRows(drawn, training.X[drawn.rows], weight)
    return learn_weights(samples, trained, settings, coupled, coupler.completion, n_jobs=resources["n_jobs"])
