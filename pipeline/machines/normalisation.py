"""Normalisation: features centred and divided by a power of two, before anything becomes float32."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.features.moments import Moments, moments_of

__all__ = ["Normalisation", "NormalisedMoments", "fit_normalisation", "normalised_moments"]


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

    def mean_of(self, dtype: np.dtype[np.floating]) -> NDArray[np.float64]:
        """(D,) mean of the normalised training rows: zero, but for digits of the centre that their type cannot hold."""
        return np.asarray(np.ldexp(self.centre - self.centre.astype(dtype), -self.exponent))

    def inner_C(self, C: float) -> float:
        """The C of machines on normalised features that is this C on features as they came."""
        return math.ldexp(C, 2 * self.exponent)

    def outer_C(self, C: float) -> float:
        """The C on features as they came that is this C of machines on normalised ones."""
        return math.ldexp(C, -2 * self.exponent)


class NormalisedMoments(NamedTuple):
    """A normalisation, and what is known of the normalised training rows without looking at them again.

    Attributes
    ----------
    normalisation : Normalisation
    mean : (D,) float64
        The mean of all rows; see `Normalisation.mean_of`.
    class_means : (N, D) float64
    total_variance : float
        The sum of the variances of the columns: the mean squared norm of centred rows.
    """

    normalisation: Normalisation
    mean: NDArray[np.float64]
    class_means: NDArray[np.float64]
    total_variance: float


def normalised_moments(moments: Moments, owner: str) -> NormalisedMoments:
    """The normalisation of rows with these moments; errors call the rows ``owner``."""
    normalisation = _normalisation_of(moments, owner)
    centre, exponent = normalisation
    return NormalisedMoments(
        normalisation,
        mean=normalisation.mean_of(moments.dtype),
        class_means=np.ldexp(moments.class_means - centre, -exponent),
        total_variance=moments.total_variance(exponent),
    )


def fit_normalisation(X: NDArray[np.floating], owner: str) -> Normalisation:
    """The normalisation of rows X in memory."""
    return _normalisation_of(moments_of(X), owner)


def _normalisation_of(moments: Moments, owner: str) -> Normalisation:
    """The mean of rows, and the exponent at which their total variance is between 1 and 4.

    Both are found exactly: rows times a power of two have the mean times it and the exponent plus its own.
    """
    centre, extremes = moments.centre, np.stack([moments.lowest, moments.highest])
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(np.abs(extremes - centre.astype(moments.dtype)).max())
        total = np.ldexp(moments.total, moments.exponent)
    if not math.isfinite(largest) or not np.isfinite(total).all():
        raise ValueError(
            f"{owner} must have columns whose range {moments.dtype} can hold, got larger ones: scale the features."
        )
    spread = moments.total_variance(moments.exponent)
    return Normalisation(centre, moments.exponent + (math.frexp(spread)[1] - 1) // 2 if spread > 0 else 0)
