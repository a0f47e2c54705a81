"""Fitting in one process: choose among the candidates, train the machines, calibrate the coupled model."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

import networkx as nx

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import (
    CoupledCalibration,
    JudgedCalibration,
    best_calibration,
    calibrate_coupled,
)
from pairloom.pipeline.calibration.coupled_learning import sample_limit
from pairloom.pipeline.calibration.drawn_samples import draw_evenly
from pairloom.pipeline.completion.couplers import Coupler, coupler_of
from pairloom.pipeline.machines.kinds import TrainedMachines
from pairloom.pipeline.machines.linear_machines import LinearModel
from pairloom.pipeline.machines.settings import Calibration
from pairloom.pipeline.machines.whitening import Shrinkage, is_whitened
from pairloom.pipeline.model.choice import (
    DrawnLogits,
    JudgedCandidate,
    best_candidate,
    drawn_logits,
    judge_calibrations,
    judge_trial,
    n_trials,
    trial,
)
from pairloom.pipeline.model.fit_progress import FitProgress, begin_training
from pairloom.pipeline.model.fitted_model import KEPT_SETTINGS, ClassTable, FittedModel
from pairloom.pipeline.model.learning import DrawnRows, Learned, check_weights, learn_weights
from pairloom.pipeline.model.settings import ModelSettings
from pairloom.pipeline.model.training_set import TrainingSet, plan_probe

__all__ = ["Fit", "Resources", "fit_model"]


class Resources(TypedDict):
    """What a fit may use. Nothing here changes its result."""

    n_jobs: int | None
    memory_limit: int


class Fit(NamedTuple):
    """A fitted model, and all candidates and calibrations if there was a choice."""

    model: FittedModel
    judged: list[JudgedCandidate]
    calibrations: list[JudgedCalibration]


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
    sides, machines = graphs.decomposition_of(graph), settings.machines_for_calibrations(chosen.C)
    begin_training(progress, "machines", sides)
    trained = training.train_as(machines, settings, sides, chosen.whiten, resources["n_jobs"], progress)
    coupler = coupler_of(graph, settings.counts_of(classes.totals))
    progress.begin("calibration", 1, "coupling")
    calibrated = _calibrated(training, coupler, settings, trained, chosen.whiten, resources)
    trained, coupled = calibrated.trained, calibrated.coupled
    if settings.learn == "coupled":
        progress.begin("learning", 1, "model")
    model = FittedModel(
        classes=classes,
        graph=graph,
        trained=trained,
        settings=settings.machines_as_chosen(chosen.C, calibrated.calibration),
        whiten=chosen.whiten,
        coupled=coupled,
        learned=_learned(training, coupler, settings, trained, coupled, resources),
        **{name: getattr(settings, name) for name in KEPT_SETTINGS},
        **facts,
    )
    return Fit(model, judged, calibrated.judged)


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


class _Calibrated(NamedTuple):
    """The machines with the calibration that was chosen, that of the coupled model, and all that were judged."""

    trained: TrainedMachines
    calibration: Calibration
    coupled: CoupledCalibration
    judged: list[JudgedCalibration]


def _calibrated(
    training: TrainingSet,
    coupler: Coupler,
    settings: ModelSettings,
    trained: TrainedMachines,
    whiten: Shrinkage,
    resources: Resources,
) -> _Calibrated:
    """Choose a calibration on samples held out from the machines, and calibrate the coupled model on them."""
    level, usual = settings.coupled_calibration, settings.calibrations[0]
    if level == "none":
        coupled = CoupledCalibration.scaled(level, 1.0, coupler, usual, settings.coupling)
        return _Calibrated(trained, usual, coupled, [])

    def drawn_by(machines: TrainedMachines) -> DrawnLogits:
        return drawn_logits(training, machines, settings, settings.calibration_samples, is_whitened(whiten))

    several = judge_calibrations(trained, drawn_by, coupler, settings, **resources)
    judged = [one.judged for one in several]
    best = best_calibration(judged)
    coupled = calibrate_coupled(
        several[judged.index(best)].held_out,
        coupler,
        settings.coupling,
        level,
        calibration=best.calibration,
        pairs=best.pairs,
        choice=best.choice,
        n_jobs=resources["n_jobs"],
    )
    if settings.turns_into_distances(best.calibration):
        trained = trained.by_distance()
    return _Calibrated(trained.unprofiled(), best.calibration, coupled, judged if len(judged) > 1 else [])


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
