"""Normalisation and whitening of features, before machines see them.

Features are centred, standardised on request, and divided by a power of two, before they become float32. Whitening then
transforms them by the covariance that all classes share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh

from pairloom.pipeline.features.moments import Moments
from pairloom.pipeline.threads import pieces

__all__ = [
    "ClassScatter",
    "Normalisation",
    "NormalisedMoments",
    "ReadRows",
    "Shrinkage",
    "Whitening",
    "WithinClasses",
    "centred_at",
    "centring",
    "check_covariance",
    "class_scatter",
    "dense",
    "is_whitened",
    "is_worth_a_trial",
    "normalised_moments",
    "rows_per_batch",
    "scatter_parts",
    "unwhitened",
    "within_classes",
    "within_classes_of",
]


def dense(X: Any) -> NDArray[np.floating]:
    """Samples, dense or sparse, as a dense array."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X)


class Normalisation(NamedTuple):
    """x -> (x - centre) / deviation / 2^exponent, in the precision of x. The centre of sparse rows is zero.

    Machines are float32. Features far from zero, such as years, would lose most of their digits, and squares of very
    small or very large features would vanish or overflow. Dividing by a power of two is exact, so multiplying all
    features by one changes no bit of a result.

    Attributes
    ----------
    centre : (D,) float64
    exponent : int
    deviation : (D,) float64, optional
        Standard deviations of the columns, if features are standardised; 1 for a constant column.
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
        # Powers of two first: float32 cannot hold every deviation, and exact divisions change no bit.
        mantissa, power = np.frexp(self.deviation)
        return np.asarray(np.ldexp(centred, -(power + self.exponent)) / mantissa.astype(precision))

    def _of_sparse(self, X: sparse.csr_array, precision: np.dtype[np.floating]) -> sparse.csr_array:
        """CSR rows. Zeros must stay zeros; the centre of sparse training rows is zero."""
        deviation = None if self.deviation is None else self.deviation[X.indices]
        data = self._replace(deviation=deviation)._in_units(X.data, precision)
        return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)

    def mean_of(self, dtype: np.dtype[np.floating]) -> NDArray[np.float64]:
        """(D,) mean of the normalised training rows: zero up to the rounding of the centre to their type."""
        return self._in_units(self.centre - self.centre.astype(dtype), np.dtype(np.float64))

    def of_means(self, means: Any) -> Any:
        """Normalised means, in float64, of means of raw features, dense or CSR."""
        if sparse.issparse(means):
            return self._of_sparse(means, np.dtype(np.float64))
        return self._in_units(means - self.centre, np.dtype(np.float64))

    def fold_back(self, weights: Any, bias: NDArray[np.floating]) -> tuple[Any, NDArray[np.float64]]:
        """The affine map of raw features that equals weights (E, D), bias (E,) on normalised ones."""
        if sparse.issparse(weights):  # sparse features are not centred
            return self._of_sparse(weights, np.dtype(np.float32)), bias.astype(np.float64)
        raw = self.raw_weights(weights).astype(np.float32)
        return raw, bias - raw.astype(np.float64) @ self.centre

    def raw_weights(self, weights: NDArray[np.floating]) -> NDArray[np.floating]:
        """Weights (..., D) of raw features, from weights of normalised ones."""
        raw = np.ldexp(weights, -self.exponent)
        return np.asarray(raw if self.deviation is None else raw / self.deviation)

    def inner_C(self, C: float, name: str = "C") -> float:
        """The C for normalised features that is equivalent to this C for raw, or standardised, features.

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
        """The C for raw, or standardised, features that is equivalent to this C for normalised ones."""
        return math.ldexp(C, -2 * self.exponent)


class NormalisedMoments(NamedTuple):
    """A normalisation, and the moments of the normalised training rows, which follow from those of the raw rows.

    Attributes
    ----------
    normalisation : Normalisation
    mean : (D,) float64
        The mean of all rows; see `Normalisation.mean_of`.
    class_means : (N, D) float64; CSR if the rows are sparse
    total_variance : float
        The sum of the variances of the columns: the mean squared norm of centred rows.
    n_rows : int
        The number of rows.
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
    """The normalisation of rows with these moments; ``owner`` is the name of the rows, for errors."""
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
    """The mean of rows, zero for sparse ones, and the exponent for which their total variance is between 1 and 4.

    Both are exact: for rows times 2^k, the mean is multiplied by 2^k and k is added to the exponent.
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
    """The total variance of standardised rows: 1 for every column that varies."""
    return float(np.count_nonzero(moments.varied))


def _halved(variance: float) -> int:
    """The exponent e for which variance / 4^e is between 1 and 4; 0 for no variance."""
    return (math.frexp(variance)[1] - 1) // 2 if variance > 0 else 0


#: How far the covariance is shrunk towards a multiple of the identity, from 0 to 1; "none" means no whitening.
Shrinkage = Annotated[float, Ge(0), Le(1)] | Literal["none"]


def is_whitened(shrinkage: Shrinkage) -> bool:
    """Whether a shrinkage asks for whitening at all."""
    return shrinkage != "none"


# With more features, "auto" does not try whitening: the covariance takes 15 s to decompose, and 128 MiB.
_MOST_TRIED = 2**12
# A larger covariance, of more than 2 GiB, is refused. Whitening needs four matrices of its size.
_MOST_FEATURES = 2**14


def is_worth_a_trial(n_rows: int, n_classes: int, n_features: int) -> bool:
    """Whether "auto" tries whitening: there are enough rows for the within-class covariance, and it is not large.

    With fewer rows than dimensions the covariance is singular, and the result depends mostly on the shrinkage.
    """
    return n_features <= min(n_rows - n_classes, _MOST_TRIED)


def check_covariance(n_features: int, owner: str) -> None:
    """Raise if the covariance would be too large; ``owner`` is the parameter that asks for whitening."""
    if n_features > _MOST_FEATURES:
        raise ValueError(
            f'{owner} must be "none" or "auto" with more than {_MOST_FEATURES:,} features, whose covariance takes '
            f"2 GiB, got a shrinkage with {n_features:,} features."
        )


class Whitening(NamedTuple):
    """x -> (x - mean) @ factor. An empty factor is the identity, and an empty mean is zero."""

    mean: NDArray[np.float32]
    factor: NDArray[np.float32]

    def __call__(self, X: NDArray[np.floating]) -> NDArray[Any]:
        centred = X - self.mean if self.mean.size else X
        return centred @ self.factor if self.factor.size else centred

    def fold_back(
        self, weights: NDArray[np.float32], bias: NDArray[np.float64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """The affine map of raw features that equals weights (E, D), bias (E,) on whitened ones."""
        raw = weights @ self.factor.T if self.factor.size else weights
        return raw, bias - raw.astype(np.float64) @ self.mean


def unwhitened() -> Whitening:
    """The whitening of sparse features: the identity."""
    return Whitening(np.empty(0, np.float32), np.empty((0, 0), np.float32))


class WithinClasses(NamedTuple):
    """The covariance of training rows about their class means, decomposed once for all shrinkages.

    S = vectors @ diag(values) @ vectors.T; total is the covariance about the mean of all rows.
    """

    mean: NDArray[np.float64]
    values: NDArray[np.float64]
    vectors: NDArray[np.float64]
    total: NDArray[np.float64]

    def whitening(self, shrinkage: float) -> Whitening:
        """Machines see S^(-1/2) (x - mean), with S shrunk to (1 - t) S + t (tr S / D) I.

        The factor is scaled so that the mean squared norm of the centred rows does not change: then C means the same
        with and without whitening.
        """
        values = (1 - shrinkage) * self.values + shrinkage * self.values.mean()
        if not values.max() > 0:
            return Whitening(self.mean.astype(np.float32), np.eye(len(values), dtype=np.float32))
        values = np.maximum(values, 1e-10 * values.max())  # a constant column has no variance to divide by
        factor = (self.vectors / np.sqrt(values)) @ self.vectors.T
        squared_norm = np.einsum("ij,ij->", factor @ self.total, factor)
        factor *= np.sqrt(np.trace(self.total) / squared_norm) if squared_norm > 0 else 1.0
        return Whitening(self.mean.astype(np.float32), factor.astype(np.float32))


def within_classes(parts: Iterable[ClassScatter]) -> WithinClasses:
    """Decompose the pooled within-class covariance of the rows of all classes, from the parts of `scatter_parts`."""
    counts_of, means_of, scatter = [], [], None
    for part in parts:
        counts_of.append(part.counts)
        means_of.append(part.means)
        scatter = part.scatter if scatter is None else scatter + part.scatter
    counts, means = np.concatenate(counts_of), np.concatenate(means_of)
    n = counts.sum()
    mean = counts @ means / n
    apart = (means - mean) * np.sqrt(counts)[:, None]
    values, vectors = eigh(scatter / n)
    return WithinClasses(mean, np.maximum(values, 0), vectors, (scatter + apart.T @ apart) / n)


def within_classes_of(
    X: NDArray[np.floating],
    members: Sequence[NDArray[np.integer]],
    held_out: NDArray[np.integer] | None = None,
) -> WithinClasses:
    """`within_classes` of rows X (n, D) in memory, without held-out rows; ``members`` are the rows of each class."""
    D, sizes = X.shape[1], np.array([len(rows) for rows in members])
    kept = np.ones(len(X), bool)
    kept[[] if held_out is None else held_out] = False

    def read(c: int, rows: slice) -> NDArray[np.floating]:
        of_class = members[c][rows]
        return np.asarray(X[of_class[kept[of_class]]])

    return within_classes(class_scatter(read, part, sizes, D) for part in scatter_parts(len(members), D))


def centring(X: NDArray[np.floating]) -> Whitening:
    """The whitening that only subtracts the mean of rows X."""
    return centred_at(X.mean(axis=0, dtype=np.float64))


def centred_at(mean: NDArray[np.float64]) -> Whitening:
    """The whitening that only subtracts a mean."""
    return Whitening(mean.astype(np.float32), np.empty((0, 0), np.float32))


# Numbers in the rows that are multiplied at once: 16 MiB of float32.
_BATCH_NUMBERS = 2**22
# A run stores a (D, D) array per part: as many parts as fit into _STORED_BYTES, but at least _FEWEST_PARTS and at most
# _MOST_PARTS. A part has at least _FEWEST_CLASSES classes, so there may be fewer parts.
_STORED_BYTES, _FEWEST_PARTS, _MOST_PARTS, _FEWEST_CLASSES = 2**28, 4, 32, 4

#: ``read(c, rows)`` returns the normalised rows of class c in a slice of its rows, without held-out rows.
ReadRows = Callable[[int, slice], NDArray[np.floating]]


class ClassScatter(NamedTuple):
    """Some classes: the number of rows of each, their means (n, D), and the summed scatter (D, D) of all rows.

    The scatter of a row x is (x - m)(x - m)', where m is the mean of its class.
    """

    counts: NDArray[np.int64]
    means: NDArray[np.float64]
    scatter: NDArray[np.float64]


def scatter_parts(n_classes: int, n_features: int) -> list[slice]:
    """The consecutive classes of each part."""
    parts = min(_MOST_PARTS, max(_FEWEST_PARTS, _STORED_BYTES // (8 * n_features**2)))
    return pieces(n_classes, max(_FEWEST_CLASSES, -(-n_classes // parts)))


def rows_per_batch(n_features: int) -> int:
    """The number of rows that are read and multiplied at once."""
    return max(1, _BATCH_NUMBERS // n_features)


def class_scatter(read: ReadRows, classes: slice, sizes: NDArray[np.int64], n_features: int) -> ClassScatter:
    """The scatter of some consecutive classes. ``sizes`` count held-out rows too, although they are not read.

    A class with more rows than a batch is centred at the mean of its first batch, and the result is corrected for its
    own mean after its last batch.
    """
    n, D, most = classes.stop - classes.start, n_features, rows_per_batch(n_features)
    counts, means, scatter = np.zeros(n, np.int64), np.zeros((n, D)), np.zeros((D, D))
    beside = np.zeros(D)  # summed deviations of a large class's rows from the mean of its first batch
    for batch in _batches(classes, sizes, most):
        deviations = []
        for c, rows in batch:
            X, at = read(c, rows), c - classes.start
            if rows.start == 0 and len(X):
                means[at] = X.mean(axis=0, dtype=np.float64)
            deviations.append(np.asarray(X - means[at], np.float32))
            counts[at] += len(X)
        stacked = np.concatenate(deviations)
        scatter += stacked.T @ stacked
        if sizes[c] > most:
            # With m0 the first mean: sum (x-m)(x-m)' = sum (x-m0)(x-m0)' - n (m-m0)(m-m0)', and beside = n (m-m0).
            beside = stacked.sum(axis=0, dtype=np.float64) + (beside if rows.start else 0.0)
            if rows.stop == sizes[c] and counts[at]:
                scatter -= np.outer(beside, beside) / counts[at]
                means[at] += beside / counts[at]
    return ClassScatter(counts, means, scatter)


def _batches(classes: slice, sizes: NDArray[np.int64], most: int) -> Iterator[list[tuple[int, slice]]]:
    """Batches of whole classes with at most `most` rows in all; a larger class has several batches of its own.

    Examples
    --------
    >>> list(_batches(slice(0, 3), np.array([2, 2, 5]), 4))
    [[(0, slice(0, 2, None)), (1, slice(0, 2, None))], [(2, slice(0, 4, None))], [(2, slice(4, 5, None))]]
    """
    batch: list[tuple[int, slice]] = []
    taken = 0
    for c in range(classes.start, classes.stop):
        size = int(sizes[c])
        if batch and taken + size > most:
            yield batch
            batch, taken = [], 0
        if size > most:
            yield from ([(c, rows)] for rows in pieces(size, most))
        else:
            batch.append((c, slice(0, size)))
            taken += size
    if batch:
        yield batch
