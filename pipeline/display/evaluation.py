"""Quality of probabilities: accuracy, log loss, calibration, and which classes are confused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.held_out import SMALLEST

__all__ = [
    "Outcomes",
    "Reliability",
    "Scores",
    "confusion_counts",
    "count_confusions",
    "outcomes",
    "reliability",
    "reliability_of",
    "scores",
    "scores_of",
    "worst_pairs",
]


class Scores(NamedTuple):
    """Scores of one coupling method on labelled samples."""

    accuracy: float
    log_loss: float
    expected_calibration_error: float


class Outcomes(NamedTuple):
    """The outcomes of labelled samples: all that scores need, without the probabilities of all classes.

    Attributes
    ----------
    label, predicted : (R,) int64 arrays
        True and most probable class.
    confidence, likelihood : (R,) float64 arrays
        Probability of the predicted class, and of the true one.
    """

    label: NDArray[np.int64]
    predicted: NDArray[np.int64]
    confidence: NDArray[np.float64]
    likelihood: NDArray[np.float64]

    @property
    def right(self) -> NDArray[np.bool_]:
        """Which samples are predicted right."""
        return np.asarray(self.predicted == self.label)

    @property
    def losses(self) -> NDArray[np.float64]:
        """Log loss per sample."""
        return np.asarray(-np.log(np.maximum(self.likelihood, SMALLEST)))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The outcomes of samples that were scored in parts."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


class Reliability(NamedTuple):
    """Samples binned by the probability of the predicted class. Bins without samples are NaN."""

    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    samples: NDArray[np.int64]

    @property
    def expected_calibration_error(self) -> float:
        """Mean distance of the accuracy from the confidence, over samples."""
        gap = np.abs(self.confidence - self.accuracy)
        return float(np.nansum(gap * self.samples) / self.samples.sum())


def outcomes(p: NDArray[np.floating], y: NDArray[np.integer]) -> Outcomes:
    """Compare probabilities (sample, class) with labels."""
    predicted, every = p.argmax(axis=1), np.arange(len(p))
    return Outcomes(
        label=y.astype(np.int64),
        predicted=predicted,
        confidence=p[every, predicted].astype(np.float64),
        likelihood=p[every, y].astype(np.float64),
    )


def scores(p: NDArray[np.floating], y: NDArray[np.integer]) -> Scores:
    """Score probabilities (sample, class) against labels.

    Examples
    --------
    >>> scores(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0, 1])).accuracy
    1.0
    """
    return scores_of(outcomes(p, y))


def scores_of(found: Outcomes) -> Scores:
    """Score samples by their outcomes."""
    return Scores(
        accuracy=float(found.right.mean()),
        log_loss=float(found.losses.mean()),
        expected_calibration_error=reliability_of(found).expected_calibration_error,
    )


def reliability(p: NDArray[np.floating], y: NDArray[np.integer], bins: int = 15) -> Reliability:
    """Accuracy against confidence, the probability of the predicted class, in bins of equal width."""
    return reliability_of(outcomes(p, y), bins)


def reliability_of(found: Outcomes, bins: int = 15) -> Reliability:
    """Accuracy against confidence, from the outcomes of samples."""
    place = np.minimum((found.confidence * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        return Reliability(
            np.bincount(place, found.confidence, bins) / count,
            np.bincount(place, found.right, bins) / count,
            count,
        )


def confusion_counts(p: NDArray[np.floating], y: NDArray[np.integer]) -> NDArray[np.int64]:
    """Counts (true class, predicted class)."""
    return count_confusions(y, p.argmax(axis=1), p.shape[1])


def count_confusions(
    label: NDArray[np.integer], predicted: NDArray[np.integer], n_classes: int
) -> NDArray[np.int64]:
    """Counts (true class, predicted class) of samples."""
    counts = np.bincount(label.astype(np.int64) * n_classes + predicted, minlength=n_classes**2)
    return counts.reshape(n_classes, n_classes)


def worst_pairs(confusion: NDArray[np.int64], most: int) -> list[tuple[int, int, int]]:
    """The pairs (i, j, samples) of classes that are confused most often, in either direction, worst first."""
    i, j = np.nonzero(np.triu(confusion + confusion.T, 1))
    both = confusion[i, j] + confusion[j, i]
    order = np.lexsort([j, i, -both])[:most]
    return list(zip(i[order].tolist(), j[order].tolist(), both[order].tolist(), strict=True))
