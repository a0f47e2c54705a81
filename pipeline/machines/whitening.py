"""Whitening: the space that the machines see, shaped by the covariance that all classes share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from pairloom.pipeline.machines.class_scatter import ClassScatter, class_scatter, scatter_parts

__all__ = [
    "Shrinkage",
    "Whitening",
    "WithinClasses",
    "centred_at",
    "centring",
    "fit_whitening",
    "is_whitened",
    "within_classes",
    "within_classes_of",
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


def within_classes(parts: Iterable[ClassScatter]) -> WithinClasses:
    """Decompose the pooled within-class covariance of the rows of all classes, from the parts of `scatter_parts`."""
    counts_of, means_of, scatter = [], [], None
    for part in parts:
        counts_of.append(part.counts)
        means_of.append(part.means)
        scatter = part.scatter if scatter is None else scatter + part.scatter
    counts, means = np.concatenate(counts_of), np.concatenate(means_of)
    n = counts.sum()
    mean = counts @ means / n
    apart = (means - mean) * np.sqrt(counts)[:, None]
    values, vectors = eigh(scatter / n)
    return WithinClasses(mean, np.maximum(values, 0), vectors, (scatter + apart.T @ apart) / n)


def within_classes_of(
    X: NDArray[np.floating],
    members: Sequence[NDArray[np.integer]],
    held_out: NDArray[np.integer] | None = None,
) -> WithinClasses:
    """`within_classes` of rows X (n, D) in memory, given the rows of each class, without those that are held out."""
    D, sizes = X.shape[1], np.array([len(rows) for rows in members])
    kept = np.ones(len(X), bool)
    kept[[] if held_out is None else held_out] = False

    def read(c: int, rows: slice) -> NDArray[np.floating]:
        own = members[c][rows]
        return X[own[kept[own]]]

    return within_classes(class_scatter(read, part, sizes, D) for part in scatter_parts(len(members), D))


def centring(X: NDArray[np.floating]) -> Whitening:
    """The whitening that only subtracts the mean of rows X."""
    return centred_at(X.mean(axis=0, dtype=np.float64))


def centred_at(mean: NDArray[np.float64]) -> Whitening:
    """The whitening that only subtracts a mean."""
    return Whitening(mean.astype(np.float32), np.empty((0, 0), np.float32))


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
    members = [np.flatnonzero(y == c) for c in range(int(y.max()) + 1)]
    return within_classes_of(X, members, held_out).whitening(shrinkage)
