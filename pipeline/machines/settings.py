"""How machines are trained: the settings of one machine, and the C that C = "scale" stands for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from pairloom.graphs.labels import did_you_mean
from pairloom.pipeline.machines.folds import FIT_ON, FitOn, FoldScheme, fold_scheme
from pairloom.pipeline.machines.svm import MAX_ITERATIONS

__all__ = ["CALIBRATIONS", "Calibration", "MachineSettings", "resolved_C", "scaled_C"]

Calibration = Literal["platt"]
CALIBRATIONS: tuple[str, ...] = get_args(Calibration)

#: Root of the features' total variance beyond which products of float32 rows overflow, or below which they vanish.
LEAST_SPREAD, MOST_SPREAD = 1e-15, 1e15


@dataclass(frozen=True)
class MachineSettings:
    """How the machines of an edge are trained: plain values, the same for every edge.

    Attributes
    ----------
    C : float
        The penalty of an error, in the space the machines see.
    folds : int
    fit_on : {"rest", "fold", "all"}
        See `folds.fold_scheme`.
    calibration : {"platt"}
        How a machine's decision value becomes a logit.
    thresholds : bool
        Shift each pair's logit to where it makes fewest errors on held-out samples [HT 3].
    tol : float
        Duality gap at which a machine is done, relative to its objective.
    max_iterations : int
    seed : int
        With the class it decides the folds.
    """

    C: float = 1.0
    folds: int = 4
    fit_on: FitOn = "rest"
    calibration: Calibration = "platt"
    thresholds: bool = False
    tol: float = 1e-3
    max_iterations: int = MAX_ITERATIONS
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in (("fit_on", FIT_ON), ("calibration", CALIBRATIONS)):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(
                    f"MachineSettings: {name} must be one of {', '.join(known)}, got {value!r}."
                    f"{did_you_mean(value, known)}"
                )
        if not self.C > 0:
            raise ValueError(f"MachineSettings: C must be positive, got {self.C!r}.")
        if self.folds < 2:
            raise ValueError(f"MachineSettings: folds must be at least 2, got {self.folds!r}.")

    @property
    def scheme(self) -> FoldScheme:
        """The fold scheme of every edge."""
        return fold_scheme(self.folds, self.fit_on)


def scaled_C(spread: float) -> float:
    """The C that C = "scale" stands for: 10 / mean squared norm of the centred features, their total variance."""
    return 10.0 / spread if spread > 0 else 1.0


def resolved_C(C: float | Literal["scale"], spread: float, owner: str) -> float:
    """C as a number, for features whose variances add up to ``spread``; raise where float32 cannot hold them."""
    if spread > 0 and not LEAST_SPREAD < math.sqrt(spread) < MOST_SPREAD:
        raise ValueError(
            f"{owner} must have a standard deviation between {LEAST_SPREAD:g} and {MOST_SPREAD:g}"
            f" (root of the sum of its columns' variances), got {math.sqrt(spread):g}: scale the features."
        )
    return scaled_C(spread) if isinstance(C, str) else float(C)
