"""Learning the weights of a fitted model through its coupling: the samples, the stopping rule and the result."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.calibration.coupled_learning import (
    CoupledLoss,
    LearningRecord,
    LearningSamples,
    learn_changes,
)
from pairloom.pipeline.calibration.held_out import DrawnSamples
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.machines.linear_machines import AffineLogits, LinearModel
from pairloom.pipeline.model.settings import ModelSettings
from pairloom.pipeline.threads import thread_count

__all__ = [
    "MOST_WEIGHTS",
    "DrawnRows",
    "Learned",
    "check_weights",
    "learn_weights",
]

#: The fold whose samples decide when learning stops.
HELD_OUT_FOLD = 0
#: Maximum number of weights of all machines: L-BFGS keeps 15 numbers of 8 bytes per weight, 1 GiB in total.
MOST_WEIGHTS = 2**23


class Learned(NamedTuple):
    """Logits learned through the coupling, and the record of learning. ``logits`` is None if the machines were kept."""

    logits: AffineLogits | None
    record: LearningRecord


class DrawnRows(NamedTuple):
    """Training samples from which weights are learned: the draw, the normalised rows, and the sample weights."""

    drawn: DrawnSamples
    X: NDArray[np.floating]
    weight: NDArray[np.float64] | None

    def part(self, chosen: NDArray[np.bool_]) -> DrawnRows:
        """Some of the samples."""
        weight = None if self.weight is None else self.weight[chosen]
        return DrawnRows(DrawnSamples(*(values[chosen] for values in self.drawn)), self.X[chosen], weight)


def check_weights(n_edges: int, n_features: int, owner: str) -> None:
    """Raise if a model has more weights than can be learned at once."""
    if n_edges * (n_features + 1) > MOST_WEIGHTS:
        raise ValueError(
            f"{owner} needs at most {MOST_WEIGHTS:,} weights, (features + 1) x pairs, got {n_features + 1:,} x"
            f" {n_edges:,}: use a sparser graph, or the value 'machines'."
        )


def learn_weights(
    samples: DrawnRows,
    trained: LinearModel,
    settings: ModelSettings,
    coupled: CoupledCalibration,
    completion: Completion,
    *,
    n_jobs: int | None = None,
) -> Learned:
    """Learn the weights of calibrated machines through the coupling.

    The number of steps is found with the machines that were trained without fold 0: they learn from samples of the
    other folds, and those of fold 0 decide when to stop. Then all machines learn from all samples.
    """
    view = _View(samples, trained, settings, coupled)
    shortlist = settings.shortlist_of(completion.n_classes)
    n_threads = thread_count(n_jobs, "PairwiseSVC")

    def loss(samples: LearningSamples) -> CoupledLoss:
        return CoupledLoss(samples, completion, settings.coupling, shortlist, n_threads, coupled.mass)

    unseen = samples.drawn.folds == HELD_OUT_FOLD
    scheme = settings.machines().scheme
    without_fold = scheme.out_of_fold[HELD_OUT_FOLD]
    change, record = learn_changes(
        loss(view.seen(samples.part(~unseen), without_fold)),
        loss(view.held_out(samples.part(unseen), without_fold)),
        lambda: loss(view.seen(samples, scheme.shares)),
    )
    return Learned(view.changed(change) if record.iterations else None, record)


class _View:
    """Views of training samples for learning: their logits by some of the machines, and scaled features."""

    def __init__(
        self,
        samples: DrawnRows,
        trained: LinearModel,
        settings: ModelSettings,
        coupled: CoupledCalibration,
    ) -> None:
        self._trained, self._coupled = trained, coupled
        self._shares = settings.machines().scheme.shares
        rows = self._whitened(samples.X)
        size = float(np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1).mean()))
        self._size = size if size > 0 else 1.0

    def seen(self, samples: DrawnRows, shares: NDArray[np.float64]) -> LearningSamples:
        """Samples scored by machines that were trained on them, averaged with these shares."""
        return self._with(samples, self._affine(shares).by_sample(samples.X))

    def held_out(self, samples: DrawnRows, shares: NDArray[np.float64]) -> LearningSamples:
        """Samples scored by machines, averaged with these shares, and parameters that were found without them."""
        parts = samples.drawn.parts
        raw = self._trained.held_out_logits(shares, samples.X, parts)
        return self._with(samples, np.ascontiguousarray(self._coupled.held_out(raw, parts).T))

    def changed(self, change: NDArray[np.float64]) -> AffineLogits:
        """The logits of all machines with changes (E, D + 1) to their weights and biases."""
        weights, bias = self._affine(self._shares)
        more, shift = self._trained.whitening.fold_back(
            np.ascontiguousarray(change[:, :-1] / self._size, np.float32), change[:, -1]
        )
        return AffineLogits(
            np.ascontiguousarray(weights + more, np.float32), (bias + shift).astype(np.float32)
        )

    def _affine(self, shares: NDArray[np.float64]) -> AffineLogits:
        logits = self._trained.collapsed(shares)
        assert isinstance(logits, AffineLogits), "weights are learned from dense features"
        return logits.calibrated(self._coupled.slope, self._coupled.shift)

    def _with(self, samples: DrawnRows, logits: NDArray[np.float32]) -> LearningSamples:
        features = self._whitened(samples.X) / np.float32(self._size)
        rows = np.hstack([features, np.ones((len(features), 1), np.float32)])
        return LearningSamples(rows, logits, samples.drawn.classes, samples.weight)

    def _whitened(self, X: NDArray[np.floating]) -> NDArray[np.float32]:
        return np.ascontiguousarray(self._trained.whitening(X), np.float32)
