"""The ranking of all classes of a sample: least-squares potentials of the trained pairs, without the tensor.

The potentials u minimise the sum over trained pairs of (u_i - u_j - L_ij)^2: `normal` coupling of a graph that is not
completed, and `normal` itself if all pairs are trained. They are linear in the logits. So they are computed once for
every scale; and where the machines are affine, so is the ranking: one row of weights per class.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from pairloom.pipeline.completion.shortlist_kernels import divergences
from pairloom.pipeline.pieces import pieces

__all__ = ["Ranking", "plan_ranking"]

_COLUMNS = 64


class Ranking(NamedTuple):
    """From the logits of the edges to the potentials of the classes.

    Attributes
    ----------
    n_classes : int
    edges : (E, 2) int array
    factor : (N, N) or (0, 0) float64 array
        Cholesky factor of the Laplacian plus the projector onto the constants. Empty for a complete graph, of which the
        potentials are the divergences divided by N.
    """

    n_classes: int
    edges: NDArray[np.int64]
    factor: NDArray[np.float64]

    def potentials(self, edge_values: NDArray[np.floating]) -> NDArray[np.float32]:
        """(N, columns) potentials, which sum to zero, from columns of values of the edges (E, columns)."""
        potentials = np.empty((self.n_classes, edge_values.shape[1]), np.float32)
        # A few columns at a time: of half a million edges a second copy would be a gigabyte.
        for columns in pieces(edge_values.shape[1], _COLUMNS):
            some = np.ascontiguousarray(edge_values[:, columns].T, np.float32)
            potentials[:, columns] = self.of_samples(some).T
        return potentials

    def of_samples(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """(R, N) potentials of samples from their logits (R, E)."""
        sums = np.empty((len(logits), self.n_classes), np.float32)
        divergences(logits, self.edges, sums)
        return np.ascontiguousarray(self.solved(sums.T).T)

    def solved(self, sums: NDArray[np.floating]) -> NDArray[np.float32]:
        """(N, columns) potentials from columns of divergences (N, columns), which sum to zero: a symmetric matrix."""
        if not self.factor.size:
            return np.asarray(sums / np.float32(len(sums)), np.float32)
        return np.asarray(cho_solve((self.factor, True), sums, check_finite=False), np.float32)


def plan_ranking(n: int, edges: NDArray[np.int64]) -> Ranking:
    """The ranking of a connected graph of n classes, factorised once."""
    if len(edges) == n * (n - 1) // 2:
        return Ranking(n, edges, np.empty((0, 0)))
    # The divergences sum to zero, so adding a multiple of the projector onto the constants changes nothing but to make
    # the matrix regular.
    regular = np.full((n, n), 1 / n)
    regular[edges[:, 0], edges[:, 1]] -= 1
    regular[edges[:, 1], edges[:, 0]] -= 1
    np.fill_diagonal(regular, np.bincount(edges.ravel(), minlength=n) + 1 / n)
    factor, _ = cho_factor(regular, lower=True, overwrite_a=True, check_finite=False)
    return Ranking(n, edges, factor)
