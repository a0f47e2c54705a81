"""Calibration of single pairs: from a machine's decision value, or a distance, to the log odds of its two classes.

Platt scaling maps the decision value f to P(y = +1 | f) = 1 / (1 + exp(A f + B)), with A and B fitted per machine.

Slopes say how many units of log odds a unit of distance is worth, per pair.

The logit of a pair is s d, where d is the signed distance of a sample to the pair's hyperplane. With one slope s for
all pairs, machines between classes that cannot be told apart are overconfident: their distances look like any others.
A slope fitted to each pair alone, by the likelihood of its own samples, is noisy: a pair has tens of them, often
separable.

So the slopes of all pairs are taken to be drawn from one distribution, estimated from the pairs (empirical Bayes). It
is the nonparametric maximum likelihood estimate of Kiefer and Wolfowitz [KW]_ on a grid, by EM. The slope of a pair is
the exponential of the mean of log s under its posterior. If all pairs are alike, the distribution is narrow and slopes
are nearly equal; if some classes cannot be told apart, it has a second mode near zero, for their pairs.

A pair enters through its profile alone: the log loss of its own out-of-fold samples as a function of log s. Profiles
are computed per part during training, so that the slope for a held-out sample can be estimated without its part.

With few rows many pairs are separable, and their own samples favour the steepest slope. Yet some machine among them
will be wrong about a new sample. So two errors are expected of all pairs together, one per class, as Platt's targets
expect them of a single pair: each pair has an equal share of them, at its mean distance on the wrong side. With
thousands of pairs the shares are too small to matter.

References
----------
.. [KW] J. Kiefer and J. Wolfowitz (1956). "Consistency of the maximum likelihood estimator in the presence of
   infinitely many incidental parameters". Annals of Mathematical Statistics 27, 887-906.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline

from pairloom.pipeline.machines.folds import FoldScheme
from pairloom.pipeline.machines.pair_kernels import (
    MAX_ITERATIONS,
    POINTS_PER_OCTAVE,
    TOLERANCE,
    calibrate,
    dprime,
    fit_sigmoid,
    loss_profile,
    measure_distances,
    out_of_fold_logits,
    thresholds_of,
)
from pairloom.pipeline.threads import pieces

__all__ = [
    "PROFILE_SIZE",
    "Platt",
    "SlopePrior",
    "Slopes",
    "calibrate_machines",
    "fit_platt",
    "separation",
    "slope_prior",
    "slopes_of",
]


class Platt(NamedTuple):
    """The pairwise logit of decision value f is -(A f + B)."""

    A: float
    B: float
    iterations: int
    converged: bool


def fit_platt(
    decision_values: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    tol: float = TOLERANCE,
    max_iterations: int = int(MAX_ITERATIONS),
) -> Platt:
    """Fit (A, B) by maximum likelihood, with Platt's targets, which are smoothed away from 0 and 1.

    Parameters
    ----------
    decision_values : array-like of shape (n,)
        Decision values of held-out samples.
    y : array-like of shape (n,)
        Labels, -1 or +1.
    sample_weight : array-like of shape (n,), default=None
        Weight per sample. With weights, n+ and n- below are sums of weights.
    tol : float, default=1e-5
        Largest component of the gradient, per unit of weight and of the decision values' scale.
    max_iterations : int, default=100
        Largest number of Newton steps.

    Returns
    -------
    Platt

    Notes
    -----
    t+ = (n+ + 1) / (n+ + 2), t- = 1 / (n- + 2), and the start is A = 0, B = log((n- + 1) / (n+ + 1)) [LW 8].

    References
    ----------
    .. [LW] H.-T. Lin, C.-J. Lin and R. C. Weng (2007). "A note on Platt's probabilistic outputs for support vector
       machines". Machine Learning 68, 267-276. doi:10.1007/s10994-007-5018-6
    """
    f = np.ascontiguousarray(decision_values, np.float64)
    weight = np.ones(len(f)) if sample_weight is None else np.ascontiguousarray(sample_weight, np.float64)
    return Platt(*fit_sigmoid(f, np.ascontiguousarray(y, np.float64), weight, tol, max_iterations))


def calibrate_machines(
    f: NDArray[np.float64],
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    folds: NDArray[np.int64],
    parts: NDArray[np.int64],
    scheme: FoldScheme,
    norms: NDArray[np.float64],
    by_distance: bool,
    thresholds: bool,
    platt: NDArray[np.float64],
    crossfit: NDArray[np.float64],
    profile: NDArray[np.float64],
) -> tuple[float, float]:
    """Calibrate the M machines of one problem from their decision values on its n samples.

    Parameters
    ----------
    f : (M, n)
    y : (n,)
        Labels: all +1 come first, then all -1.
    weight, folds, parts : (n,)
    scheme : FoldScheme
    norms : (M,)
        |w| of each machine, NaN if unknown.
    by_distance : bool
        Whether the logit of a machine is f divided by its norm. If not, Platt scaling is fitted.
    thresholds : bool
        Shift the logit to where it makes fewest errors on held-out samples [HT 3].
    platt, crossfit : (M, 2) and (M, PARTS, 2)
        Written. The threshold of the problem is in `crossfit`.
    profile : (PARTS, PROFILE_SIZE) or (PARTS, 0)
        Written, if it has room for the profile of the problem: see `slope_prior`.

    Returns
    -------
    d' of the held-out logits, and the threshold.
    """
    if by_distance:
        measure_distances(scheme.distance_units(norms), platt, crossfit)
    else:
        calibrate(f, y, weight, folds, parts, scheme.calibrated_on, scheme.pooled, platt, crossfit)
    if profile.shape[1]:
        loss_profile(f, norms, y, weight, folds, parts, scheme.out_of_fold, profile)
    apart = separation(f, y, folds, parts, scheme, platt)
    if not thresholds:
        return apart, 0.0
    return apart, float(thresholds_of(f, y, weight, folds, parts, scheme.out_of_fold, platt, crossfit))


def separation(
    f: NDArray[np.float64],
    y: NDArray[np.float64],
    folds: NDArray[np.int64],
    parts: NDArray[np.int64],
    scheme: FoldScheme,
    platt: NDArray[np.float64],
) -> float:
    """d' of the held-out logits of a problem; arguments as in `calibrate_machines`."""
    logits = out_of_fold_logits(f, platt.reshape(-1, 1, 2), folds, parts, scheme.out_of_fold)
    return float(dprime(logits, int((y > 0).sum())))


Floats: TypeAlias = NDArray[np.float64]
_STEP = math.log(2) / POINTS_PER_OCTAVE
#: Points of a profile, from 1/32 to 32 times the slope at which the pair's mean distance is worth one unit of log odds.
_POINTS = 10 * POINTS_PER_OCTAVE + 1
#: A profile is the number of its first point on the grid that all pairs share, then the loss at each of its points.
PROFILE_SIZE = 1 + _POINTS

#: Grid points of the distribution per point of a profile.
_REFINED = 4
#: Most pairs from which the distribution is estimated, and steps of EM.
_MOST_PAIRS, _STEPS = 1024, 200
#: The prior of the distribution: normal about the best common slope, with this standard deviation of log s. It weighs
#: as much as this number of pairs.
_SPREAD, _EXPECTED_PAIRS = 0.3, 5.0
#: Errors on unseen samples that are expected of all pairs together.
_EXPECTED_ERRORS = 2.0
#: Pairs whose profiles are refined at once: some 10 MB.
_PAIRS_AT_ONCE = 2**13


class SlopePrior(NamedTuple):
    """The distribution of the slopes of a model's pairs.

    Attributes
    ----------
    first : int
        Its grid begins at log s = first * log(2) / POINTS_PER_OCTAVE.
    weights : (1 + PARTS, points) float64
        The distribution from all samples, then without each part.
    pairs : int
        The number of pairs that share the errors to be expected.
    """

    first: int
    weights: Floats
    pairs: int

    @property
    def points(self) -> Floats:
        """(points,) the values of log s."""
        return np.asarray((self.first + np.arange(self.weights.shape[1]) / _REFINED) * _STEP)


class Slopes(NamedTuple):
    """The slope of every pair, and its slopes estimated without each part, for training samples of the part.

    Attributes
    ----------
    slope : (E,) float64
    without_part : (E, PARTS) float64
    """

    slope: Floats
    without_part: Floats

    def at(self, edges: NDArray[np.integer] | NDArray[np.bool_]) -> Slopes:
        """The slopes of some pairs, in this order."""
        return Slopes(self.slope[edges], self.without_part[edges])

    def followed_by(self, others: Slopes) -> Slopes:
        """These slopes, then the slopes of other pairs."""
        return Slopes(*(np.concatenate(both) for both in zip(self, others, strict=True)))

    def of_parts(self, logits: NDArray[np.float32], parts: NDArray[np.integer]) -> NDArray[np.float32]:
        """(E, R) logits of training samples, from their distances and parts; contiguous per sample."""
        scaled = np.empty(logits.shape[::-1], np.float32)
        for sample, part in enumerate(parts):
            np.multiply(
                logits[:, sample], self.without_part[:, part], out=scaled[sample], casting="same_kind"
            )
        return scaled.T


def slope_prior(profile: NDArray[np.float32], pairs: NDArray[np.integer] | None = None) -> SlopePrior:
    """Estimate the distribution of slopes from the profiles (E, PARTS, PROFILE_SIZE) of all pairs, or of some.

    For each part, a profile has the beginning of its grid, then the summed log loss of the pair's own out-of-fold
    samples of the part at the points of that grid.
    """
    pairs = np.arange(len(profile)) if pairs is None else pairs
    some = profile[pairs[np.linspace(0, len(pairs) - 1, min(len(pairs), _MOST_PAIRS)).astype(np.int64)]]
    start = _starts(profile)[pairs]
    first, last = int(start.min()), int(start.max()) + _POINTS - 1
    weights = np.empty((1 + profile.shape[1], _REFINED * (last - first) + 1))
    grid = SlopePrior(first, weights, max(1, len(pairs)))
    # The log s at which the mean distance of a typical pair is worth one unit of log odds.
    usual = float(np.median(_at_one(start)))
    for column, part in enumerate(_left_out(profile)):
        # The distribution, too, is estimated without the part: with few pairs, every pair matters.
        grid.weights[column] = _distribution(_losses(some, part, grid), grid.points, usual)
    return grid


def slopes_of(
    profile: NDArray[np.float32], prior: SlopePrior, order: NDArray[np.integer] | None = None
) -> Slopes:
    """The slopes of pairs, from their profiles (E, PARTS, PROFILE_SIZE) and the distribution of slopes.

    ``order`` reorders the pairs without a copy of all profiles, which would be large.
    """
    order = np.arange(len(profile)) if order is None else order
    log_slopes, points = np.empty((len(order), len(prior.weights))), prior.points
    for pairs in pieces(len(order), _PAIRS_AT_ONCE):
        some = profile[order[pairs]]
        for column, part in enumerate(_left_out(profile)):
            likelihoods, weights = _likelihoods(_losses(some, part, prior)), prior.weights[column]
            log_slopes[pairs, column] = likelihoods @ (weights * points) / (likelihoods @ weights)
    slopes = np.exp(log_slopes)
    return Slopes(slopes[:, 0], slopes[:, 1:])


def _left_out(profile: NDArray[np.float32]) -> list[int | None]:
    return [None, *range(profile.shape[1])]


def _starts(profile: NDArray[np.float32]) -> NDArray[np.int64]:
    return profile[:, 0, 0].astype(np.int64)


def _at_one(starts: NDArray[np.int64]) -> Floats:
    """(E,) the log s at which the mean distance of a pair is worth one, which is in the middle of its profile."""
    return np.asarray((starts + _POINTS // 2) * _STEP)


def _losses(profile: NDArray[np.float32], left_out: int | None, prior: SlopePrior) -> Floats:
    """(E, points) log loss of all samples, or of those not in a part, on the grid that all pairs share.

    The loss of the errors to be expected is included. Beyond the ends of its profile, where it hardly changes, the
    loss of the samples is taken as constant.
    """
    total = profile[:, :, 1:].sum(axis=1, dtype=np.float64)
    if left_out is not None:
        total -= profile[:, left_out, 1:]
    refined, starts = total @ _refinement(), _starts(profile)
    place = np.arange(prior.weights.shape[1]) - _REFINED * (starts - prior.first)[:, None]
    of_samples = np.take_along_axis(refined, place.clip(0, refined.shape[1] - 1), axis=1)
    of_an_error = np.logaddexp(0, np.exp(prior.points - _at_one(starts)[:, None]))
    return np.asarray(of_samples + _EXPECTED_ERRORS / prior.pairs * of_an_error)


@functools.cache
def _refinement() -> Floats:
    """(_POINTS, refined points) interpolation by cubic splines as a matrix: splines are linear in their values."""
    refined = np.linspace(0, _POINTS - 1, _REFINED * (_POINTS - 1) + 1)
    return np.asarray(CubicSpline(np.arange(_POINTS), np.eye(_POINTS))(refined).T)


def _distribution(losses: Floats, points: Floats, usual: float) -> Floats:
    """(points,) the most likely distribution of log s, given the profiles of pairs and the prior, by EM."""
    pooled = losses.sum(axis=0) + (points - usual) ** 2 / 2
    expected = np.exp(-((points - points[pooled.argmin()]) ** 2) / (2 * _SPREAD**2))
    expected *= _EXPECTED_PAIRS / expected.sum()
    likelihoods = _likelihoods(losses)
    distribution = (expected + expected.mean()) / (2 * expected.sum())
    for _ in range(_STEPS):
        counts = distribution * ((1 / (likelihoods @ distribution)) @ likelihoods) + expected
        distribution = counts / counts.sum()
    return np.asarray(distribution)


def _likelihoods(losses: Floats) -> Floats:
    """(E, points) likelihoods of log s, up to a factor per pair."""
    return np.asarray(np.exp(losses.min(axis=1, keepdims=True) - losses))
