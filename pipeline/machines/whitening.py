"""Whitening: the space that the machines see, shaped by the covariance that all classes share."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_array

__all__ = [
    "Shrinkage",
    "Whitening",
    "WithinClasses",
    "centring",
    "fit_whitening",
    "is_whitened",
    "within_classes",
]

#: How far the covariance is shrunk towards a multiple of the identity, from 0 to 1; "none" leaves features as they are.
Shrinkage = float | Literal["none"]


def is_whitened(shrinkage: Shrinkage) -> bool:
    """Whether a shrinkage asks for whitening at all."""
    return shrinkage != "none"


class Whitening(NamedTuple):
    """x -> (x - mean) @ factor. An empty factor is the identity: centring only."""

    mean: NDArray[np.float32]
    factor: NDArray[np.float32]

    def __call__(self, X: NDArray[np.floating]) -> NDArray[Any]:
        centred = X - self.mean
        return centred @ self.factor if self.factor.size else centred

    def fold_back(
        self, weights: NDArray[np.float32], bias: NDArray[np.float64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """The affine map of raw features that equals weights (E, D), bias (E,) on whitened ones."""
        raw = weights @ self.factor.T if self.factor.size else weights
        return raw, bias - raw.astype(np.float64) @ self.mean


class WithinClasses(NamedTuple):
    """The covariance of training rows about their class means, decomposed once for every shrinkage that is tried.

    S = vectors @ diag(values) @ vectors.T; total is the covariance about the mean of all rows.
    """

    mean: NDArray[np.float64]
    values: NDArray[np.float64]
    vectors: NDArray[np.float64]
    total: NDArray[np.float64]

    def whitening(self, shrinkage: float) -> Whitening:
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


def within_classes(X: NDArray[np.floating], y: NDArray[np.integer]) -> WithinClasses:
    """Decompose the pooled within-class covariance of rows X (n, D) with classes y (n,) counted from 0."""
    counts = np.bincount(y)
    mean = X.mean(axis=0, dtype=np.float64)
    centred = np.asarray(X - mean, np.float32)
    members = csr_array((np.ones(len(y), np.float32), (y, np.arange(len(y)))), shape=(len(counts), len(y)))
    means = (members @ centred).astype(np.float64) / np.maximum(counts, 1)[:, None]
    total = (centred.T @ centred).astype(np.float64) / len(X)
    values, vectors = eigh(total - (means * counts[:, None]).T @ means / len(X))
    return WithinClasses(mean, np.maximum(values, 0), vectors, total)


def centring(X: NDArray[np.floating]) -> Whitening:
    """The whitening that only subtracts the mean."""
    return Whitening(X.mean(axis=0, dtype=np.float64).astype(np.float32), np.empty((0, 0), np.float32))


def fit_whitening(
    X: NDArray[np.floating],
    y: NDArray[np.integer],
    shrinkage: Shrinkage = "none",
    held_out: NDArray[np.integer] | None = None,
) -> Whitening:
    """The whitening of rows X with classes y at a shrinkage in [0, 1]; "none" centres only.

    A machine sees two classes only, but the shape of the classes is shared by all of them. The covariance is found
    without the rows ``held_out``: see `calibration.drawn_samples.draws_by_class`.
    """
    if shrinkage == "none":
        return centring(X)
    others = np.arange(len(X)) if held_out is None else np.delete(np.arange(len(X)), held_out)
    return within_classes(X[others], y[others]).whitening(shrinkage)
