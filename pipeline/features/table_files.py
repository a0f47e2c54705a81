"""Tables in files: the cells of a CSV or Parquet file, read block by block.

A CSV file has a first line of column names and is UTF-8; the separator is the comma, semicolon, tab or bar that the
first line has most of. Parquet needs pyarrow, the extra `parquet`.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import gzip
import importlib.util
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Block", "Cells", "Table", "is_table", "open_table"]

_CSV, _PARQUET = (".csv", ".tsv", ".csv.gz", ".tsv.gz"), (".parquet", ".pq")
_SEPARATORS = ",;\t|"
# Cells of a CSV file that stand for no value.
_MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "None", "?")
_TRUTHS = {"true": 1.0, "false": 0.0}
#: Cells of a block: some tens of megabytes as Python's strings.
_CELLS_PER_BLOCK = 2**20
#: An array of text gives every cell the length of the longest. Longer cells are kept as Python's strings.
_LONGEST = 64


class Cells(NamedTuple):
    """Some cells of one column.

    Attributes
    ----------
    values : (n,) array of text (also as objects), numbers or booleans
    missing : (n,) mask of the cells without a value
    """

    values: NDArray[Any]
    missing: NDArray[np.bool_]

    def numbers(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The cells as numbers, NaN where there is none, and a mask of those that have a value but no number."""
        found, strange = np.full(len(self.values), np.nan), np.zeros(len(self.values), bool)
        present = self.values[~self.missing]
        if present.dtype.kind in "fiub":
            found[~self.missing] = present
        elif self.is_text:
            found[~self.missing], strange[~self.missing] = _parsed(present)
        else:
            strange = ~self.missing
        return found, strange

    def texts(self) -> NDArray[Any]:
        """The cells as text, without blanks around it; empty where there is none.

        NA or None, which stand for no number, may well be a name.
        """
        texts = np.array([str(value).strip() for value in self.values.tolist()], self._text_type)
        if not self.is_text:
            texts[self.missing] = ""
        return texts

    @property
    def is_text(self) -> bool:
        """Whether the cells are text, not numbers or booleans."""
        return self.values.dtype.kind in "UO"

    @property
    def _text_type(self) -> Any:
        return object if self.values.dtype.kind == "O" else np.str_


def _parsed(texts: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Numbers, and a mask of the texts that are none."""
    if texts.dtype.kind == "U" and (at_once := _as_numbers(texts)) is not None:
        return at_once, np.zeros(len(texts), bool)
    numbers = np.array([_number(text) for text in texts.tolist()], np.float64)
    return numbers, np.isnan(numbers)


def _as_numbers(texts: NDArray[np.str_]) -> NDArray[np.float64] | None:
    """Texts as numbers; None if one of them is none."""
    with contextlib.suppress(ValueError):
        if not (np.char.find(texts, "_") >= 0).any():  # for Python 1_2 is a number, for people it is a name
            return texts.astype(np.float64)
    return None


def _number(text: str) -> float:
    """A number, or NaN for a text that is none."""
    try:
        return np.nan if "_" in text else float(text)
    except ValueError:
        return _TRUTHS.get(text.strip().lower(), np.nan)


class Block(Mapping[str, Cells]):
    """Some rows of a table: the cells of every column by its name, made when they are asked for."""

    def __init__(self, names: Sequence[str], cells_of: Callable[[int], Cells], n_rows: int) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self._cells_of, self.n_rows = cells_of, n_rows

    def __getitem__(self, name: str) -> Cells:
        return self._cells_of(self._places[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def matrix(self, names: Sequence[str]) -> NDArray[np.float64] | None:
        """The numbers of some columns at once, if all of their cells are numbers and that is faster; else None."""
        return None


class _CsvBlock(Block):
    def __init__(self, names: Sequence[str], rows: list[list[str]]) -> None:
        super().__init__(names, lambda place: _csv_cells([row[place] for row in rows]), len(rows))
        self._rows = rows

    def matrix(self, names: Sequence[str]) -> NDArray[np.float64] | None:
        """Of many columns, faster than one by one."""
        places = [self._places[name] for name in names]
        if max(len(row[place]) for row in self._rows for place in places) > _LONGEST:
            return None
        return _as_numbers(np.array([[row[place] for place in places] for row in self._rows], np.str_))


class Table:
    """A table whose columns have names: opened, and read from first to last row as often as needed."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path, self.names = path, tuple(names)
        if not self.names:
            raise ValueError(f"{path}: must have columns, got none.")
        if twice := sorted({name for name in self.names if self.names.count(name) > 1}):
            raise ValueError(
                f"{path}: every column must have a name of its own, got {_listed(twice)} more than once."
            )

    def blocks(self) -> Iterator[Block]:
        """All rows, some at a time."""
        raise NotImplementedError

    def line_of(self, row: int) -> str:
        """Where a row is in the file, counted from 0."""
        return f"row {row + 1}"


def is_table(path: Path) -> bool:
    """Whether the name of a file says that it is a table."""
    return path.name.lower().endswith((*_CSV, *_PARQUET))


def open_table(path: Path) -> Table:
    """Open a table and read the names of its columns."""
    return _ParquetTable(path) if path.name.lower().endswith(_PARQUET) else _CsvTable(path)


class _CsvTable(Table):
    def __init__(self, path: Path) -> None:
        with _opened_text(path) as file, _readable(path):
            head = file.readline()
            self._separator = max(_SEPARATORS, key=head.count)
            file.seek(0)
            names = [name.strip() for name in next(self._reader(file), [])]
        if not any(names):
            raise ValueError(
                f"{path}: must have a first line with the names of the columns, and rows, got nothing."
            )
        super().__init__(path, names)
        # Two numbers or more are no names: 2020 may be one, of a column of counts.
        if len(names) > 1 and not np.isnan([_number(name) for name in names]).any():
            raise ValueError(
                f"{path}: the first line must name the columns, got numbers: {_listed(names)}. Add a line of names."
            )

    def _reader(self, file: Any) -> Iterator[list[str]]:
        return csv.reader(file, delimiter=self._separator, skipinitialspace=True)

    def line_of(self, row: int) -> str:
        """Blank lines and lines within quotes are not counted."""
        return f"line {row + 2}"

    def blocks(self) -> Iterator[Block]:
        """All rows, some at a time."""
        size, first = max(1, _CELLS_PER_BLOCK // len(self.names)), 0
        with _opened_text(self.path) as file, _readable(self.path):
            rows = (row for row in islice(self._reader(file), 1, None) if row)
            while block := list(islice(rows, size)):
                self._check_widths(block, first)
                first += len(block)
                yield _CsvBlock(self.names, block)

    def _check_widths(self, block: list[list[str]], first: int) -> None:
        for number, row in enumerate(block, first):
            if len(row) != len(self.names):
                raise ValueError(
                    f"{self.path}: every row must have {len(self.names)} cells, as the first line has names, got"
                    f" {len(row)} in {self.line_of(number)}."
                )


def _csv_cells(cells: Sequence[str]) -> Cells:
    if max(map(len, cells), default=0) > _LONGEST:
        return Cells(np.array(cells, object), np.array([cell in _MISSING for cell in cells], bool))
    values = np.array(cells, np.str_)
    return Cells(values, np.isin(values, _MISSING))


@contextlib.contextmanager
def _opened_text(path: Path) -> Iterator[io.TextIOBase]:
    """A text file, unpacked if its name ends in .gz; without the mark that spreadsheets put at the beginning."""
    if path.suffix.lower() == ".gz":
        with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as unpacked:
            yield unpacked
    else:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(
            f"{path}: must be text in UTF-8, got the byte {byte:#04x}. Save it again as CSV in UTF-8."
        ) from error
    except (csv.Error, EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: is damaged or no CSV file: {error}.") from error


class _ParquetTable(Table):
    def __init__(self, path: Path) -> None:
        if importlib.util.find_spec("pyarrow") is None:
            raise ValueError(
                f'{path}: Parquet files need pyarrow. Install it with: pip install "pairloom[parquet]"'
                ' (from a clone: pip install -e ".[parquet]").'
            )
        self._file = self._opened(path)
        super().__init__(path, self._file.schema_arrow.names)

    @staticmethod
    def _opened(path: Path) -> Any:
        import pyarrow
        import pyarrow.parquet

        try:
            return pyarrow.parquet.ParquetFile(path)
        except (pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"{path}: is damaged or no Parquet file: {error}.") from error

    def blocks(self) -> Iterator[Block]:
        """All rows, some at a time."""
        import pyarrow

        size = max(1, _CELLS_PER_BLOCK // len(self.names))
        try:
            for batch in self._file.iter_batches(batch_size=size):
                yield Block(self.names, functools.partial(_arrow_column, batch), len(batch))
        except (pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"{self.path}: is damaged: {error}.") from error


def _arrow_column(batch: Any, place: int) -> Cells:
    return _arrow_cells(batch.column(place))


def _arrow_cells(column: Any) -> Cells:
    """A column of Arrow: numbers and booleans as such, everything else as text."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_decimal(kind):
        column, kind = column.cast(pyarrow.float64()), pyarrow.float64()
    missing = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if pyarrow.types.is_boolean(kind) or pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind):
        values = column.fill_null(False if pyarrow.types.is_boolean(kind) else 0).to_numpy(
            zero_copy_only=False
        )
        return Cells(values, missing)
    texts = ["" if value is None else str(value) for value in column.to_pylist()]
    longest = max(map(len, texts), default=0)
    return Cells(np.array(texts, object if longest > _LONGEST else np.str_), missing)


def _listed(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
