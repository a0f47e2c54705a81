"""Normalisation: features centred and divided by a power of two, before anything becomes float32."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Normalisation", "fit_normalisation", "total_variance"]


class Normalisation(NamedTuple):
    """x -> (x - centre) / 2^exponent, in the precision that x came in.

    The machines are float32. Of features far from zero, such as years, they would see little but the mean, and squares
    of very small or very large ones would vanish or overflow. Dividing by a power of two is exact, so the unit of the
    features changes no bit of a result.
    """

    centre: NDArray[np.float64]
    exponent: int

    def __call__(self, X: NDArray[np.floating]) -> NDArray[Any]:
        precision = np.float32 if X.dtype == np.float32 else np.float64
        return np.asarray(np.ldexp(X - self.centre.astype(precision), -self.exponent))

    def inner_C(self, C: float) -> float:
        """The C of machines on normalised features that is this C on features as they came."""
        return math.ldexp(C, 2 * self.exponent)

    def outer_C(self, C: float) -> float:
        """The C on features as they came that is this C of machines on normalised ones."""
        return math.ldexp(C, -2 * self.exponent)


def fit_normalisation(X: NDArray[np.floating], owner: str) -> Normalisation:
    """The mean of the rows X, and the exponent at which their total variance is between 1 and 4.

    Both are found exactly: rows times a power of two have the mean times it and the exponent plus its own.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        centre = np.asarray(X.mean(axis=0, dtype=np.float64))
        largest = float(np.abs(X - centre.astype(X.dtype)).max())
    if not math.isfinite(largest):
        raise ValueError(
            f"{owner} must have columns whose range {X.dtype} can hold, got larger ones: scale the features."
        )
    exponent = math.frexp(largest)[1]  # squares of the rows divided by this neither overflow nor vanish
    spread = total_variance(Normalisation(centre, exponent)(X))
    return Normalisation(centre, exponent + (math.frexp(spread)[1] - 1) // 2 if spread > 0 else 0)


def total_variance(X: NDArray[np.floating]) -> float:
    """The sum of the variances of the columns: the mean squared norm of centred rows."""
    return float(X.var(axis=0, dtype=np.float64).sum())
