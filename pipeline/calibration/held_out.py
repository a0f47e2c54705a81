"""Held-out samples: training samples scored by machines and parameters that they had no part in; their log loss.

About the same number is drawn from every class. Each sample comes with its fold and part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.completion.couplers import Coupler, ScoredSamples
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.machines.folds import FoldScheme, class_folds, class_parts
from pairloom.pipeline.machines.settings import Calibration

__all__ = [
    "CALIBRATION_SAMPLES",
    "ENOUGH",
    "SMALLEST",
    "DrawnSamples",
    "HeldOutSamples",
    "OutOfFoldMachines",
    "draw_by_class",
    "draw_evenly",
    "draw_evenly_by_class",
    "draw_samples",
    "draws_by_class",
    "every_sample",
    "first_of_each_class",
    "log_losses",
    "mean_log_loss",
    "members_of",
    "out_of_fold_edge_logits",
    "typical_sizes",
    "unit_of",
]


#: Default number of training samples that are drawn to calibrate the coupled model.
CALIBRATION_SAMPLES = 2000


class DrawnSamples(NamedTuple):
    """Rows of the training set, their classes, and their folds and parts within the class."""

    rows: NDArray[np.int64]
    classes: NDArray[np.int64]
    folds: NDArray[np.int64]
    parts: NDArray[np.int64]


def draws_by_class(sizes: NDArray[np.int64], most: int, folds: int, whitened: bool) -> NDArray[np.int64]:
    """The number of samples to draw from each class, ``most`` in total.

    The same number from each class, and at least two, as far as ``most`` allows. With too many classes for that, some
    give two and the others one, or some give one and the others none, spread evenly. A class with fewer samples than
    folds gives none, as none of its samples are held out.

    If features are whitened, at most half of a class is drawn, and the covariance is estimated from the others. A
    sample that contributed to it lies nearer to its class than a new one, and calibrating on it would make the model
    overconfident (4000 rows of 1280 features, a shrinkage of 0.5: a scale of 2.9 where 2.5 is best on new samples).
    """
    quota, able = np.zeros(len(sizes), np.int64), np.flatnonzero(sizes >= folds)
    quota[able] = max(2, most // len(sizes))
    if quota.sum() > most:
        quota[able], over = divmod(most, len(able))
        quota[able[np.arange(over) * len(able) // max(1, over)]] += 1
    return np.asarray(np.minimum(quota, sizes // 2 if whitened else sizes))


def draw_samples(
    y: NDArray[np.int64],
    most: int,
    folds: int,
    seed: int,
    whitened: bool,
    keys: NDArray[np.int64] | None = None,
) -> DrawnSamples:
    """Draw samples of every class of y; see `draw_by_class`."""
    drawn = draw_by_class(np.bincount(y), most, folds, seed, whitened, keys)
    return drawn._replace(rows=_rows_of(y, drawn))


def draw_by_class(
    sizes: NDArray[np.int64],
    most: int,
    folds: int,
    seed: int,
    whitened: bool,
    keys: NDArray[np.int64] | None = None,
) -> DrawnSamples:
    """Draw samples of every class, seeded by (seed, class) alone. A smaller draw is part of a larger one.

    Only the sizes of the classes are needed: ``rows`` of the result are counted within each class. ``keys`` are the
    numbers that seed the classes, by default 0..N-1; a class keeps its key when others are added or removed.
    """
    keys = np.arange(len(sizes)) if keys is None else keys
    return _drawn(sizes, draws_by_class(sizes, most, folds, whitened), folds, seed, keys)


def draw_evenly(y: NDArray[np.int64], most: int, folds: int, seed: int) -> DrawnSamples:
    """Draw about ``most`` samples of y in total: the same share of every class, and at least one.

    Classes with fewer samples than folds are included, in the fold `NEVER_HELD_OUT`.
    """
    drawn = draw_evenly_by_class(np.bincount(y), most, folds, seed)
    return drawn._replace(rows=_rows_of(y, drawn))


def draw_evenly_by_class(sizes: NDArray[np.int64], most: int, folds: int, seed: int) -> DrawnSamples:
    """`draw_evenly` from the sizes of the classes alone: rows are counted within each class."""
    quotas = np.maximum(1, (sizes * min(1.0, most / sizes.sum())).astype(np.int64))
    return _drawn(sizes, quotas, folds, seed, np.arange(len(sizes)))


def every_sample(
    y: NDArray[np.int64], folds: int, seed: int, keys: NDArray[np.int64] | None = None
) -> DrawnSamples:
    """All samples of y in their order, with the fold and the part of each in its class."""
    sizes = np.bincount(y)
    drawn = _drawn(sizes, sizes, folds, seed, np.arange(len(sizes)) if keys is None else keys)
    order = np.argsort(_rows_of(y, drawn))
    return DrawnSamples(np.arange(len(y)), y, drawn.folds[order], drawn.parts[order])


def _drawn(
    sizes: NDArray[np.int64],
    quotas: NDArray[np.int64],
    folds: int,
    seed: int,
    keys: NDArray[np.int64],
) -> DrawnSamples:
    """Draw ``quotas`` samples per class, seeded by (seed, class) alone, with rows counted within each class."""
    rows_of, folds_of, parts_of = [], [], []
    for size, quota, key in zip(sizes.tolist(), quotas.tolist(), keys.tolist(), strict=True):
        chosen = np.random.default_rng([seed, key, 1]).permutation(size)[:quota]
        rows_of.append(chosen)
        folds_of.append(class_folds(size, folds, seed, key)[chosen])
        parts_of.append(class_parts(size, folds, seed, key)[chosen])
    return DrawnSamples(
        np.concatenate(rows_of),
        np.repeat(np.arange(len(sizes)), quotas),
        np.concatenate(folds_of),
        np.concatenate(parts_of),
    )


def _rows_of(y: NDArray[np.int64], drawn: DrawnSamples) -> NDArray[np.int64]:
    """The rows in y of drawn samples whose rows are counted within each class."""
    sizes = np.bincount(y)
    starts = np.cumsum(sizes) - sizes
    return np.asarray(np.argsort(y, kind="stable")[starts[drawn.classes] + drawn.rows])


def members_of(y: NDArray[np.integer], n_classes: int) -> list[NDArray[np.int64]]:
    """The rows of each class, in ascending order.

    Examples
    --------
    >>> [rows.tolist() for rows in members_of(np.array([1, 0, 1]), 3)]
    [[1], [0, 2], []]
    """
    order = np.argsort(y, kind="stable")
    return np.split(order, np.cumsum(np.bincount(y, minlength=n_classes))[:-1])


def first_of_each_class(classes: NDArray[np.integer], quotas: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which drawn samples a smaller draw contains too: the first ``quotas[c]`` of class c.

    Examples
    --------
    >>> first_of_each_class(np.array([0, 0, 0, 1, 1]), np.array([2, 1])).tolist()
    [True, True, False, True, False]
    """
    starts = np.searchsorted(classes, np.arange(len(quotas)))
    return np.asarray(np.arange(len(classes)) - starts[classes] < quotas[classes])


#: Number of edges that is enough to estimate the median size of a sample's logits.
ENOUGH = 512


class HeldOutSamples(NamedTuple):
    """Training samples on which the coupled model is calibrated and scored.

    Attributes
    ----------
    samples : ScoredSamples
        Their out-of-fold logits, completed in the way of the model.
    classes : (R,) int array
    weight : (R,) float array, optional
    unit : float
        The typical size of the logits, at which the prior of the scale is centred.
    edge_logits : (E, R) float32 array, optional
        The logits of the edges, if they are needed too.
    totals : (N,) float array, optional
        The number of training samples of every class, or the sum of their weights. The same number is held out from
        every class, so totals give the weight of a held-out sample.
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
        """Samples with these out-of-fold logits (E, R); of pairs, all or a shortlist are completed."""
        return cls(
            coupler.scored(edge_logits, shortlist, memory_limit, calibration),
            classes,
            weight,
            unit_of(typical_sizes(edge_logits), calibration),
            edge_logits,
            totals,
        )


def typical_sizes(edge_logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """(R,) the median absolute logit of each sample, over all edges (E, R), or over about `ENOUGH` of them."""
    if not edge_logits.size:
        return np.zeros(edge_logits.shape[1], np.float32)
    some = edge_logits[:: max(1, len(edge_logits) // ENOUGH)]
    return np.asarray(np.median(np.abs(some), axis=0), np.float32)


def unit_of(sizes: NDArray[np.floating], calibration: Calibration) -> float:
    """The unit of the logits of samples, from their typical sizes, for distances; 1 for logits that are log odds.

    Distances times slopes are log odds too.
    """
    if calibration != "distance" or not sizes.size:
        return 1.0
    typical = float(np.median(sizes))
    return typical if typical > 0 else 1.0


class OutOfFoldMachines(Protocol):
    """Trained machines that can score samples which they were not fitted on."""

    @property
    def n_edges(self) -> int:
        """E, the number of trained pairs."""

    def held_out_logits(
        self, shares: NDArray[np.float64], X: Any, parts: NDArray[np.integer], /
    ) -> NDArray[np.float32]:
        """(E, R) logits of samples X with these shares (M,) of the machines, parameters without the sample's part."""


def out_of_fold_edge_logits(
    trained: OutOfFoldMachines,
    scheme: FoldScheme,
    X: Any,
    folds: NDArray[np.integer],
    parts: NDArray[np.integer],
) -> NDArray[np.float32]:
    """(E, R) logits of training samples by machines that were not fitted on them, contiguous per sample.

    A sample of fold k is scored, on every edge, by the machines that were not fitted on fold k. This holds also for
    edges that do not touch its class, although none of their machines has seen it: otherwise the logits of the true
    class would be means of fewer machines than the others, and their larger spread would reveal the class. The sample
    is also scored with the parameters of its part, to which it did not contribute: otherwise every edge would make the
    model a little overconfident, and hundreds of edges add up, so that even on pure noise it would beat guessing.

    Parameters
    ----------
    trained : OutOfFoldMachines
    scheme : FoldScheme
    X, folds, parts : the samples, and their folds and parts

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


#: Lower bound of probabilities in log losses. float32 probabilities of the true class can be zero. The loss of a sample
#: is at most about 16, so a single confident error does not dominate the mean.
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
