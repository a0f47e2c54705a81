"""Out-of-fold logits: training samples scored by machines that were not fitted on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.machines.folds import FoldScheme

__all__ = ["LogitsByShares", "out_of_fold_edge_logits"]

#: ``by_shares(shares, X)`` is the (E, R) logits of samples X with these shares (M,) of every edge's machines.
LogitsByShares = Callable[[NDArray[np.float64], Any], NDArray[np.float32]]


def out_of_fold_edge_logits(
    by_shares: LogitsByShares,
    edges: NDArray[np.integer],
    scheme: FoldScheme,
    X: Any,
    classes: NDArray[np.integer],
    folds: NDArray[np.integer],
) -> NDArray[np.float32]:
    """(E, R) logits of training samples by machines that were not fitted on them.

    For a sample of class c in fold k, an edge that touches c uses the machines that were not fitted on fold k. Other
    edges never saw the sample and use their average as it is [I 4].

    Parameters
    ----------
    by_shares : callable
        ``by_shares(shares, X)`` is the (E, R) logits with those shares of the machines.
    edges : (E, 2) int array
    scheme : FoldScheme
    X, classes, folds : the samples, the class of each and its fold in that class
    """
    logits = by_shares(scheme.shares, X)
    for k, shares in enumerate(scheme.out_of_fold):
        samples = np.flatnonzero(folds == k)
        if not len(samples):
            continue
        held_out = by_shares(shares, X[samples])
        touches = (edges[:, :1] == classes[samples]) | (edges[:, 1:] == classes[samples])
        logits[:, samples] = np.where(touches, held_out, logits[:, samples])
    return logits
