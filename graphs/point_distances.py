"""Distances between classes given as points, in blocks of rows: the whole matrix need not fit into memory."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["PointDistances"]

#: Distances that are computed at once: 32 MiB of float32.
_AT_ONCE = 2**23
#: A pass keeps the nearest points of each: at least _KEPT, and _MARGIN more than were asked for.
_KEPT, _MARGIN = 64, 24


class _Overview(NamedTuple):
    """The results of one pass over all distances.

    Attributes
    ----------
    sums : (n,) float64 array
        Sums of the distances of each point to all others, to the precision of float32.
    nearest : (n, k) int64 array
        The nearest points of each, the nearest first.
    """

    sums: NDArray[np.float64]
    nearest: NDArray[np.int64]


class PointDistances:
    """Euclidean distances between n points, for graphs that are built from the nearest of them.

    ``len(distances)`` is n, ``distances[i]`` are those of point i, and ``numpy.asarray(distances)`` are all of them.

    One pass of matrix products in float32 finds candidates for the nearest and for the most central points. Candidates
    are compared by distances in float64, so the result does not depend on how the products round.

    Parameters
    ----------
    points : (n, D) array or CSR array

    Examples
    --------
    >>> line = PointDistances(np.array([[0.0], [1.0], [3.0]]))
    >>> line[0], line.nearest(1).ravel(), line.central(1)
    (array([0., 1., 3.]), array([1, 0, 1]), [1])
    """

    def __init__(self, points: Any) -> None:
        self._points = points
        self._is_dense = isinstance(points, np.ndarray)
        squares = points**2 if self._is_dense else points.multiply(points)
        self._squares = np.asarray(squares.sum(axis=1), np.float64).ravel()
        self._overviews: dict[int, _Overview] = {}

    def __len__(self) -> int:
        """n, the number of points."""
        return int(self._points.shape[0])

    def __getitem__(self, i: int) -> NDArray[np.float64]:
        """(n,) distances of point i."""
        if self._is_dense:
            return np.asarray(np.linalg.norm(self._points - self._points[i], axis=1))
        products = (self._points @ self._points[[i]].T).toarray()[:, 0]
        distances = np.sqrt(np.maximum(self._squares + self._squares[i] - 2 * products, 0))
        distances[i] = 0
        return np.asarray(distances)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """(n, n) all distances."""
        return np.array([self[i] for i in range(len(self))], dtype or np.float64)

    def nearest(self, k: int) -> NDArray[np.int64]:
        """(n, k) the k points nearest to each point, the nearest first; of equal distances, the first."""
        return self._overview(k).nearest[:, :k]

    def central(self, count: int) -> list[int]:
        """The points with the smallest sums of distances to the others, ascending; of equal sums, the first."""
        candidates = np.sort(np.argsort(self._overview(1).sums, kind="stable")[: count + _MARGIN])
        sums = np.array([self[i].sum() for i in candidates.tolist()])
        chosen: list[int] = candidates[np.argsort(sums, kind="stable")[:count]].tolist()
        return sorted(chosen)

    def _overview(self, k: int) -> _Overview:
        """One pass over all distances, or an earlier one that kept as many points."""
        kept = min(len(self) - 1, max(_KEPT, k + _MARGIN))
        if kept not in self._overviews:
            self._overviews[kept] = self._passed(kept)
        return self._overviews[kept]

    def _passed(self, k: int) -> _Overview:
        n = len(self)
        sums, nearest = np.empty(n), np.empty((n, k), np.int64)
        rows = max(1, _AT_ONCE // n)
        for start in range(0, n, rows):
            block = slice(start, min(start + rows, n))
            squared = self._squared(block)
            np.fill_diagonal(squared[:, start:], np.inf)
            near = np.sort(np.argpartition(squared, k - 1, axis=1)[:, :k], axis=1) if k else nearest[block]
            np.fill_diagonal(squared[:, start:], 0)
            sums[block] = np.sqrt(squared, out=squared).sum(axis=1, dtype=np.float64)
            nearest[block] = self._sorted(block, near)
        return _Overview(sums, nearest)

    def _squared(self, block: slice) -> NDArray[np.float32]:
        """(r, n) squared distances of some points, in float32."""
        moved, squares = self._moved
        products = moved[block] @ moved.T
        squared = -2 * (products if self._is_dense else products.toarray()) + squares
        squared += squares[block, None]
        return np.asarray(np.maximum(squared, 0, out=squared))

    @cached_property
    def _moved(self) -> tuple[Any, NDArray[np.float32]]:
        """The points less their mean, so that differences lose few digits, and their squared norms; CSR unmoved."""
        if not self._is_dense:
            return self._points, self._squares.astype(np.float32)
        moved = (self._points - self._points.mean(axis=0)).astype(np.float32)
        return moved, np.einsum("nd,nd->n", moved, moved)

    def _sorted(self, block: slice, near: NDArray[np.int64]) -> NDArray[np.int64]:
        """(r, k) the candidates of each point of a block, by ascending distance in float64."""
        ordered = np.empty_like(near)
        for i, candidates in enumerate(near):
            ordered[i] = candidates[np.argsort(self._between(block.start + i, candidates), kind="stable")]
        return ordered

    def _between(self, i: int, others: NDArray[np.int64]) -> NDArray[np.float64]:
        """The distances of a point from some others, to sort them; of CSR points, squared and less a constant."""
        if self._is_dense:
            return np.asarray(np.linalg.norm(self._points[others] - self._points[i], axis=1))
        products = (self._points[others] @ self._points[[i]].T).toarray()[:, 0]
        return np.asarray(self._squares[others] - 2 * products)
