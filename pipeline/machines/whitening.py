"""Whitening: the space that the machines see, shaped by what all classes share."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array


class Whitening(NamedTuple):
    """x -> (x - mean) @ factor. An empty factor is the identity: centring only."""

    mean: np.ndarray
    factor: np.ndarray

    def __call__(self, X):
        centred = X - self.mean
        return centred @ self.factor if self.factor.size else centred

    def fold_back(self, weights, bias):
        """The affine map of raw features that equals weights (E, D), bias (E,) on whitened ones."""
        raw = weights @ self.factor.T if self.factor.size else weights
        return raw, bias - raw.astype(np.float64) @ self.mean


class WithinClasses(NamedTuple):
    """The covariance of training rows about their class means, decomposed once for every shrinkage that is tried.

    S = vectors @ diag(values) @ vectors.T; total is the covariance about the mean of all rows.
    """

    mean: np.ndarray
    values: np.ndarray
    vectors: np.ndarray
    total: np.ndarray

    def whitening(self, shrinkage):
        """Machines see S^(-1/2) (x - mean), with S shrunk to (1 - t) S + t (tr S / D) I.

        The factor is scaled so that the mean squared norm of the centred rows stays as it was: then a C means the
        same with whitening and without.
        """
        values = (1 - shrinkage) * self.values + shrinkage * self.values.mean()
        if not values.max() > 0:
            return Whitening(self.mean.astype(np.float32), np.eye(len(values), dtype=np.float32))
        values = np.maximum(values, 1e-10 * values.max())  # a constant column has no variance to divide by
        factor = (self.vectors / np.sqrt(values)) @ self.vectors.T
        squared_norm = np.einsum("ij,ij->", factor @ self.total, factor)
        factor *= np.sqrt(np.trace(self.total) / squared_norm) if squared_norm > 0 else 1.0
        return Whitening(self.mean.astype(np.float32), factor.astype(np.float32))


def within_classes(X, y):
    """Decompose the pooled within-class covariance of rows X (n, D) with classes y (n,) counted from 0."""
    counts = np.bincount(y)
    mean = X.mean(axis=0, dtype=np.float64)
    centred = np.asarray(X - mean, np.float32)
    members = csr_array((np.ones(len(y), np.float32), (y, np.arange(len(y)))), shape=(len(counts), len(y)))
    means = (members @ centred).astype(np.float64) / np.maximum(counts, 1)[:, None]
    total = (centred.T @ centred).astype(np.float64) / len(X)
    values, vectors = eigh(total - (means * counts[:, None]).T @ means / len(X))
    return WithinClasses(mean, np.maximum(values, 0), vectors, total)


def centring(X):
    """The whitening that only takes off the mean."""
    return Whitening(X.mean(axis=0, dtype=np.float64).astype(np.float32), np.empty((0, 0), np.float32))


def fit_whitening(X, y, shrinkage=None):
    """The whitening of rows X with classes y at a shrinkage in [0, 1]; None centres only.

    A machine sees two classes only, but the shape of the classes is shared by all of them.
    """
    return centring(X) if shrinkage is None else within_classes(X, y).whitening(shrinkage)
