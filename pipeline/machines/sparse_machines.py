"""Sparse features: the rows of classes, the weights of linear machines on them, and their logits.

A pair of classes touches few of the columns: those in which a row of either is not zero, its support. A machine's
weights are zero elsewhere, so only weights on the support are computed, stored and applied. `linear_machines` trains
dense and sparse features alike; this module has the parts that differ.

Sparse features are neither centred nor whitened: they would no longer be sparse. Centring would not change the SVM of a
pair, since its intercept is not penalised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom.pipeline.machines.contributions import LinearEvidence
from pairloom.pipeline.machines.normalisation import Normalisation
from pairloom.pipeline.machines.sparse_kernels import (
    add_rows,
    apply_to_rows,
    merged,
    places_in,
    solve_sparse_rows,
    sparse_decision_values,
    sparse_gram,
)
from pairloom.pipeline.machines.svm import (
    WORKING_SET,
    DualSolution,
    dual_solution,
    rounded_weights,
    signed_box,
)
from pairloom.pipeline.machines.svm_kernels import solve_gram

__all__ = [
    "SparseLogits",
    "SparseRows",
    "SparseWeights",
    "SupportWeights",
    "WeightColumns",
    "solve_support",
]


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows in the form that machines take: the arrays of CSR, and the columns that they touch.

    Attributes
    ----------
    data : (Z,) float32
    indices : (Z,) int64
        Columns.
    indptr : (n + 1,) int64
    support : (S,) int64
        The columns that occur in `indices`, ascending.
    n_features : int
    """

    data: NDArray[np.float32]
    indices: NDArray[np.int64]
    indptr: NDArray[np.int64]
    support: NDArray[np.int64]
    n_features: int

    @classmethod
    def of(cls, X: sparse.csr_array) -> SparseRows:
        """The rows of a canonical CSR matrix."""
        indices = X.indices.astype(np.int64)
        data = np.ascontiguousarray(X.data, np.float32)
        return cls(data, indices, X.indptr.astype(np.int64), np.unique(indices), X.shape[1])

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.data.nbytes + self.indices.nbytes + self.indptr.nbytes + self.support.nbytes

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        return len(self), self.n_features

    @classmethod
    def stacked(cls, several: Sequence[SparseRows]) -> SparseRows:
        """The stacked rows of several classes."""
        offsets = np.cumsum([0, *(len(rows.data) for rows in several)])
        indptr = [rows.indptr[1:] + offset for rows, offset in zip(several, offsets[:-1], strict=True)]
        return cls(
            np.concatenate([rows.data for rows in several]),
            np.concatenate([rows.indices for rows in several]),
            np.concatenate([np.zeros(1, np.int64), *indptr]),
            reduce(merged, [rows.support for rows in several]),
            several[0].n_features,
        )


#: Problems with at most this many rows are solved on the Gram matrix of all of them, 16 MiB. Nearly all rows of text
#: are support vectors, so a working set would save little.
_GRAM_ROWS = 2048


class Solved(NamedTuple):
    """The machines of one problem: weights (M, S) or (M, D), decision values (M, n) on its rows, and norms (M,)."""

    solution: DualSolution
    coef: NDArray[np.float32]
    f: NDArray[np.float64]
    norms: NDArray[np.float64]


def solve_support(
    rows: SparseRows, y: NDArray[np.float64], upper: NDArray[np.float64], tol: float, max_iterations: int
) -> Solved:
    """Solve fits on sparse rows, with one row of ``upper`` per fit: see `svm.solve_rows`."""
    signs, low, high = signed_box(y, upper, np.float32)
    beta, coef = np.zeros_like(high), np.zeros((len(high), len(rows.support)), np.float32)
    places = places_in(rows.support, rows.indices, np.empty(rows.n_features, np.int32))
    csr = (rows.data, places, rows.indptr)
    if len(rows) <= _GRAM_ROWS:
        K, fits = sparse_gram(*csr, len(rows.support)), zip(beta, low, high, strict=True)
        each = [solve_gram(K, signs, *box, tol, max_iterations) for box in fits]
        certificate = tuple(np.array(values) for values in zip(*each, strict=True))
        add_rows(*csr, beta, coef)
    else:
        certificate = solve_sparse_rows(*csr, signs, beta, low, high, coef, tol, max_iterations, WORKING_SET)
    solution, coef = dual_solution(signs, beta, tol, *certificate), rounded_weights(coef, tol)
    return Solved(solution, coef, *sparse_decision_values(*csr, coef, solution.intercept))


@dataclass(frozen=True, eq=False)
class SparseWeights:
    """The weights (E, M, D) of the M machines of E edges, which are zero outside the support of each edge.

    Attributes
    ----------
    start : (E + 1,) int64
        Edge e has the columns ``column[start[e]:start[e + 1]]``.
    column : (S,) int32
    values : (S, M) float32
        The weights of all machines of the edge in that column.
    n_features : int
    """

    start: NDArray[np.int64]
    column: NDArray[np.int32]
    values: NDArray[np.float32]
    n_features: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(E, M, D)."""
        return len(self), self.values.shape[1], self.n_features

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.start.nbytes + self.column.nbytes + self.values.nbytes

    def __getitem__(self, edges: NDArray[np.integer] | NDArray[np.bool_] | slice) -> SparseWeights:
        """The weights of some edges, in this order."""
        chosen = np.arange(len(self))[edges]
        sizes = np.diff(self.start)[chosen]
        start = np.concatenate([[0], np.cumsum(sizes)])
        taken = np.arange(start[-1]) + np.repeat(self.start[chosen] - start[:-1], sizes)
        return SparseWeights(start, self.column[taken], self.values[taken], self.n_features)

    def copy(self) -> SparseWeights:
        """Itself: the arrays are never changed in place."""
        return self

    @classmethod
    def concatenated(cls, several: Sequence[SparseWeights]) -> SparseWeights:
        """The concatenated weights of several sets of edges."""
        sizes = np.concatenate([np.diff(one.start) for one in several])
        return cls(
            np.concatenate([[0], np.cumsum(sizes)]),
            np.concatenate([one.column for one in several]),
            np.concatenate([one.values for one in several]),
            several[0].n_features,
        )

    def replaced(self, edges: NDArray[np.integer], fresh: SparseWeights) -> SparseWeights:
        """The same with fresh weights for some edges."""
        source = np.arange(len(self))
        source[edges] = len(self) + np.arange(len(fresh))
        return SparseWeights.concatenated([self, fresh])[source]

    def norms(self) -> NDArray[np.float64]:
        """(E, M) |w| of every machine."""
        squares = np.concatenate([np.zeros((1, self.shape[1])), np.square(self.values, dtype=np.float64)])
        total = np.cumsum(squares, axis=0)
        return np.asarray(np.sqrt(np.maximum(total[self.start[1:]] - total[self.start[:-1]], 0.0)))

    def of_machine(self, m: int) -> sparse.csr_array:
        """(E, D) the weights of machine m of every edge."""
        return self._matrix(np.ascontiguousarray(self.values[:, m]))

    def combined(self, shares: NDArray[np.float64]) -> sparse.csr_array:
        """(E, D) the sum of the weights of an edge's machines times ``shares`` (E, M)."""
        of_column = np.repeat(shares.astype(np.float32), np.diff(self.start), axis=0)
        return self._matrix(np.einsum("sm,sm->s", of_column, self.values))

    def _matrix(self, values: NDArray[np.float32]) -> sparse.csr_array:
        return sparse.csr_array((values, self.column, self.start), shape=(len(self), self.n_features))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of a saved model, by name."""
        return {"support": self.start, "column": self.column, "weight": self.values}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_features: int) -> SparseWeights:
        """The weights from their saved `arrays`."""
        return cls(arrays["support"], arrays["column"], arrays["weight"], n_features)


class SupportWeights:
    """Collects the weights of the edges of a tile, which are trained one by one."""

    def __init__(self, n_edges: int, n_machines: int, n_features: int) -> None:
        self._columns = [np.empty(0, np.int32)] * n_edges
        self._values = [np.empty((0, n_machines), np.float32)] * n_edges
        self._n_features = n_features

    def put(self, e: int, support: NDArray[np.int64], coef: NDArray[np.float32]) -> None:
        """Set the weights (M, S) of edge e on its support; columns in which all of them are zero are left out."""
        used = np.flatnonzero(coef.any(axis=0))
        self._columns[e] = support[used].astype(np.int32)
        self._values[e] = np.ascontiguousarray(coef[:, used].T)

    def finished(self) -> SparseWeights:
        """The weights of all edges."""
        start = np.cumsum([0, *(len(columns) for columns in self._columns)])
        return SparseWeights(
            start, np.concatenate(self._columns), np.concatenate(self._values), self._n_features
        )


class WeightColumns(NamedTuple):
    """Weights (E, D) stored by column: column d has weights for the edges ``edge[start[d]:start[d + 1]]``."""

    start: NDArray[np.int64]
    edge: NDArray[np.int32]
    weight: NDArray[np.float32]

    @classmethod
    def of(cls, weights: sparse.csr_array) -> WeightColumns:
        """The columns of weights (E, D)."""
        columns = weights.tocsc()
        return cls(columns.indptr.astype(np.int64), columns.indices.astype(np.int32), columns.data)

    def add_products(self, X: sparse.csr_array, logits: NDArray[np.float32]) -> None:
        """Add the products of samples X (R, D) with the weights of all edges to logits (R, E), in place."""
        data = np.ascontiguousarray(X.data, np.float32)
        apply_to_rows(*self, data, X.indices.astype(np.int64), X.indptr.astype(np.int64), logits)


@dataclass(frozen=True, eq=False)
class SparseLogits:
    """The logit of edge e for a sample x is ``weights[e] @ x + bias[e]``: (E, D) CSR and (E,) float32.

    `linear_machines.AffineLogits` for weights that are mostly zero.
    """

    weights: sparse.csr_array
    bias: NDArray[np.float32]

    def __call__(self, X: sparse.csr_array) -> NDArray[np.float32]:
        """(E, R) float32 logits of samples X (R, D), contiguous per sample."""
        return self.by_sample(X).T

    def by_sample(self, X: sparse.csr_array) -> NDArray[np.float32]:
        """(R, E) float32 logits of samples X (R, D)."""
        logits = np.empty((X.shape[0], len(self.bias)), np.float32)
        logits[:] = self.bias
        self._by_column.add_products(X, logits)
        return logits

    @cached_property
    def _by_column(self) -> WeightColumns:
        return WeightColumns.of(self.weights)

    def calibrated(self, slope: NDArray[np.float64], shift: NDArray[np.float64]) -> SparseLogits:
        """The map with logits ``slope[e] * l + shift[e]``, where l are the logits of this one."""
        of_entry = np.repeat(slope, np.diff(self.weights.indptr))
        weights = self.weights.copy()
        weights.data = (weights.data * of_entry).astype(np.float32)
        return SparseLogits(weights, (self.bias * slope + shift).astype(np.float32))

    def ranking(self, potentials: object) -> None:
        """None: classes are ranked from the logits of all edges, since a ranking as a map would be dense."""

    def evidence(self, X: Any, normalisation: Normalisation, names: NDArray[np.object_]) -> LinearEvidence:
        """The contributions to the logits of one raw sample X (1, D); ``names`` are the names of the features."""
        sample = X.toarray() if sparse.issparse(X) else np.asarray(X)
        return LinearEvidence(self, sample[0], normalisation, names)
