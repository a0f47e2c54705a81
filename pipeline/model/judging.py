"""Judging candidates: train the machines of a trial on the probe, and score them with each of its calibrations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.held_out import HeldOut
from pairloom.pipeline.calibration.out_of_fold import HoldsOut, out_of_fold_edge_logits
from pairloom.pipeline.calibration.scale import ScaleChoice, choose_scale
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.completion.uncoupled import Wiring, wiring_of
from pairloom.pipeline.machines.settings import Calibration
from pairloom.pipeline.model.choice import PROBE_SAMPLES, Candidate, JudgedCandidate, Trial
from pairloom.pipeline.model.model_settings import ModelSettings
from pairloom.pipeline.model.training_set import TrainingSet

__all__ = ["DrawnLogits", "Train", "best_scale", "drawn_logits", "drawn_of_probe", "judge_trial"]

#: ``train(settings, training, sides, candidate)`` returns the machines of the pairs, or of a code, of a training set.
Train = Callable[[ModelSettings, TrainingSet, graphs.Sides, Candidate], Any]


def judge_trial(
    probe: TrainingSet,
    graph: nx.Graph | graphs.ModelCode,
    settings: ModelSettings,
    trial: Trial,
    train: Train,
    *,
    n_jobs: int | None = None,
    memory_limit: int = DEFAULT_MEMORY,
) -> list[JudgedCandidate]:
    """Train a trial on the probe, and judge its candidates by their coupled log loss on held-out samples."""
    sides, wiring = graphs.sides_of(graph), wiring_of(graph, settings.counts_of(probe.totals()))
    judged = []
    trained = None
    # Platt's first: his machines become those of the distances, and not the other way round.
    for calibration in sorted(trial.calibrations, reverse=True):
        candidate = Candidate(trial.C, trial.whiten, calibration)
        # A threshold belongs to a calibration, so with thresholds each has machines of its own.
        if trained is not None and not settings.thresholds:
            trained = trained.by_distance()
        else:
            trained = train(settings.for_trials(), probe, sides, candidate)
        drawn = drawn_of_probe(probe, trained, settings)
        held_out = drawn.held_out(wiring, settings, calibration, memory_limit)
        choice = best_scale(held_out, settings, n_jobs)
        judged.append(JudgedCandidate(candidate, choice.log_loss, choice.losses))
    return judged


def best_scale(held_out: HeldOut, settings: ModelSettings, n_jobs: int | None = None) -> ScaleChoice:
    """The scale of held-out samples, coupled as the model is, and their losses with it."""
    return choose_scale(
        held_out.samples,
        held_out.classes,
        settings.coupling,
        weight=held_out.weight,
        unit=held_out.unit,
        n_jobs=n_jobs,
    )


class DrawnLogits(NamedTuple):
    """Out-of-fold edge logits (E, R) of drawn training samples, their classes, and their weights if any."""

    edge_logits: NDArray[np.float32]
    classes: NDArray[np.integer]
    weight: NDArray[np.float64] | None

    def held_out(
        self,
        wiring: Wiring,
        settings: ModelSettings,
        calibration: Calibration,
        memory_limit: int = DEFAULT_MEMORY,
    ) -> HeldOut:
        """The samples as the model of these edges has them coupled."""
        return HeldOut.of_edges(
            self.edge_logits,
            self.classes,
            wiring,
            calibration=calibration,
            weight=self.weight,
            shortlist=settings.shortlist_of(wiring.n_classes),
            memory_limit=memory_limit,
        )

    def of_edges(self, edges: NDArray[np.bool_]) -> DrawnLogits:
        """The same samples by some of the edges."""
        return self._replace(edge_logits=self.edge_logits[edges])


def drawn_of_probe(probe: TrainingSet, trained: HoldsOut, settings: ModelSettings) -> DrawnLogits:
    """Out-of-fold logits of the samples by which candidates are compared: the same for all of them."""
    most = min(PROBE_SAMPLES, settings.calibration_samples)
    return drawn_logits(probe, trained, settings, most, settings.may_whiten)


def drawn_logits(
    training: TrainingSet, trained: HoldsOut, settings: ModelSettings, most: int, whitened: bool
) -> DrawnLogits:
    """Out-of-fold logits of some training samples, as many of every class."""
    rows, classes, folds, parts = training.drawn(settings, most, whitened)
    scheme = settings.machines().scheme
    logits = out_of_fold_edge_logits(trained, scheme, training.X[rows], folds, parts)
    return DrawnLogits(logits, classes, None if training.weight is None else training.weight[rows])
