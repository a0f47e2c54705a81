"""Coupled calibration: what is learned through the coupling, as slopes and shifts of the edges' logits."""

from __future__ import annotations

import warnings
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.edge_calibration import calibrate_edges
from pairloom.pipeline.calibration.held_out import HeldOut
from pairloom.pipeline.calibration.scale import ScaleChoice, choose_scale
from pairloom.pipeline.completion.uncoupled import Wiring
from pairloom.pipeline.coupling.code_coupling import CodeCoupling

__all__ = [
    "COUPLED_LEVELS",
    "CoupledCalibration",
    "CoupledLevel",
    "calibrate_coupled",
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
        cls, level: CoupledLevel, scale: float, wiring: Wiring, calibration: str, coupling: str
    ) -> CoupledCalibration:
        """The same scale for every machine, and on sets of classes the shift that belongs to it."""
        uniform = cls.uniform(level, scale, wiring.n_machines)
        return (
            uniform._replace(shift=wiring.shift(scale, calibration, coupling))
            if isinstance(wiring, CodeCoupling)
            else uniform
        )

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
    held_out: HeldOut,
    wiring: Wiring,
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
    scaled = CoupledCalibration.scaled(level, choice.scale, wiring, calibration, coupling)
    scaled = scaled._replace(log_loss=choice.log_loss)
    if level == "scale":
        return scaled
    _, y, weight, _, edge_logits = held_out
    assert edge_logits is not None
    start = scaled.shift if isinstance(wiring, CodeCoupling) else None
    slope, shift, _ = calibrate_edges(
        edge_logits, y, wiring, coupling, scaled.scale, start=start, weight=weight
    )
    return scaled._replace(slope=slope, shift=shift)


def calibrate_scale(held_out: HeldOut, coupling: str, n_jobs: int | None = None) -> ScaleChoice:
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
