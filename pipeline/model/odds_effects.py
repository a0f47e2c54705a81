"""The effects of the machines on the coupled odds of two classes. The effects sum to the odds.

The log odds F of classes a and b are a function of the logits l of the machines. At l_0, where no machine knows
anything, the odds are even, F(l_0) = 0. The effect of machine e is its part of the straight path from l_0 to l,

    effect_e = (l_e - l_0e) * integral over t from 0 to 1 of dF/dl_e at l_0 + t (l - l_0),

and the effects sum to F(l). Moving along the path is the same as raising the scale of the coupled model from 0 to its
value. A coupling that is linear in the logits (`normal`, `linear`) has a constant gradient, and the effects are its
terms. Among all attributions of a nonlinear function this one (Aumann and Shapley) gives equal machines equal effects
and does not depend on splitting a machine into several. The gradient alone does not sum to the odds. Neither does
leaving out one pair at a time, for which another graph, possibly disconnected, would have to be completed.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from pairloom.pipeline.calibration.shortlist_gradient import add_differences, pass_on_blocks
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.completion_kernels import complete_blocks, divergences
from pairloom.pipeline.completion.couplers import CodeCoupler, neutral_shift
from pairloom.pipeline.completion.shortlist import ONE_SCALE, ListMass, top_classes
from pairloom.pipeline.coupling.codes.couple_code import check_machine_weights
from pairloom.pipeline.coupling.codes.gradient import CODE_GRADIENTS, TOLERANCE
from pairloom.pipeline.coupling.pairs.gradient import gradient_of_odds, log_probabilities
from pairloom.pipeline.coupling.pairs.wlw2_kernels import CLIP

__all__ = ["OddsEffects", "effects_of_columns", "effects_of_pairs", "pair_coefficients"]

Floats: TypeAlias = NDArray[np.float64]
_NODES, _SHARES = (0.5 * values for values in np.polynomial.legendre.leggauss(8))
_NODES = _NODES + 0.5
#: The path is divided until the effects sum to the odds this closely, relative to 1 + |odds|,
_PRECISION = 1e-10
#: or until the maximum number of cuts; with hundreds of classes it is lower, to take some seconds only.
_MOST_CUTS, _FEWEST_CUTS, _WORK = 300, 4, 2e8
#: The methods that clip logits to a range.
_CLIPPED = ("wlw2", "bradley_terry")
#: Smaller slopes, relative to the largest, are rounding errors.
_NOTHING = 1e-13


class OddsEffects(NamedTuple):
    """The odds of two classes, and their derivatives by the logits of the machines.

    Attributes
    ----------
    odds : float
        log p_a / p_b.
    slopes : (E,) array
        The mean of dF/dl_e along the path to the sample: ``slopes @ (l - neutral) + offset`` are the odds.
    neutral : (E,) array
        The logits of machines that know nothing: zero for pairs.
    offset : float
        The part of the odds that belongs to no machine: the offset of the list's log odds, if one of the classes is
        listed and the other is not.
    """

    odds: float
    slopes: Floats
    neutral: Floats
    offset: float = 0.0


class OddsPath(Protocol):
    """Odds as a function of the position t on the path, from 0, where nothing is known, to 1 at the sample."""

    @property
    def direction(self) -> Floats:
        """(P,) the vector that is multiplied by t."""

    @property
    def kinks(self) -> Floats:
        """The values of t at which the slopes jump, as far as they are known."""

    def odds(self, t: Floats) -> Floats:
        """(T,) log odds."""

    def slopes(self, t: Floats) -> Floats:
        """(T, P) derivatives of the odds by the vector that is multiplied by t."""


def effects_of_pairs(
    logits: Floats,
    a: int,
    b: int,
    completion: Completion,
    method: str,
    shortlist: int | None = None,
    mass: ListMass = ONE_SCALE,
    possible: NDArray[np.bool_] | None = None,
) -> OddsEffects:
    """The effects of trained pairs on the coupled odds of classes a and b.

    Parameters
    ----------
    logits : (E,) array
        Logits of the trained pairs for one sample, in the order of ``completion.edges``.
    a, b : int
        Two classes.
    completion : Completion
    method : {"normal", "stratified", "wlw2", "bradley_terry"}
        The coupling.
    shortlist : int, optional
        Number of classes that are coupled; None means all of them.
    mass : ListMass
        The calibrated division of probability between the list and the rest.
    possible : (N,) bool array, optional
        The classes that may be listed; by default all.
    """
    potentials = _potentials(logits, completion)
    path = PairsPath.of(logits, potentials, a, b, completion, method, shortlist, mass.ranking, possible)
    mean = mean_slopes(path)
    k = len(path.listed)
    G, of_potentials = 2 * mean[: k * k].reshape(k, k), mass.ranking * mean[k * k :]
    slopes = _passed_on(G, of_potentials, path.listed, completion)
    offset = mass.offset * path.lists_alone
    return OddsEffects(float(path.odds(np.ones(1))[0]) + offset, slopes, np.zeros(len(logits)), offset)


def effects_of_columns(logits: Floats, a: int, b: int, coupler: CodeCoupler, method: str) -> OddsEffects:
    """The effects of machines on sets of classes on the coupled odds of classes a and b.

    ``logits`` (m,) are those of one sample, and ``method`` is one of "bradley_terry", "linear" and "closed_form".
    """
    path = ColumnsPath(logits, a, b, coupler, method)
    return OddsEffects(float(path.odds(np.ones(1))[0]), mean_slopes(path), path.neutral)


def pair_coefficients(a: int, b: int, completion: Completion) -> Floats:
    """(E,) coefficients of the trained pairs: ``coefficients @ l`` is the completed logit of classes a and b."""
    G = np.array([[0.0, 1.0], [-1.0, 0.0]])
    return _passed_on(G, np.zeros(completion.n_classes), np.array([a, b]), completion)


def mean_slopes(path: OddsPath) -> Floats:
    """(P,) the mean of the slopes along the path, by adaptive quadrature.

    The odds at both ends of a stretch give its error, so the stretch with the largest error is halved. The path is
    first cut where the method begins to clip a logit, which makes the slopes jump.
    """
    # The operations of a cut grow with the cube of the number of coupled classes.
    most_cuts = int(np.clip(_WORK / len(path.direction) ** 1.5, _FEWEST_CUTS, _MOST_CUTS))
    ends = np.unique(np.concatenate([[0, 0.5, 1], path.kinks if len(path.kinks) < most_cuts else []]))
    values = path.odds(ends)
    stretches = [_Stretch.over(path, low, high, *odds) for (low, high), odds in _neighbours(ends, values)]
    heapq.heapify(stretches)
    enough = _PRECISION * (1 + abs(float(values[-1])))
    for _ in range(most_cuts):
        if sum(stretch.error for stretch in stretches) <= enough:
            break
        worst = heapq.heappop(stretches)
        middle = np.array([(worst.low + worst.high) / 2])
        at = float(path.odds(middle)[0])
        heapq.heappush(stretches, _Stretch.over(path, worst.low, float(middle[0]), worst.odds_low, at))
        heapq.heappush(stretches, _Stretch.over(path, float(middle[0]), worst.high, at, worst.odds_high))
    return np.asarray(sum(stretch.slopes for stretch in stretches))


def _neighbours(ends: Floats, values: Floats) -> zip[tuple[tuple[float, float], tuple[float, float]]]:
    return zip(pairwise(ends.tolist()), pairwise(values.tolist()), strict=True)


@dataclass(frozen=True, eq=False)
class _Stretch:
    """A stretch of the path, the integral of the slopes over it, and how far that is from the gain in odds."""

    low: float
    high: float
    odds_low: float
    odds_high: float
    slopes: Floats
    error: float

    @classmethod
    def over(cls, path: OddsPath, low: float, high: float, odds_low: float, odds_high: float) -> _Stretch:
        slopes = (high - low) * (_SHARES @ path.slopes(low + (high - low) * _NODES))
        error = abs(odds_high - odds_low - float(slopes @ path.direction))
        return cls(low, high, odds_low, odds_high, slopes, error)

    def __lt__(self, other: _Stretch) -> bool:
        return self.error > other.error


@dataclass(frozen=True, eq=False)
class PairsPath:
    """Odds by coupling the listed classes; the other classes have their probabilities by the ranking.

    Attributes
    ----------
    L : (k, k) array
        Completed logits of the listed classes.
    potentials : (N,) array
        The ranking of all classes, at its own scale.
    listed : (k,) int array
        The classes that are coupled, ascending.
    a, b : int
    method : str
    weights : (k, k) array, optional
    """

    L: Floats
    potentials: Floats
    listed: NDArray[np.int64]
    a: int
    b: int
    method: str
    weights: Floats | None

    @classmethod
    def of(
        cls,
        logits: Floats,
        potentials: Floats,
        a: int,
        b: int,
        completion: Completion,
        method: str,
        shortlist: int | None,
        ranking: float,
        possible: NDArray[np.bool_] | None = None,
    ) -> PairsPath:
        """The odds of one sample with these logits (E,) of the trained pairs, and this scale of the ranking."""
        n = completion.n_classes
        # Ranked in float32, as at prediction: the list is the same.
        ranked = potentials.astype(np.float32)[None]
        if possible is not None:
            ranked = np.where(possible, ranked, np.float32(-np.inf))
            shortlist = min(n if shortlist is None else shortlist, int(possible.sum()))
        listed = np.arange(n) if shortlist is None else top_classes(ranked, shortlist)[0]
        tensor = np.empty((len(listed), len(listed), 1))
        graph = (completion.offsets, completion.neighbours, completion.edge_of)
        complete_blocks(logits[None], listed[None], potentials[None], *graph, tensor)
        weights = None if completion.weights is None else completion.weights[np.ix_(listed, listed)]
        return cls(tensor[:, :, 0], ranking * potentials, listed, a, b, method, weights)

    @property
    def lists_alone(self) -> int:
        """1 if a is listed and b is not, -1 for the reverse, else 0."""
        return int(self._at(self.a).any()) - int(self._at(self.b).any())

    @property
    def direction(self) -> Floats:
        """The logits of the list, and the potentials."""
        return np.concatenate([self.L.ravel(), self.potentials])

    @cached_property
    def kinks(self) -> Floats:
        """Where a logit leaves the range to which methods on probabilities clip it."""
        clipped = np.unique(np.abs(self.L[np.abs(self.L) > CLIP]))
        # No method clips the logit of just two classes.
        return CLIP / clipped if self.method in _CLIPPED and len(self.L) > 2 else np.empty(0)

    def odds(self, t: Floats) -> Floats:
        """A listed class has p_c = s q_c, where s is the share of the list by the ranking, and q its coupling."""
        share = logsumexp(t[:, None] * self.potentials[self.listed], axis=1)
        log_q = self._log_q(t)
        odds = np.zeros(len(t))
        for c, sign in ((self.a, 1), (self.b, -1)):
            of_class = log_q @ self._at(c) + share if self._at(c).any() else t * self.potentials[c]
            odds += sign * of_class
        return odds

    def slopes(self, t: Floats) -> Floats:
        """Derivatives by the logits of the list, where each occurs twice, and by the potentials."""
        log_q, of_potentials = self._log_q(t), np.zeros((len(t), len(self.potentials)))
        target = np.zeros((len(t), len(self.listed)))
        for c, sign in ((self.a, 1), (self.b, -1)):
            if self._at(c).any():
                target += sign * (self._at(c) - np.exp(log_q))
                of_potentials[:, self.listed] += sign * softmax(
                    t[:, None] * self.potentials[self.listed], axis=1
                )
            else:
                of_potentials[:, c] += sign
        G = gradient_of_odds(t[:, None, None] * self.L, log_q, target, self.method, self.weights)
        return np.hstack([G.reshape(len(t), -1) / 2, of_potentials])

    def _log_q(self, t: Floats) -> Floats:
        return log_probabilities(t[:, None, None] * self.L, self.method, self.weights)

    def _at(self, c: int) -> NDArray[np.bool_]:
        return np.asarray(self.listed == c)


@dataclass(frozen=True, eq=False)
class ColumnsPath:
    """Odds by coupling machines on sets of classes; the path starts at logits that make all classes equally likely."""

    logits: Floats
    a: int
    b: int
    coupler: CodeCoupler
    method: str

    @cached_property
    def neutral(self) -> Floats:
        """(m,) logits of machines that know nothing."""
        return neutral_shift(self.coupler.code.matrix, 0.0, "platt", self.method)

    @property
    def direction(self) -> Floats:
        """From neutral logits to those of the sample."""
        return self.logits - self.neutral

    @property
    def kinks(self) -> Floats:
        """None: adaptive cuts find them."""
        return np.empty(0)

    def odds(self, t: Floats) -> Floats:
        """(T,) log odds."""
        p = self._p(self._at(t))
        return np.asarray(np.log(p[:, self.a] / p[:, self.b]))

    def slopes(self, t: Floats) -> Floats:
        """(T, m) derivatives of the difference of two log probabilities."""
        L, coupler = self._at(t), self.coupler
        p, n_q = (
            self._p(L),
            np.broadcast_to(check_machine_weights(coupler.weights, self.method, L.T.shape), L.T.shape),
        )
        barrier = coupler.barrier if self.method == "bradley_terry" else 0.0
        of_a, of_b = (
            CODE_GRADIENTS[self.method](L, p, np.full(len(t), c), coupler.code.matrix, n_q.T, barrier)
            for c in (self.a, self.b)
        )
        return of_a - of_b

    def _at(self, t: Floats) -> Floats:
        return np.asarray(self.neutral + t[:, None] * self.direction)

    def _p(self, L: Floats) -> Floats:
        return np.asarray(
            self.coupler.couple(np.ascontiguousarray(L.T), self.method, tol=TOLERANCE), np.float64
        )


def _potentials(logits: Floats, completion: Completion) -> Floats:
    """(N,) the ranking of all classes, in double precision."""
    sums = np.empty((1, completion.n_classes))
    divergences(logits[None], completion.edges, sums)
    return _solved(sums[0], completion)


def _solved(sums: Floats, completion: Completion) -> Floats:
    """The solution of a linear system with the Laplacian of the model graph; ``sums`` must sum to zero."""
    return np.asarray(completion.ranking.solve(sums))


def _passed_on(G: Floats, of_potentials: Floats, listed: NDArray[np.int64], completion: Completion) -> Floats:
    """(E,) derivatives by the trained pairs, from those by the pairs of a list (k, k) and by the potentials (N,)."""
    of_edges, potentials = np.zeros((1, len(completion.edges))), of_potentials[None].copy()
    graph = (completion.offsets, completion.neighbours, completion.edge_of)
    pass_on_blocks(G[None], listed[None], *graph, of_edges, potentials)
    if potentials.any():
        add_differences(_solved(potentials[0], completion)[None], completion.edges, of_edges)
    # On a tree, pairs off the path between the classes have a coefficient of zero, except for rounding errors.
    return np.where(np.abs(of_edges[0]) > _NOTHING * np.abs(of_edges).max(initial=0), of_edges[0], 0.0)
