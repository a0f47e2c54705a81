"""Fitting in one process: choose among the candidates, train the machines, calibrate the coupled model."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

import networkx as nx

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration, calibrate_coupled
from pairloom.pipeline.calibration.coupled_learning import sample_limit
from pairloom.pipeline.calibration.drawn_samples import draw_evenly
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.uncoupled import Wiring, wiring_of
from pairloom.pipeline.machines.estimator_model import EstimatorModel
from pairloom.pipeline.machines.kernel_model import KernelModel
from pairloom.pipeline.machines.linear_model import LinearModel
from pairloom.pipeline.machines.whitening import is_whitened
from pairloom.pipeline.model.choice import (
    Candidate,
    DistancesFrom,
    JudgedCandidate,
    best_candidate,
    n_trials,
    plan_probe,
    trial,
)
from pairloom.pipeline.model.class_table import ClassTable
from pairloom.pipeline.model.fitted_model import FittedModel
from pairloom.pipeline.model.judging import Train, drawn_logits, judge_trial
from pairloom.pipeline.model.learning import DrawnRows, Learned, check_weights, learn_weights
from pairloom.pipeline.model.model_settings import ModelSettings
from pairloom.pipeline.model.phases import Phases, begin_training
from pairloom.pipeline.model.training_set import TrainingSet

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
    train: Train,
    *,
    distances_from: DistancesFrom,
    resources: Resources,
    phases: Phases,
    **facts: Any,
) -> Fit:
    """Fit a model over a graph or a code.

    Parameters
    ----------
    training, classes, graph, settings
    train : callable
        ``train(settings, training, sides, candidate)``.
    distances_from : callable
        ``distances_from(c)`` are the (N,) distances of the classes from class c, for the part on which candidates are
        compared.
    resources : Resources
    phases : Phases
        Is told how the fit goes on; `train` counts the pairs that it has trained.
    **facts
        Further fields of `FittedModel`.
    """
    if settings.learn == "coupled" and isinstance(graph, nx.Graph):
        check_weights(graph.number_of_edges(), training.X.shape[1], "PairwiseSVC: learn='coupled'")
    judged = _judged(training, graph, settings, train, distances_from, resources, phases)
    chosen = best_candidate(judged) if judged else settings.candidates[0]
    begin_training(phases, "machines", graphs.sides_of(graph))
    trained = train(settings, training, graphs.sides_of(graph), chosen)
    wiring = wiring_of(graph, settings.counts_of(classes.totals))
    phases.begin("calibration", 1, "coupling")
    coupled = _coupled(training, wiring, settings, trained, chosen, resources)
    if settings.learn == "coupled":
        phases.begin("learning", 1, "model")
    model = FittedModel(
        classes=classes,
        graph=graph,
        trained=trained,
        settings=settings.machines(chosen.C, chosen.calibration),
        whiten=chosen.whiten,
        coupling=settings.coupling,
        coupled=coupled,
        calibration_samples=settings.calibration_samples,
        shortlist=settings.shortlist,
        machine_weight=settings.machine_weight,
        learned=_learned(training, wiring, settings, trained, coupled, resources),
        **facts,
    )
    return Fit(model, judged)


def _judged(
    training: TrainingSet,
    graph: nx.Graph | graphs.ModelCode,
    settings: ModelSettings,
    train: Train,
    distances_from: DistancesFrom,
    resources: Resources,
    phases: Phases,
) -> list[JudgedCandidate]:
    """The judged candidates; none if there is no choice."""
    judged: list[JudgedCandidate] = []
    if len(settings.candidates) == 1:
        return judged
    probe = plan_probe(graph, distances_from, settings.seed)
    part = training.part(probe.classes, settings.seed, probe.most_rows)
    # Calibrations share their machines, unless they have thresholds.
    sharing = len({one.calibration for one in settings.candidates}) if settings.thresholds else 1
    times = sharing * n_trials(settings.candidates)
    begin_training(phases, "candidates", graphs.sides_of(probe.graph), times)
    for number in range(n_trials(settings.candidates)):
        next_trial = trial(settings.candidates, number, judged)
        judged += judge_trial(part, probe.graph, settings, next_trial, train, **resources)
    return judged


def _coupled(
    training: TrainingSet,
    wiring: Wiring,
    settings: ModelSettings,
    trained: LinearModel | KernelModel | EstimatorModel,
    chosen: Candidate,
    resources: Resources,
) -> CoupledCalibration:
    """Calibrate the coupled model on samples held out from its machines."""
    level = settings.coupled_calibration
    if level == "none":
        return CoupledCalibration.scaled(level, 1.0, wiring, chosen.calibration, settings.coupling)
    drawn = drawn_logits(
        training, trained, settings, settings.calibration_samples, is_whitened(chosen.whiten)
    )
    held_out = drawn.held_out(wiring, settings, chosen.calibration, resources["memory_limit"])
    return calibrate_coupled(
        held_out,
        wiring,
        settings.coupling,
        level,
        calibration=chosen.calibration,
        n_jobs=resources["n_jobs"],
    )


def _learned(
    training: TrainingSet,
    wiring: Wiring,
    settings: ModelSettings,
    trained: LinearModel | KernelModel | EstimatorModel,
    coupled: CoupledCalibration,
    resources: Resources,
) -> Learned | None:
    """Learn the weights of the calibrated machines through the coupling, if that is asked for."""
    if settings.learn == "machines":
        return None
    assert isinstance(trained, LinearModel)
    assert isinstance(wiring, Completion)
    drawn = draw_evenly(training.classes, sample_limit(trained.n_edges), settings.folds, settings.seed)
    weight = None if training.weight is None else training.weight[drawn.rows]
    samples = DrawnRows(drawn, training.X[drawn.rows], weight)
    return learn_weights(samples, trained, settings, coupled, wiring, n_jobs=resources["n_jobs"])
