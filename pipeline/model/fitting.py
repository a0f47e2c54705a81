"""Fitting in one process: choose among the candidates, train the machines, calibrate the coupled model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import networkx as nx

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.calibration.coupled_learning import sample_limit
from pairloom.pipeline.calibration.drawn_samples import draw_evenly
from pairloom.pipeline.completion.couplers import Coupler, coupler_of
from pairloom.pipeline.machines.kinds import TrainedMachines
from pairloom.pipeline.machines.linear_machines import LinearModel
from pairloom.pipeline.model.choice import JudgedCandidate, best_candidate, judge_trial, n_trials, trial
from pairloom.pipeline.model.fit_progress import FitProgress, begin_training
from pairloom.pipeline.model.fitted_model import KEPT_SETTINGS, ClassTable, FittedModel
from pairloom.pipeline.model.judged_model import (
    JudgedModel,
    MachineTraining,
    Resources,
    judge_model,
    next_graphs,
    widened,
)
from pairloom.pipeline.model.learning import DrawnRows, Learned, check_weights, learn_weights
from pairloom.pipeline.model.settings import ModelSettings
from pairloom.pipeline.model.training_set import TrainingSet, plan_probe

__all__ = ["Fit", "fit_model"]


class Fit(NamedTuple):
    """A fitted model, a row for each candidate and calibration that was compared, and why it has its kernel."""

    model: FittedModel
    candidates: list[dict[str, Any]]
    calibrations: list[dict[str, Any]]
    why: str = ""


def fit_model(
    training: TrainingSet,
    classes: ClassTable,
    graph: nx.Graph | graphs.ModelCode,
    settings: ModelSettings,
    *,
    resources: Resources,
    progress: FitProgress,
    widens: bool = False,
    **facts: Any,
) -> Fit:
    """Fit a model over a graph or a code.

    Parameters
    ----------
    training, classes, graph, settings
    resources : Resources
    progress : FitProgress
        Is told how far the fit is.
    widens : bool
        Whether classes may be joined to more neighbours, where the graph is one of hubs and neighbours.
    **facts
        Further fields of `FittedModel`.
    """
    if settings.learn == "coupled" and isinstance(graph, nx.Graph):
        check_weights(graph.number_of_edges(), training.X.shape[1], "PairwiseSVC: learn='coupled'")
    judged = _judged(training, graph, settings, resources, progress)
    chosen = best_candidate(judged) if judged else settings.candidates[0]
    how = MachineTraining(
        training, settings.machines_for_calibrations(chosen.C), chosen.whiten, resources, progress
    )
    trained = how.train(settings, graphs.decomposition_of(graph), "machines")
    coupler = coupler_of(graph, settings.counts_of(classes.totals))
    progress.begin("calibration", 1, "coupling")
    calibration, scores, compared = settings.calibrations[0], None, []
    if settings.coupled_calibration == "none":
        coupled = CoupledCalibration.scaled("none", 1.0, coupler, calibration, settings.coupling)
    else:
        found = _widened(judge_model(how, graph, coupler, settings, trained), widens)
        graph, coupler, settings = found.graph, found.coupler, found.settings
        trained, coupled, scores = found.calibrated()
        calibration, compared = found.best.calibration, found.judged
    if settings.learn == "coupled":
        progress.begin("learning", 1, "model")
    learned = _learned(training, coupler, settings, trained, coupled, resources)
    is_replaced = learned is not None and learned.logits is not None
    model = FittedModel(
        classes=classes,
        graph=graph,
        trained=trained,
        settings=settings.machines_as_chosen(chosen.C, calibration),
        whiten=chosen.whiten,
        coupled=coupled,
        learned=learned,
        held_out=None if is_replaced else scores,
        **{name: getattr(settings, name) for name in KEPT_SETTINGS},
        **facts,
    )
    standardised = model.normalisation.deviation is not None
    candidates = [one.row(model.normalisation, settings.kernel, standardised) for one in judged]
    return Fit(model, candidates, [one.row() for one in compared] if len(compared) > 1 else [])


def _widened(model: JudgedModel, neighbours: bool) -> JudgedModel:
    """A model with a longer list, and more neighbours where these were left open, if held-out samples gain by them."""
    settings = model.settings
    if settings.shortlist != "auto" or settings.learn == "coupled":
        return model
    wider: Iterator[nx.Graph] = iter(())
    if neighbours and isinstance(model.trained, LinearModel):
        machines_per_pair = model.how.machines.scheme.n_machines
        bytes_per_pair = 4 * machines_per_pair * model.how.samples.X.shape[1]
        wider = next_graphs(model.graph, model.how.samples.distances, bytes_per_pair)
    return widened(model, wider)


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
    times = n_trials(settings.candidates)
    begin_training(progress, "candidates", graphs.decomposition_of(probe.graph), times)
    for number in range(times):
        candidate = trial(settings.candidates, number, judged)
        judged.append(judge_trial(part, probe.graph, settings, candidate, **resources, progress=progress))
    return judged


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
