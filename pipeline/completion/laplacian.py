"""Potentials of a connected graph: u from its divergences, L u = b, where L is the Laplacian and b sums to zero.

There are three solvers. For a complete graph, L u = n u. For few classes, the dense matrix is factorised once. For many
classes, whose dense matrix would not fit into memory, the matrix is sparse: a graph that is almost a tree is factorised
with little fill-in, and other graphs, above all those with hubs, take some fifteen steps of conjugate gradients,
whatever their size.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array
from scipy.sparse.linalg import splu

from pairloom.pipeline.threads import pieces

__all__ = ["Solve", "laplacian_solver", "solver_bytes"]

#: Most classes whose dense matrix is factorised: 32 MiB.
_FEW_CLASSES = 2048
#: Columns that are solved at once.
_COLUMNS = 64
#: Relative residual at which conjugate gradients stop.
_TOLERANCE = 1e-9


class Solve(Protocol):
    """Maps divergences (N, columns), or a single column (N,), to potentials that sum to zero."""

    def __call__(self, sums: NDArray[np.floating]) -> NDArray[np.floating]:
        """The potentials."""


def laplacian_solver(n: int, edges: NDArray[np.int64]) -> Solve:
    """The solver for a connected graph of n classes with these edges (E, 2)."""
    if len(edges) == n * (n - 1) // 2:
        return _divided
    if n <= _FEW_CLASSES:
        return partial(_by_factor, _dense_factor(n, edges))
    return SparseLaplacian(n, edges)


def solver_bytes(n: int, n_edges: int) -> int:
    """Peak memory of a solver: a factor with copies, or a sparse matrix and a few columns."""
    if n <= _FEW_CLASSES:
        return 3 * 8 * n**2
    return 2 * n_edges * 60 + 6 * 8 * _COLUMNS * n


def _divided(sums: NDArray[np.floating]) -> NDArray[np.floating]:
    """The potentials of a complete graph."""
    return np.asarray(sums / sums.dtype.type(len(sums)))


def _by_factor(factor: NDArray[np.float64], sums: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.asarray(cho_solve((factor, True), sums, check_finite=False))


def _dense_factor(n: int, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """Cholesky factor of the Laplacian plus the projector onto the constants.

    Divergences sum to zero, so the projector does not change the solution; it makes the matrix regular.
    """
    regular = np.full((n, n), 1 / n)
    regular[edges[:, 0], edges[:, 1]] -= 1
    regular[edges[:, 1], edges[:, 0]] -= 1
    np.fill_diagonal(regular, np.bincount(edges.ravel(), minlength=n) + 1 / n)
    factor, _ = cho_factor(regular, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(factor)


class SparseLaplacian:
    """The Laplacian of a connected graph as a sparse matrix.

    Parameters
    ----------
    n : int
    edges : (E, 2) int array
    """

    def __init__(self, n: int, edges: NDArray[np.int64]) -> None:
        self.n, self._edges = n, edges

    def __call__(self, sums: NDArray[np.floating]) -> NDArray[np.float64]:
        """(N, columns) potentials."""
        columns = sums.reshape(self.n, -1)
        potentials = np.empty(columns.shape)
        solve = self._by_elimination if len(self._edges) < 2 * self.n else self._by_conjugate_gradients
        for some in pieces(columns.shape[1], _COLUMNS):
            b = np.ascontiguousarray(columns[:, some], np.float64)
            # Rounded divergences do not sum to zero exactly. The rest has no potentials: iterations would never end.
            u = solve(b - b.mean(axis=0))
            potentials[:, some] = u - u.mean(axis=0)
        return potentials.reshape(sums.shape)

    def __getstate__(self) -> dict[str, Any]:
        """Without cached properties: scipy's factor cannot be pickled."""
        return {"n": self.n, "_edges": self._edges}

    @cached_property
    def _matrix(self) -> csr_array:
        """The Laplacian."""
        i, j = self._edges.T
        every = np.arange(self.n)
        rows, columns = np.concatenate([every, i, j]), np.concatenate([every, j, i])
        degrees = np.bincount(self._edges.ravel(), minlength=self.n)
        values = np.concatenate([degrees, np.full(2 * len(i), -1.0)])
        return csr_array((values, (rows, columns)), shape=(self.n, self.n))

    @cached_property
    def _factor(self) -> Any:
        """The factor of the Laplacian without the first class, whose potential is set to zero."""
        grounded = self._matrix[1:, 1:].tocsc()
        return splu(grounded, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})

    def _by_elimination(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate([np.zeros((1, b.shape[1])), self._factor.solve(b[1:])])

    def _by_conjugate_gradients(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        """Conjugate gradients on all columns at once, preconditioned by the degrees."""
        L, degrees = self._matrix, self._matrix.diagonal()[:, None]
        u, r = np.zeros_like(b), b.copy()
        enough = _TOLERANCE * np.linalg.norm(b, axis=0)
        z = r / degrees
        p, rz = z.copy(), _products(r, z)
        for _ in range(self.n):
            if (np.linalg.norm(r, axis=0) <= enough).all():
                break
            q = L @ p
            step = _ratio(rz, _products(p, q))
            u += step * p
            r -= step * q
            z = r / degrees
            rz, before = _products(r, z), rz
            p = z + _ratio(rz, before) * p
        return u


def _products(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inner products of columns."""
    return np.asarray(np.einsum("nc,nc->c", a, b))


def _ratio(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """a / b, or zero for a column that is solved exactly."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
