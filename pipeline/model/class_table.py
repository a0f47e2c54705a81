"""The classes of a fitted model: labels, shares of the training set, and checksums to recognise their rows by."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.labels import did_you_mean, listed, quoted

__all__ = ["ClassTable", "checksum"]


class ClassTable(NamedTuple):
    """One entry per class, in the order of the sorted labels.

    Attributes
    ----------
    labels : (N,) array
    totals : (N,) float64
        The training samples of each class, or the sum of their weights.
    keys : (N,) int64
        The number that seeds the folds of each class: it stays the same when other classes come and go.
    checksums : (N,) int64
        Of the training rows of each class, in their order; empty where they are not needed.
    """

    labels: NDArray[Any]
    totals: NDArray[np.float64]
    keys: NDArray[np.int64]
    checksums: NDArray[np.int64]

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of each class in the training samples."""
        return np.asarray(self.totals / self.totals.sum())

    def index_of(self, label: object, owner: str) -> int:
        """The index of a label, or an error that names the nearest one."""
        found = np.flatnonzero(_same_kind(self.labels, label) and self.labels == label)
        if not len(found):
            raise ValueError(
                f"{owner}: label must be one of {listed(self.labels)}, got {quoted(label)}."
                f"{did_you_mean(label, self.labels)}"
            )
        return int(found[0])

    def with_class(self, label: Any, n_samples: int, sum_of_rows: int) -> tuple[ClassTable, int]:
        """The table with one more class, and the index of that class."""
        place = int(np.searchsorted(self.labels, label))
        # Labels of strings may be longer than those before: concatenation widens the dtype, insertion would cut them.
        new = np.array([label], dtype=self.labels.dtype if self.labels.dtype.kind == "O" else None)
        table = ClassTable(
            labels=np.concatenate([self.labels[:place], new, self.labels[place:]]),
            totals=np.insert(self.totals, place, n_samples),
            keys=np.insert(self.keys, place, self.keys.max() + 1),
            checksums=np.insert(self.checksums, place, sum_of_rows),
        )
        return table, place

    def without(self, c: int) -> ClassTable:
        """The table without one class."""
        return ClassTable(*(np.delete(values, c) for values in self))

    def check_new_label(self, label: Any, owner: str) -> None:
        """Raise unless a label is of the type of the others, and not one of them."""
        if not _same_kind(self.labels, label):
            raise TypeError(
                f"{owner}: label must be of the type of the model's labels, such as {quoted(self.labels[0])},"
                f" got {quoted(label)} of type {type(label).__name__}."
            )
        if (self.labels == label).any():
            raise ValueError(f"{owner}: label must be new, got {quoted(label)}, which is a class already.")


def _same_kind(labels: NDArray[Any], label: Any) -> bool:
    """Whether a label belongs among these: strings among strings, integers among integers, and no NaN."""
    value = np.asarray(label)
    if value.ndim or value != value:
        return False
    if labels.dtype.kind == "O":
        return isinstance(label, type(labels[0]))
    if isinstance(label, (str, int)) and value.item() != label:  # numpy drops NUL at the end of a string
        return False
    kinds = {"i": "iu", "u": "iu", "f": "fiu"}.get(labels.dtype.kind, labels.dtype.kind)
    if value.dtype.kind not in kinds:
        return False
    # Not an integer that makes floats of the others, as 2**64 - 1 does among signed ones.
    return np.concatenate([labels[:1], value[None]]).dtype.kind in kinds


def checksum(rows: NDArray[Any], before: int = 0) -> int:
    """A checksum of the rows of a class, in their order, as float32; ``before`` is that of the rows before them."""
    return zlib.crc32(np.ascontiguousarray(rows, np.float32).tobytes(), before)
