"""Held-out samples: training samples scored by machines and parameters that they had no part in; their log loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.completion.couplers import Coupler, ScoredSamples
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.machines.folds import FoldScheme
from pairloom.pipeline.machines.settings import Calibration

__all__ = [
    "ENOUGH",
    "SMALLEST",
    "HeldOutSamples",
    "OutOfFoldMachines",
    "log_losses",
    "mean_log_loss",
    "out_of_fold_edge_logits",
    "typical_sizes",
    "unit_of",
]


#: Edges that are enough for the median size of a sample's logits.
ENOUGH = 512


class HeldOutSamples(NamedTuple):
    """Training samples by which the coupled model is calibrated and scored.

    Attributes
    ----------
    samples : ScoredSamples
        Their out-of-fold logits, completed as the model completes them.
    classes : (R,) int array
    weight : (R,) float array, optional
    unit : float
        The size of logits that the prior of the scale expects.
    edge_logits : (E, R) float32 array, optional
        The logits of the edges, where something is learned from these too.
    totals : (N,) float array, optional
        The training samples of every class, or the sum of their weights: classes give equally many to be held out.
    """

    samples: ScoredSamples
    classes: NDArray[np.integer]
    weight: NDArray[np.float64] | None = None
    unit: float = 1.0
    edge_logits: NDArray[np.float32] | None = None
    totals: NDArray[np.float64] | None = None

    @classmethod
    def of_edges(
        cls,
        edge_logits: NDArray[np.float32],
        classes: NDArray[np.integer],
        coupler: Coupler,
        *,
        calibration: Calibration = "platt",
        weight: NDArray[np.float64] | None = None,
        totals: NDArray[np.float64] | None = None,
        shortlist: int | None = None,
        memory_limit: int = DEFAULT_MEMORY,
    ) -> HeldOutSamples:
        """The samples whose machines have these out-of-fold logits (E, R); of pairs, all or a shortlist completed."""
        return cls(
            coupler.scored(edge_logits, shortlist, memory_limit, calibration),
            classes,
            weight,
            unit_of(typical_sizes(edge_logits), calibration),
            edge_logits,
            totals,
        )


def typical_sizes(edge_logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """(R,) the median size of the logits of each sample, from those of all edges (E, R), or of enough of them."""
    if not edge_logits.size:
        return np.zeros(edge_logits.shape[1], np.float32)
    some = edge_logits[:: max(1, len(edge_logits) // ENOUGH)]
    return np.asarray(np.median(np.abs(some), axis=0), np.float32)


def unit_of(sizes: NDArray[np.floating], calibration: Calibration) -> float:
    """The unit of the logits of samples, from their typical sizes: one where they are log odds already.

    Distances are not; with slopes they are.
    """
    if calibration != "distance" or not sizes.size:
        return 1.0
    typical = float(np.median(sizes))
    return typical if typical > 0 else 1.0


class OutOfFoldMachines(Protocol):
    """Trained machines that can score samples which they were not fitted on."""

    @property
    def n_edges(self) -> int:
        """E, how many pairs are trained."""

    def held_out_logits(
        self, shares: NDArray[np.float64], X: Any, parts: NDArray[np.integer], /
    ) -> NDArray[np.float32]:
        """(E, R) logits of samples X with these shares (M,) of the machines, each without the part of the sample."""


def out_of_fold_edge_logits(
    trained: OutOfFoldMachines,
    scheme: FoldScheme,
    X: Any,
    folds: NDArray[np.integer],
    parts: NDArray[np.integer],
) -> NDArray[np.float32]:
    """(E, R) logits of training samples by machines that were not fitted on them, in memory sample by sample.

    A sample of fold k is scored by the machines that were not fitted on fold k, on every edge: also on those that do
    not touch its class, whose machines have all not seen it. Otherwise the logits of the true class would be means of
    fewer machines than the others, and their larger spread would reveal it. The sample is also scored with the
    parameters of its part, to which it did not contribute. Otherwise every edge would make the model a little
    overconfident, and hundreds of edges add up: even on features that are pure noise it would beat guessing.

    Parameters
    ----------
    trained : OutOfFoldMachines
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
