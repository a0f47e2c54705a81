"""Tables: the rows and labels of CSV and Parquet files, read from first to last row in bounded memory.

A CSV file has a first line of column names and is UTF-8; the separator is the comma, semicolon, tab or bar, whichever
is most frequent in the first line. Parquet needs pyarrow, the extra `parquet`. The numbers of a table are kept in
memory or, if there are many, in an unnamed temporary file, from which rows can be read in any order.

CSV files are parsed by Python's csv module, not by pyarrow. A file of 306 MB (640,000 rows of 50 numbers and a
label) takes 15 s of CPU time and 570 MB here, 5 s and 690 MB with `pyarrow.csv.open_csv`: seconds, where training takes
minutes. To save them, pyarrow would have to become a dependency (170 MB; all others together have 690 MB), and no code
could be removed: messages that name the line and the cell, words among numbers, and cells such as NA, which are a
missing number but may be the name of a class, need the cells as text.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import gzip
import importlib.util
import io
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.text import did_you_mean, listed
from pairloom.pipeline.features.row_sources import ArrayRows, FileRows, Index, Rows, write_all

__all__ = [
    "Block",
    "Cells",
    "Missing",
    "ParquetRows",
    "Table",
    "TableColumns",
    "TableRows",
    "class_labels",
    "is_table",
    "numbered_rows",
    "open_table",
    "parquet_groups",
    "read_table",
]

Missing = Literal["refuse", "leave_out_rows"]

_CSV, _PARQUET = (".csv", ".tsv", ".csv.gz", ".tsv.gz"), (".parquet", ".pq")
_SEPARATORS = ",;\t|"
# Cells of a CSV file that mean a missing value.
_MISSING = frozenset(("", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "None", "?"))
_TRUTHS = {"true": 1.0, "false": 0.0}
#: Cells per block: some tens of megabytes as Python strings.
_CELLS_PER_BLOCK = 2**20
#: An array of text gives every cell the length of the longest. If one is longer than this, cells stay Python strings.
_LONGEST = 64
#: Most bytes of a table's numbers that are kept in memory. Larger tables are written to a temporary file.
_IN_MEMORY_BYTES = 256 * 2**20
#: Most characters in a line of a CSV file.
_LONGEST_LINE = 2**26
_WHOLE_FLOATS = 2.0**53
#: Most bytes of numbers per byte of a Parquet file: the best that Zstd can pack.
_MOST_EXPANSION = 2**17 // 4
_COUNTING = re.compile(r"0|[1-9]\d{0,17}")
_INTEGER, _INTEGRAL = re.compile(r"[+-]?(0|[1-9]\d{0,17})"), re.compile(r"[+-]?\d{1,15}\.0*")


class Cells(NamedTuple):
    """Some cells of one column.

    Attributes
    ----------
    values : (n,) array of numbers or booleans, or of text as objects
    missing : (n,) mask of the cells without a value
    """

    values: NDArray[Any]
    missing: NDArray[np.bool_]

    def numbers(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The cells as numbers, NaN where there is none, and a mask of the cells whose value is not a number."""
        numbers, strange = np.full(len(self.values), np.nan), np.zeros(len(self.values), bool)
        present = self.values[~self.missing]
        if self.is_text:
            numbers[~self.missing], strange[~self.missing] = _parsed(present.tolist())
        else:
            numbers[~self.missing] = present
        return numbers, strange

    def texts(self) -> NDArray[Any]:
        """The cells as text, without blanks around it; empty where there is none.

        NA and None mean a missing number, but they may be names of classes.
        """
        texts = [str(value).strip() for value in self.values.tolist()]
        longest = max(map(len, texts), default=0)
        array = np.array(texts, object if longest > _LONGEST else np.str_)
        if not self.is_text:
            array[self.missing] = ""
        return array

    @property
    def is_text(self) -> bool:
        """Whether the cells are text, not numbers or booleans."""
        return self.values.dtype.kind in "UO"


def _parsed(cells: list[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Numbers, and a mask of the cells that are not numbers."""
    with contextlib.suppress(ValueError):
        return _floats(cells), np.zeros(len(cells), bool)
    numbers = np.array([_number(cell) for cell in cells], np.float64)
    return numbers, np.isnan(numbers)


def _floats(cells: list[str]) -> NDArray[np.float64]:
    """Cells as numbers; ValueError if one of them is not a number."""
    if "_" in "".join(cells):  # Python reads 1_2 as a number, people read it as a name
        raise ValueError("not a number")
    return np.fromiter(map(float, cells), np.float64, len(cells))


def _number(text: str) -> float:
    """A number, or NaN for a text that is not a number."""
    try:
        return np.nan if "_" in text else float(text)
    except ValueError:
        return _TRUTHS.get(text.strip().lower(), np.nan)


class Block(Mapping[str, Cells]):
    """Some rows of a table: the cells of every column by its name, converted on access."""

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
        """The numbers of some columns, if all cells are numbers and one pass is faster than several; else None."""
        return None


class _CsvBlock(Block):
    def __init__(self, names: Sequence[str], rows: list[list[str]]) -> None:
        super().__init__(names, lambda place: _csv_cells([row[place] for row in rows]), len(rows))
        self._rows = rows

    def matrix(self, names: Sequence[str]) -> NDArray[np.float64] | None:
        """The columns in one pass, which is faster than one by one."""
        places = [self._places[name] for name in names]
        with contextlib.suppress(ValueError):
            return _floats([row[place] for row in self._rows for place in places]).reshape(-1, len(places))
        return None


class Table:
    """A table whose columns have names: opened, and read from first to last row as often as needed."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path, self.names = path, tuple(names)
        if not self.names:
            raise ValueError(f"{path}: must have columns, got none.")
        if twice := sorted({name for name in self.names if self.names.count(name) > 1}):
            raise ValueError(
                f"{path}: every column must have a name of its own, got {listed(twice, 8)} more than once."
            )

    def blocks(self) -> Iterator[Block]:
        """All rows, in blocks."""
        raise NotImplementedError

    def line_of(self, row: int) -> str:
        """The place of row number ``row``, counted from 0, for messages."""
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
            head = file.readline(_LONGEST_LINE)
            self._separator = max(_SEPARATORS, key=head.count)
            file.seek(0)
            names = [name.strip() for name in next(self._rows_in(file, path), [])]
        if not any(names):
            raise ValueError(
                f"{path}: must have a first line with the names of the columns, and rows, got nothing."
            )
        super().__init__(path, names)
        # A single number may be a name, such as 2020 for a column of counts. A line of numbers only is data.
        if len(names) > 1 and not np.isnan([_number(name) for name in names]).any():
            raise ValueError(
                f"{path}: the first line must name the columns, got numbers: {listed(names, 8)}. Add a line of names."
            )

    def _rows_in(self, file: io.TextIOBase, path: Path) -> Iterator[list[str]]:
        """The rows of a file, or an error that names the line in which the wrong row begins.

        A stray quote makes Python's csv read all lines up to the next quote as one cell, so the row may be long.
        """
        reader, begun = (
            csv.reader(_lines_in(file, path), delimiter=self._separator, skipinitialspace=True, strict=True),
            1,
        )
        try:
            for row in reader:
                yield row
                begun = reader.line_num + 1
        except csv.Error as error:
            raise ValueError(
                f"{path}: the row that begins in line {begun} cannot be read: {_csv_problem(error)}."
            ) from error

    def line_of(self, row: int) -> str:
        """The line of a row. Blank lines and line breaks within quotes are not counted."""
        return f"line {row + 2}"

    def blocks(self) -> Iterator[Block]:
        """All rows, in blocks."""
        size, first = max(1, _CELLS_PER_BLOCK // len(self.names)), 0
        with _opened_text(self.path) as file, _readable(self.path):
            rows = (row for row in islice(self._rows_in(file, self.path), 1, None) if row)
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


def _lines_in(file: io.TextIOBase, path: Path) -> Iterator[str]:
    """The lines of a file. Their length is limited, since a few compressed bytes can unpack to a line of gigabytes."""
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise ValueError(
                f"{path}: lines must have fewer than {_LONGEST_LINE} characters, got a longer one."
            )
        yield line


def _csv_problem(error: csv.Error) -> str:
    """The problem with a row, and what to do about it."""
    problem = str(error)
    if "unexpected end of data" in problem or "field larger" in problem:
        return 'a quote is opened and not closed. Close it, or double it (""...) if it is part of a cell'
    if "expected after" in problem:
        return 'text follows a quote that closes a cell. Double quotes ("") that are part of a cell'
    return problem


def _csv_cells(cells: list[str]) -> Cells:
    return Cells(np.array(cells, object), np.array([cell in _MISSING for cell in cells], bool))


@contextlib.contextmanager
def _opened_text(path: Path) -> Iterator[io.TextIOBase]:
    """A text file, unpacked if its name ends in .gz; without the byte order mark that spreadsheets write."""
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
                f"{path}: Parquet files need pyarrow. Install it, in a clone of pairloom, with:"
                ' pip install -e ".[parquet]"'
            )
        self._file = self._opened(path)
        self._check_size(path)
        super().__init__(path, self._file.schema_arrow.names)

    def _check_size(self, path: Path) -> None:
        """Raise if the file claims more rows than its bytes can hold: a few bytes could claim any number."""
        rows, columns, size = (
            self._file.metadata.num_rows,
            self._file.metadata.num_columns,
            path.stat().st_size,
        )
        if rows * columns * 8 > _MOST_EXPANSION * size:
            raise ValueError(
                f"{path}: is damaged: its {size} bytes cannot hold {rows} rows of {columns} columns."
            )

    @staticmethod
    def _opened(path: Path) -> Any:
        import pyarrow
        import pyarrow.parquet

        try:
            return pyarrow.parquet.ParquetFile(path)
        except (pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"{path}: is damaged or no Parquet file: {error}.") from error

    @property
    def group_ends(self) -> NDArray[np.int64]:
        """The number of rows up to the end of each row group, which is read from its beginning."""
        groups = range(self._file.metadata.num_row_groups)
        return np.cumsum([self._file.metadata.row_group(group).num_rows for group in groups], dtype=np.int64)

    def blocks(self) -> Iterator[Block]:
        """All rows, in blocks."""
        return self._blocks(range(self._file.metadata.num_row_groups), self.names)

    def blocks_of(self, group: int, columns: Sequence[str]) -> Iterator[Block]:
        """The rows of a row group with some of the columns, in blocks."""
        return self._blocks([group], columns)

    def _blocks(self, groups: Sequence[int], columns: Sequence[str]) -> Iterator[Block]:
        import pyarrow

        size = max(1, _CELLS_PER_BLOCK // len(self.names))
        some = None if columns is self.names else list(columns)
        try:
            for batch in self._file.iter_batches(batch_size=size, row_groups=groups, columns=some):
                names = tuple(batch.schema.names)
                yield Block(names, functools.partial(_arrow_cells, batch), len(batch))
        except (pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"{self.path}: is damaged: {error}.") from error


def parquet_groups(path: Path) -> NDArray[np.int64] | None:
    """The number of rows of each row group of a Parquet file; None for other tables."""
    if not path.name.lower().endswith(_PARQUET):
        return None
    return np.diff(_ParquetTable(path).group_ends, prepend=0)


def _arrow_cells(batch: Any, place: int) -> Cells:
    """A column of Arrow: numbers and booleans as such, everything else as text."""
    import pyarrow

    column = batch.column(place)
    kind = column.type
    if pyarrow.types.is_decimal(kind):  # as text, which keeps all digits
        column, kind = column.cast(pyarrow.string()), pyarrow.string()
    missing = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if pyarrow.types.is_boolean(kind) or pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind):
        values = column.fill_null(False if pyarrow.types.is_boolean(kind) else 0).to_numpy(
            zero_copy_only=False
        )
        return Cells(values, missing)
    texts = ["" if value is None else str(value) for value in column.to_pylist()]
    return Cells(np.array(texts, object), missing)


class ParquetRows(Rows):
    """Some columns of a Parquet file as rows of numbers. A row group is read from its beginning, block by block."""

    scattered = False
    can_change = True

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self._table, self._names = _ParquetTable(path), tuple(names)
        self._ends = self._table.group_ends
        super().__init__((int(self._ends[-1]), len(self._names)), np.dtype(np.float64))

    @property
    def rows_per_piece(self) -> int:
        """All rows: no row group is begun twice."""
        return len(self)

    def _read(self, rows: Index) -> NDArray[np.float64]:
        wanted = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        order = np.argsort(wanted, kind="stable")
        wanted, X = wanted[order], np.empty((len(wanted), len(self._names)))
        for group in np.unique(np.searchsorted(self._ends, wanted, side="right")).tolist():
            first, end = (int(self._ends[group - 1]) if group else 0), int(self._ends[group])
            last = wanted[np.searchsorted(wanted, end) - 1]
            for block in self._table.blocks_of(group, self._names):
                begin, stop = np.searchsorted(wanted, [first, first + block.n_rows])
                if begin < stop:
                    of_block = wanted[begin:stop] - first
                    for place, name in enumerate(self._names):
                        X[order[begin:stop], place] = block[name].numbers()[0][of_block]
                first += block.n_rows
                if first > last:
                    break
        return X


class TableColumns(NamedTuple):
    """How the columns of a table are used.

    Attributes
    ----------
    label : name of the column with the classes, if there is one
    leave_out : names of the columns that are not features
    missing : whether rows with missing values are refused, left out, or kept with NaN (for predictions)
    id : name of the column with the names of the rows, if there is one
    """

    label: str | None = None
    leave_out: tuple[str, ...] = ()
    missing: Missing | Literal["keep_rows"] = "refuse"
    id: str | None = None


class TableRows(NamedTuple):
    """The content of a table.

    Attributes
    ----------
    X, names : the features of the rows, and the names of the features
    places : the numbers of the rows in the table
    y : their labels, if the table has them
    ids : their names: the cells of the column of ids, or else the row numbers in the table, from 0
    left_out : the number of rows left out
    problems : the problem of each row that was kept although it lacks numbers, by row number
    """

    X: Rows
    y: NDArray[Any] | None
    names: tuple[str, ...]
    ids: NDArray[Any]
    left_out: int
    problems: Mapping[int, str]
    places: NDArray[np.int64]


def read_table(
    path: Path, columns: TableColumns, features: Sequence[str] | None = None, *, settings: bool = True
) -> TableRows:
    """Read the features, labels and ids of a table.

    Parameters
    ----------
    path : Path
    columns : TableColumns
    features : sequence of str, optional
        Names of the features, in their order; by default all columns but the label, the ids and those left out. The
        label and the ids are then read only if the table has them.
    settings : bool
        Whether errors name the settings of a configuration that would help.
    """
    table = open_table(path)
    names = _features_of(table, columns, features)
    if features is not None:
        label, ids = (name if name in table.names else None for name in (columns.label, columns.id))
        columns = columns._replace(label=label, id=ids)
    return _Reader(table, names, columns, settings).read()


def _features_of(table: Table, columns: TableColumns, features: Sequence[str] | None) -> tuple[str, ...]:
    if features is not None:
        if absent := [name for name in features if name not in table.names]:
            raise ValueError(
                f"{table.path}: must have the columns of the training data, got none named {listed(absent)}."
            )
        return tuple(features)
    asked = [(key, name) for key in ("label", "id") if (name := getattr(columns, key)) is not None]
    for key, name in (*asked, *(("leave_out", name) for name in columns.leave_out)):
        if name not in table.names:
            raise ValueError(
                f"{table.path}: data.{key} must name a column, got {name!r}.{did_you_mean(name, table.names)}"
                f" The columns are {listed(table.names, 12)}."
            )
    if columns.id is not None and columns.id == columns.label:
        raise ValueError(
            f"{table.path}: data.id must be another column than data.label, got {columns.id!r} for both."
        )
    unused = {*columns.leave_out, columns.label, columns.id}
    features_left = tuple(name for name in table.names if name not in unused)
    if not features_left:
        raise ValueError(f"{table.path}: must have columns of numbers besides the label, got none.")
    return features_left


class _Reader:
    """Reads a table block by block and checks what it reads."""

    def __init__(self, table: Table, names: tuple[str, ...], columns: TableColumns, settings: bool) -> None:
        self._table, self._names, self._label = table, names, columns.label
        self._columns, self._settings = columns, settings
        self._row, self._left_out = 0, 0
        self._first_missing: tuple[int, str] | None = None
        self._problems: dict[int, str] = {}

    @property
    def _keeps_rows(self) -> bool:
        return self._columns.missing == "keep_rows"

    def read(self) -> TableRows:
        # In memory while it is small, then on disk. It stays open as long as the rows are in use.
        kept = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, buffering=0)  # noqa: SIM115
        n_rows, labels, ids = 0, list[NDArray[Any]](), list[NDArray[Any]]()
        places = list[NDArray[np.int64]]()
        for block in self._table.blocks():
            X, whole = self._numbers(block)
            if self._keeps_rows:
                whole[:] = True
            if self._label is not None:
                cells = block[self._label]
                whole &= ~self._without_label(cells)
                labels.append(_as_labels(cells)[whole])
            ids.append(self._ids_in(block)[whole])
            self._left_out += int(np.count_nonzero(~whole))
            places.append(self._row + np.flatnonzero(whole))
            write_all(kept, X[whole])
            n_rows += int(np.count_nonzero(whole))
            self._row += len(whole)
        self._check(n_rows)
        y = None if self._label is None else class_labels(np.concatenate(labels), self._place)
        rows = _rows_in(kept, (n_rows, len(self._names)))
        where = np.concatenate(places)
        return TableRows(rows, y, self._names, _as_ids(ids), self._left_out, self._problems, where)

    def _ids_in(self, block: Block) -> NDArray[Any]:
        """The ids of the rows of a block. A row without an id is named by its number."""
        numbers = np.arange(self._row, self._row + block.n_rows)
        if self._columns.id is None:
            return numbers
        cells = block[self._columns.id]
        if cells.values.dtype.kind in "iu" and not cells.missing.any():
            return cells.values
        texts = cells.texts().astype(np.dtypes.StringDType())
        return np.where(texts == "", numbered_rows(numbers), texts)

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
            if strange.any() and not self._keeps_rows:
                first = int(np.flatnonzero(strange)[0])
                got = str(block[name].values[first])[:60]
                or_leave_out = f", or leave it out: data.leave_out = [{name!r}]" if self._settings else ""
                raise ValueError(
                    f"{self._table.path}: column {name!r} must be numbers, got {got!r} in"
                    f" {self._table.line_of(self._row + first)}. Replace its words by numbers{or_leave_out}."
                )
            if self._keeps_rows:
                self._note_problems(X[:, place], strange, block[name], name)
            self._note_missing(np.isnan(X[:, place]), name)
        return X, np.asarray(~np.isnan(X).any(axis=1))

    def _note_problems(
        self, numbers: NDArray[np.float64], strange: NDArray[np.bool_], cells: Cells, name: str
    ) -> None:
        """Note the first column of every row that has no number."""
        for place in np.flatnonzero(np.isnan(numbers)).tolist():
            what = (
                f"must be a number, got {str(cells.values[place])[:40]!r}" if strange[place] else "is empty"
            )
            self._problems.setdefault(self._row + place, f"column {name!r} {what}")

    def _without_label(self, cells: Cells) -> NDArray[np.bool_]:
        # NA and None may be names of classes: only an empty cell is a missing label.
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
        if self._first_missing is not None and self._columns.missing == "refuse":
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


def _rows_in(kept: tempfile.SpooledTemporaryFile[bytes], shape: tuple[int, int]) -> Rows:
    """The float64 rows in a file; as an array if they are in memory, which is faster for scattered rows."""
    on_disk = kept.tell() > _IN_MEMORY_BYTES
    rows = FileRows(kept, 0, shape, np.dtype(np.float64))
    return rows if on_disk else ArrayRows(rows.read(slice(None)))


def numbered_rows(numbers: NDArray[np.integer]) -> NDArray[Any]:
    """Names for rows without an id.

    Examples
    --------
    >>> numbered_rows(np.array([0, 12])).tolist()
    ['row 0', 'row 12']
    """
    return np.array([f"row {number}" for number in numbers.tolist()], np.dtypes.StringDType())


def _as_ids(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """The ids of all rows: as integers if all are counting numbers, else as text."""
    if not all(part.dtype.kind in "iu" and part.min(initial=0) >= 0 for part in parts):
        texts = np.concatenate([part.astype(np.dtypes.StringDType()) for part in parts])
        return texts.astype(np.int64) if all(map(_COUNTING.fullmatch, texts.tolist())) else texts
    return np.concatenate(parts).astype(np.int64)


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
        return _whole_numbers(labels, place)
    different = np.unique(labels).tolist()
    # Two stray quotes form a pair, and the rows between them become one label.
    if broken := [text for text in different if "\n" in text or "\r" in text]:
        raise ValueError(
            f"{place} must be classes of one line, got {broken[0][:60]!r}. Look for a quote that is opened and not"
            " closed."
        )
    if all(map(_INTEGER.fullmatch, different)):
        return labels.astype(np.int64)
    if all(map(_INTEGRAL.fullmatch, different)):
        return labels.astype(np.float64).astype(np.int64)
    numbers, strange = Cells(labels, np.zeros(len(labels), bool)).numbers()
    fractional = np.flatnonzero(numbers != np.floor(numbers))
    if len(fractional) and not strange.any():
        raise _no_classes(place, str(labels[fractional[0]]))
    return labels


def _whole_numbers(labels: NDArray[Any], place: str) -> NDArray[np.int64]:
    """Labels that are stored as floats, as integers. Beyond 2^53, two integers may have become the same float."""
    fractional = labels[labels != np.floor(labels)]
    if len(fractional):
        raise _no_classes(place, str(fractional[0]))
    large = labels[~(np.abs(labels) < _WHOLE_FLOATS)]
    if len(large):
        raise ValueError(
            f"{place} must be classes, got {large[0]} among floats, which hold whole numbers only up to 2^53. Store the"
            " labels as integers or as text."
        )
    return labels.astype(np.int64)


def _no_classes(place: str, example: str) -> ValueError:
    return ValueError(
        f"{place} must be classes, got numbers with fractions, such as {example}. Pairloom predicts classes: put such"
        " numbers into a few groups first, or name another column."
    )
