"""Confidence intervals of means: a paired bootstrap over repetitions and test samples.

Outcomes are arrays (repetitions, samples), such as the errors of a model. Both axes are random: there could be other
class draws or graphs, and other test samples. So both are resampled, independently of each other, with the same weights
for all outcomes. The difference of two means therefore has its own interval, much narrower than those of the means.

Resampling rows and columns independently counts the noise of single entries more than once, so intervals are a little
too wide where nothing else varies [O]. Resampled means also vary less than means, which matters for a handful of units:
the deviations of each level are multiplied so that those of normal units would follow Student's distribution.

References
----------
.. [O] A. B. Owen (2007). "The pigeonhole bootstrap". The Annals of Applied Statistics 1, 386-411.
   doi:10.1214/07-AOAS122
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Key = TypeVar("Key")

#: A quantity and its replicates: the estimate first, then its value in every replicate. Plain arithmetic on such arrays
#: gives differences, ratios and so on, resampled together.
Resampled: TypeAlias = NDArray[np.float64]

REPLICATES = 2000
LEVEL = 0.95


class Interval(NamedTuple):
    """The confidence interval of a quantity; NaN if it cannot be estimated."""

    low: float
    high: float


def resampled_means(
    outcomes: Mapping[Key, ArrayLike], seed: int = 0, replicates: int = REPLICATES
) -> dict[Key, Resampled]:
    """Means of outcomes over samples, then over repetitions, and the same means of resampled outcomes.

    Parameters
    ----------
    outcomes : mapping of (T, R) arrays
        T repetitions by R test samples, NaN if a sample is not part of a repetition. An array with one row stands for a
        model that is the same in every repetition. With R = 1, every repetition has its own samples, summarised by one
        number; with T = 1, only the samples are resampled.
    seed : int
        Seed of the weights.
    replicates : int

    Returns
    -------
    dict of (1 + replicates,) arrays
        The estimate, then the replicates, which are NaN if there is only one number.
    """
    arrays = {key: _outcomes(key, array) for key, array in outcomes.items()}
    times, samples = np.max([array.shape for array in arrays.values()], axis=0).tolist()
    for key, array in arrays.items():
        if array.shape[0] not in (1, times) or array.shape[1] not in (1, samples):
            raise ValueError(
                f"resampled_means: outcomes of {key!r} must have the shape ({times}, {samples}) of the others, or"
                f" one row or column, got {array.shape}."
            )
    of_times, of_samples = _levels(times, samples, seed, replicates)
    means = {key: _resampled(array, of_times, of_samples) for key, array in arrays.items()}
    if times * samples == 1:
        for values in means.values():
            values[1:] = np.nan
    return means


class _Level(NamedTuple):
    """Number of draws of each unit (1 + replicates, units), and factors that stretch deviations (replicates,)."""

    weights: NDArray[np.float64]
    stretch: NDArray[np.float64]


# An experiment asks the same samples about claim after claim.
@lru_cache(maxsize=2)
def _levels(times: int, samples: int, seed: int, replicates: int) -> tuple[_Level, _Level]:
    rng = np.random.default_rng(seed)
    return _level(times, replicates, rng), _level(samples, replicates, rng)


def _level(units: int, replicates: int, rng: np.random.Generator) -> _Level:
    """Weights of every unit: once in the estimate, then drawn with replacement.

    The stretched deviations of a mean of normal units are as wide as Student's interval.
    """
    drawn = rng.multinomial(units, np.full(units, 1 / units), replicates)
    stretch = np.sqrt(units / rng.chisquare(units - 1, replicates)) if units > 1 else np.ones(replicates)
    return _Level(np.concatenate([np.ones((1, units)), drawn]), stretch)


def _outcomes(key: object, array: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(array, np.float64)
    if values.ndim != 2 or not values.size:
        raise ValueError(
            f"resampled_means: outcomes of {key!r} must be an array of repetitions and samples, got the shape"
            f" {values.shape}."
        )
    return values


def _resampled(outcomes: NDArray[np.float64], of_times: _Level, of_samples: _Level) -> Resampled:
    """The estimate and its replicates. The parts of a deviation that are due to one level alone are stretched."""
    by_time = _means_of_samples(outcomes, of_samples.weights)
    once = np.ones_like(by_time)
    weights = of_times.weights if by_time.shape[1] > 1 else once
    both, times, samples = (
        _means_of_times(means, by)
        for means, by in ((by_time, weights), (by_time[:1] * once, weights), (by_time, once))
    )
    estimate = both[0]
    replicates = both.copy()
    replicates[1:] += (of_times.stretch - 1) * (times[1:] - estimate)
    replicates[1:] += (of_samples.stretch - 1) * (samples[1:] - estimate)
    return replicates


def _means_of_samples(outcomes: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """(1 + replicates, T) means over the samples of each repetition, NaN if none of its samples was drawn."""
    there = ~np.isnan(outcomes)
    if outcomes.shape[1] == 1:
        weights = np.ones((len(weights), 1))
    drawn = weights.sum(axis=1)[None] if there.all() else there @ weights.T
    with np.errstate(invalid="ignore"):
        return np.asarray((np.where(there, outcomes, 0) @ weights.T / drawn).T)


def _means_of_times(means: NDArray[np.float64], weights: NDArray[np.float64]) -> Resampled:
    """(1 + replicates,) means over the repetitions that have one; the estimate if none has."""
    counted = weights * ~np.isnan(means)
    with np.errstate(invalid="ignore"):
        of_times = (counted * np.nan_to_num(means)).sum(axis=1) / counted.sum(axis=1)
    return np.asarray(np.where(np.isnan(of_times), of_times[0], of_times))


def interval(resampled: Resampled, level: float = LEVEL) -> Interval:
    """The percentile interval of a resampled quantity."""
    tail = (1 - level) / 2
    low, high = np.quantile(resampled[1:], (tail, 1 - tail)).tolist()
    return Interval(low, high)
