"""Distances between classes, for graphs that join near classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import pdist, squareform

from pairloom.graphs import PointDistances

#: Classes whose distances are computed all at once: 32 MiB, a second.
_FEW_CLASSES = 2048


def class_totals(X: Any, y: NDArray[np.integer], n_classes: int) -> Any:
    """(N, D) sums of the rows of each class; CSR with ascending columns if X is sparse."""
    sums = _membership(y, n_classes) @ X
    if issparse(sums):
        sums.sort_indices()
    return sums


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
    """(N, N) Euclidean distances between the class means (N, D), dense or CSR; of many classes, block by block."""
    if means.shape[0] > _FEW_CLASSES:
        return PointDistances(means)
    if issparse(means):
        return _distances((means @ means.T).toarray())
    distances: NDArray[np.float64] = squareform(pdist(means))
    return distances


def distances_from(means: Any, c: int) -> NDArray[np.float64]:
    """(N,) Euclidean distances of the class means (N, D), dense or CSR, from that of class c."""
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
