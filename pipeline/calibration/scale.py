"""The scale of the coupled model: the b of L -> b L that makes the coupled probabilities likeliest [I 4].

Each machine was calibrated alone, on two classes. With many classes the coupled probabilities are badly scaled, usually
underconfident. No single machine can correct this; a scale chosen by the likelihood of the coupled model on held-out
samples does.

A few samples may all be separable, even out of fold, and then the likeliest scale is infinite. So the scale has a prior
worth one sample: q^2 / 2 is added to the summed loss, where q is the logarithm of the scale in the unit of the logits.
With hundreds of samples it has next to no effect.

About the same number of held-out samples is drawn from every class. They are weighted to represent the sizes of the
classes: otherwise small, hard classes would determine how confident the model is about all others.

If only a shortlist is coupled, this is the scale of the list: the likeliest on samples whose class is listed, among the
classes of their lists. The rest has a scale and an offset of its own, see `list_mass`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from pairloom.pipeline.calibration.held_out import log_losses
from pairloom.pipeline.calibration.list_mass import choose_mass, samples_stood_for
from pairloom.pipeline.completion.couplers import ScoredSamples
from pairloom.pipeline.completion.shortlist import ONE_SCALE, ListMass, Lists, Shortlists

__all__ = ["ScaleChoice", "choose_scale", "clearly_more", "nearby_scale"]

#: Bounds of q: beyond them, probabilities are nearly even or nearly certain.
LOWEST, HIGHEST = -4.0, 5.0
#: The search starts on every 4th sample, then refines on all of them in steps of this size.
_COARSE, _NEAR = 4, 0.25
#: Most steps of the refinement: enough to get from one bound to the other.
_STEPS = int((HIGHEST - LOWEST) / _NEAR) + 1


class ScaleChoice(NamedTuple):
    """The scale b of L -> b L, its mean log loss, the loss of every sample times its weight (with mean one), and the
    bound that it is at, if any.

    "lower" means that the model does no better than guessing on the samples. If only a shortlist is coupled, ``mass``
    is the mass of the lists, and the losses are computed with it.
    """

    scale: float
    log_loss: float
    losses: NDArray[np.float64]
    bound: Literal["", "lower", "upper"] = ""
    mass: ListMass = ONE_SCALE

    def clearly_above(self, other: ScaleChoice, standard_errors: float = 1.0) -> bool:
        """Whether the log loss is larger than another by more than chance explains."""
        return clearly_more(self.log_loss, self.losses, other.log_loss, other.losses, standard_errors)


def clearly_more(
    log_loss: float,
    losses: NDArray[np.float64],
    least: float,
    least_losses: NDArray[np.float64],
    standard_errors: float = 1.0,
) -> bool:
    """Whether a mean log loss is larger than the least by more than ``standard_errors`` of the difference."""
    spread = (losses - least_losses).std() / np.sqrt(len(losses))
    return bool(log_loss - least > standard_errors * spread)


def choose_scale(
    samples: ScoredSamples,
    y: NDArray[np.integer],
    method: str,
    *,
    weight: NDArray[np.float64] | None = None,
    unit: float = 1.0,
    totals: NDArray[np.float64] | None = None,
    near: float | None = None,
    n_jobs: int | None = None,
) -> ScaleChoice:
    """Choose the scale by the likelihood of the coupled model on held-out samples and the prior; and the list mass.

    Parameters
    ----------
    samples : ScoredSamples
        Held-out samples.
    y : (R,) int array
        Their classes.
    method : str
        The coupling.
    weight : (R,) array, optional
        Their weights.
    unit : float
        The typical size of the logits. The prior is centred at the scale 1 / unit.
    totals : (N,) array, optional
        The number of training samples of every class, or the sum of their weights.
    near : float, optional
        A scale at which the search starts, such as the scale of another coupling.
    n_jobs : int, optional
        Threads.
    """
    if totals is not None and len(y):
        weight = samples_stood_for(y, totals, weight)
    if isinstance(samples, Shortlists):
        return _choose_for_lists(samples, y, method, weight, unit, near, n_jobs)
    return _choose(samples, y, method, weight, unit, near, n_jobs)


def _choose_for_lists(
    samples: Shortlists,
    y: NDArray[np.integer],
    method: str,
    weight: NDArray[np.float64] | None,
    unit: float,
    near: float | None,
    n_jobs: int | None,
) -> ScaleChoice:
    """The scale of the list, by the samples whose class is listed; then the mass of the list, by all samples."""
    lists, place, listed_weight = _listed(samples, y, weight)
    # If no class is listed, the prior decides.
    of_list = ScaleChoice(1 / unit, 0.0, np.empty(0))
    if len(place):
        of_list = _choose(lists, place, method, listed_weight, unit, near, n_jobs)
    mass = choose_mass(samples, y, of_list.scale, weight)
    p = samples._replace(mass=mass).couple(method, of_list.scale, n_jobs)
    losses = _weighted(log_losses(p, y), weight)
    return of_list._replace(log_loss=float(losses.mean()), losses=losses, mass=mass)


def _weighted(losses: NDArray[np.float64], weight: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Losses times weights, which are scaled to mean one."""
    return losses if weight is None else np.asarray(losses * weight / weight.mean())


def _listed(
    samples: Shortlists, y: NDArray[np.integer], weight: NDArray[np.float64] | None
) -> tuple[Lists, NDArray[np.int64], NDArray[np.float64] | None]:
    """The lists that contain the class of their sample, its place in each, and the weights of these samples."""
    place = samples.lists.places(y)
    holds = place >= 0
    return samples.lists.of_samples(holds), place[holds], None if weight is None else weight[holds]


def _choose(
    samples: ScoredSamples,
    y: NDArray[np.integer],
    method: str,
    weight: NDArray[np.float64] | None,
    unit: float,
    near: float | None,
    n_jobs: int | None,
) -> ScaleChoice:
    """The scale of samples whose classes are all coupled."""
    objective = _Objective(samples, y, method, weight, unit, n_jobs)
    if method == "vote":  # counts wins, so no scale changes it
        value, losses = objective.losses(0.0)
        return ScaleChoice(1.0, value, losses)
    if near is not None:
        q = _follow(objective, math.log(near * unit))
    elif len(y) >= 100 * _COARSE:
        coarse = _Objective(
            samples.of_samples(slice(None, None, _COARSE)),
            y[::_COARSE],
            method,
            None if weight is None else weight[::_COARSE],
            unit,
            n_jobs,
        )
        q = _follow(objective, _least(coarse, 0.2))
    else:
        q = _least(objective, 0.04)
    # For q -> -inf the loss tends to log N, the loss of guessing.
    if objective(q) >= math.log(objective.n_classes):
        q = LOWEST
    value, losses = objective.losses(q)
    bound: Literal["", "lower", "upper"] = ""
    if q <= LOWEST + _NEAR / 2 or q >= HIGHEST - _NEAR / 2:
        bound = "lower" if q < 0 else "upper"
    return ScaleChoice(math.exp(q) / unit, value, losses, bound)


def nearby_scale(
    samples: ScoredSamples,
    y: NDArray[np.integer],
    method: str,
    near: float,
    *,
    unit: float = 1.0,
    n_jobs: int | None = None,
) -> float:
    """The likeliest scale of a model after a small change, searched from its previous scale ``near``."""
    if method == "vote":
        return 1.0
    if isinstance(samples, Shortlists):
        samples, y, _ = _listed(samples, y, None)
    objective = _Objective(samples, y, method, None, unit, n_jobs)
    return math.exp(_follow(objective, math.log(near * unit))) / unit


class _Objective:
    """The mean log loss of samples with the prior, as a function of q; every value is computed once."""

    def __init__(
        self,
        samples: ScoredSamples,
        y: NDArray[np.integer],
        method: str,
        weight: NDArray[np.float64] | None,
        unit: float,
        n_jobs: int | None,
    ) -> None:
        self._samples, self._y, self._method, self._n_jobs = samples, y, method, n_jobs
        self._weight, self._unit = weight, unit
        self._losses: dict[float, tuple[float, NDArray[np.float64]]] = {}
        self.n_classes = 0

    def losses(self, q: float) -> tuple[float, NDArray[np.float64]]:
        """The mean log loss without the prior, and the loss of every sample."""
        if q not in self._losses:
            p = self._samples.couple(self._method, math.exp(q) / self._unit, self._n_jobs)
            self.n_classes = p.shape[1]
            losses = _weighted(log_losses(p, self._y), self._weight)
            self._losses[q] = float(losses.mean()), losses
        return self._losses[q]

    def __call__(self, q: float) -> float:
        count = len(self._y) if self._weight is None else float(self._weight.sum())
        return self.losses(q)[0] + q * q / 2 / count


def _least(function: Callable[[float], float], precision: float) -> float:
    """The minimiser of a function of q between the bounds."""
    result = minimize_scalar(
        function, bounds=(LOWEST, HIGHEST), method="bounded", options={"xatol": precision}
    )
    return float(result.x)


def _follow(objective: _Objective, q: float) -> float:
    """The q of least loss, searched from a nearby one.

    Near its minimum the loss is close to a parabola, so three points locate it. As long as an outer one is the least,
    the three points move in its direction.
    """
    q = min(max(q, LOWEST + _NEAR), HIGHEST - _NEAR)
    for _ in range(_STEPS):
        left, middle, right = (objective(q + step) for step in (-_NEAR, 0.0, _NEAR))
        if middle <= min(left, right):
            bend = left - 2 * middle + right
            vertex = q + (_NEAR * (left - right) / (2 * bend) if bend > 0 else 0.0)
            return min(vertex, q, key=objective)
        moved = q - _NEAR if left < right else q + _NEAR
        if not LOWEST < moved - _NEAR / 2 < moved + _NEAR / 2 < HIGHEST:
            return moved
        q = moved
    return q
