"""Moments of training rows: their mean, extremes and variance, and the means of the classes, in one pass.

Rows may come in pieces, from a file that is larger than memory. They are added one by one in their order, so that the
pieces change no bit: the estimator, which has all rows, and a run, which never has, find the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.features.moments_kernels import add_rows

__all__ = ["Moments", "RowPieces", "find_moments", "moments_of"]

#: Opens the rows for one pass: pieces (n, D) in their order, each with the classes (n,) of its rows.
RowPieces = Callable[[], Iterable[tuple[NDArray[np.floating], NDArray[np.integer]]]]

# Squares of numbers up to 2^400 can be added in float64: all float32 can, and all but absurd float64.
_LARGEST_EXPONENT = 400


class Moments(NamedTuple):
    """Sums over rows that were divided by 2^exponent.

    Attributes
    ----------
    counts : (N,) rows per class
    totals : (N, D) sums of the rows of each class
    total : (D,) sum of all rows, in their order
    squares : (D,) sums of squared deviations from the mean
    lowest, highest : (D,) extremes of the rows as they came, in their type
    exponent : int
    """

    counts: NDArray[np.int64]
    totals: NDArray[np.float64]
    total: NDArray[np.float64]
    squares: NDArray[np.float64]
    lowest: NDArray[np.floating]
    highest: NDArray[np.floating]
    exponent: int

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The type of the rows."""
        return self.lowest.dtype

    @property
    def centre(self) -> NDArray[np.float64]:
        """(D,) mean of the rows."""
        return np.asarray(np.ldexp(self.total / self.counts.sum(), self.exponent))

    @property
    def class_means(self) -> NDArray[np.float64]:
        """(N, D) means of the classes."""
        return np.asarray(np.ldexp(self.totals / self.counts[:, None], self.exponent))

    @property
    def varied(self) -> NDArray[np.bool_]:
        """(D,) whether a column has two different values."""
        return np.asarray(self.lowest < self.highest)

    @property
    def deviations(self) -> NDArray[np.float64]:
        """(D,) standard deviations of the columns; 1 for a constant column, so that nothing is divided by zero."""
        variance = self.squares / int(self.counts.sum())
        deviations = np.ldexp(np.sqrt(np.maximum(variance, 0.0)), self.exponent)
        return np.where(self.varied & (deviations > 0), deviations, 1.0)

    def total_variance(self, exponent: int) -> float:
        """The sum of the variances of the columns of rows divided by 2^exponent: the mean squared norm once centred."""
        # A constant column has no variance, although its mean may be rounded.
        varied = self.squares[self.varied]
        return math.ldexp(
            max(0.0, float(varied.sum())) / int(self.counts.sum()), 2 * (self.exponent - exponent)
        )


def moments_of(X: NDArray[np.floating], y: NDArray[np.integer] | None = None, n_classes: int = 1) -> Moments:
    """The moments of rows in memory; without classes, all rows are of one class."""
    classes = np.zeros(len(X), np.int64) if y is None else y
    return find_moments(lambda: [(X, classes)], X.shape[1], n_classes)


def find_moments(pieces: RowPieces, n_features: int, n_classes: int) -> Moments:
    """The moments of rows that come in pieces.

    One pass is enough unless the numbers are so large or so small (beyond 2^400, of float64 only) that their squares
    would overflow or vanish. Then a second pass adds the rows divided by a power of two.
    """
    moments = _added(pieces(), n_features, n_classes, 0)
    largest = max(float(np.abs(moments.lowest).max()), float(np.abs(moments.highest).max()))
    exponent = math.frexp(largest)[1]
    return (
        moments if abs(exponent) <= _LARGEST_EXPONENT else _added(pieces(), n_features, n_classes, exponent)
    )


def _added(
    pieces: Iterable[tuple[NDArray[np.floating], NDArray[np.integer]]], D: int, N: int, exponent: int
) -> Moments:
    total, squares, totals = np.zeros(D), np.zeros(D), np.zeros((N, D))
    counts, extremes = np.zeros(N, np.int64), None
    for X, y in pieces:
        if extremes is None:
            extremes = np.full(D, np.inf, X.dtype), np.full(D, -np.inf, X.dtype)
        add_rows(
            np.ascontiguousarray(X),
            y,
            math.ldexp(1.0, -exponent),
            int(counts.sum()),
            total,
            squares,
            *extremes,
            totals,
        )
        counts += np.bincount(y, minlength=N)
    assert extremes is not None
    return Moments(counts, totals, total, squares, *extremes, exponent)
