"""Judging candidates: train the machines of a trial on the probe, and score them with each of its calibrations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import HeldOut, unit_of
from pairloom.pipeline.calibration.out_of_fold import HoldsOut, out_of_fold_edge_logits
from pairloom.pipeline.calibration.scale import ScaleChoice, choose_scale
from pairloom.pipeline.completion.complete import Completion, plan_completion
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.completion.uncoupled import uncoupled
from pairloom.pipeline.machines.settings import Calibration
from pairloom.pipeline.model.choice import PROBE_SAMPLES, Candidate, JudgedCandidate, Trial
from pairloom.pipeline.model.model_settings import ModelSettings
from pairloom.pipeline.model.training_set import TrainingSet

__all__ = ["Train", "best_scale", "held_out_of_probe", "held_out_samples", "judge_trial"]

#: ``train(settings, training, edges, candidate)`` returns the machines of the edges of a training set.
Train = Callable[[ModelSettings, TrainingSet, NDArray[np.int64], Candidate], Any]


def judge_trial(
    probe: TrainingSet,
    graph: nx.Graph,
    settings: ModelSettings,
    trial: Trial,
    train: Train,
    *,
    n_jobs: int | None = None,
    memory_limit: int = DEFAULT_MEMORY,
) -> list[JudgedCandidate]:
    """Train a trial on the probe, and judge its candidates by their coupled log loss on held-out samples."""
    edges, completion = graphs.edge_array(graph), plan_completion(graph)
    judged = []
    trained = None
    # Platt's first: his machines become those of the distances, and not the other way round.
    for calibration in sorted(trial.calibrations, reverse=True):
        candidate = Candidate(trial.C, trial.whiten, calibration)
        # A threshold belongs to a calibration, so with thresholds each has machines of its own.
        if trained is not None and not settings.thresholds:
            trained = trained.by_distance()
        else:
            trained = train(settings.for_trials(), probe, edges, candidate)
        held_out = held_out_of_probe(probe, trained, settings, calibration)
        choice = best_scale(held_out, completion, settings, n_jobs=n_jobs, memory_limit=memory_limit)
        judged.append(JudgedCandidate(candidate, choice.log_loss, choice.losses))
    return judged


def best_scale(
    held_out: HeldOut,
    completion: Completion,
    settings: ModelSettings,
    *,
    n_jobs: int | None = None,
    memory_limit: int = DEFAULT_MEMORY,
) -> ScaleChoice:
    """The scale of held-out samples of the probe, coupled as the model is, and their losses with it."""
    return choose_scale(
        uncoupled(held_out.logits, completion, settings.shortlist_of(completion.n_classes), memory_limit),
        held_out.classes,
        settings.coupling,
        weight=held_out.weight,
        unit=held_out.unit,
        n_jobs=n_jobs,
    )


def held_out_of_probe(
    probe: TrainingSet, trained: HoldsOut, settings: ModelSettings, calibration: Calibration
) -> HeldOut:
    """Out-of-fold logits of the samples by which candidates are compared: the same for all of them."""
    most = min(PROBE_SAMPLES, settings.calibration_samples)
    return held_out_samples(probe, trained, settings, calibration, most, settings.may_whiten)


def held_out_samples(
    training: TrainingSet,
    trained: HoldsOut,
    settings: ModelSettings,
    calibration: Calibration,
    most: int,
    whitened: bool,
) -> HeldOut:
    """Out-of-fold logits of some training samples, as many of every class."""
    rows, classes, folds, parts = training.drawn(settings, most, whitened)
    scheme = settings.machines().scheme
    logits = out_of_fold_edge_logits(trained, scheme, training.X[rows], folds, parts)
    weight = None if training.weight is None else training.weight[rows]
    return HeldOut(logits, classes, weight, unit_of(logits, calibration))
