"""Distances between classes, for graphs that join near classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, sparray, spmatrix
from scipy.spatial.distance import pdist, squareform


def class_means(
    X: NDArray[np.floating] | sparray | spmatrix, y: NDArray[np.integer], n_classes: int
) -> NDArray[np.float64]:
    """(N, D) means of the rows of each class; X may be sparse."""
    sums = _membership(y, n_classes) @ X
    sums = sums.toarray() if hasattr(sums, "toarray") else sums
    means: NDArray[np.float64] = sums / np.bincount(y, minlength=n_classes)[:, None]
    return means


def mean_distances(
    X: NDArray[np.floating] | sparray | spmatrix, y: NDArray[np.integer], n_classes: int
) -> NDArray[np.float64]:
    """(N, N) Euclidean distances between the class means; X may be sparse."""
    return distances_between(class_means(X, y, n_classes))


def distances_between(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, N) Euclidean distances between the class means (N, D)."""
    distances: NDArray[np.float64] = squareform(pdist(means))
    return distances


def distances_from(means: NDArray[np.float64], c: int) -> NDArray[np.float64]:
    """(N,) Euclidean distances of the class means (N, D) from that of class c."""
    return np.asarray(np.linalg.norm(means - means[c], axis=1))


def kernel_mean_distances(K: ArrayLike, y: NDArray[np.integer], n_classes: int) -> NDArray[np.float64]:
    """(N, N) distances between the class means in the feature space of a kernel matrix K (n, n)."""
    members = _membership(y, n_classes)
    members = members.multiply(1 / np.bincount(y, minlength=n_classes)[:, None]).tocsr()
    inner = members @ np.asarray(K, np.float64) @ members.T
    squared = np.diag(inner)[:, None] + np.diag(inner)[None, :] - inner - inner.T
    distances: NDArray[np.float64] = np.sqrt(np.maximum((squared + squared.T) / 2, 0))
    np.fill_diagonal(distances, 0)
    return distances


def _membership(y: NDArray[np.integer], n_classes: int) -> csr_array:
    """(N, n) sparse matrix of ones where a sample belongs to a class."""
    return csr_array((np.ones(len(y)), (y, np.arange(len(y)))), shape=(n_classes, len(y)))
