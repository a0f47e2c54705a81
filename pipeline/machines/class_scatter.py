"""The scatter of rows about the means of their classes, summed in an order that the data alone decide.

A sum of floats depends on its order, and a matrix product on its shape. Here both follow from the sizes of the classes:
consecutive classes make a part, and within a part, rows are multiplied batch by batch. So a run that adds the parts of
many workers has the bits of an estimator that has all rows in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.pieces import pieces

__all__ = ["ClassScatter", "ReadRows", "class_scatter", "rows_per_batch", "scatter_parts"]

# Numbers in the rows that are multiplied at once: 16 MiB of float32.
_BATCH_NUMBERS = 2**22
# A run stores the parts: they take this together, or are a few. A part has at least so many classes, if there are.
_STORED_BYTES, _FEWEST_PARTS, _MOST_PARTS, _FEWEST_CLASSES = 2**28, 4, 32, 4

#: ``read(c, rows)`` are the normalised rows of class c in a slice of its rows, without those that are held out.
ReadRows = Callable[[int, slice], NDArray[np.floating]]


class ClassScatter(NamedTuple):
    """Some classes: how many rows each has, their means (n, D), and the sum over all rows of their scatter (D, D).

    The scatter of a row x is (x - m)(x - m)', m being the mean of its class.
    """

    counts: NDArray[np.int64]
    means: NDArray[np.float64]
    scatter: NDArray[np.float64]


def scatter_parts(n_classes: int, n_features: int) -> list[slice]:
    """The consecutive classes of each part."""
    parts = min(_MOST_PARTS, max(_FEWEST_PARTS, _STORED_BYTES // (8 * n_features**2)))
    return pieces(n_classes, max(_FEWEST_CLASSES, -(-n_classes // parts)))


def rows_per_batch(n_features: int) -> int:
    """How many rows are read and multiplied at once."""
    return max(1, _BATCH_NUMBERS // n_features)


def class_scatter(read: ReadRows, classes: slice, sizes: NDArray[np.int64], n_features: int) -> ClassScatter:
    """The scatter of some consecutive classes with these ``sizes``, held-out rows included.

    A class with more rows than a batch is centred at the mean of its first batch, and what that lacks of its own mean
    is made up for at its end.
    """
    n, D, most = classes.stop - classes.start, n_features, rows_per_batch(n_features)
    counts, means, scatter = np.zeros(n, np.int64), np.zeros((n, D)), np.zeros((D, D))
    beside = np.zeros(D)  # the sum of a large class's rows, less its first mean
    for batch in _batches(classes, sizes, most):
        deviations = []
        for c, rows in batch:
            X, at = read(c, rows), c - classes.start
            if rows.start == 0 and len(X):
                means[at] = X.mean(axis=0, dtype=np.float64)
            deviations.append(np.asarray(X - means[at], np.float32))
            counts[at] += len(X)
        stacked = np.concatenate(deviations)
        scatter += stacked.T @ stacked
        if sizes[c] > most:
            beside = stacked.sum(axis=0, dtype=np.float64) + (beside if rows.start else 0.0)
            if rows.stop == sizes[c] and counts[at]:
                scatter -= np.outer(beside, beside) / counts[at]
                means[at] += beside / counts[at]
    return ClassScatter(counts, means, scatter)


def _batches(classes: slice, sizes: NDArray[np.int64], most: int) -> Iterator[list[tuple[int, slice]]]:
    """Whole classes that together have at most so many rows; a larger class comes alone, in several batches.

    Examples
    --------
    >>> list(_batches(slice(0, 3), np.array([2, 2, 5]), 4))
    [[(0, slice(0, 2, None)), (1, slice(0, 2, None))], [(2, slice(0, 4, None))], [(2, slice(4, 5, None))]]
    """
    batch: list[tuple[int, slice]] = []
    taken = 0
    for c in range(classes.start, classes.stop):
        size = int(sizes[c])
        if batch and taken + size > most:
            yield batch
            batch, taken = [], 0
        if size > most:
            yield from ([(c, rows)] for rows in pieces(size, most))
        else:
            batch.append((c, slice(0, size)))
            taken += size
    if batch:
        yield batch
