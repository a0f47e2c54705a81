"""Scores of probabilities that scikit-learn does not have in this form."""

import numpy as np
from numpy.typing import NDArray

#: Bins of the calibration error.
BINS = 15


def brier_score(p: NDArray[np.floating], y: NDArray[np.integer]) -> float:
    """Squared error of the probabilities, summed over classes: |p|² - 2 p_y + 1, the mean of samples."""
    squares = np.einsum("rc,rc->r", p, p, dtype=np.float64)
    return float((squares - 2 * p[np.arange(len(y)), y] + 1).mean())


def calibration_error(p: NDArray[np.floating], y: NDArray[np.integer]) -> float:
    """Mean gap between confidence and accuracy in bins of as many samples each.

    Most samples of a good model are in the last bin of equal width; bins of equal mass tell them apart.
    """
    confidence = p.max(axis=1).astype(np.float64)
    gap = confidence - (p.argmax(axis=1) == y)
    bins = np.array_split(gap[np.argsort(confidence, kind="stable")], BINS)
    return sum(abs(float(part.sum())) for part in bins) / len(y)
