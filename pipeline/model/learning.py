"""Learning the weights of a fitted model through its coupling: which samples, by which machines, and what it gives."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

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
    "LEARN",
    "MOST_WEIGHTS",
    "DrawnRows",
    "Learn",
    "Learned",
    "check_weights",
    "learn_weights",
]

#: Weights of the machines as they were trained; or learned all together through the coupling.
Learn = Literal["machines", "coupled"]
LEARN: tuple[str, ...] = get_args(Learn)
#: The fold whose samples decide how far to go.
HELD_OUT_FOLD = 0
#: Weights of all machines at most: L-BFGS keeps 15 numbers of 8 bytes for each, 1 GiB.
MOST_WEIGHTS = 2**23


class Learned(NamedTuple):
    """Logits of the edges that were learned through the coupling, and how; None where the machines' were kept."""

    logits: AffineLogits | None
    record: LearningRecord


class DrawnRows(NamedTuple):
    """Training samples that weights are learned from: which they are, their normalised rows, and their weights."""

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

    How far to go is found by the machines that were not fitted on fold 0: they are changed on samples of the other
    folds, and those of fold 0 say when to stop. Then all machines are changed on all samples.
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
    """Training samples with the logits of some of the machines, and features as learning has them."""

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
        """Samples by machines with these shares, which were fitted on them."""
        return self._with(samples, self._affine(shares).by_sample(samples.X))

    def held_out(self, samples: DrawnRows, shares: NDArray[np.float64]) -> LearningSamples:
        """Samples by machines with these shares, and with parameters, that they had no part in."""
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
        assert isinstance(logits, AffineLogits), "weights are learned of dense features"
        return logits.calibrated(self._coupled.slope, self._coupled.shift)

    def _with(self, samples: DrawnRows, logits: NDArray[np.float32]) -> LearningSamples:
        features = self._whitened(samples.X) / np.float32(self._size)
        rows = np.hstack([features, np.ones((len(features), 1), np.float32)])
        return LearningSamples(rows, logits, samples.drawn.classes, samples.weight)

    def _whitened(self, X: NDArray[np.floating]) -> NDArray[np.float32]:
        return np.ascontiguousarray(self._trained.whitening(X), np.float32)
