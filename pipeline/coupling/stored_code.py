"""A code matrix in the form that the kernels read: the classes of each machine, and the machines of each class."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Bounds of each list, the entries of all lists, and the sign of each entry.
Lists: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


class StoredCode(NamedTuple):
    """A checked code matrix and its entries, by machine and by class."""

    matrix: NDArray[np.int8]
    by_machine: Lists
    by_class: Lists

    @classmethod
    def of(cls, matrix: NDArray[np.int8]) -> StoredCode:
        """The stored form of a matrix that `check_code` returned."""
        return cls(matrix, _lists(matrix.T), _lists(matrix))


def _lists(signs: NDArray[np.int8]) -> Lists:
    """The entries of each row that are not zero, in ascending order."""
    row, column = np.nonzero(signs)
    bounds = np.searchsorted(row, np.arange(len(signs) + 1))
    return bounds.astype(np.int64), column.astype(np.int64), signs[row, column].astype(np.float64)
