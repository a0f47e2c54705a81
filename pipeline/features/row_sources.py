"""Sources of feature rows: memory, a file, a zarr array or a generator, read in pieces of bounded size.

Rows may be sparse: then `Rows.read` returns CSR, and pieces are cut by entries (`sparse_rows` has those sources).

Sources hold no more rows in memory than were asked for, so a set may be larger than memory. Files are read, not mapped:
the pages of a mapped file count as memory of the process until something else needs it.
"""

from __future__ import annotations

import functools
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom.pipeline.features.sparse_features import canonical_csr
from pairloom.pipeline.storage.object_store import StoreError
from pairloom.pipeline.threads import pieces

__all__ = [
    "PIECE_BYTES",
    "ArrayRows",
    "Arrays",
    "CheckedRows",
    "ChosenColumns",
    "CopiedRows",
    "FileRows",
    "GeneratedRows",
    "Index",
    "MappedRows",
    "Origin",
    "PlacedRows",
    "Rows",
    "SelectedRows",
    "ZarrRows",
    "check_unchanged",
    "consecutive",
    "fill",
    "in_order",
    "row_checksums",
    "write_all",
]

#: Rows are read in pieces of about this size. (A larger chunk of a zarr array is read whole.)
PIECE_BYTES = 16 * 2**20

Index = slice | NDArray[np.int64]


class Origin(NamedTuple):
    """Where another process can open rows again: the parameter that names their source, and their array in it."""

    parameter: str
    array: str


class PlacedRows(NamedTuple):
    """Rows by their places in a source that another process can open.

    Attributes
    ----------
    origin : Origin
    places : (n,) the number of each row in the array of its source
    columns : the columns of that array; None for all
    checksums : (n,) the checksums of the rows when they were checked
    together : how many consecutive rows of the source are read at once; 1 if single rows can be read
    of : number of rows of the array
    streamed : whether rows that are read at once need not be in memory at once
    """

    origin: Origin
    places: NDArray[np.int64]
    columns: NDArray[np.intp] | None
    checksums: NDArray[np.uint32] | None
    together: int
    of: int
    streamed: bool = False

    def chosen(self, rows: Index) -> PlacedRows:
        """Some of the rows."""
        checksums = None if self.checksums is None else self.checksums[rows]
        return self._replace(places=self.places[rows], checksums=checksums)


class Rows(ABC):
    """A matrix of real numbers (n, D), read as float32 or, if its type is wider, as float64.

    Attributes
    ----------
    shape : (n, D)
    dtype : the type of the rows that `read` returns
    scattered : whether scattered rows are read about as fast as consecutive ones
    can_change : whether others can write to the rows
    origin : where another process can open the rows; None if it cannot
    entries : (n,) upper bounds of the number of entries of each row, if rows are sparse; None if they are dense
    """

    scattered = True
    can_change = False
    origin: Origin | None = None
    entries: NDArray[np.int64] | None = None

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = (int(shape[0]), int(shape[1]))
        # Keep float64: rows are centred before they become float32, or features far from zero would lose digits.
        self.dtype: np.dtype[np.floating] = np.result_type(dtype, np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def _read(self, rows: Index) -> Any:
        """The rows in a slice with both ends given, or with these numbers."""

    def read(self, rows: Index) -> Any:
        """The rows in a slice, or with these numbers, as a new array, or as canonical CSR if they are sparse."""
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            return self._as_rows(self._read(slice(start, stop)))
        if len(rows) and int(rows[-1]) - int(rows[0]) + 1 == len(rows) and (np.diff(rows) == 1).all():
            return self.read(slice(int(rows[0]), int(rows[-1]) + 1))
        return self._as_rows(self._read(rows))

    def _as_rows(self, values: Any) -> Any:
        if sparse.issparse(values):
            return canonical_csr(values.astype(self.dtype))
        return np.ascontiguousarray(values, dtype=self.dtype)

    @property
    def rows_per_piece(self) -> int:
        """The number of rows that `pieces` reads at once."""
        return max(1, PIECE_BYTES // (self.dtype.itemsize * self.shape[1]))

    @property
    def entries_per_piece(self) -> int:
        """The number of entries of sparse rows that `pieces` reads at once, with their columns."""
        return PIECE_BYTES // (self.dtype.itemsize + 4)

    @property
    def rows_together(self) -> int:
        """The number of rows that must be read for one of them."""
        return 1

    def placed(self) -> PlacedRows | None:
        """The rows by their places in a source that another process can open; None if there is none."""
        if self.origin is None:
            return None
        return PlacedRows(self.origin, np.arange(len(self)), None, None, self.rows_together, len(self))

    def pieces(self) -> Iterator[tuple[slice, Any]]:
        """All rows in their order, piece by piece."""
        sparse_parts = self.entries is not None and _by_entries(self.entries, self.entries_per_piece)
        for part in sparse_parts or pieces(len(self), self.rows_per_piece):
            yield part, self.read(part)


def _by_entries(entries: NDArray[np.int64], most: int) -> list[slice]:
    """Cut rows into pieces of at most `most` entries, or of one row; every row counts as one more entry."""
    ends, parts, start = np.cumsum(entries + 1), [], 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        parts.append(slice(start, stop))
        start = stop
    return parts


#: The arrays of a source by name: features as rows, everything else as arrays.
Arrays = dict[str, NDArray[Any] | Rows]


class ArrayRows(Rows):
    """Rows in memory."""

    def __init__(self, values: NDArray[Any]) -> None:
        super().__init__(values.shape, values.dtype)
        self._values = values

    def _read(self, rows: Index) -> NDArray[Any]:
        return self._values[rows]


class FileRows(Rows):
    """Rows stored one after the other in a file, from an offset on."""

    def __init__(
        self, path: Path | IO[bytes], offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        super().__init__(shape, dtype)
        self._path, self._offset, self._stored = path, offset, dtype
        self.can_change = isinstance(path, Path)
        self._stamp = _stamp(path) if isinstance(path, Path) else None

    def _read(self, rows: Index) -> NDArray[Any]:
        if isinstance(self._path, Path):
            # The file is read more than once, but its content is checked and fingerprinted only the first time.
            if _stamp(self._path) != self._stamp:
                raise ValueError(f"{self._path} must not change while it is read, but it was written to.")
            with self._path.open("rb", buffering=0) as file:
                return self._read_from(file, rows)
        return self._read_from(self._path, rows)

    def _read_from(self, file: IO[bytes], rows: Index) -> NDArray[Any]:
        count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        values = np.empty((count, self.shape[1]), self._stored)
        for place, first, length in consecutive(rows):
            file.seek(self._offset + first * values.strides[0])
            fill(values[place : place + length].data.cast("B"), file)
        return values


def _stamp(path: Path) -> tuple[int, int, int]:
    """Size, time and inode of a file: they change when it is written to or replaced."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def consecutive(rows: Index) -> Iterator[tuple[int, int, int]]:
    """Runs of consecutive rows: their place in the selection, the first row, and the number of rows."""
    if isinstance(rows, slice):
        yield 0, rows.start, rows.stop - rows.start
        return
    starts = np.flatnonzero(np.diff(rows, prepend=rows[:1] - 2) != 1)
    lengths = np.diff(starts, append=len(rows))
    yield from zip(starts.tolist(), rows[starts].tolist(), lengths.tolist(), strict=True)


def fill(wanted: memoryview, file: IO[bytes]) -> None:
    while wanted:
        got: int = file.readinto(wanted)  # type: ignore[attr-defined]  # of an unbuffered file
        if not got:
            raise ValueError(f"{file.name} is cut short.")
        wanted = wanted[got:]


class MappedRows(Rows):
    """Rows of a ``.npy`` file in column-major order. It is mapped only while it is read."""

    can_change = True

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        super().__init__(shape, dtype)
        self._path = path

    def _read(self, rows: Index) -> NDArray[Any]:
        return np.array(np.load(self._path, mmap_mode="r", allow_pickle=False)[rows])


class ZarrRows(Rows):
    """Rows of a zarr array. The chunks read last are kept, because the next rows may lie in them too."""

    scattered = False
    can_change = True

    def __init__(self, array: Any, name: str) -> None:
        super().__init__(array.shape, array.dtype)
        self._array, self._name = array, name
        self._block = functools.lru_cache(maxsize=1)(self._read_block)

    @property
    def rows_per_piece(self) -> int:
        """A whole number of chunks."""
        chunk = self.rows_together
        return -(-super().rows_per_piece // chunk) * chunk

    @property
    def rows_together(self) -> int:
        """The rows of a chunk."""
        return int(self._array.chunks[0])

    def release(self) -> None:
        """Forget the chunks that were read last."""
        self._block.cache_clear()

    def _read(self, rows: Index) -> NDArray[Any]:
        if not isinstance(rows, slice):
            return self._opened(lambda: self._array.oindex[rows])
        values = np.empty((rows.stop - rows.start, self.shape[1]), self._array.dtype)
        size, row = self.rows_per_piece, rows.start
        while row < rows.stop:
            number = row // size
            end = min((number + 1) * size, rows.stop)
            values[row - rows.start : end - rows.start] = self._block(number)[
                row - number * size : end - number * size
            ]
            row = end
        return values

    def _read_block(self, number: int) -> NDArray[Any]:
        size = self.rows_per_piece
        return self._opened(lambda: self._array[number * size : (number + 1) * size])

    def _opened(self, read: Callable[[], Any]) -> NDArray[Any]:
        try:
            return np.asarray(read())
        except StoreError:  # the store cannot be reached, which does not mean that chunks are damaged
            raise
        except Exception as error:  # zarr and its codecs raise many kinds
            raise ValueError(f"{self._name} is damaged or not what its name says: {error}.") from error


class GeneratedRows(Rows):
    """Rows that are generated class by class, the same number for each."""

    def __init__(
        self, draw: Callable[[int], NDArray[np.floating]], n_classes: int, rows_per_class: int, features: int
    ) -> None:
        super().__init__((n_classes * rows_per_class, features), np.dtype(np.float32))
        self._draw, self._of_class = functools.lru_cache(maxsize=1)(draw), rows_per_class

    @property
    def rows_together(self) -> int:
        """The rows of a class."""
        return self._of_class

    def _read(self, rows: Index) -> NDArray[Any]:
        wanted = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        values = np.empty((len(wanted), self.shape[1]), self.dtype)
        label, place = np.divmod(wanted, self._of_class)
        for c in np.unique(label).tolist():
            of_class = label == c
            values[of_class] = self._draw(c)[place[of_class]]
        return values


class SelectedRows(Rows):
    """Some rows of another source, in any order."""

    def __init__(self, source: Rows, chosen: NDArray[np.int64]) -> None:
        super().__init__((len(chosen), source.shape[1]), source.dtype)
        self._source, self._chosen = source, chosen
        self.entries = None if source.entries is None else source.entries[chosen]
        self.scattered, self.can_change = source.scattered, source.can_change

    def placed(self) -> PlacedRows | None:
        """The places of the chosen rows."""
        placed = self._source.placed()
        return None if placed is None else placed.chosen(self._chosen)

    def _read(self, rows: Index) -> Any:
        return self._source.read(self._chosen[rows])


class CopiedRows(Rows):
    """A copy of rows that another process can read where they came from."""

    def __init__(self, copied: Rows, placed: PlacedRows) -> None:
        super().__init__(copied.shape, copied.dtype)
        self._copied, self._placed = copied, placed
        self.scattered, self.can_change = copied.scattered, copied.can_change

    def placed(self) -> PlacedRows | None:
        """Where they came from."""
        return self._placed

    def _read(self, rows: Index) -> NDArray[Any]:
        return np.asarray(self._copied.read(rows))


class ChosenColumns(Rows):
    """Some columns of another source, in any order."""

    def __init__(self, source: Rows, columns: NDArray[np.intp]) -> None:
        super().__init__((len(source), len(columns)), source.dtype)
        self._source, self._columns, self.entries = source, columns, source.entries
        self.scattered, self.can_change = source.scattered, source.can_change

    def placed(self) -> PlacedRows | None:
        """The places of the rows, and the chosen columns."""
        placed = self._source.placed()
        return None if placed is None else placed._replace(columns=self._columns)

    def _read(self, rows: Index) -> Any:
        return self._source.read(rows)[:, self._columns]


class CheckedRows(Rows):
    """Rows of another source, compared with their checksums from an earlier reading.

    A source is read at least twice: once to be checked and fingerprinted, once to be copied. The copied rows must be
    the checked ones, so a row that has changed in between is an error.
    """

    def __init__(self, source: Rows, checksums: NDArray[np.uint32], name: str) -> None:
        super().__init__(source.shape, source.dtype)
        self._source, self._checksums, self._name = source, checksums, name
        self.scattered, self.entries = source.scattered, source.entries

    @property
    def rows_per_piece(self) -> int:
        """The number of the source."""
        return self._source.rows_per_piece

    @property
    def entries_per_piece(self) -> int:
        """The number of the source."""
        return self._source.entries_per_piece

    def placed(self) -> PlacedRows | None:
        """The places of the rows, with their checksums."""
        placed = self._source.placed()
        return None if placed is None else placed._replace(checksums=self._checksums)

    def _read(self, rows: Index) -> Any:
        values = self._source.read(rows)
        check_unchanged(values, self._checksums[rows], rows, self._name)
        return values


def check_unchanged(values: Any, checksums: NDArray[np.uint32], rows: Index, name: str) -> None:
    """Raise if rows are not those of the checksums; ``rows`` are their numbers in the source ``name``."""
    changed = np.flatnonzero(row_checksums(values) != checksums)
    if len(changed):
        first = int(changed[0]) + rows.start if isinstance(rows, slice) else int(rows[changed[0]])
        raise ValueError(
            f"{name} must not change while it is read, but row {first} is not what it was when it was"
            " checked. Start again when nothing writes to it."
        )


def row_checksums(values: Any) -> NDArray[np.uint32]:
    """(n,) the checksum of every row; for sparse rows, of the columns and the entries."""
    if sparse.issparse(values):
        columns, entries = (
            np.split(some, values.indptr[1:-1]) for some in (values.indices.astype(np.int64), values.data)
        )
        each = (zlib.crc32(x.data, zlib.crc32(d.data)) for d, x in zip(columns, entries, strict=True))
        return np.fromiter(each, np.uint32, values.shape[0])
    return np.fromiter(map(zlib.crc32, np.ascontiguousarray(values)), np.uint32, len(values))


def in_order(rows: Rows, order: NDArray[np.int64], folder: Path) -> Rows:
    """Rows in another order, to be read from the first to the last.

    If scattered rows are slow to read (a zarr array would be read again for every piece), all rows are first copied in
    their new order into an unnamed file in ``folder``, which disappears with the rows or the process.
    """
    if (np.diff(order) == 1).all():
        return rows
    if rows.scattered:
        return SelectedRows(rows, order)
    file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  # open for as long as the rows are
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    for part, X in rows.pieces():
        _write_rows(file, X, places[part])
    return FileRows(file, 0, rows.shape, rows.dtype)


def _write_rows(file: IO[bytes], X: NDArray[np.floating], places: NDArray[np.int64]) -> None:
    by_place = np.argsort(places)
    X = X[by_place]
    for start, first, length in consecutive(places[by_place]):
        file.seek(first * X.strides[0])
        write_all(file, X[start : start + length])


def write_all(file: IO[bytes], X: NDArray[Any]) -> None:
    """Write rows to an unbuffered file, which may take only a part of them at a time."""
    wanted = np.ascontiguousarray(X).reshape(-1).view(np.uint8).data
    while wanted:
        wanted = wanted[file.write(wanted) :]
