"""The settings of machines, and the rows of a class with their folds, parts and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from pairloom.graphs.text import did_you_mean
from pairloom.pipeline.machines.folds import (
    ALONE,
    FIT_ON,
    INNER_FOLDS,
    PARTS,
    FitOn,
    FoldScheme,
    class_folds,
    class_parts,
    fold_scheme,
    undivided,
)
from pairloom.pipeline.machines.pair_calibration import PROFILE_SIZE
from pairloom.pipeline.machines.sparse_machines import SparseRows
from pairloom.pipeline.machines.svm import MAX_ITERATIONS
from pairloom.pipeline.user_warnings import warn_user

__all__ = [
    "CALIBRATIONS",
    "Calibration",
    "ClassRows",
    "MachineSettings",
    "scaled_C",
    "split_class",
    "stacked",
    "warn_early_stops",
]


Calibration = Literal["platt", "distance", "slopes", "none"]
CALIBRATIONS: tuple[str, ...] = get_args(Calibration)


@dataclass(frozen=True)
class MachineSettings:
    """The settings of the machines of an edge: plain values, the same for every edge.

    Attributes
    ----------
    C : float
        The penalty of an error, for normalised features: see `normalisation.Normalisation.inner_C`.
    folds : int
    fit_on : {"rest", "fold", "all", "fold_alone"}
        See `folds.fold_scheme`.
    calibration : {"platt", "distance", "slopes", "none"}
        How a machine's decision value becomes a logit. "platt": by Platt's sigmoid on held-out samples. "distance": as
        the signed distance to its hyperplane, f / |w|, which needs no samples and has no shift. "slopes": as that
        distance times the slope of the pair, which is fitted after all pairs are trained (`pair_calibration`). "none":
        unchanged, for classifiers whose decision values are log odds.
    thresholds : bool
        Shift each pair's logit to where it makes fewest errors on held-out samples [HT 3].
    tol : float
        Duality gap at which training stops, relative to the objective.
    max_iterations : int
    seed : int
        Seeds the folds, together with the class.
    holds_out : bool
        Whether the machines of a pair leave samples out. If nothing is learned from held-out samples, one machine per
        pair, fitted on all of its samples, is enough.
    profiled : bool
        Whether the profile of every pair is kept, from which its slope is fitted: see `pair_calibration`.
    turned : bool
        Whether machines are trained with Platt's parameters and given distances as logits afterwards.
    """

    C: float = 1.0
    folds: int = 4
    fit_on: FitOn = "rest"
    calibration: Calibration = "platt"
    thresholds: bool = False
    tol: float = 1e-3
    max_iterations: int = MAX_ITERATIONS
    seed: int = 0
    holds_out: bool = True
    profiled: bool = False
    turned: bool = False

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
    def alone(self) -> bool:
        """Whether a machine is standardised and calibrated on the fold that it is fitted on: see `fold_alone`."""
        return self.fit_on == ALONE

    @property
    def by_distance(self) -> bool:
        """Whether machines are trained with distances as logits; slopes multiply them later."""
        return self.calibration in ("distance", "slopes")

    @property
    def profile_size(self) -> int:
        """The size of the profile of a pair and part; 0 if no profiles are kept."""
        return PROFILE_SIZE if self.profiled else 0

    @property
    def scheme(self) -> FoldScheme:
        """The fold scheme of every edge."""
        return fold_scheme(self.folds, self.fit_on) if self.holds_out else undivided(self.folds)


def scaled_C(spread: float) -> float:
    """The value of C = "scale": 10 / mean squared norm of the centred features, which is their total variance."""
    return 10.0 / spread if spread > 0 else 1.0


#: The duality gap of a machine may be this many times the tolerance without a warning.
HARMLESS_GAP = 10
#: This share of machines may have a larger gap without a warning.
HARMLESS_SHARE = 0.01


def warn_early_stops(gap: NDArray[np.float64], tol: float, advice: str) -> None:
    """Warn if the relative duality gap of machines is far above the tolerance. ``advice`` says what would help.

    A gap of up to `HARMLESS_GAP` times the tolerance is not reported: at the default tolerance it changes the log loss
    by less than one percent. Nor are a few machines among hundreds: coupling averages their logits.
    """
    early = int((gap > HARMLESS_GAP * tol).sum())
    if early > HARMLESS_SHARE * gap.size:
        warn_user(
            f"Training: {early} of {gap.size} machines stopped before the relative duality gap was"
            f" {tol:g} (the largest is {gap.max():.1e}): {advice}.",
            ConvergenceWarning,
        )


class ClassRows(NamedTuple):
    """One entry per training row: the row or its number, its C, its weight in calibration, its fold and its part."""

    rows: Any
    C: NDArray[np.float64]
    weight: NDArray[np.float64]
    folds: NDArray[np.int64]
    parts: NDArray[np.int64]


def split_class(
    rows: Any, key: int, settings: MachineSettings, weight: NDArray[np.float64] | None = None
) -> ClassRows:
    """The rows of a class, split into folds and parts, which ``key`` seeds."""
    weight = np.ones(len(rows)) if weight is None else np.asarray(weight, np.float64)
    drawn = (len(rows), settings.folds, settings.seed, key)
    # Machines that see one fold alone are scored on samples of the others, so their parts serve calibration only.
    parts = class_parts(*drawn, parts=INNER_FOLDS if settings.alone else PARTS)
    return ClassRows(rows, settings.C * weight, weight, class_folds(*drawn), parts)


def stacked(classes: Sequence[ClassRows]) -> ClassRows:
    """The stacked rows of several classes."""
    if len(classes) == 1:
        return classes[0]
    rows, *others = zip(*classes, strict=True)
    below = SparseRows.stacked if isinstance(rows[0], SparseRows) else np.concatenate
    return ClassRows(below(rows), *(np.concatenate(values) for values in others))
