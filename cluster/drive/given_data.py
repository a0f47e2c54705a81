"""Data that a program passes in place of a file: arrays, data frames, dask collections and zarr arrays.

A run copies them into its own store, like the rows of a file, and can be resumed without them afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import dask
import numpy as np
import zarr
from dask import array as da
from numpy.typing import NDArray
from scipy import sparse

from pairloom.pipeline.config.config import ConfigError
from pairloom.pipeline.estimator.input_checks import check_columns, check_labels
from pairloom.pipeline.features.row_sources import Arrays, Rows
from pairloom.pipeline.features.source_files import features_of, given_names

__all__ = ["GivenData", "arrays_of_data"]

#: (X, y), to be split into training and test samples, or arrays under the names that they would have in a file.
GivenData = tuple[Any, Any] | Mapping[str, Any]


def arrays_of_data(data: GivenData) -> Arrays:
    """The arrays of a run from the data of a program: features are opened as rows, the others are in memory."""
    if isinstance(data, tuple) and len(data) == 2:
        data = dict(zip(("X", "y"), data, strict=True))
    if not isinstance(data, Mapping):
        raise ConfigError(
            "data must be (X, y), or a mapping with X and y, or with X_train, y_train, X_test and y_test, got"
            f" {type(data).__name__}."
        )
    features, others = given_names()
    if unknown := [name for name in data if name not in (*features, *others)]:
        raise ConfigError(
            f"data must have names among {', '.join((*features, *others))}, got {unknown[0]!r}."
        )
    arrays: Arrays = {}
    for name, values in data.items():
        if name not in features:
            arrays[name] = _labels(values, name)
            continue
        arrays[name] = _rows(values, name)
        if hasattr(values, "columns"):
            arrays = _names_of(values, name) | arrays
    return arrays


def _rows(values: Any, name: str) -> Any:
    """Features as rows that are read piece by piece."""
    if dask.is_dask_collection(values):
        return _BlockRows(values.to_dask_array(lengths=True) if hasattr(values, "columns") else values, name)
    if hasattr(values, "columns"):
        check_columns(values, "data")
    opened = isinstance(values, zarr.Array) or sparse.issparse(values)
    return features_of(values if opened else np.asarray(values), name, "data")


def _labels(values: Any, name: str) -> NDArray[Any]:
    if dask.is_dask_collection(values):
        values = values.compute()
    if name.startswith("y"):
        check_labels(values, "data")
    labels = np.asarray(values)
    return labels.astype(np.str_) if labels.dtype.kind == "O" else labels


def _names_of(frame: Any, name: str) -> Arrays:
    """The names of the columns of a data frame, and of its rows unless they are only numbered."""
    arrays: Arrays = {"feature_names": np.array([str(column) for column in frame.columns])}
    index = frame.index.compute() if dask.is_dask_collection(frame) else frame.index
    if not np.array_equal(index, np.arange(len(index))):
        arrays["ids" + name.removeprefix("X")] = np.asarray(index.astype(str), np.str_)
    return arrays


class _BlockRows(Rows):
    """Rows of a dask array. The last computed block is kept, because it often has the next rows too."""

    scattered = False
    can_change = True  # its inputs may change

    def __init__(self, values: Any, name: str) -> None:
        if values.ndim != 2 or values.dtype.kind not in "fiub" or not values.shape[1]:
            raise ConfigError(
                f"data: {name} must be a matrix of real numbers, got {values.dtype} of shape {values.shape}."
            )
        whole = values.compute_chunk_sizes() if np.isnan(values.shape[0]) else values
        self._values = whole.rechunk({1: -1})
        super().__init__(self._values.shape, self._values.dtype)
        self._ends = np.cumsum(self._values.chunks[0])
        self._block = functools.lru_cache(maxsize=1)(
            lambda number: np.asarray(self._values.blocks[number].compute())
        )

    def _read(self, rows: slice | NDArray[np.int64]) -> NDArray[Any]:
        if not isinstance(rows, slice):
            return np.asarray(da.take(self._values, rows, axis=0).compute())
        values = np.empty((rows.stop - rows.start, self.shape[1]), self._values.dtype)
        begins = self._ends - self._values.chunks[0]
        for number in np.flatnonzero((begins < rows.stop) & (self._ends > rows.start)).tolist():
            first, end = max(rows.start, begins[number]), min(rows.stop, self._ends[number])
            of_block = self._block(number)[first - begins[number] : end - begins[number]]
            values[first - rows.start : end - rows.start] = of_block
        return values
