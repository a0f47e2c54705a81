"""Coupled calibration: one scale for the coupled model, or also a slope and a shift per machine.

Both maximise the likelihood of the coupled probabilities of held-out samples [I 4], with priors.

References
----------
.. [I] S. Ikeda (2010). "Combining binary machines for multi-class: statistical model and parameter estimation".
   Journal of Physics: Conference Series 233, 012006. https://ikeda46.github.io/posts/2010.03.ikeda.iop/
"""

from __future__ import annotations

import warnings
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from pairloom.pipeline.calibration.held_out import HeldOutSamples, mean_log_loss
from pairloom.pipeline.calibration.scale import ScaleChoice, choose_scale
from pairloom.pipeline.completion.couplers import Coupler

__all__ = [
    "COUPLED_LEVELS",
    "CoupledCalibration",
    "CoupledLevel",
    "EdgeCalibration",
    "calibrate_coupled",
    "calibrate_edges",
    "calibrate_scale",
]


#: One scale for all edges; every edge's slope and shift as well; or neither.
CoupledLevel = Literal["scale", "edges", "none"]
COUPLED_LEVELS: tuple[str, ...] = get_args(CoupledLevel)


class CoupledCalibration(NamedTuple):
    """The logit l of edge e becomes ``slope[e] * l + shift[e]``; ``scale`` is the slope of an edge that is new.

    ``log_loss`` is that of the held-out samples at the scale, where it has just been chosen.
    """

    level: CoupledLevel
    scale: float
    slope: NDArray[np.float64]
    shift: NDArray[np.float64]
    log_loss: float | None = None

    @classmethod
    def uniform(cls, level: CoupledLevel, scale: float, n_edges: int) -> CoupledCalibration:
        """The same scale for every edge."""
        return cls(level, scale, np.full(n_edges, scale), np.zeros(n_edges))

    @classmethod
    def scaled(
        cls, level: CoupledLevel, scale: float, coupler: Coupler, calibration: str, coupling: str
    ) -> CoupledCalibration:
        """The same scale for every machine, and on sets of classes the shift that belongs to it."""
        uniform = cls.uniform(level, scale, coupler.n_machines)
        return uniform._replace(shift=coupler.shift(scale, calibration, coupling))

    def extended(self, n_edges: int) -> CoupledCalibration:
        """The calibration of a model to which edges were added at the end."""
        slope = np.concatenate([self.slope, np.full(n_edges, self.scale)])
        shift = np.concatenate([self.shift, np.zeros(n_edges)])
        return self._replace(slope=slope, shift=shift, log_loss=None)

    def of_edges(self, edges: NDArray[np.integer] | NDArray[np.bool_]) -> CoupledCalibration:
        """The calibration of some edges, in this order."""
        return self._replace(slope=self.slope[edges], shift=self.shift[edges], log_loss=None)

    def rescaled(self, scale: float) -> CoupledCalibration:
        """Another scale for all edges, unless the model is to have none."""
        return self if self.level == "none" else self.uniform(self.level, scale, len(self.slope))


def calibrate_coupled(
    held_out: HeldOutSamples,
    coupler: Coupler,
    coupling: str,
    level: Literal["scale", "edges"],
    *,
    calibration: str = "platt",
    n_jobs: int | None = None,
) -> CoupledCalibration:
    """Choose the scale of the coupled model, and at level "edges", from edge logits, each edge's slope and shift.

    ``calibration`` is that of the machines.
    """
    choice = calibrate_scale(held_out, coupling, n_jobs)
    scaled = CoupledCalibration.scaled(level, choice.scale, coupler, calibration, coupling)
    scaled = scaled._replace(log_loss=choice.log_loss)
    if level == "scale":
        return scaled
    _, y, weight, _, edge_logits = held_out
    assert edge_logits is not None
    slope, shift, _ = calibrate_edges(
        edge_logits, y, coupler, coupling, scaled.scale, start=scaled.shift, weight=weight
    )
    return scaled._replace(slope=slope, shift=shift)


def calibrate_scale(held_out: HeldOutSamples, coupling: str, n_jobs: int | None = None) -> ScaleChoice:
    """Choose the scale of the coupled model, with a warning where the search ends at a bound."""
    samples, y, weight, unit, _ = held_out
    choice = choose_scale(samples, y, coupling, weight=weight, unit=unit, n_jobs=n_jobs)
    _warn_of_bound(choice, len(y))
    return choice


def _warn_of_bound(choice: ScaleChoice, n_samples: int) -> None:
    if choice.bound:
        why = {
            "lower": "they do not tell the classes apart better than guessing, and probabilities are nearly even",
            "upper": "they are all told apart, and probabilities are nearly certain",
        }[choice.bound]
        warnings.warn(
            f"The scale of the coupled model, from {n_samples} held-out samples, is at its {choice.bound} bound:"
            f" {why}.",
            UserWarning,
            stacklevel=4,
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
    """Every machine's slope and shift by the gradient of the coupled likelihood, shrunk to one scale for all.

    ``start`` are shifts that these are added to, such as those of `couplers.neutral_shift`.

    Minimises  -mean_t log p_{y_t}(x_t) + (shrinkage / R) sum_e [log(slope_e / scale)^2 + shift_e^2]  from slope =
    scale, shift = 0 [I 4]. The penalty is a prior, one nat for an edge whose odds change by e, so edges without
    evidence stay where they are.
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
