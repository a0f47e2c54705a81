"""Signals that a sample is like no class, and their weights, which are learned without samples of unknown classes.

Removing a class from a model of pairs needs no training. So every held-out sample is scored twice: by the whole model,
and by the model without the sample's class, to which it is a novelty. A logistic regression that separates the two
gives the weights of the signals.

Signals, each larger for stranger samples:

- the fit of the best class: its mean logit against all others, negated. Probabilities cannot show that no class fits,
  since they are normalised;
- its lead: its mean logit against the other listed classes, negated; without lists, the log odds against it;
- the relative Mahalanobis distance [R]_ to the classes, for linear machines on dense features;
- the distance to the nearest support vector, for machines with a kernel.

References
----------
.. [R] J. Ren, S. Fort, J. Liu, A. Roy, S. Padhy and B. Lakshminarayanan (2021). "A simple fix to Mahalanobis distance
   for improving near-OOD detection". https://arxiv.org/abs/2106.09022.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import minimize

from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.couplers import CompletedPairs, Coupler, ScoredSamples
from pairloom.pipeline.completion.shortlist import Shortlists
from pairloom.pipeline.machines.normalisation import WithinClasses
from pairloom.pipeline.threads import pieces

__all__ = [
    "MOST_SIGNALS",
    "SAMPLES_AT_ONCE",
    "ClassPlaces",
    "Distances",
    "NoveltyWeights",
    "fit_signals",
    "learned_weights",
    "nearest_distances",
    "without_own_class",
]

#: How far the covariance within classes is shrunk towards a multiple of the identity.
_SHRINKAGE = 0.1
#: Penalty of unequal weights: real novelties may differ from the simulated ones.
_RIDGE = 0.03
#: Samples whose distances to all vectors are computed at once; relative squared distances that are rounding errors.
SAMPLES_AT_ONCE, _ROUNDING = 512, 1e-12
#: The largest number of signals of a model.
MOST_SIGNALS = 3
#: Bound of signals, in standard deviations: the deviation of a nearly constant signal is tiny.
_FARTHEST = 1e3
#: Variance within the classes, as a share of all variance, that is rounding error of float32.
_NO_SCATTER = float(np.finfo(np.float32).eps) ** 2
#: With fewer held-out samples, weights are not learned.
_FEWEST = 50


class ClassPlaces(NamedTuple):
    """Classes as normal distributions with a common covariance, in the directions in which their means differ.

    In these coordinates the covariance within classes is the identity, and the covariance of the means is diagonal.
    Other directions contribute the same to all classes and to the background, so they cancel in the relative distance.

    Attributes
    ----------
    origin : (D,) float32
        The mean of all rows.
    directions : (D, K) float32
    means : (N, K) float32
    between : (K,) float32
        The variance of the means.
    shares : (N,) float32
    """

    origin: NDArray[np.float32]
    directions: NDArray[np.float32]
    means: NDArray[np.float32]
    between: NDArray[np.float32]
    shares: NDArray[np.float32]

    @classmethod
    def of(
        cls, within: WithinClasses, means: NDArray[np.floating], counts: NDArray[Any]
    ) -> ClassPlaces | None:
        """The places of classes, from their means (N, D), numbers of rows and the covariance within them.

        None if rows do not differ within their classes, for instance with one row per class: there is no unit of
        distance then.
        """
        if within.values.max() <= _NO_SCATTER * np.trace(within.total):
            return None
        values = (1 - _SHRINKAGE) * within.values + _SHRINKAGE * within.values.mean()
        values = np.maximum(values, 1e-10 * values.max())
        shares = counts / counts.sum()
        origin = shares @ means
        whitened = ((means - origin) @ within.vectors) / np.sqrt(values)
        apart = whitened * np.sqrt(shares)[:, None]
        # Only directions in which the means differ: others cancel. Smaller eigenvalues are rounding errors.
        if len(apart) < apart.shape[1]:
            # Few classes: the directions are combinations of their means.
            between, sides = eigh(apart @ apart.T)
            kept = between > 1e-10 * max(between.max(), np.finfo(float).tiny)
            vectors = (apart.T @ sides[:, kept]) / np.sqrt(between[kept])
        else:
            between, vectors = eigh(apart.T @ apart)
            kept = between > 1e-10 * max(between.max(), np.finfo(float).tiny)
            vectors = vectors[:, kept]
        directions = within.vectors @ (vectors / np.sqrt(values)[:, None])
        parts = (origin, directions, whitened @ vectors, between[kept], shares)
        return cls(*(np.asarray(part, np.float32) for part in parts))

    def distances(self, X: NDArray[np.floating]) -> NDArray[np.float64]:
        """(R,) the relative Mahalanobis distances of samples, which are normalised as in the fit."""
        z, squares = self._placed(X)
        return np.asarray(squares.min(axis=1) - (z**2 / (1 + self.between)).sum(axis=1))

    def distances_without(self, X: NDArray[np.floating], classes: NDArray[np.integer]) -> NDArray[np.float64]:
        """(R,) the same without the class of each sample, which is removed from the background too."""
        z, squares = self._placed(X)
        rows = np.arange(len(z))
        squares[rows, classes] = np.inf
        own, share = self.means[classes].astype(np.float64), self.shares[classes].astype(np.float64)
        inverse = 1 / (1 + self.between.astype(np.float64))
        # The inverse of the background covariance without the mean of one class (Sherman and Morrison).
        along, size = (z * inverse * own).sum(axis=1), (own**2 * inverse).sum(axis=1)
        more = share * along**2 / np.maximum(1 - share * size, 1e-6)
        return np.asarray(squares.min(axis=1) - (z**2 * inverse).sum(axis=1) - more)

    def _placed(self, X: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(R, K) samples in these coordinates, and (R, N) their squared distances to the means."""
        z = np.asarray((X - self.origin) @ self.directions, np.float64)
        means = self.means.astype(np.float64)
        return z, (z**2).sum(axis=1)[:, None] - 2 * z @ means.T + (means**2).sum(axis=1)


class Distances(NamedTuple):
    """(R,) distances of held-out samples to the classes, and to the classes other than their own.

    NaN for samples that contributed to the estimates behind the distances.
    """

    known: NDArray[np.float64]
    without_own: NDArray[np.float64]

    @classmethod
    def to_places(
        cls,
        places: ClassPlaces,
        X: NDArray[np.floating],
        classes: NDArray[np.integer],
        judged: NDArray[np.bool_],
    ) -> Distances:
        """The distances of samples of these classes; NaN unless ``judged``."""
        known, without_own = np.full(len(X), np.nan), np.full(len(X), np.nan)
        known[judged] = places.distances(X[judged])
        without_own[judged] = places.distances_without(X[judged], classes[judged])
        return cls(known, without_own)

    @classmethod
    def to_support(
        cls,
        vectors: NDArray[np.floating],
        support: NDArray[np.integer],
        support_classes: NDArray[np.integer],
        X: NDArray[np.floating],
        rows: NDArray[np.integer],
        classes: NDArray[np.integer],
    ) -> Distances:
        """The distances of samples to the nearest support vector but themselves, and to the nearest of other classes.

        Parameters
        ----------
        vectors : (S, D) array
            The support vectors.
        support, support_classes : (S,) int arrays
            The training rows and classes of the support vectors.
        X : (R, D) array
            The samples.
        rows, classes : (R,) int arrays
            The training rows and classes of the samples.
        """
        known = nearest_distances(vectors, X, support == rows[:, None])
        return cls(known, nearest_distances(vectors, X, support_classes == classes[:, None]))


def nearest_distances(
    vectors: NDArray[np.floating], X: NDArray[np.floating], hidden: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """(R,) the logarithm of the distance of samples (R, D) to the nearest vector (S, D) that is not hidden (R, S)."""
    nearest, norms = np.empty(len(X)), np.square(vectors, dtype=np.float64).sum(axis=1)
    for some in pieces(len(X), SAMPLES_AT_ONCE):
        rows = np.asarray(X[some], np.float64)
        squares = np.square(rows).sum(axis=1)[:, None] - 2 * rows @ vectors.T + norms
        if hidden is not None:
            squares[hidden[some]] = np.inf
        nearest[some] = squares.min(axis=1)
    smallest = _ROUNDING * max(float(norms.max(initial=0.0)), np.finfo(float).tiny)
    return np.asarray(np.log(np.maximum(nearest, smallest)) / 2)


class NoveltyWeights(NamedTuple):
    """(S,) the weights of the signals, and their means and standard deviations on held-out samples."""

    weight: NDArray[np.float64]
    centre: NDArray[np.float64]
    deviation: NDArray[np.float64]

    def __call__(self, signals: NDArray[np.float64]) -> NDArray[np.float64]:
        """(R,) the novelty of samples with these signals (R, S)."""
        return np.asarray(((signals - self.centre) / self.deviation) @ self.weight)


def fit_signals(samples: ScoredSamples, p: NDArray[np.floating], scale: float = 1.0) -> NDArray[np.float64]:
    """(R, 2) the negated fit and lead of the best class; without lists, the lead is from the probabilities."""
    fit = -scale * samples.class_scores().max(axis=1).astype(np.float64)
    if isinstance(samples, Shortlists):
        lead = -scale * samples.lists.class_scores().max(axis=1).astype(np.float64)
        return np.stack([fit, lead], axis=1)
    return np.stack([fit, _log_odds_against(p.max(axis=1))], axis=1)


def without_own_class(
    samples: ScoredSamples,
    p: NDArray[np.floating],
    classes: NDArray[np.integer],
    coupler: Coupler,
    scale: float = 1.0,
) -> NDArray[np.float64] | None:
    """(R, 2) `fit_signals` in models without the class of each sample; None if the logits of pairs are not available.

    The probabilities of the other classes are divided by their sum.
    """
    if isinstance(samples, CompletedPairs):
        n, n_samples = samples.tensor.shape[1:]
        listed = np.broadcast_to(np.arange(n), (n_samples, n))
        others = p.astype(np.float64)
        others[np.arange(len(p)), classes] = 0.0
        largest = others.max(axis=1) / np.maximum(others.sum(axis=1), np.finfo(float).tiny)
        fit = -scale * _best_of_others(samples.tensor, listed, classes)
        return np.stack([fit, _log_odds_against(largest)], axis=1)
    if not isinstance(samples, Shortlists):
        return None
    best = _best_potential_of_others(samples, classes, coupler.completion)
    lead = _best_of_others(samples.tensor, samples.classes, classes)
    return -scale * np.stack([best, lead], axis=1)


def _log_odds_against(largest: NDArray[np.floating]) -> NDArray[np.float64]:
    """(R,) the log odds against a class of this probability."""
    bounded = np.clip(largest.astype(np.float64), 1e-7, 1 - 1e-7)
    return np.asarray(np.log1p(-bounded) - np.log(bounded))


def _best_of_others(
    tensor: NDArray[np.float32], listed: NDArray[np.int64], classes: NDArray[np.integer]
) -> NDArray[np.float64]:
    """(R,) the largest mean logit among listed classes (R, k) other than the sample's own, against each other."""
    k, samples = len(tensor), np.arange(len(classes))
    place, is_listed = _places(listed, classes)
    sums = tensor.sum(axis=1, dtype=np.float64).T
    against_own = tensor[:, place, samples].T
    sums = np.where(is_listed[:, None], (sums - against_own) / max(1, k - 1), sums / k)
    sums[samples[is_listed], place[is_listed]] = -np.inf
    return np.asarray(sums.max(axis=1))


def _best_potential_of_others(
    samples: Shortlists, classes: NDArray[np.integer], completion: Completion
) -> NDArray[np.float64]:
    """(R,) the largest potential of a listed class other than the sample's own, in the model without that class.

    The potentials are corrected by one step towards those of the smaller model: neighbours of the class lose their
    logit against it, so their other logits weigh more.
    """
    rows = np.arange(len(classes))
    place, is_listed = _places(samples.classes, classes)
    u = np.take_along_axis(samples.potentials, samples.classes, axis=1).astype(np.float64)
    own = samples.potentials[rows, classes].astype(np.float64)[:, None]
    degrees = np.diff(completion.offsets)[samples.classes]
    joined = _joined(samples.classes, classes, completion) & is_listed[:, None] & (degrees > 1)
    against_own = samples.tensor[:, place, rows].T
    step = (u - own - against_own) / np.maximum(degrees - 1, 1)
    u = u + np.where(joined, step, 0.0) + own / (completion.n_classes - 1)
    u[rows[is_listed], place[is_listed]] = -np.inf
    return np.asarray(u.max(axis=1))


def _places(
    listed: NDArray[np.int64], classes: NDArray[np.integer]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(R,) the place of the class of each sample in its list, 0 if it is not listed, and whether it is listed."""
    is_own = listed == classes[:, None]
    return is_own.argmax(axis=1), is_own.any(axis=1)


def _joined(
    listed: NDArray[np.int64], classes: NDArray[np.integer], completion: Completion
) -> NDArray[np.bool_]:
    """(R, k) whether the pair of a listed class and the class of the sample is trained."""
    n = completion.n_classes
    pairs = completion.edges @ np.array([n, 1])
    low, high = np.minimum(listed, classes[:, None]), np.maximum(listed, classes[:, None])
    return np.isin(low * n + high, pairs)


def learned_weights(
    known: NDArray[np.float64], novel: NDArray[np.float64] | None, weight: NDArray[np.float64]
) -> NoveltyWeights:
    """Learn the weights of signals, from held-out samples as known samples (R, S) and as novelties (R, S).

    Without novelties, or with few samples, all signals have equal weights.
    """
    centre = np.average(known, axis=0, weights=weight)
    deviation = np.sqrt(np.average(np.square(known - centre), axis=0, weights=weight))
    # The deviation of a constant signal would be zero.
    deviation = np.maximum(deviation, np.finfo(float).eps * np.maximum(1, np.abs(centre)))
    n_signals = known.shape[1]
    equal = NoveltyWeights(np.full(n_signals, 1 / n_signals), centre, deviation)
    if novel is None or len(known) < _FEWEST:
        return equal

    def limited(signals: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.clip((signals - centre) / deviation, -_FARTHEST, _FARTHEST))

    slopes = _slopes(limited(known), limited(novel), weight)
    combined = ((known - centre) / deviation) @ slopes
    spread = float(np.sqrt(np.average(np.square(combined), weights=weight)))
    return equal if not spread > 0 else equal._replace(weight=slopes / spread)


def _slopes(
    known: NDArray[np.float64], novel: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(S,) slopes of the logistic regression of novelties against known samples, constrained to be non-negative."""
    n = known.shape[1]
    signed = np.concatenate([-known, novel])
    sign = np.concatenate([-np.ones(len(known)), np.ones(len(novel))])
    weight = np.concatenate([weight, weight]) / (2 * weight.sum())

    def loss(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        slopes, shift = values[:n], values[n]
        margin = signed @ slopes + sign * shift
        pull = -weight / (1 + np.exp(np.clip(margin, -500, 500)))
        apart = slopes - slopes.mean()
        gradient = np.append(pull @ signed + _RIDGE * apart, pull @ sign)
        return float(weight @ np.logaddexp(0, -margin) + _RIDGE * (apart @ apart) / 2), gradient

    start = np.append(np.full(n, 1 / n), 0.0)
    bounds = [(0.0, None)] * n + [(None, None)]
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(result.x[:n], np.float64)
