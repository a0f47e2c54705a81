"""Quality of probabilities: accuracy, log loss, calibration, and which classes are confused."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.log_loss import mean_log_loss

__all__ = ["Reliability", "Scores", "confusion_counts", "reliability", "scores", "worst_pairs"]


class Scores(NamedTuple):
    """Scores of one coupling method on labelled samples."""

    accuracy: float
    log_loss: float
    expected_calibration_error: float


class Reliability(NamedTuple):
    """Samples binned by the probability of the predicted class. Bins without samples are NaN."""

    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    samples: NDArray[np.int64]


def scores(p: NDArray[np.floating], y: NDArray[np.integer]) -> Scores:
    """Score probabilities (sample, class) against labels.

    Examples
    --------
    >>> scores(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0, 1])).accuracy
    1.0
    """
    bins = reliability(p, y)
    gap = np.abs(bins.confidence - bins.accuracy)
    return Scores(
        accuracy=float((p.argmax(axis=1) == y).mean()),
        log_loss=mean_log_loss(p, y),
        expected_calibration_error=float(np.nansum(gap * bins.samples) / len(y)),
    )


def reliability(p: NDArray[np.floating], y: NDArray[np.integer], bins: int = 15) -> Reliability:
    """Accuracy against confidence, the probability of the predicted class, in bins of equal width."""
    confidence = p.max(axis=1).astype(np.float64)
    right = p.argmax(axis=1) == y
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        return Reliability(
            np.bincount(place, confidence, bins) / count, np.bincount(place, right, bins) / count, count
        )


def confusion_counts(p: NDArray[np.floating], y: NDArray[np.integer]) -> NDArray[np.int64]:
    """Counts (true class, predicted class)."""
    N = p.shape[1]
    counts = np.bincount(y.astype(np.int64) * N + p.argmax(axis=1), minlength=N * N)
    return counts.reshape(N, N)


def worst_pairs(confusion: NDArray[np.int64], most: int) -> list[tuple[int, int, int]]:
    """The pairs (i, j, samples) of classes that are confused most often, in either direction, worst first."""
    both = np.triu(confusion + confusion.T, 1)
    order = np.argsort(both, axis=None, kind="stable")[::-1][:most]
    i, j = np.unravel_index(order, both.shape)
    return [(int(a), int(b), int(both[a, b])) for a, b in zip(i, j, strict=True) if both[a, b]]
