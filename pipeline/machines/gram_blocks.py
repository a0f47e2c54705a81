"""The Gram matrix of the training rows in blocks of two classes, from which those of the machines are put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.machines.kernel_function import KernelFunction

__all__ = ["KEPT_BYTES", "MOST_ROWS", "GramBlocks", "check_gram_rows", "gram_type"]

#: Rows of one problem: 2 GiB of Gram matrix in float32.
MOST_ROWS = 23_170
#: Blocks of a class with itself that are kept, as each is needed for every edge of the class; or, for machines on more
#: than two classes, the matrix of all rows.
KEPT_BYTES = 256 * 2**20
#: At smaller duality gaps the rounding errors of float32 show.
_FLOAT32_TOL = 1e-5


def gram_type(tol: float) -> Any:
    """The type of Gram matrices that machines with this tolerance are trained on."""
    return np.float32 if tol >= _FLOAT32_TOL else np.float64


def check_gram_rows(rows: int, owner: str) -> None:
    """Raise if a problem has more rows than its Gram matrix may have; ``owner`` is the parameter, for the error."""
    if rows > MOST_ROWS:
        raise ValueError(
            f"{owner}: the classes of one machine must have at most {MOST_ROWS:,} training rows together, whose kernel"
            f" matrix takes 2 GiB, got {rows:,}. Train on fewer rows, or use PairwiseSVC(estimator=SVC(...)), which"
            " holds no such matrix."
        )


class GramBlocks:
    """Blocks ``between(c, d)`` (n_c, n_d) of kernel values of the rows of two classes, computed when they are needed.

    A block depends on its two classes alone, to the bit. Threads may share an object: they may compute a block twice,
    and both find the same.
    """

    def __init__(
        self, between: Callable[[int, int], NDArray[Any]], sizes: Mapping[int, int], name: str, dtype: Any
    ) -> None:
        self._between, self._sizes, self._name, self._dtype = between, sizes, name, dtype
        self._own: dict[int, NDArray[Any]] = {}
        self._room = KEPT_BYTES
        self._whole: NDArray[Any] | None = None

    @classmethod
    def of_rows(
        cls, kernel: KernelFunction, class_rows: Mapping[int, NDArray[np.floating]], tol: float
    ) -> GramBlocks:
        """Blocks of the kernel between rows (n_c, D) of classes."""
        dtype = gram_type(tol)
        sizes = {c: len(rows) for c, rows in class_rows.items()}
        return cls(lambda c, d: kernel(class_rows[c], class_rows[d], dtype), sizes, kernel.name, dtype)

    @classmethod
    def of_matrix(
        cls, matrix: NDArray[np.floating], members: Sequence[NDArray[np.int64]], tol: float
    ) -> GramBlocks:
        """Blocks of a kernel matrix (n, n) of all training samples; ``members[c]`` are the rows of class c."""
        dtype, sizes = gram_type(tol), {c: len(rows) for c, rows in enumerate(members)}
        return cls(
            lambda c, d: matrix[np.ix_(members[c], members[d])].astype(dtype), sizes, "precomputed", dtype
        )

    def of(self, classes: Sequence[int]) -> NDArray[Any]:
        """(n, n) Gram matrix of the rows of some classes, one below the other."""
        return (
            self._part_of_whole(classes) if len(classes) > 2 and self._keeps_whole else self._joined(classes)
        )

    @property
    def _keeps_whole(self) -> bool:
        """Whether the matrix of all rows is small enough to be kept: machines on many classes all need most of it."""
        n = sum(self._sizes.values())
        return bool(n * n * np.dtype(self._dtype).itemsize <= KEPT_BYTES)

    def _part_of_whole(self, classes: Sequence[int]) -> NDArray[Any]:
        if self._whole is None:
            self._whole = self._joined(list(self._sizes))
        starts = dict(zip(self._sizes, np.cumsum([0, *self._sizes.values()]).tolist(), strict=False))
        rows = np.concatenate([np.arange(starts[c], starts[c] + self._sizes[c]) for c in classes])
        return np.asarray(self._whole[np.ix_(rows, rows)])

    def _joined(self, classes: Sequence[int]) -> NDArray[Any]:
        ends = np.cumsum([self._sizes[c] for c in classes]).tolist()
        check_gram_rows(ends[-1], f"PairwiseSVC: kernel={self._name!r}")
        places = [slice(end - self._sizes[c], end) for c, end in zip(classes, ends, strict=True)]
        gram = np.empty((ends[-1], ends[-1]), self._dtype)
        for first, (c, rows) in enumerate(zip(classes, places, strict=True)):
            gram[rows, rows] = self._of_class(c)
            for d, columns in zip(classes[first + 1 :], places[first + 1 :], strict=True):
                block = self._checked(c, d)
                gram[rows, columns], gram[columns, rows] = block, block.T
        return gram

    def _of_class(self, c: int) -> NDArray[Any]:
        block = self._own.get(c)
        if block is None:
            block = self._checked(c, c)
            if block.nbytes <= self._room:
                self._room -= block.nbytes
                self._own[c] = block
        return block

    def _checked(self, c: int, d: int) -> NDArray[Any]:
        with np.errstate(over="ignore"):
            block = self._between(c, d)
        if not np.isfinite(block).all():
            raise ValueError(
                f"PairwiseSVC: kernel={self._name!r}: kernel values must be finite numbers that"
                f" {np.dtype(self._dtype)} can hold, got larger ones: scale the features, or choose a smaller gamma"
                " or degree."
            )
        return block
