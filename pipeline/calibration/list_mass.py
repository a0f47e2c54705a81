"""The mass of the list: the total probability of a shortlist, and the division of the rest among the other classes.

A listed class has p_c = m q_c, and any other p_c = (1 - m) r_c: q is the coupling of the list, r the ranking of the
rest, and m the mass of the list. So the likelihood is a product. The scale of the list matters only through q, on
samples whose class is listed. The scale of the ranking and the offset of the list's log odds matter only through m and
r, which need no coupling: the scale is searched, with the best offset for each value, in R x N operations per step.

Like the scale of the list, both have a prior worth one sample: log(ranking)^2 / 2 + offset^2 / 2 are added to the
summed loss.

The true class is missing from the list more often for small classes, so the share of listed samples depends on the mix
of classes. About the same number of held-out samples is drawn from every class; here they are weighted to represent
the sizes of the classes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit

from pairloom.pipeline.completion.couplers import ScoredSamples
from pairloom.pipeline.completion.shortlist import ONE_SCALE, ListMass, Shortlists
from pairloom.pipeline.threads import pieces

__all__ = ["SAMPLES_AT_ONCE", "MassCheck", "check_mass", "choose_mass", "samples_stood_for"]

#: Samples whose rankings of all classes are processed at once.
SAMPLES_AT_ONCE = 256
#: Bound of |log| of the ranking's scale relative to the list's, and the precision of the search.
_FARTHEST, _PRECISION = 3.0, 0.01


def choose_mass(
    samples: ScoredSamples,
    y: NDArray[np.integer],
    scale: float,
    weight: NDArray[np.float64] | None = None,
    totals: NDArray[np.float64] | None = None,
) -> ListMass:
    """The likeliest mass of the lists of held-out samples, given the scale of the list.

    Without lists it is `ONE_SCALE`, which changes nothing.

    Parameters
    ----------
    samples : ScoredSamples
        Held-out samples.
    y : (R,) int array
        Their classes.
    scale : float
    weight : (R,) array, optional
        Their weights.
    totals : (N,) array, optional
        The number of training samples of every class, or the sum of their weights.
    """
    if not isinstance(samples, Shortlists) or not len(y):
        return ONE_SCALE
    ranked = _Ranked.of(samples, y, weight if totals is None else samples_stood_for(y, totals, weight))

    def loss(log_ranking: float) -> float:
        log_odds, missed = ranked.at(scale * math.exp(log_ranking))
        offset = ranked.best_offset(log_odds)
        return ranked.loss(log_odds + offset, missed) + (log_ranking**2 + offset**2) / 2

    result = minimize_scalar(
        loss, bounds=(-_FARTHEST, _FARTHEST), method="bounded", options={"xatol": _PRECISION}
    )
    ranking = math.exp(float(result.x))
    return ListMass(ranking, ranked.best_offset(ranked.at(scale * ranking)[0]))


def samples_stood_for(
    y: NDArray[np.integer], totals: NDArray[np.float64], weight: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """(R,) weights by which drawn samples of classes y represent all training samples; the mean weight is unchanged.

    Classes without drawn samples are small. They are represented by the smallest classes with drawn samples, as many as
    are missing.

    Examples
    --------
    >>> samples_stood_for(np.array([0, 0, 1]), np.array([20.0, 4.0, 1.0]))
    array([1.2, 1.2, 0.6])
    """
    given = np.bincount(y, weights=weight, minlength=len(totals))
    gave, of_class = np.flatnonzero(given), totals.astype(np.float64)
    smallest = gave[np.argsort(totals[gave], kind="stable")][: len(totals) - len(gave)]
    of_class[smallest] += (totals.sum() - totals[gave].sum()) / max(1, len(smallest))
    weight = np.ones(len(y)) if weight is None else weight
    times = of_class[y] / given[y]
    if times.min() == times.max():  # equal weights: avoid rounding
        return weight
    stood_for = times * weight
    return np.asarray(stood_for * weight.sum() / stood_for.sum())


class MassCheck(NamedTuple):
    """A check of the mass of lists: its mean against the share of samples whose class is listed.

    Attributes
    ----------
    size : int
        The number of listed classes.
    said : float
        The mean mass of the lists.
    found : float
        The share of samples whose class is in their list.
    with_one_scale : float
        The mean mass with a single scale for list and rest, without an offset.
    """

    size: int
    said: float
    found: float
    with_one_scale: float


def check_mass(
    samples: ScoredSamples,
    y: NDArray[np.integer],
    scale: float,
    weight: NDArray[np.float64] | None = None,
    totals: NDArray[np.float64] | None = None,
) -> MassCheck | None:
    """Compare the mean mass of lists with the share of samples whose class is listed; None without lists.

    The parameters are as in `choose_mass`.
    """
    if not isinstance(samples, Shortlists) or not len(y):
        return None
    weight = weight if totals is None else samples_stood_for(y, totals, weight)

    def mean_mass(mass: ListMass) -> float:
        of_list = np.empty(len(y), samples.potentials.dtype)
        for some in pieces(len(y), SAMPLES_AT_ONCE):
            classes = samples.classes[some]
            ranked = mass.ranked(samples.potentials[some], classes, scale)
            of_list[some] = np.take_along_axis(ranked, classes, axis=1).sum(axis=1)
        return float(np.average(of_list, weights=weight))

    found = float(np.average(samples.lists.places(y) >= 0, weights=weight))
    return MassCheck(samples.classes.shape[1], mean_mass(samples.mass), found, mean_mass(ONE_SCALE))


def _log_sums(u: NDArray[np.float32], scale: np.float32) -> NDArray[np.float64]:
    """(R,) log of the sum of exp(scale u) over the columns of u (R, n), some rows at a time."""
    sums = np.empty(len(u))
    for some in pieces(len(u), SAMPLES_AT_ONCE):
        np.exp(u[some] * scale).sum(axis=1, dtype=np.float64, out=sums[some])
    return np.log(sums)


class _Ranked(NamedTuple):
    """The ranking of samples, divided into the listed classes and the rest.

    Attributes
    ----------
    listed, rest : (R, k) and (R, N - k) float32 arrays
        Potentials minus the largest one of each part.
    ahead : (R,) float64 array
        The largest listed potential minus the largest of the rest.
    is_listed : (R,) bool array
        Whether the true class is listed.
    behind : (R,) float64 array
        The largest potential of the rest minus that of the true class; zero if it is listed.
    weight : (R,) float64 array
    """

    listed: NDArray[np.float32]
    rest: NDArray[np.float32]
    ahead: NDArray[np.float64]
    is_listed: NDArray[np.bool_]
    behind: NDArray[np.float64]
    weight: NDArray[np.float64]

    @classmethod
    def of(cls, samples: Shortlists, y: NDArray[np.integer], weight: NDArray[np.float64] | None) -> _Ranked:
        u, n_samples = samples.potentials, len(y)
        others = np.ones(u.shape, bool)
        np.put_along_axis(others, samples.classes, False, axis=1)
        listed, rest = np.take_along_axis(u, samples.classes, axis=1), u[others].reshape(n_samples, -1)
        best, second = listed.max(axis=1), rest.max(axis=1)
        rest -= second[:, None]
        is_listed = samples.lists.places(y) >= 0
        of_true = u[np.arange(n_samples), y].astype(np.float64)
        return cls(
            listed - best[:, None],
            rest,
            best.astype(np.float64) - second,
            is_listed,
            np.where(is_listed, 0.0, second - of_true),
            np.ones(n_samples) if weight is None else weight,
        )

    def at(self, scale: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(R,) log odds of the list against the rest, and the loss of the true class within the rest; 0 if listed."""
        of_list, of_rest = (_log_sums(u, np.float32(scale)) for u in (self.listed, self.rest))
        missed = np.where(self.is_listed, 0.0, scale * self.behind + of_rest)
        return scale * self.ahead + of_list - of_rest, missed

    def best_offset(self, log_odds: NDArray[np.float64]) -> float:
        """The offset of least loss: up to the prior, it makes the summed mass the weight of the listed samples."""
        listed, bound = float(self.weight @ self.is_listed), float(self.weight.sum())

        def slope(offset: float) -> float:
            return float(self.weight @ expit(log_odds + offset)) - listed + offset

        return float(brentq(slope, -bound, bound, xtol=1e-6)) if bound else 0.0

    def loss(self, log_odds: NDArray[np.float64], missed: NDArray[np.float64]) -> float:
        """The summed loss of the list against the rest, and within the rest."""
        against = np.where(self.is_listed, -log_odds, log_odds)
        return float(self.weight @ (np.logaddexp(0, against) + missed))
