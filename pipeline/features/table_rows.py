"""The rows and labels of a table: which columns are features, what becomes of missing values, and where rows are kept.

A table is read once from first to last row. Its numbers are kept in memory or, where they are many, in a temporary
file without a name, from which rows can be read in any order.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.labels import did_you_mean, listed
from pairloom.pipeline.features.row_sources import ArrayRows, FileRows, Rows
from pairloom.pipeline.features.table_files import Block, Cells, Table, open_table

__all__ = ["Missing", "TableColumns", "TableRows", "class_labels", "read_table"]

Missing = Literal["refuse", "leave_out_rows"]

#: Numbers of a table that are kept in memory. More are written to a temporary file.
_IN_MEMORY_BYTES = 256 * 2**20
_INTEGER, _INTEGRAL = re.compile(r"[+-]?(0|[1-9]\d{0,17})"), re.compile(r"[+-]?\d{1,15}\.0*")


class TableColumns(NamedTuple):
    """How the columns of a table are used.

    Attributes
    ----------
    label : name of the column with the classes, if there is one
    leave_out : names of the columns that are no features
    missing : what becomes of rows with missing values
    """

    label: str | None = None
    leave_out: tuple[str, ...] = ()
    missing: Missing = "refuse"


class TableRows(NamedTuple):
    """What was read: the features, their names, the labels if the table has them, and how many rows were left out."""

    X: Rows
    y: NDArray[Any] | None
    names: tuple[str, ...]
    left_out: int


def read_table(
    path: Path, columns: TableColumns, features: Sequence[str] | None = None, *, settings: bool = True
) -> TableRows:
    """Read the features and labels of a table.

    Parameters
    ----------
    path : Path
    columns : TableColumns
    features : sequence of str, optional
        Names of the features, in their order; by default all columns but the label and those left out. The label is
        then read only if the table has it.
    settings : bool
        Whether errors name the settings of a configuration that would help.
    """
    table = open_table(path)
    label, names = columns.label, _features_of(table, columns, features)
    if features is not None and label not in table.names:
        label = None
    return _Reader(table, names, label, columns.missing, settings).read()


def _features_of(table: Table, columns: TableColumns, features: Sequence[str] | None) -> tuple[str, ...]:
    if features is not None:
        if absent := [name for name in features if name not in table.names]:
            raise ValueError(
                f"{table.path}: must have the columns of the training data, got none named {listed(absent)}."
            )
        return tuple(features)
    asked = [("label", columns.label)] if columns.label is not None else []
    for key, name in (*asked, *(("leave_out", name) for name in columns.leave_out)):
        if name not in table.names:
            raise ValueError(
                f"{table.path}: data.{key} must name a column, got {name!r}.{did_you_mean(name, table.names)}"
                f" The columns are {listed(table.names, 12)}."
            )
    unused = {*columns.leave_out, columns.label}
    found = tuple(name for name in table.names if name not in unused)
    if not found:
        raise ValueError(f"{table.path}: must have columns of numbers besides the label, got none.")
    return found


class _Reader:
    """Reads a table block by block and checks what it reads."""

    def __init__(
        self, table: Table, names: tuple[str, ...], label: str | None, missing: Missing, settings: bool
    ) -> None:
        self._table, self._names, self._label = table, names, label
        self._missing, self._settings = missing, settings
        self._row, self._left_out = 0, 0
        self._first_missing: tuple[int, str] | None = None

    def read(self) -> TableRows:
        kept, labels = _Kept(len(self._names)), list[NDArray[Any]]()
        for block in self._table.blocks():
            X, whole = self._numbers(block)
            if self._label is not None:
                cells = block[self._label]
                whole &= ~self._without_label(cells)
                labels.append(_as_labels(cells)[whole])
            self._left_out += int(np.count_nonzero(~whole))
            kept.add(X[whole])
            self._row += len(whole)
        self._check(kept.n_rows)
        y = None if self._label is None else class_labels(np.concatenate(labels), self._place)
        return TableRows(kept.rows(), y, self._names, self._left_out)

    @property
    def _place(self) -> str:
        return f"{self._table.path}: column {self._label!r}"

    def _numbers(self, block: Block) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The features of a block, and which of its rows have all of them."""
        at_once = block.matrix(self._names)
        if at_once is not None and not np.isnan(at_once).any():
            return at_once, np.ones(len(at_once), bool)
        X = np.empty((block.n_rows, len(self._names)))
        for place, name in enumerate(self._names):
            X[:, place], strange = block[name].numbers()
            if strange.any():
                first = int(np.flatnonzero(strange)[0])
                got = str(block[name].values[first])[:60]
                or_leave_out = f", or leave it out: data.leave_out = [{name!r}]" if self._settings else ""
                raise ValueError(
                    f"{self._table.path}: column {name!r} must be numbers, got {got!r} in"
                    f" {self._table.line_of(self._row + first)}. Replace its words by numbers{or_leave_out}."
                )
            self._note_missing(np.isnan(X[:, place]), name)
        return X, np.asarray(~np.isnan(X).any(axis=1))

    def _without_label(self, cells: Cells) -> NDArray[np.bool_]:
        # NA and None may be names of classes: only an empty cell has none.
        missing = cells.texts() == "" if cells.is_text else cells.missing
        assert self._label is not None
        self._note_missing(missing, self._label)
        return missing

    def _note_missing(self, missing: NDArray[np.bool_], name: str) -> None:
        if not missing.any():
            return
        row = self._row + int(np.flatnonzero(missing)[0])
        if self._first_missing is None or row < self._first_missing[0]:
            self._first_missing = row, name

    def _check(self, n_rows: int) -> None:
        if not self._row:
            raise ValueError(f"{self._table.path}: must have rows, got none below the names of the columns.")
        if self._first_missing is not None and self._missing == "refuse":
            row, name = self._first_missing
            advice = "Fill them in, or remove these rows."
            if self._settings:
                advice = (
                    "Fill them in, leave the column out (data.leave_out), or leave the rows out:"
                    ' data.missing = "leave_out_rows".'
                )
            raise ValueError(
                f"{self._table.path}: every cell must have a value, got {self._left_out} of {self._row} rows with"
                f" missing ones, first {self._table.line_of(row)}, column {name!r}. {advice}"
            )
        if not n_rows:
            raise ValueError(
                f"{self._table.path}: must have rows without missing values, got none among {self._row}."
            )


def _as_labels(cells: Cells) -> NDArray[Any]:
    return cells.texts() if cells.values.dtype.kind in "UOb" else cells.values


def class_labels(labels: NDArray[Any], place: str) -> NDArray[Any]:
    """Labels as classes: whole numbers as integers, which then sort as numbers do, anything else as text.

    Examples
    --------
    >>> class_labels(np.array(["10", "9", "10"]), "x").tolist(), class_labels(np.array(["1.0", "2.0"]), "x").tolist()
    ([10, 9, 10], [1, 2])
    >>> class_labels(np.array(["01", "1"]), "x").tolist()
    ['01', '1']
    """
    if labels.dtype.kind in "iu":
        return labels
    if labels.dtype.kind == "f":
        fractional = labels[labels != np.floor(labels)]
        if len(fractional):
            raise _no_classes(place, str(fractional[0]))
        return labels.astype(np.int64)
    different = np.unique(labels).tolist()
    if all(map(_INTEGER.fullmatch, different)):
        return labels.astype(np.int64)
    if all(map(_INTEGRAL.fullmatch, different)):
        return labels.astype(np.float64).astype(np.int64)
    numbers, strange = Cells(labels, np.zeros(len(labels), bool)).numbers()
    fractional = np.flatnonzero(numbers != np.floor(numbers))
    if len(fractional) and not strange.any():
        raise _no_classes(place, str(labels[fractional[0]]))
    return labels


def _no_classes(place: str, example: str) -> ValueError:
    return ValueError(
        f"{place} must be classes, got numbers with fractions, such as {example}. Pairloom predicts classes: put such"
        " numbers into a few groups first, or name another column."
    )


class _Kept:
    """Rows that are added at the end: in memory while they are few, then in a file."""

    def __init__(self, n_columns: int) -> None:
        self._parts: list[NDArray[np.float64]] = []
        self._file: IO[bytes] | None = None
        self.n_rows, self._n_columns, self._bytes = 0, n_columns, 0

    def add(self, X: NDArray[np.float64]) -> None:
        self._parts.append(X)
        self.n_rows += len(X)
        self._bytes += X.nbytes
        if self._bytes > _IN_MEMORY_BYTES:
            self._write()

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # open for as long as the rows are
        for part in filter(len, self._parts):
            wanted = np.ascontiguousarray(part).data.cast("B")
            while wanted:
                wanted = wanted[self._file.write(wanted) :]
        self._parts.clear()

    def rows(self) -> Rows:
        if self._file is None:
            return ArrayRows(np.concatenate(self._parts))
        self._write()
        return FileRows(self._file, 0, (self.n_rows, self._n_columns), np.dtype(np.float64))
