"""Coupled calibration: what is learned through the coupling, as slopes and shifts of the edges' logits."""

from __future__ import annotations

import warnings
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.edge_calibration import calibrate_edges
from pairloom.pipeline.calibration.scale import ScaleChoice, choose_scale
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.completion.uncoupled import uncoupled
from pairloom.pipeline.machines.settings import Calibration

__all__ = [
    "COUPLED_LEVELS",
    "CoupledCalibration",
    "CoupledLevel",
    "HeldOut",
    "calibrate_coupled",
    "unit_of",
]

#: Logits that are enough for their median.
_ENOUGH = 1_000_000

#: One scale for all edges; every edge's slope and shift as well; or neither.
CoupledLevel = Literal["scale", "edges", "none"]
COUPLED_LEVELS: tuple[str, ...] = get_args(CoupledLevel)


class HeldOut(NamedTuple):
    """Out-of-fold edge logits (E, R) of training samples, the samples' classes (R,), and their weights if any.

    `unit` is the size of logits that the prior of the scale expects.
    """

    logits: NDArray[np.float32]
    classes: NDArray[np.integer]
    weight: NDArray[np.float64] | None = None
    unit: float = 1.0


def unit_of(logits: NDArray[np.float32], calibration: Calibration) -> float:
    """The unit of out-of-fold logits (E, R): one for Platt's, which are calibrated; of distances their median size."""
    if calibration == "platt" or not logits.size:
        return 1.0
    typical = float(np.median(np.abs(logits[:, :: max(1, logits.size // _ENOUGH)])))
    return typical if typical > 0 else 1.0


class CoupledCalibration(NamedTuple):
    """The logit l of edge e becomes ``slope[e] * l + shift[e]``; ``scale`` is the slope of an edge that is new."""

    level: CoupledLevel
    scale: float
    slope: NDArray[np.float64]
    shift: NDArray[np.float64]

    @classmethod
    def uniform(cls, level: CoupledLevel, scale: float, n_edges: int) -> CoupledCalibration:
        """The same scale for every edge."""
        return cls(level, scale, np.full(n_edges, scale), np.zeros(n_edges))

    def extended(self, n_edges: int) -> CoupledCalibration:
        """The calibration of a model to which edges were added at the end."""
        slope = np.concatenate([self.slope, np.full(n_edges, self.scale)])
        return self._replace(slope=slope, shift=np.concatenate([self.shift, np.zeros(n_edges)]))

    def of_edges(self, edges: NDArray[np.integer] | NDArray[np.bool_]) -> CoupledCalibration:
        """The calibration of some edges, in this order."""
        return self._replace(slope=self.slope[edges], shift=self.shift[edges])

    def rescaled(self, scale: float) -> CoupledCalibration:
        """Another scale for all edges, unless the model is to have none."""
        return self if self.level == "none" else self.uniform(self.level, scale, len(self.slope))


def calibrate_coupled(
    held_out: HeldOut,
    completion: Completion,
    coupling: str,
    level: Literal["scale", "edges"],
    *,
    shortlist: int | None = None,
    n_jobs: int | None = None,
    memory_limit: int = DEFAULT_MEMORY,
) -> CoupledCalibration:
    """Choose the scale of the coupled model, and at level "edges" every edge's slope and shift."""
    logits, y, weight, unit = held_out
    samples = uncoupled(logits, completion, shortlist, memory_limit)
    choice = choose_scale(samples, y, coupling, weight=weight, unit=unit, n_jobs=n_jobs)
    _warn_of_bound(choice, len(y))
    if level == "scale":
        return CoupledCalibration.uniform(level, choice.scale, len(logits))
    slope, shift, _ = calibrate_edges(logits, y, completion, coupling, choice.scale, weight=weight)
    return CoupledCalibration(level, choice.scale, slope, shift)


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
            stacklevel=3,
        )
