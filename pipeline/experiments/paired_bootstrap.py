"""How sure a mean is: a paired bootstrap over repetitions and test samples.

Outcomes are arrays (repetitions, samples), such as whether a model gets a sample wrong. Both are a choice among many:
other class draws or graphs, and other test samples. So both are resampled, independently of each other, and all
outcomes with the same weights: a difference of two means has an interval of its own, much narrower than those of the
means.

Resampling rows and columns independently counts the noise of single entries more than once, so intervals are a little
too wide where nothing else varies [O]. Resampled means are also less spread than means, which matters for a handful of
units: their deviations are multiplied so that those of normal ones would follow Student's distribution.

References
----------
.. [O] A. B. Owen (2007). "The pigeonhole bootstrap". The Annals of Applied Statistics 1, 386-411.
   doi:10.1214/07-AOAS122
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Key = TypeVar("Key")

#: A quantity and what it might have been: the estimate first, then its value in every replicate. Plain arithmetic on
#: such arrays gives differences, ratios and so on, resampled together.
Resampled: TypeAlias = NDArray[np.float64]

REPLICATES = 2000
LEVEL = 0.95


class Interval(NamedTuple):
    """Where a quantity lies at some level of confidence; NaN where nothing can be said."""

    low: float
    high: float


def resampled_means(
    outcomes: Mapping[Key, ArrayLike], seed: int = 0, replicates: int = REPLICATES
) -> dict[Key, Resampled]:
    """Means of outcomes over samples, then over repetitions, and the same means of resampled ones.

    Parameters
    ----------
    outcomes : mapping of (T, R) arrays
        Of T repetitions and R test samples, NaN where a sample has no part in a repetition. An array with one row is of
        a model that is the same in every repetition. With R = 1, every repetition has its own samples and is summed up
        in one number; with T = 1, only the samples are resampled.
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
    rng = np.random.default_rng(seed)
    of_times, of_samples = (_weights(size, replicates, rng) for size in (times, samples))
    stretch = _stretch(min((size for size in (times, samples) if size > 1), default=1), replicates, rng)
    return {key: _stretched(_means(array, of_times, of_samples), stretch) for key, array in arrays.items()}


def _outcomes(key: object, array: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(array, np.float64)
    if values.ndim != 2 or not values.size:
        raise ValueError(
            f"resampled_means: outcomes of {key!r} must be an array of repetitions and samples, got the shape"
            f" {values.shape}."
        )
    return values


def _weights(size: int, replicates: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """(1 + replicates, size) how often each unit is drawn: once in the estimate, then at random with replacement."""
    drawn = rng.multinomial(size, np.full(size, 1 / size), replicates)
    return np.concatenate([np.ones((1, size)), drawn])


def _means(
    outcomes: NDArray[np.float64], of_times: NDArray[np.float64], of_samples: NDArray[np.float64]
) -> Resampled:
    """Mean over the samples of every repetition, then over the repetitions, by each line of weights."""
    there = ~np.isnan(outcomes)
    if outcomes.shape[1] == 1:
        of_samples = np.ones((len(of_samples), 1))
    weight = there @ of_samples.T if not there.all() else of_samples.sum(axis=1)[None]
    if outcomes.shape[0] == 1:
        of_times = np.ones((len(of_times), 1))
    with np.errstate(invalid="ignore"):
        by_time = (np.where(there, outcomes, 0) @ of_samples.T / weight).T
        # A repetition of which no sample was drawn has no mean, and no weight either.
        counted = of_times * ~np.isnan(by_time)
        means = (counted * np.nan_to_num(by_time)).sum(axis=1) / counted.sum(axis=1)
    return np.where(np.isnan(means), means[0], means)


def _stretch(units: int, replicates: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Factors of the deviations of replicates that make means of a few normal units as wide as Student's interval."""
    if units < 2:
        return np.full(replicates, np.nan)
    return np.asarray(np.sqrt(units / rng.chisquare(units - 1, replicates)))


def _stretched(means: Resampled, stretch: NDArray[np.float64]) -> Resampled:
    return np.concatenate([means[:1], means[0] + stretch * (means[1:] - means[0])])


def interval(resampled: Resampled, level: float = LEVEL) -> Interval:
    """The percentile interval of a resampled quantity."""
    tail = (1 - level) / 2
    low, high = np.quantile(resampled[1:], (tail, 1 - tail)).tolist()
    return Interval(low, high)
