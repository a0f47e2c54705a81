"""The mass of the list: how much probability a shortlist has together, and how the rest is shared out.

A listed class has p_c = m q_c, another one p_c = (1 - m) r_c: q is the coupling of the list, r the ranking of the rest,
and m the mass of the list. So the likelihood is a product. The scale of the list matters only through q, on samples
whose class is listed. The scale of the ranking and the offset of the list's log odds matter only through m and r, which
need no coupling: a search for the one, and the best of the other for each value, cost R x N operations a step.

Both have a prior worth one sample, as the scale has: log(ranking)^2 / 2 + offset^2 / 2 are added to the summed loss.

How often a class is listed depends on the mix of the classes: small ones are missed more often. The held-out samples
are drawn alike in every class, so here each stands for as many samples as its class has for every one that was drawn.
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

#: Samples whose rankings of all classes are worked on at once.
SAMPLES_AT_ONCE = 256
#: The largest logarithm of the ranking's scale, relative to that of the list, of either sign, and how precise it is.
_FARTHEST, _PRECISION = 3.0, 0.01


def choose_mass(
    samples: ScoredSamples,
    y: NDArray[np.integer],
    scale: float,
    weight: NDArray[np.float64] | None = None,
    totals: NDArray[np.float64] | None = None,
) -> ListMass:
    """The likeliest mass of the lists of held-out samples, given the scale of the list; even without lists.

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
        The training samples of every class, or the sum of their weights.
    """
    if not isinstance(samples, Shortlists) or not len(y):
        return ONE_SCALE
    ranked = _Ranked.of(samples, y, weight if totals is None else samples_stood_for(y, totals, weight))

    def loss(log_ranking: float) -> float:
        log_odds, missed = ranked.at(scale * math.exp(log_ranking))
        offset = ranked.best_offset(log_odds)
        return ranked.loss(log_odds + offset, missed) + (log_ranking**2 + offset**2) / 2

    found = minimize_scalar(
        loss, bounds=(-_FARTHEST, _FARTHEST), method="bounded", options={"xatol": _PRECISION}
    )
    ranking = math.exp(float(found.x))
    return ListMass(ranking, ranked.best_offset(ranked.at(scale * ranking)[0]))


def samples_stood_for(
    y: NDArray[np.integer], totals: NDArray[np.float64], weight: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """(R,) how many samples each drawn sample of class y stands for, with mean one (or that of the weights).

    Classes that gave none, which are small, are stood for by as many of the smallest that did.

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
    if times.min() == times.max():  # no rounding where all stand for as many
        return weight
    stood_for = times * weight
    return np.asarray(stood_for * weight.sum() / stood_for.sum())


class MassCheck(NamedTuple):
    """The mass that a model says for its lists, and the share of samples whose class is listed.

    Attributes
    ----------
    size : int
        How many classes are listed.
    said : float
        The mean mass of the lists.
    found : float
        The share of samples whose class is in their list.
    with_one_scale : float
        The mean mass as one scale for list and rest would have it: without an offset and a scale of the ranking.
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
    """Compare the mass that samples have in their lists with how often their class is listed; None without lists.

    Parameters are those of `choose_mass`.
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
    """(R,) the logarithm of the sum of exp(scale u) over the columns of u (R, n), some rows at a time."""
    sums = np.empty(len(u))
    for some in pieces(len(u), SAMPLES_AT_ONCE):
        np.exp(u[some] * scale).sum(axis=1, dtype=np.float64, out=sums[some])
    return np.log(sums)


class _Ranked(NamedTuple):
    """The ranking of samples, cut into the listed classes and the rest, each below its largest potential.

    Attributes
    ----------
    listed, rest : (R, k) and (R, N - k) float32 arrays
        Potentials minus the largest of them.
    ahead : (R,) float64 array
        By how much the best listed class is ahead of the best of the rest.
    is_listed : (R,) bool array
        Whether the true class is listed.
    behind : (R,) float64 array
        By how much the true class is behind the best of the rest; zero where it is listed.
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
        """(R,) log odds of the list against the rest, and the loss of the true class among the rest; zero if listed."""
        of_list, of_rest = (_log_sums(u, np.float32(scale)) for u in (self.listed, self.rest))
        missed = np.where(self.is_listed, 0.0, scale * self.behind + of_rest)
        return scale * self.ahead + of_list - of_rest, missed

    def best_offset(self, log_odds: NDArray[np.float64]) -> float:
        """The offset of least loss: the sum of the masses is then that of the listed samples, less the prior."""
        listed, bound = float(self.weight @ self.is_listed), float(self.weight.sum())

        def slope(offset: float) -> float:
            return float(self.weight @ expit(log_odds + offset)) - listed + offset

        return float(brentq(slope, -bound, bound, xtol=1e-6)) if bound else 0.0

    def loss(self, log_odds: NDArray[np.float64], missed: NDArray[np.float64]) -> float:
        """The summed loss of list against rest, and of the rest."""
        against = np.where(self.is_listed, -log_odds, log_odds)
        return float(self.weight @ (np.logaddexp(0, against) + missed))
