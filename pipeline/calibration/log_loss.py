"""Log loss of probabilities against the true classes, bounded for each sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["SMALLEST", "log_losses", "mean_log_loss"]

#: Smaller probabilities count as this one. float32 probabilities of the true class can be zero; the loss of a sample
#: is at most about 16, so that a single certain error does not dominate the mean.
SMALLEST = 1e-7


def log_losses(p: NDArray[np.floating], y: NDArray[np.integer]) -> NDArray[np.float64]:
    """Log loss per sample, -log p[y].

    Parameters
    ----------
    p : (R, N) array
        Probabilities, one row per sample.
    y : (R,) int array
        True classes.

    Returns
    -------
    (R,) float64 array
    """
    losses: NDArray[np.float64] = -np.log(np.maximum(p[np.arange(len(y)), y].astype(np.float64), SMALLEST))
    return losses


def mean_log_loss(
    p: NDArray[np.floating],
    y: NDArray[np.integer],
    weight: NDArray[np.floating] | Sequence[float] | None = None,
) -> float:
    """Mean of `log_losses` over samples, weighted if `weight` (R,) is given.

    Examples
    --------
    >>> round(mean_log_loss(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0, 1])), 4)
    0.3466
    """
    return float(np.average(log_losses(p, y), weights=weight))
