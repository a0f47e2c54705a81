"""Distances between classes, for graphs that join near ones."""

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist, squareform


def class_means(X, y, n_classes):
    """(N, D) means of the rows of each class; X may be sparse."""
    members = csr_array((np.ones(len(y)), (y, np.arange(len(y)))), shape=(n_classes, len(y)))
    sums = members @ X
    sums = sums.toarray() if hasattr(sums, "toarray") else sums
    return sums / np.bincount(y, minlength=n_classes)[:, None]


def mean_distances(X, y, n_classes):
    """(N, N) Euclidean distances between the class means."""
    return squareform(pdist(class_means(X, y, n_classes)))


def kernel_mean_distances(K, y, n_classes):
    """(N, N) distances between the class means in the feature space of a kernel matrix K (n, n)."""
    members = csr_array((np.ones(len(y)), (y, np.arange(len(y)))), shape=(n_classes, len(y)))
    members = members.multiply(1 / np.bincount(y, minlength=n_classes)[:, None]).tocsr()
    inner = members @ np.asarray(K, np.float64) @ members.T
    squared = np.diag(inner)[:, None] + np.diag(inner)[None, :] - inner - inner.T
    distances = np.sqrt(np.maximum((squared + squared.T) / 2, 0))
    np.fill_diagonal(distances, 0)
    return distances
