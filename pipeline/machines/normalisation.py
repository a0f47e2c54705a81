"""Normalisation: features centred, standardised if asked for, divided by a power of two, before they are float32."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom.pipeline.features.moments import Moments

__all__ = ["Normalisation", "NormalisedMoments", "dense", "normalised_moments"]


def dense(X: Any) -> NDArray[np.floating]:
    """Samples as a dense array, which may be a sparse matrix."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X)


class Normalisation(NamedTuple):
    """x -> (x - centre) / deviation / 2^exponent, in the precision that x came in. The centre of sparse rows is zero.

    The machines are float32. Of features far from zero, such as years, they would see little but the mean, and squares
    of very small or very large ones would vanish or overflow. Dividing by a power of two is exact, so the unit of the
    features changes no bit of a result.

    Attributes
    ----------
    centre : (D,) float64
    exponent : int
    deviation : (D,) float64, optional
        Standard deviations of the columns, where features are standardised; 1 for a constant column.
    """

    centre: NDArray[np.float64]
    exponent: int
    deviation: NDArray[np.float64] | None = None

    def __call__(self, X: Any) -> Any:
        precision: np.dtype[np.floating] = np.dtype("float32" if X.dtype == np.float32 else "float64")
        if sparse.issparse(X):
            return self._of_sparse(X, precision)
        return self._in_units(X - self.centre.astype(precision), precision)

    def _in_units(self, centred: NDArray[np.floating], precision: np.dtype[np.floating]) -> NDArray[Any]:
        if self.deviation is None:
            return np.asarray(np.ldexp(centred, -self.exponent))
        # Powers of two first: float32 could not hold every deviation, and so the unit of a column changes no bit.
        mantissa, power = np.frexp(self.deviation)
        return np.asarray(np.ldexp(centred, -(power + self.exponent)) / mantissa.astype(precision))

    def _of_sparse(self, X: sparse.csr_array, precision: np.dtype[np.floating]) -> sparse.csr_array:
        """CSR rows: their zeros stay zeros, so the centre must be zero, as that of sparse training rows is."""
        deviation = None if self.deviation is None else self.deviation[X.indices]
        data = self._replace(deviation=deviation)._in_units(X.data, precision)
        return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)

    def mean_of(self, dtype: np.dtype[np.floating]) -> NDArray[np.float64]:
        """(D,) mean of the normalised training rows: zero, but for digits of the centre that their type cannot hold."""
        return self._in_units(self.centre - self.centre.astype(dtype), np.dtype(np.float64))

    def of_means(self, means: Any) -> Any:
        """Means of features as they came, dense or CSR, normalised in float64."""
        if sparse.issparse(means):
            return self._of_sparse(means, np.dtype(np.float64))
        return self._in_units(means - self.centre, np.dtype(np.float64))

    def fold_back(self, weights: Any, bias: NDArray[np.floating]) -> tuple[Any, NDArray[np.float64]]:
        """The affine map of features as they came that equals weights (E, D), bias (E,) on normalised ones."""
        if sparse.issparse(weights):  # of features that were not centred
            return self._of_sparse(weights, np.dtype(np.float32)), bias.astype(np.float64)
        raw = self.raw_weights(weights).astype(np.float32)
        return raw, bias - raw.astype(np.float64) @ self.centre

    def raw_weights(self, weights: NDArray[np.floating]) -> NDArray[np.floating]:
        """Weights (..., D) per unit of features as they came, of those per unit of normalised ones."""
        raw = np.ldexp(weights, -self.exponent)
        return np.asarray(raw if self.deviation is None else raw / self.deviation)

    def inner_C(self, C: float, name: str = "C") -> float:
        """The C of machines on normalised features that is this C on features as they came, or standardised.

        Raises if a float cannot hold it; ``name`` is the parameter, for the error.
        """
        try:
            inner = math.ldexp(float(C), 2 * self.exponent)
        except OverflowError:
            inner = math.inf
        if not 0 < inner < math.inf:
            raise ValueError(f"{name} must be a number that fits the size of the features, got {C!r}.")
        return inner

    def outer_C(self, C: float) -> float:
        """The C on features as they came, or standardised, that is this C of machines on normalised ones."""
        return math.ldexp(C, -2 * self.exponent)


class NormalisedMoments(NamedTuple):
    """A normalisation, and what is known of the normalised training rows without looking at them again.

    Attributes
    ----------
    normalisation : Normalisation
    mean : (D,) float64
        The mean of all rows; see `Normalisation.mean_of`.
    class_means : (N, D) float64; CSR if the rows are sparse
    total_variance : float
        The sum of the variances of the columns: the mean squared norm of centred rows.
    n_rows : int
        How many rows there are.
    """

    normalisation: Normalisation
    mean: NDArray[np.float64]
    class_means: Any
    total_variance: float
    n_rows: int

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse: then they are neither centred nor whitened."""
        return bool(sparse.issparse(self.class_means))


def normalised_moments(moments: Moments, owner: str, *, standardise: bool = False) -> NormalisedMoments:
    """The normalisation of rows with these moments; errors call the rows ``owner``."""
    normalisation = _normalisation_of(moments, owner, standardise)
    exponent = normalisation.exponent
    if standardise:
        total_variance = math.ldexp(_standardised_variance(moments), -2 * exponent)
    else:
        total_variance = moments.total_variance(exponent)
    return NormalisedMoments(
        normalisation,
        mean=normalisation.mean_of(moments.dtype),
        class_means=normalisation.of_means(moments.class_means),
        total_variance=total_variance,
        n_rows=int(moments.counts.sum()),
    )


def _normalisation_of(moments: Moments, owner: str, standardise: bool) -> Normalisation:
    """The mean of rows, zero for sparse ones, and the exponent at which their total variance is between 1 and 4.

    Both are found exactly: rows times a power of two have the mean times it and the exponent plus its own.
    """
    centre = np.zeros_like(moments.centre) if moments.is_sparse else moments.centre
    extremes = np.stack([moments.lowest, moments.highest])
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(np.abs(extremes - centre.astype(moments.dtype)).max())
        total = np.ldexp(moments.total, moments.exponent)
    if not math.isfinite(largest) or not np.isfinite(total).all():
        raise ValueError(
            f"{owner} must have columns whose range {moments.dtype} can hold, got larger ones: scale the features."
        )
    if standardise:
        return Normalisation(centre, _halved(_standardised_variance(moments)), moments.deviations)
    spread = moments.total_variance(moments.exponent)
    return Normalisation(centre, moments.exponent + _halved(spread) if spread > 0 else 0)


def _standardised_variance(moments: Moments) -> float:
    """The total variance of standardised rows: 1 of every column that varies."""
    return float(np.count_nonzero(moments.varied))


def _halved(variance: float) -> int:
    """The exponent of the power of two that brings a variance to between 1 and 4; 0 for no variance."""
    return (math.frexp(variance)[1] - 1) // 2 if variance > 0 else 0
