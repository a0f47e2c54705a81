"""Coupled calibration: one scale for the coupled model, or also a slope and a shift per machine.

Both maximise the likelihood of the coupled probabilities of held-out samples [I 4], with priors.

References
----------
.. [I] S. Ikeda (2010). "Combining binary machines for multi-class: statistical model and parameter estimation" (in
   Japanese). Proceedings of the Institute of Statistical Mathematics 58, 157-166.
   https://www.ism.ac.jp/editsec/toukei/abstract/58-2j.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from pairloom.pipeline.calibration.held_out import HeldOutSamples, mean_log_loss
from pairloom.pipeline.calibration.scale import ScaleChoice, choose_scale
from pairloom.pipeline.completion.couplers import Coupler
from pairloom.pipeline.completion.shortlist import ONE_SCALE, ListMass, Shortlists
from pairloom.pipeline.machines.pair_calibration import SlopePrior, Slopes, slope_prior, slopes_of
from pairloom.pipeline.machines.settings import Calibration
from pairloom.pipeline.user_warnings import warn_user

__all__ = [
    "FEW_SAMPLES",
    "CoupledCalibration",
    "CoupledLevel",
    "EdgeCalibration",
    "JudgedCalibration",
    "PairSlopes",
    "best_calibration",
    "calibrate_coupled",
    "calibrate_edges",
    "calibrate_scale",
    "judge_couplings",
]


#: One scale for all edges; every edge's slope and shift as well; or neither.
CoupledLevel = Literal["scale", "edges", "none"]


#: With fewer held-out samples, choices need stronger evidence.
FEW_SAMPLES = 100


class PairSlopes(NamedTuple):
    """The slope of every pair before the scale of the coupled model, and the distribution of slopes."""

    slopes: Slopes
    prior: SlopePrior

    @classmethod
    def of_profiles(cls, profile: NDArray[np.float32]) -> PairSlopes:
        """The slopes of all pairs of a model, from their profiles."""
        prior = slope_prior(profile)
        return cls(slopes_of(profile, prior), prior)

    def followed_by(self, profile: NDArray[np.float32]) -> PairSlopes:
        """These slopes, then the slopes of more pairs, from their profiles and the same distribution."""
        return self._replace(slopes=self.slopes.followed_by(slopes_of(profile, self.prior)))

    def replaced(self, edges: NDArray[np.integer], profile: NDArray[np.float32]) -> PairSlopes:
        """The same with fresh slopes for some pairs, from their profiles."""
        slopes = Slopes(*(values.copy() for values in self.slopes))
        for values, fresh in zip(slopes, slopes_of(profile, self.prior), strict=True):
            values[edges] = fresh
        return self._replace(slopes=slopes)

    def of_edges(self, edges: NDArray[np.integer] | NDArray[np.bool_]) -> PairSlopes:
        """The slopes of some pairs, in this order."""
        return self._replace(slopes=self.slopes.at(edges))


class CoupledCalibration(NamedTuple):
    """The logit l of edge e becomes ``slope[e] * l + shift[e]``.

    Attributes
    ----------
    level : {"scale", "edges", "none"}
    scale : float
        The scale of the coupled model.
    slope, shift : (E,) float64
        At level "scale", the slope is the scale, times the slope of the pair if pairs have slopes.
    log_loss : float, optional
        The log loss of the held-out samples at the scale, if it has just been chosen.
    pairs : PairSlopes, optional
        The slopes of the pairs before the scale, for ``calibration="slopes"``.
    mass : ListMass
        How a shortlist and the rest share the probability.
    """

    level: CoupledLevel
    scale: float
    slope: NDArray[np.float64]
    shift: NDArray[np.float64]
    log_loss: float | None = None
    pairs: PairSlopes | None = None
    mass: ListMass = ONE_SCALE

    @classmethod
    def uniform(
        cls, level: CoupledLevel, scale: float, n_edges: int, pairs: PairSlopes | None = None
    ) -> CoupledCalibration:
        """The same scale for every edge, times the slope of the edge if ``pairs`` are given."""
        slope = np.full(n_edges, scale) if pairs is None else scale * pairs.slopes.slope
        return cls(level, scale, slope, np.zeros(n_edges), pairs=pairs)

    @classmethod
    def scaled(
        cls,
        level: CoupledLevel,
        scale: float,
        coupler: Coupler,
        calibration: str,
        coupling: str,
        pairs: PairSlopes | None = None,
    ) -> CoupledCalibration:
        """The same scale for every machine, with the shifts that machines on sets of classes need."""
        uniform = cls.uniform(level, scale, coupler.n_machines, pairs)
        return uniform._replace(shift=coupler.shift(scale, calibration, coupling))

    def extended(self, profile: NDArray[np.float32]) -> CoupledCalibration:
        """The calibration after edges with these profiles are appended to the model."""
        n_edges = len(self.slope) + len(profile)
        pairs = None if self.pairs is None else self.pairs.followed_by(profile)
        more = self.uniform(self.level, self.scale, n_edges, pairs)._replace(mass=self.mass)
        kept = len(self.slope)
        slope = np.concatenate([self.slope, more.slope[kept:]])
        return more._replace(slope=slope, shift=np.concatenate([self.shift, more.shift[kept:]]))

    def retrained(self, edges: NDArray[np.integer], profile: NDArray[np.float32]) -> CoupledCalibration:
        """The calibration after some edges are retrained and have these profiles."""
        if self.pairs is None:
            return self
        pairs, slope = self.pairs.replaced(edges, profile), self.slope.copy()
        slope[edges] = self.scale * pairs.slopes.slope[edges]
        return self._replace(slope=slope, pairs=pairs, log_loss=None)

    def of_edges(self, edges: NDArray[np.integer] | NDArray[np.bool_]) -> CoupledCalibration:
        """The calibration of some edges, in this order."""
        pairs = None if self.pairs is None else self.pairs.of_edges(edges)
        return self._replace(slope=self.slope[edges], shift=self.shift[edges], log_loss=None, pairs=pairs)

    def applied(self) -> CoupledCalibration:
        """The identity, for logits to which this calibration has been applied."""
        ones, zeros = np.ones_like(self.slope), np.zeros_like(self.shift)
        return self._replace(slope=ones, shift=zeros, pairs=None)

    def rescaled(self, scale: float, mass: ListMass) -> CoupledCalibration:
        """The same with another scale and list mass; unchanged if the level is "none"."""
        if self.level == "none":
            return self
        return self.uniform(self.level, scale, len(self.slope), self.pairs)._replace(mass=mass)

    def held_out(self, logits: NDArray[np.float32], parts: NDArray[np.integer]) -> NDArray[np.float32]:
        """(E, R) calibrated logits of training samples, with slopes estimated without the part of the sample."""
        if self.pairs is None:
            slope, shift = (of[:, None].astype(np.float32) for of in (self.slope, self.shift))
            return np.asarray(logits * slope + shift)
        sloped = self.pairs.slopes.of_parts(logits, parts) * np.float32(self.scale)
        return np.asarray(sloped + self.shift[:, None].astype(np.float32))


class JudgedCalibration(NamedTuple):
    """A calibration of the trained machines with a coupling, and the best scale for both."""

    calibration: Calibration
    coupling: str
    choice: ScaleChoice
    pairs: PairSlopes | None = None

    def row(self) -> dict[str, Any]:
        """The row of a table of calibrations."""
        return {
            "calibration": self.calibration,
            "coupling": self.coupling,
            "log_loss": self.choice.log_loss,
        }


def best_calibration(judged: Sequence[JudgedCalibration]) -> JudgedCalibration:
    """The first calibration and coupling whose held-out log loss is not clearly above the least one.

    Clearly above means by a standard error of the difference, computed sample by sample. With few samples, the least
    loss may be due to chance, so three standard errors are required.
    """
    least = min(judged, key=lambda one: one.choice.log_loss)
    errors = 3.0 if len(least.choice.losses) < FEW_SAMPLES else 1.0
    return next(one for one in judged if not one.choice.clearly_above(least.choice, errors))


def judge_couplings(
    judged: Sequence[JudgedCalibration],
    held_out_by: Callable[[Calibration], HeldOutSamples],
    coupler: Coupler,
    couplings: Sequence[str],
    n_jobs: int | None = None,
) -> list[JudgedCalibration]:
    """The judged calibrations, then the same with the other ``couplings``.

    With shortlists, where coupling takes longer, only the best calibration is judged with other couplings. On a tree
    logits cannot contradict each other and all couplings agree, so no others are judged.

    Parameters
    ----------
    judged : sequence of JudgedCalibration
    held_out_by : callable
        ``held_out_by(calibration)`` returns the held-out samples with this calibration.
    coupler : Coupler
    couplings : sequence of str
    n_jobs : int, optional
        Threads.
    """
    best = best_calibration(judged)
    lists = isinstance(held_out_by(best.calibration).samples, Shortlists)
    others = couplings if coupler.n_machines >= coupler.n_classes else ()
    return [
        *judged,
        *(
            one._replace(coupling=coupling, choice=_choice_near(one, held_out_by, coupling, n_jobs))
            for one in ([best] if lists else judged)
            for coupling in others
            if coupling != one.coupling
        ),
    ]


def _choice_near(
    judged: JudgedCalibration,
    held_out_by: Callable[[Calibration], HeldOutSamples],
    coupling: str,
    n_jobs: int | None,
) -> ScaleChoice:
    """The scale of a calibration with another coupling, searched near its scale with the first one."""
    return calibrate_scale(held_out_by(judged.calibration), coupling, n_jobs, judged.choice.scale)


def calibrate_coupled(
    held_out: HeldOutSamples,
    coupler: Coupler,
    coupling: str,
    level: Literal["scale", "edges"],
    *,
    calibration: str = "platt",
    pairs: PairSlopes | None = None,
    choice: ScaleChoice | None = None,
    n_jobs: int | None = None,
) -> CoupledCalibration:
    """Choose the scale of the coupled model, and at level "edges", from edge logits, each edge's slope and shift.

    ``calibration`` is the calibration of the machines, ``pairs`` are the slopes that the samples were scored with, and
    ``choice`` is the scale, if it has been chosen before.
    """
    choice = calibrate_scale(held_out, coupling, n_jobs) if choice is None else choice
    _warn_of_bound(choice, len(held_out.classes))
    scaled = CoupledCalibration.scaled(level, choice.scale, coupler, calibration, coupling, pairs)
    scaled = scaled._replace(log_loss=choice.log_loss, mass=choice.mass)
    if level == "scale":
        return scaled
    y, weight, edge_logits = held_out.classes, held_out.weight, held_out.edge_logits
    assert edge_logits is not None
    slope, shift, _ = calibrate_edges(
        edge_logits, y, coupler, coupling, scaled.scale, start=scaled.shift, weight=weight
    )
    return scaled._replace(slope=slope, shift=shift)


def calibrate_scale(
    held_out: HeldOutSamples, coupling: str, n_jobs: int | None = None, near: float | None = None
) -> ScaleChoice:
    """Choose the scale of the coupled model. The search starts near ``near``, if given."""
    return choose_scale(
        held_out.samples,
        held_out.classes,
        coupling,
        weight=held_out.weight,
        unit=held_out.unit,
        totals=held_out.totals,
        near=near,
        n_jobs=n_jobs,
    )


def _warn_of_bound(choice: ScaleChoice, n_samples: int) -> None:
    if choice.bound:
        why = {
            "lower": "the model does no better than guessing on them, and probabilities are nearly even. Check that the"
            " labels belong to these rows",
            "upper": "the model tells all of them apart, and probabilities are nearly certain",
        }[choice.bound]
        warn_user(
            f"The scale of the coupled model, from {n_samples} held-out samples, is at its {choice.bound} bound:"
            f" {why}.",
            UserWarning,
        )


class EdgeCalibration(NamedTuple):
    """Edge e's logit l becomes ``slope[e] * l + shift[e]``."""

    slope: NDArray[np.float64]
    shift: NDArray[np.float64]
    log_loss: float


def calibrate_edges(
    edge_logits: NDArray[np.float32],
    y: NDArray[np.integer],
    coupler: Coupler,
    method: str,
    scale: float,
    *,
    start: NDArray[np.float64] | None = None,
    weight: NDArray[np.float64] | None = None,
    shrinkage: float = 10.0,
    max_iterations: int = 30,
) -> EdgeCalibration:
    """Every machine's slope and shift, by the gradient of the coupled likelihood, shrunk towards one scale for all.

    ``start`` are shifts to which the fitted ones are added, such as those of `couplers.neutral_shift`.

    Minimises  -mean_t log p_{y_t}(x_t) + (shrinkage / R) sum_e [log(slope_e / scale)^2 + shift_e^2]  from slope =
    scale, shift = 0 [I 4]. The penalty is a prior: edges without evidence keep the common scale and no shift.
    """
    n_edges, n_samples = edge_logits.shape
    penalty, first = shrinkage / n_samples, 0.0 if start is None else start

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        log_slope, shift = parameters[:n_edges], parameters[n_edges:]
        slope = scale * np.exp(log_slope)
        adjusted = (slope[:, None] * edge_logits + (first + shift)[:, None]).astype(np.float32)
        value, gradient = coupler.gradient(adjusted, y, method, weight)
        value = -value + penalty * (log_slope @ log_slope + shift @ shift)
        by_slope = -(gradient * edge_logits).sum(axis=1) * slope + 2 * penalty * log_slope
        by_shift = -gradient.sum(axis=1) + 2 * penalty * shift
        return value, np.concatenate([by_slope, by_shift])

    result = minimize(
        loss, np.zeros(2 * n_edges), jac=True, method="L-BFGS-B", options={"maxiter": max_iterations}
    )
    slope, shift = scale * np.exp(result.x[:n_edges]), first + result.x[n_edges:]
    adjusted = (slope[:, None] * edge_logits + shift[:, None]).astype(np.float32)
    return EdgeCalibration(slope, shift, mean_log_loss(coupler.couple(adjusted, method), y, weight))
