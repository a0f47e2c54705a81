"""The warning that machines stopped before they were done."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

__all__ = ["warn_early_stops"]


def warn_early_stops(gap: NDArray[np.float64], tol: float, owner: str, advice: str) -> None:
    """Warn if the relative duality gap of any machine is above the tolerance. ``advice`` says what would help."""
    early = int((gap > tol).sum())
    if early:
        warnings.warn(
            f"{owner}: {early} of {gap.size} machines stopped before the relative duality gap was"
            f" {tol:g} (the largest is {gap.max():.1e}): {advice}.",
            ConvergenceWarning,
            stacklevel=3,
        )
