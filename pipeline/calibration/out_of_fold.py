"""Out-of-fold logits: training samples scored by machines and parameters that they had no part in."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.machines.folds import FoldScheme

__all__ = ["HoldsOut", "out_of_fold_edge_logits"]


class HoldsOut(Protocol):
    """Trained machines that can score samples which they were not fitted on."""

    @property
    def n_edges(self) -> int:
        """E, how many pairs are trained."""

    def held_out_logits(
        self, shares: NDArray[np.float64], X: Any, parts: NDArray[np.integer], /
    ) -> NDArray[np.float32]:
        """(E, R) logits of samples X with these shares (M,) of the machines, each without the part of the sample."""


def out_of_fold_edge_logits(
    trained: HoldsOut,
    scheme: FoldScheme,
    X: Any,
    folds: NDArray[np.integer],
    parts: NDArray[np.integer],
) -> NDArray[np.float32]:
    """(E, R) logits of training samples by machines that were not fitted on them, in memory sample by sample.

    A sample of fold k is scored by the machines that were not fitted on fold k, on every edge: also on those that do
    not touch its class, whose machines have all not seen it. Otherwise the logits of the true class would be means of
    fewer machines than the others, and their larger spread would give it away. And it is scored with the parameters of
    its part, to which it did not contribute. Each edge would flatter the model a little, and a hundred add up: on
    features that are pure noise the model would be surer than a coin.

    Parameters
    ----------
    trained : LinearModel or EstimatorModel
    scheme : FoldScheme
    X, folds, parts : the samples, and the fold and the part of each in its class

    Returns
    -------
    (E, R) array
        NaN for samples of the fold `NEVER_HELD_OUT`, which all machines were fitted on.
    """
    logits = np.full((len(folds), trained.n_edges), np.nan, np.float32)
    for k, shares in enumerate(scheme.out_of_fold):
        samples = np.flatnonzero(folds == k)
        if len(samples):
            logits[samples] = trained.held_out_logits(shares, X[samples], parts[samples]).T
    return logits.T
