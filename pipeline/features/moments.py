"""Moments of training rows: mean, extremes and variance, class means, and the distances between class means.

Rows may come in pieces, from a file that is larger than memory. They are added one by one in their order, so the size
of the pieces changes no bit: the estimator, which has all rows, and a run, which never has, compute the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import pdist, squareform

from pairloom.graphs import Decomposition, PointDistances
from pairloom.pipeline.accelerate import kernel
from pairloom.pipeline.threads import pieces

__all__ = [
    "Moments",
    "RowPieces",
    "find_moments",
    "moments_of",
    "units_differ",
]


#: Most classes whose distances are computed as one matrix: 32 MiB, a second.
_FEW_CLASSES = 2048
_MACHINES_AT_ONCE = 1024


def class_totals(X: Any, y: NDArray[np.integer], n_classes: int) -> Any:
    """(N, D) sums of the rows of each class; CSR with ascending columns if X is sparse."""
    sums = _membership(y, n_classes) @ X
    if issparse(sums):
        sums.sort_indices()
    return sums


def columns_of_machines(columns: csr_array, machines: Decomposition) -> NDArray[np.int64]:
    """(E,) the number of columns in which the classes of each machine have entries.

    ``columns`` (N, D) is true where a class has entries in a column. Machines are taken some at a time, to bound the
    memory of their columns.
    """
    counts, ones = [np.empty(0, np.int64)], columns.astype(np.float32)
    for some in pieces(machines.n_machines, _MACHINES_AT_ONCE):
        members = machines.part(some).members()
        ends = np.concatenate([[0], np.cumsum([len(classes) for classes in members])])
        parts = np.ones(ends[-1], np.float32), np.concatenate(members), ends
        touched = csr_array(parts, shape=(len(members), columns.shape[0])) @ ones
        touched.eliminate_zeros()
        counts.append(np.diff(touched.indptr).astype(np.int64))
    return np.concatenate(counts)


def class_means(X: Any, y: NDArray[np.integer], n_classes: int) -> Any:
    """(N, D) means of the rows of each class; CSR if X is sparse."""
    sums, counts = class_totals(X, y, n_classes), np.bincount(y, minlength=n_classes)
    if not issparse(sums):
        return sums / counts[:, None]
    sums.data /= np.repeat(counts, np.diff(sums.indptr))
    return sums


def mean_distances(X: Any, y: NDArray[np.integer], n_classes: int) -> NDArray[np.float64] | PointDistances:
    """(N, N) Euclidean distances between the class means; X may be sparse."""
    return distances_between(class_means(X, y, n_classes))


def distances_between(means: Any) -> NDArray[np.float64] | PointDistances:
    """(N, N) Euclidean distances between the class means (N, D), dense or CSR; computed in blocks for many classes."""
    if means.shape[0] > _FEW_CLASSES:
        return PointDistances(means)
    if issparse(means):
        return _distances((means @ means.T).toarray())
    distances: NDArray[np.float64] = squareform(pdist(means))
    return distances


def distances_from(means: Any, c: int) -> NDArray[np.float64]:
    """(N,) Euclidean distances of the class means (N, D), dense or CSR, from the mean of class c."""
    if not issparse(means):
        return np.asarray(np.linalg.norm(means - means[c], axis=1))
    squares = means.multiply(means).sum(axis=1)
    products = (means @ means[[c]].T).toarray()[:, 0]
    distances = np.sqrt(np.maximum(squares + squares[c] - 2 * products, 0))
    distances[c] = 0
    return np.asarray(distances)


def kernel_mean_distances(K: ArrayLike, y: NDArray[np.integer], n_classes: int) -> NDArray[np.float64]:
    """(N, N) distances between the class means in the feature space of a kernel matrix K (n, n)."""
    members = _membership(y, n_classes)
    members = members.multiply(1 / np.bincount(y, minlength=n_classes)[:, None]).tocsr()
    return _distances(members @ np.asarray(K, np.float64) @ members.T)


def _distances(inner: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, N) distances of points whose inner products (N, N) are given."""
    squared = np.diag(inner)[:, None] + np.diag(inner)[None, :] - inner - inner.T
    distances: NDArray[np.float64] = np.sqrt(np.maximum((squared + squared.T) / 2, 0))
    np.fill_diagonal(distances, 0)
    return distances


def _membership(y: NDArray[np.integer], n_classes: int) -> csr_array:
    """(N, n) sparse matrix of ones where a sample belongs to a class."""
    return csr_array((np.ones(len(y)), (y, np.arange(len(y)))), shape=(n_classes, len(y)))


@kernel
def add_rows(
    X: NDArray[np.floating],
    y: NDArray[np.integer],
    unit: float,
    count: int,
    total: NDArray[np.float64],
    squares: NDArray[np.float64],
    lowest: NDArray[np.floating],
    highest: NDArray[np.floating],
    class_totals: NDArray[np.float64],
) -> None:
    """Add rows X (n, D) of classes y, multiplied by ``unit``, to the sums over the ``count`` rows before them.

    ``squares`` are the sums of squared deviations from the mean, by Welford's recurrence: with m the mean up to a row x
    and m' the mean before it, they grow by (x - m') (x - m). ``lowest`` and ``highest`` are those of the given rows,
    not multiplied by ``unit``.
    """
    for i in range(X.shape[0]):
        row, of_class = X[i], class_totals[y[i]]
        # The first row has no mean before it: with total = 0 its second factor is 0, whatever the first is.
        before, after = 1.0 / max(1, count + i), 1.0 / (count + i + 1)
        for d in range(X.shape[1]):
            x = unit * row[d]
            mean_before = total[d] * before
            total[d] += x
            squares[d] += (x - mean_before) * (x - total[d] * after)
            of_class[d] += x
            lowest[d] = min(lowest[d], row[d])
            highest[d] = max(highest[d], row[d])


#: Opens the rows for one pass: pieces (n, D) in their order, each with the classes (n,) of its rows.
RowPieces = Callable[[], Iterable[tuple[Any, NDArray[np.integer]]]]

# Squares of numbers up to 2^400 can be summed in float64: this holds for all float32 and all but absurd float64.
_LARGEST_EXPONENT = 400


class Moments(NamedTuple):
    """Sums over rows that were divided by 2^exponent.

    Attributes
    ----------
    counts : (N,) rows per class
    totals : (N, D) sums of the rows of each class; CSR if the rows are sparse
    total : (D,) sum of all rows, in their order
    squares : (D,) sums of squared deviations from the mean
    lowest, highest : (D,) extremes of the undivided rows, in their type
    exponent : int
    """

    counts: NDArray[np.int64]
    totals: Any
    total: NDArray[np.float64]
    squares: NDArray[np.float64]
    lowest: NDArray[np.floating]
    highest: NDArray[np.floating]
    exponent: int

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The type of the rows."""
        return self.lowest.dtype

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse."""
        return bool(sparse.issparse(self.totals))

    @property
    def centre(self) -> NDArray[np.float64]:
        """(D,) mean of the rows."""
        return np.asarray(np.ldexp(self.total / self.counts.sum(), self.exponent))

    @property
    def class_means(self) -> Any:
        """(N, D) means of the classes; CSR if the rows are sparse."""
        if self.is_sparse:
            counts = np.repeat(self.counts, np.diff(self.totals.indptr))
            data = np.ldexp(self.totals.data / counts, self.exponent)
            return sparse.csr_array((data, self.totals.indices, self.totals.indptr), shape=self.totals.shape)
        return np.asarray(np.ldexp(self.totals / self.counts[:, None], self.exponent))

    @property
    def varied(self) -> NDArray[np.bool_]:
        """(D,) whether a column has two different values."""
        return np.asarray(self.lowest < self.highest)

    @property
    def deviations(self) -> NDArray[np.float64]:
        """(D,) standard deviations of the columns; 1 for a constant column, so that nothing is divided by zero."""
        variance = self.squares / int(self.counts.sum())
        deviations = np.ldexp(np.sqrt(np.maximum(variance, 0.0)), self.exponent)
        return np.where(self.varied & (deviations > 0), deviations, 1.0)

    @property
    def units_may_differ(self) -> bool:
        """Whether the standard deviations of the columns differ by more than columns in one unit would.

        A few columns that hardly vary, such as pixels at the edge or dead dimensions of an embedding, are ignored. A
        single column that varies far more than the others is not: it would dominate every distance.
        """
        deviations = self.deviations[self.varied]
        return bool(len(deviations) and deviations.max() / _SAME_UNITS > np.quantile(deviations, 0.05))

    @property
    def ranges_are_alike(self) -> bool:
        """Whether most columns span at least half of the widest range, as pixels do even if they are rarely set."""
        # Halves, since the difference may overflow float64.
        ranges = (self.highest.astype(np.float64) / 2 - self.lowest.astype(np.float64) / 2)[self.varied]
        return not len(ranges) or bool(np.median(ranges) >= ranges.max() / 2)

    def total_variance(self, exponent: int) -> float:
        """The sum of the columns' variances, of rows divided by 2^exponent: the mean squared norm after centring."""
        # A constant column has no variance, although its mean may be rounded.
        varied = self.squares[self.varied]
        return math.ldexp(
            max(0.0, float(varied.sum())) / int(self.counts.sum()), 2 * (self.exponent - exponent)
        )


#: Columns of a table whose standard deviations differ by more than this factor are taken to have different units.
_SAME_UNITS = 10.0
#: For an array, the same for the largest over the median. It is larger: pixels and principal components differ too.
_SAME_SCALE = 100.0


def units_differ(deviations: NDArray[np.floating], *, is_table: bool) -> bool:
    """Whether columns seem to have different units, by their standard deviations.

    Parameters
    ----------
    deviations : (D,) array
        Standard deviations of the columns that vary.
    is_table : bool
        Whether the columns have names. Columns of an array usually have one unit, however small some deviations are;
        they count as different only if the largest is more than a hundred times the median.
    """
    if len(deviations) < 2:
        return False
    if is_table:
        return bool(deviations.max() > _SAME_UNITS * deviations.min())
    usual = np.sort(deviations)[(len(deviations) - 1) // 2]
    return bool(deviations.max() > _SAME_SCALE * usual)


def moments_of(X: Any, y: NDArray[np.integer] | None = None, n_classes: int = 1) -> Moments:
    """The moments of rows in memory, dense or canonical CSR; without classes, all rows are of one class."""
    classes = np.zeros(X.shape[0], np.int64) if y is None else y
    return find_moments(lambda: [(X, classes)], X.shape[1], n_classes, is_sparse=sparse.issparse(X))


def find_moments(pieces: RowPieces, n_features: int, n_classes: int, *, is_sparse: bool = False) -> Moments:
    """The moments of rows that come in pieces, dense or canonical CSR.

    One pass is enough unless the numbers are so large or so small (beyond 2^400 or 2^-400, in float64 only) that their
    squares would overflow or vanish. Then a second pass adds the rows divided by a power of two.
    """
    added = _sparse_added if is_sparse else _added
    moments = added(pieces(), n_features, n_classes, 0)
    exponent = _exponent_of(moments.lowest, moments.highest)
    return added(pieces(), n_features, n_classes, exponent) if exponent else moments


def _exponent_of(*values: NDArray[np.floating]) -> int:
    """The exponent of the largest value if its square could not be summed in float64; else 0."""
    exponent = math.frexp(max((float(np.abs(some).max()) for some in values if some.size), default=0.0))[1]
    return exponent if abs(exponent) > _LARGEST_EXPONENT else 0


def _sparse_added(
    pieces: Iterable[tuple[sparse.csr_array, NDArray[np.integer]]], D: int, N: int, exponent: int
) -> Moments:
    """The moments of sparse rows: no array is larger than a piece and the sums of the classes.

    Rows are added one by one, so the size of the pieces changes no bit.
    """
    total, about_zero, totals = np.zeros(D), np.zeros(D), sparse.csr_array((N, D), dtype=np.float64)
    counts, extremes = np.zeros(N, np.int64), None
    for X, y in pieces:
        data = np.ldexp(X.data.astype(np.float64), -exponent)
        np.add.at(total, X.indices, data)
        np.add.at(about_zero, X.indices, np.square(data))
        scaled = sparse.csr_array((data, X.indices, X.indptr), X.shape)
        # The sums so far enter as the first rows, which keeps the order of the additions.
        totals = class_totals(sparse.vstack([totals, scaled], "csr"), np.concatenate([np.arange(N), y]), N)
        lowest, highest = (extreme.toarray().ravel() for extreme in (X.min(axis=0), X.max(axis=0)))
        if extremes is not None:
            lowest, highest = np.minimum(lowest, extremes[0]), np.maximum(highest, extremes[1])
        extremes = lowest, highest
        counts += np.bincount(y, minlength=N)
    assert extremes is not None
    squares = np.maximum(about_zero - np.square(total) / int(counts.sum()), 0.0)
    return Moments(counts, totals, total, squares, *extremes, exponent)


def _added(
    pieces: Iterable[tuple[NDArray[np.floating], NDArray[np.integer]]], D: int, N: int, exponent: int
) -> Moments:
    total, squares, totals = np.zeros(D), np.zeros(D), np.zeros((N, D))
    counts, extremes = np.zeros(N, np.int64), None
    for X, y in pieces:
        if extremes is None:
            extremes = np.full(D, np.inf, X.dtype), np.full(D, -np.inf, X.dtype)
        add_rows(
            np.ascontiguousarray(X),
            y,
            math.ldexp(1.0, -exponent),
            int(counts.sum()),
            total,
            squares,
            *extremes,
            totals,
        )
        counts += np.bincount(y, minlength=N)
    assert extremes is not None
    return Moments(counts, totals, total, squares, *extremes, exponent)
