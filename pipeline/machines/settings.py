"""How machines are trained: their settings, and the rows of a class with their folds, parts and weights."""

from __future__ import annotations

import warnings
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
    """How the machines of an edge are trained: plain values, the same for every edge.

    Attributes
    ----------
    C : float
        The penalty of an error, on features as the machines see them: see `normalisation.Normalisation.inner_C`.
    folds : int
    fit_on : {"rest", "fold", "all", "fold_alone"}
        See `folds.fold_scheme`.
    calibration : {"platt", "distance", "slopes", "none"}
        How a machine's decision value becomes a logit: by Platt's sigmoid on held-out samples; as the signed distance
        to its hyperplane, f / |w|, which takes no samples and no shift; as that distance times the slope of the pair,
        which is found when all pairs are trained (`slopes`); or not at all, where the machine gives log odds of its
        own.
    thresholds : bool
        Shift each pair's logit to where it makes fewest errors on held-out samples [HT 3].
    tol : float
        Duality gap at which a machine is done, relative to its objective.
    max_iterations : int
    seed : int
        With the class it decides the folds.
    holds_out : bool
        Whether the machines of a pair leave samples out. Where nothing is learned from held-out samples, one machine
        per pair, fitted on all of its samples, is enough.
    profiled : bool
        Whether the profile of every pair is kept, from which its slope is found: see `slopes`.
    turned : bool
        Whether machines are trained with Platt's parameters, and given their distances for logits afterwards.
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
        """Whether a machine is standardised and calibrated by the fold that it is fitted on: see `fold_alone`."""
        return self.fit_on == ALONE

    @property
    def by_distance(self) -> bool:
        """Whether machines are trained to have their distances for logits; slopes multiply these later."""
        return self.calibration in ("distance", "slopes")

    @property
    def profile_size(self) -> int:
        """Numbers of the profile of a pair and part; none where no profiles are kept."""
        return PROFILE_SIZE if self.profiled else 0

    @property
    def scheme(self) -> FoldScheme:
        """The fold scheme of every edge."""
        return fold_scheme(self.folds, self.fit_on) if self.holds_out else undivided(self.folds)


def scaled_C(spread: float) -> float:
    """The C that C = "scale" stands for: 10 / mean squared norm of the centred features, their total variance."""
    return 10.0 / spread if spread > 0 else 1.0


#: How far above its tolerance the duality gap of a machine may be without a warning, as a factor.
HARMLESS_GAP = 10
#: The share of machines that may be further above it.
HARMLESS_SHARE = 0.01


def warn_early_stops(
    gap: NDArray[np.float64], tol: float, owner: str, advice: str, *, stacklevel: int = 3
) -> None:
    """Warn if the relative duality gap of machines is far above the tolerance. ``advice`` says what would help.

    A gap of up to `HARMLESS_GAP` times the tolerance is left unsaid, since at the default tolerance it changes the log
    loss by less than one percent; so are a few machines among hundreds, whose logits the coupling averages.
    """
    early = int((gap > HARMLESS_GAP * tol).sum())
    if early > HARMLESS_SHARE * gap.size:
        warnings.warn(
            f"{owner}: {early} of {gap.size} machines stopped before the relative duality gap was"
            f" {tol:g} (the largest is {gap.max():.1e}): {advice}.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


class ClassRows(NamedTuple):
    """One entry per training row: the row itself or its number, its C, its weight in calibration, its fold and part."""

    rows: Any
    C: NDArray[np.float64]
    weight: NDArray[np.float64]
    folds: NDArray[np.int64]
    parts: NDArray[np.int64]


def split_class(
    rows: Any, key: int, settings: MachineSettings, weight: NDArray[np.float64] | None = None
) -> ClassRows:
    """The rows of a class, split into folds and parts; ``key`` seeds these."""
    weight = np.ones(len(rows)) if weight is None else np.asarray(weight, np.float64)
    drawn = (len(rows), settings.folds, settings.seed, key)
    # Machines that know one fold alone are scored by samples of others: their parts are for calibration only.
    parts = class_parts(*drawn, parts=INNER_FOLDS if settings.alone else PARTS)
    return ClassRows(rows, settings.C * weight, weight, class_folds(*drawn), parts)


def stacked(classes: Sequence[ClassRows]) -> ClassRows:
    """Several classes, one below the other."""
    if len(classes) == 1:
        return classes[0]
    rows, *others = zip(*classes, strict=True)
    below = SparseRows.stacked if isinstance(rows[0], SparseRows) else np.concatenate
    return ClassRows(below(rows), *(np.concatenate(values) for values in others))
