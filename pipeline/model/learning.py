"""Learning the weights of a fitted model through its coupling: which samples, by which machines, and what it gives."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.calibration.coupled_learning import (
    CoupledLoss,
    LearningRecord,
    LearningSamples,
    learn_changes,
    sample_limit,
)
from pairloom.pipeline.calibration.drawn_samples import DrawnSamples, draw_evenly
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.machines.linear_model import LinearModel
from pairloom.pipeline.machines.logits import AffineLogits, calibrated, collapse
from pairloom.pipeline.model.model_settings import ModelSettings
from pairloom.pipeline.model.training_set import TrainingSet
from pairloom.pipeline.pieces import thread_count

__all__ = ["LEARN", "Learn", "Learned", "check_weights", "learn_weights"]

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


def check_weights(n_edges: int, n_features: int) -> None:
    """Raise if a model has more weights than can be learned at once."""
    if n_edges * (n_features + 1) > MOST_WEIGHTS:
        raise ValueError(
            f"PairwiseSVC: learn='coupled' needs at most {MOST_WEIGHTS:,} weights, (features + 1) x pairs, got"
            f" {n_features + 1:,} x {n_edges:,}: use a sparser graph or learn='machines'."
        )


def learn_weights(
    training: TrainingSet,
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
    drawn = draw_evenly(training.classes, sample_limit(trained.n_edges), settings.folds, settings.seed)
    view = _View(training, trained, settings, coupled)
    shortlist = settings.shortlist_of(completion.n_classes)
    n_threads = thread_count(n_jobs, "PairwiseSVC")

    def loss(samples: LearningSamples) -> CoupledLoss:
        return CoupledLoss(samples, completion, settings.coupling, shortlist, n_threads)

    unseen = drawn.folds == HELD_OUT_FOLD
    scheme = settings.machines().scheme
    without_fold = scheme.out_of_fold[HELD_OUT_FOLD]
    change, record = learn_changes(
        loss(view.samples(_of(drawn, ~unseen), without_fold)),
        loss(view.held_out(_of(drawn, unseen), without_fold)),
        lambda: loss(view.samples(drawn, scheme.shares)),
    )
    return Learned(view.changed(change) if record.iterations else None, record)


def _of(drawn: DrawnSamples, chosen: NDArray[np.bool_]) -> DrawnSamples:
    return DrawnSamples(*(values[chosen] for values in drawn))


class _View:
    """Training samples with the logits of some of the machines, and features as learning has them."""

    def __init__(
        self,
        training: TrainingSet,
        trained: LinearModel,
        settings: ModelSettings,
        coupled: CoupledCalibration,
    ) -> None:
        self._training, self._trained, self._coupled = training, trained, coupled
        self._shares = settings.machines().scheme.shares
        rows = self._whitened(slice(None, None, max(1, len(training.classes) // 1000)))
        size = float(np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1).mean()))
        self._size = size if size > 0 else 1.0

    def samples(self, drawn: DrawnSamples, shares: NDArray[np.float64]) -> LearningSamples:
        """Samples by machines with these shares, which were fitted on them."""
        return self._with(drawn, self._affine(shares).by_sample(self._training.X[drawn.rows]))

    def held_out(self, drawn: DrawnSamples, shares: NDArray[np.float64]) -> LearningSamples:
        """Samples by machines with these shares, and with parameters, that they had no part in."""
        raw = self._trained.held_out_logits(shares, self._training.X[drawn.rows], drawn.parts).T
        slope, shift = (of.astype(np.float32) for of in (self._coupled.slope, self._coupled.shift))
        return self._with(drawn, np.ascontiguousarray(raw * slope + shift))

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
        raw = collapse(self._trained.machines, shares, self._trained.whitening)
        return calibrated(raw, self._coupled.slope, self._coupled.shift)

    def _with(self, drawn: DrawnSamples, logits: NDArray[np.float32]) -> LearningSamples:
        features = self._whitened(drawn.rows) / np.float32(self._size)
        rows = np.hstack([features, np.ones((len(features), 1), np.float32)])
        weight = self._training.weight
        return LearningSamples(rows, logits, drawn.classes, None if weight is None else weight[drawn.rows])

    def _whitened(self, rows: Any) -> NDArray[np.float32]:
        return np.ascontiguousarray(self._trained.whitening(self._training.X[rows]), np.float32)
