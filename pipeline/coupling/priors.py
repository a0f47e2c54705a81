"""New priors: probabilities for a population whose classes have other shares than the training samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_priors", "normalised", "prior_odds"]

_LEAST = np.finfo(np.float32).tiny


def check_priors(priors: Any, n: int, owner: str) -> NDArray[np.float64]:
    """The shares of n classes, adding up to one, from any non-negative numbers in proportion to them."""
    try:
        given = np.asarray(priors, np.float64)
    except (TypeError, ValueError):
        given = np.empty(0)  # not numbers
    if given.shape != (n,) or not (given >= 0).all() or not 0 < given.sum() < np.inf:
        raise ValueError(f"{owner} must be {n} non-negative numbers, one per class, got {priors!r}.")
    return np.asarray(given / given.sum())


def prior_odds(
    priors: Any, shares: NDArray[np.float64], owner: str = "PairwiseSVC: priors"
) -> NDArray[np.float64]:
    """The factors by which priors change the odds: the new share of each class over its share in training."""
    return np.asarray(check_priors(priors, len(shares), owner) / shares)


def normalised(p: NDArray[np.float32], odds: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Probabilities (R, N) times the odds of new priors, if there are any, rows adding up to one."""
    weighted = p.astype(np.float64)
    if odds is not None:
        # A class with all the probability may have no share: the rest must not be all zeros.
        weighted = np.maximum(weighted, _LEAST) * odds
    return np.asarray(weighted / weighted.sum(axis=1, keepdims=True))
