"""Sparse rows of a source: the three arrays of CSR, in memory, in a zarr group or in a temporary file.

Like dense rows, they are read in pieces of bounded size. Only ``indptr`` is held in memory. Columns are checked
whenever entries are read: scipy would write outside its arrays for a column that does not exist.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import zarr
from numpy.typing import NDArray
from scipy import sparse

from pairloom.pipeline.features.row_sources import (
    Index,
    Rows,
    SelectedRows,
    consecutive,
    fill,
    write_all,
)
from pairloom.pipeline.storage.object_store import StoreError

__all__ = ["CSR_PARTS", "CsrRows", "csr_in_order", "csr_rows", "csr_rows_of"]

#: The names of the arrays of a CSR matrix in scipy.sparse.save_npz and in the formats based on zarr.
CSR_PARTS = ("data", "indices", "indptr")
#: Most columns: _COLUMNS, or _COLUMNS_PER_ENTRY per entry if that is more. Some arrays have a number per column, and a
#: file of a few bytes must not make them large.
_COLUMNS, _COLUMNS_PER_ENTRY = 2**22, 8
#: Columns are int32.
_MOST_COLUMNS = 2**31 - 1


class CsrRows(Rows):
    """Rows of a CSR matrix: ``data`` and ``indices`` may be on disk or in a store, ``indptr`` is in memory."""

    def __init__(self, data: Any, indices: Any, indptr: NDArray[np.int64], n_columns: int, name: str) -> None:
        super().__init__((len(indptr) - 1, n_columns), data.dtype)
        self._data, self._indices, self._indptr, self._name = data, indices, indptr, name
        self.entries = np.diff(indptr)
        self.scattered = isinstance(data, np.ndarray)
        self.can_change = isinstance(data, zarr.Array)

    @property
    def entries_per_piece(self) -> int:
        """At least the entries of one chunk."""
        chunk = self._data.chunks[0] if isinstance(self._data, zarr.Array) else 0
        return max(super().entries_per_piece, int(chunk))

    def _read(self, rows: Index) -> Any:
        if not isinstance(rows, slice) and not self.scattered and len(rows):
            first, end = int(rows.min()), int(rows.max()) + 1
            needed = int(np.diff(self._indptr)[rows].sum()) + self.entries_per_piece
            if self._indptr[end] - self._indptr[first] <= 8 * needed:  # cheaper than reading run by run
                return self._read(slice(first, end))[rows - first]
        data, indices = [np.empty(0, self.dtype)], [np.empty(0, np.int32)]
        for _, first, length in consecutive(rows):
            values, columns = self._run(first, first + length)
            self._check_columns(columns)
            data.append(values)
            indices.append(columns.astype(np.int32, copy=False))
        sizes = np.diff(self._indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        parts = np.concatenate(data), np.concatenate(indices), indptr
        return sparse.csr_array(parts, shape=(len(sizes), self.shape[1]))

    def _run(self, start: int, stop: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The entries of consecutive rows, and their columns."""
        entries = slice(int(self._indptr[start]), int(self._indptr[stop]))
        try:
            return np.asarray(self._data[entries]), np.asarray(self._indices[entries])
        except StoreError:  # the store cannot be reached, which does not mean that chunks are damaged
            raise
        except Exception as error:  # zarr and its codecs raise many kinds
            raise ValueError(f"{self._name} is damaged or not what its name says: {error}.") from error

    def _check_columns(self, indices: NDArray[Any]) -> None:
        D = self.shape[1]
        if len(indices) and (indices.min() < 0 or indices.max() >= D):
            raise ValueError(
                f"{self._name}: indices must be columns from 0 to {D - 1}, got {indices.min()} to {indices.max()}."
            )


def csr_rows(parts: Mapping[str, Any], name: str) -> CsrRows:
    """Rows from the arrays of a CSR matrix and its ``shape``. Raises unless they fit together.

    ``data`` and ``indices`` may be zarr arrays, which are not read.
    """
    data, indices, indptr, shape = *(parts[part] for part in CSR_PARTS), np.asarray(parts["shape"])
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
        raise ValueError(f"{name}: shape must be two counts, of rows and of columns, got {_shown(shape)}.")
    n, D = (int(size) for size in shape)
    most = min(max(_COLUMNS, _COLUMNS_PER_ENTRY * math.prod(data.shape)), _MOST_COLUMNS)
    if not 0 < D <= most:
        raise ValueError(
            f"{name}: shape must have 1 to {most} columns for {math.prod(data.shape)} entries, got {D}."
        )
    for part, values, kinds in (("data", data, "fiub"), ("indices", indices, "iu"), ("indptr", indptr, "iu")):
        if values.ndim != 1 or values.dtype.kind not in kinds:
            numbers = "real" if part == "data" else "whole"
            raise ValueError(
                f"{name}: {part} must be a list of {numbers} numbers, got {values.dtype} of shape {values.shape}."
            )
    if data.shape != indices.shape:
        raise ValueError(
            f"{name}: data and indices must have one length, got {data.shape[0]} and {indices.shape[0]}."
        )
    ends = np.asarray(indptr)
    if len(ends) != n + 1 or ends[0] != 0 or int(ends[-1]) != data.shape[0] or (ends[1:] < ends[:-1]).any():
        raise ValueError(
            f"{name}: indptr must have {n + 1} ascending numbers from 0 to {data.shape[0]}, got {_shown(ends)}."
        )
    return CsrRows(data, indices, ends.astype(np.int64), D, name)


def csr_rows_of(X: Any, name: str) -> CsrRows:
    """The rows of a sparse matrix in memory, of any format."""
    rows = X.tocsr()
    return csr_rows({part: getattr(rows, part) for part in CSR_PARTS} | {"shape": rows.shape}, name)


def _shown(values: NDArray[Any]) -> str:
    """The beginning of an array, in one line for a message."""
    listed = ", ".join(map(str, values.reshape(-1)[:4].tolist()))
    return f"[{listed}{', ...' if values.size > 4 else ''}] of shape {values.shape}"


def csr_in_order(rows: Rows, order: NDArray[np.int64], folder: Path) -> Rows:
    """Sparse rows in another order, to be read from the first to the last: see `row_sources.in_order`.

    The copy has two files, one with the entries and one with their columns. ``rows.entries`` must be exact.
    """
    if rows.scattered or (np.diff(order) == 1).all():
        return SelectedRows(rows, order)
    assert rows.entries is not None, "rows are sparse"
    starts, places = np.zeros(len(order) + 1, np.int64), np.empty_like(order)
    np.cumsum(rows.entries[order], out=starts[1:])
    places[order] = np.arange(len(order))
    data, indices = _Spooled(folder, rows.dtype), _Spooled(folder, np.dtype(np.int32))
    for part, X in rows.pieces():
        by_place = np.argsort(places[part])
        X, new_rows = X[by_place], places[part][by_place]
        for start, first, length in consecutive(new_rows):
            entries = slice(X.indptr[start], X.indptr[start + length])
            data.write(int(starts[first]), X.data[entries])
            indices.write(int(starts[first]), X.indices[entries])
    return CsrRows(data, indices, starts, rows.shape[1], "the copy of the training rows")


class _Spooled:
    """Numbers in an unnamed file, which disappears with the rows or the process."""

    def __init__(self, folder: Path, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115

    def write(self, start: int, values: NDArray[Any]) -> None:
        """Write numbers from position ``start`` on."""
        self._file.seek(start * self.dtype.itemsize)
        write_all(self._file, values.astype(self.dtype, copy=False))

    def __getitem__(self, part: slice) -> NDArray[Any]:
        values = np.empty(part.stop - part.start, self.dtype)
        self._file.seek(part.start * self.dtype.itemsize)
        fill(values.view(np.uint8).data, self._file)
        return values
