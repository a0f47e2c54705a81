"""Read the arrays of a ``.npz`` file, a zarr group, a folder of ``.npy`` files, or a table. Nothing is unpickled.

The features of a zarr group or of a ``.npy`` file are opened, not read: they may be larger than memory. A member of a
``.npz`` archive can only be read whole. A CSV or Parquet file is read row by row: see `tables`.
"""

from __future__ import annotations

import contextlib
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import zarr
from numpy.typing import NDArray
from scipy import sparse

from pairloom.pipeline.features.row_sources import (
    ArrayRows,
    Arrays,
    CopiedRows,
    FileRows,
    MappedRows,
    Origin,
    PlacedRows,
    Rows,
    ZarrRows,
)
from pairloom.pipeline.features.sparse_rows import CSR_PARTS, csr_rows, csr_rows_of
from pairloom.pipeline.features.tables import (
    ParquetRows,
    TableColumns,
    TableRows,
    is_table,
    open_table,
    parquet_groups,
    read_table,
)
from pairloom.pipeline.features.zarr_groups import is_zarr_group, open_zarr_group
from pairloom.pipeline.storage.location import Location, StoreUrl, location_of, looks_like_url
from pairloom.pipeline.storage.object_store import StoreError
from pairloom.pipeline.storage.zarr_metadata import RefusedArray

__all__ = [
    "DATA_FOLDER",
    "IN_MEMORY",
    "MissingChunks",
    "features_of",
    "given_names",
    "location_of_source",
    "open_arrays",
    "open_rows",
    "read_new_rows",
    "shown",
]

DATA_FOLDER = "PAIRLOOM_DATA"

MissingChunks = Literal["refuse", "fill"]

# Deflate makes at most 258 bytes of two bits.
_MOST_DEFLATED = 1032

_FEATURES = ("X_train", "X_test", "X")
# Arrays that are read whole. Others are not read: a network's probabilities, for instance, can be larger than memory.
_SMALL = ("y_train", "y_test", "y", "classes", "feature_names", "ids_train", "ids_test", "ids")


#: The name of a source that the caller has in memory, not in a file.
IN_MEMORY = "in memory"


def given_names() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the arrays of a source: features, and all others."""
    return _FEATURES, _SMALL


# The members of an archive of scipy.sparse.save_npz, in any of its formats.
_OF_A_SPARSE_MATRIX = {"format", "shape", "data"}


def open_arrays(
    source: str,
    parameter: str = "data.features",
    embedded: Iterable[str] = (),
    columns: TableColumns | None = None,
    features: Sequence[str] | None = None,
    missing_chunks: MissingChunks = "refuse",
) -> Arrays:
    """The arrays of a source. Errors name ``parameter``, and the ``embedded`` sets if there is no such source.

    ``columns`` say how the columns of a table are used; ``features`` are the names of the features to read, if known.
    ``missing_chunks`` says whether features of a zarr group may lack chunks, which then hold the fill value.
    """
    path = location_of_source(source, parameter)
    if isinstance(path, StoreUrl):
        _check_no_table(columns, parameter, str(path))
        return _as_sources(_in_store(path, parameter, missing_chunks), source, parameter)
    if not _exists(path):
        sets = ""
        if embedded:
            sets = f" (embedded sets: {', '.join(embedded)}; `pairloom data` makes others, or says where to get them)"
        raise FileNotFoundError(f"{parameter}: no such file or folder: {shown(path)}{sets}.")
    with _readable(path, parameter):
        if path.is_file() and is_table(path):
            return _open_table(path, parameter, columns or TableColumns(), features)
        _check_no_table(columns, parameter, shown(path))
        return _as_sources(_arrays(path, parameter, missing_chunks), source, parameter)


def open_rows(
    source: str, origin: Origin, features: Sequence[str], missing_chunks: MissingChunks = "refuse"
) -> Rows:
    """The rows that `open_arrays` has found in a source, opened again by another process: nothing else is read.

    ``features`` are the names of the training features, by which the columns of a table are found.
    """
    path, names, filled = (
        location_of_source(source, origin.parameter),
        (origin.array,),
        missing_chunks == "fill",
    )
    if isinstance(path, StoreUrl):
        found = _in_store(path, origin.parameter, missing_chunks, names, ())
        return features_of(found[origin.array], origin.array, str(path))
    if not _exists(path):
        raise FileNotFoundError(f"{origin.parameter}: no such file or folder: {shown(path)}.")
    with _readable(path, origin.parameter):
        if path.is_file():
            return ParquetRows(path, features)
        if is_zarr_group(path):
            found = open_zarr_group(path, shown(path), names, (), filled)
        else:
            found = {origin.array: _open_npy(path / f"{origin.array}.npy")}
        return features_of(found[origin.array], origin.array, shown(source))


def _check_no_table(columns: TableColumns | None, parameter: str, source: str) -> None:
    if columns is not None and columns != TableColumns() and parameter == "data.features":
        raise ValueError(
            "data.label, data.id, data.leave_out and data.missing must not be set, since they are for tables"
            f" (.csv, .tsv, .parquet), got data.features = {source!r}."
        )


def _as_sources(arrays: dict[str, Any], source: str, parameter: str) -> Arrays:
    """The arrays of a source, with features as `Rows`. Those in files or chunks of their own have an origin."""
    found: Arrays = {
        name: features_of(values, name, shown(source)) if name in _FEATURES else values
        for name, values in arrays.items()
    }
    for name, rows in found.items():
        if isinstance(rows, FileRows | MappedRows | ZarrRows):
            rows.origin = Origin(parameter, name)
    return found


def _in_store(
    url: StoreUrl,
    parameter: str,
    missing_chunks: MissingChunks,
    features: Collection[str] = _FEATURES,
    others: Collection[str] = _SMALL,
) -> dict[str, Any]:
    """The arrays of a zarr group in an object store. Errors of the store itself are passed on as they are."""
    try:
        return open_zarr_group(url, str(url), features, others, missing_chunks == "fill")
    except StoreError:
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{parameter}: {error}.") from None
    except RefusedArray as error:
        if str(url) in str(error):
            raise
        raise ValueError(f"{parameter}: {url}: {error}.") from None
    except _BROKEN as error:
        raise ValueError(f"{parameter}: {url} is damaged or not what its name says: {error}.") from error


def read_new_rows(
    source: str, features: Sequence[str] | None, ids: str | None, parameter: str
) -> TableRows | None:
    """All rows of a table, including those with missing numbers; None if the source is not a table.

    ``features`` are the names of the columns to read, if known, and ``ids`` is the name of the column with the names of
    the rows, if there is one.
    """
    path = location_of_source(source, parameter)
    if isinstance(path, StoreUrl) or not (path.is_file() and is_table(path)):
        return None
    with _readable(path, parameter):
        columns = TableColumns(missing="keep_rows", id=ids)
        return read_table(Path(shown(path)), columns, features, settings=False)


@contextlib.contextmanager
def _readable(path: Path, parameter: str) -> Iterator[None]:
    """Turn the errors that libraries raise for broken files into errors that name the parameter and the file."""
    try:
        yield
    except _BROKEN as error:
        raise ValueError(
            f"{parameter}: {shown(path)} is damaged or not what its name says: {error}."
        ) from error
    except (OSError, MemoryError) as error:
        raise ValueError(f"{parameter}: {shown(path)} cannot be read: {error}.") from error


def shown(path: str | Path) -> str:
    """A path for messages: relative to the working directory, if it is inside.

    Examples
    --------
    >>> shown("features.npz"), shown(Path.cwd() / "data" / "x.npz")
    ('features.npz', 'data/x.npz')
    """
    try:
        return Path(path).relative_to(Path.cwd()).as_posix()
    except (ValueError, OSError):
        return str(path)


def _open_table(path: Path, parameter: str, columns: TableColumns, features: Sequence[str] | None) -> Arrays:
    """A table as one pool: features, labels if it has them, ids, and the names of the features."""
    path = Path(shown(path))
    if columns.label is None and parameter == "data.features":
        names = ", ".join(map(repr, open_table(path).names))
        raise ValueError(
            f"{path}: data.label must name the column with the classes, got none. The columns are {names}."
        )
    table = read_table(path, columns, features, settings=parameter.startswith("data."))
    labels = {} if table.y is None else {"y": table.y}
    # Another process knows the names of the training features, and so the columns of a table that has them.
    known = parameter == "data.features" or bool(features)
    X = _placed_in_table(table, path, parameter) if known else table.X
    return {"X": X, **labels, "ids": table.ids, "feature_names": np.array(table.names)}


def _placed_in_table(table: TableRows, path: Path, parameter: str) -> Rows:
    """The rows of a table, which another process can read again if it is a Parquet file."""
    groups = parquet_groups(path)
    if groups is None:
        return table.X
    largest, rows = int(groups.max()), int(groups.sum())
    placed = PlacedRows(Origin(parameter, "X"), table.places, None, None, largest, rows, streamed=True)
    return CopiedRows(table.X, placed)


def location_of_source(source: str, parameter: str = "data.features") -> Location:
    """The location of a source: a URL, or a path with ``$PAIRLOOM_DATA`` and ``~`` replaced."""
    return location_of(source, parameter) if looks_like_url(source) else _expanded(source)


def _expanded(source: str) -> Path:
    """Replace ``$PAIRLOOM_DATA`` by the value of the environment variable, and ``~`` by a home folder."""
    if f"${DATA_FOLDER}" not in source:
        return _with_home(source)
    if not os.environ.get(DATA_FOLDER):
        name = source.replace(f"${DATA_FOLDER}", "").lstrip("/")
        raise ValueError(
            f"data.features is {source!r}: set {DATA_FOLDER} to the folder that holds {name}; `pairloom data`"
            " makes the sets of the documentation or says where they can be had."
        )
    return Path(source.replace(f"${DATA_FOLDER}", os.environ[DATA_FOLDER]))


def _with_home(source: str) -> Path:
    try:
        return Path(source).expanduser()
    except RuntimeError as error:  # no such user, or a user without a home
        user = Path(source).parts[0]
        raise ValueError(
            f"{source}: {user} must be the home folder of a user of this computer, got none. Write the whole path, or"
            f" ./{source} for a folder of that name."
        ) from error


# Errors of numpy, zipfile and zarr for files that are truncated, changed, or of another kind.
_BROKEN = (
    zipfile.BadZipFile,
    EOFError,
    zlib.error,
    struct.error,
    NotImplementedError,
    RuntimeError,
    KeyError,
)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # such as a name that is too long
        return False


def _arrays(path: Path, parameter: str, missing_chunks: MissingChunks) -> dict[str, Any]:
    if path.suffix == ".npz" and path.is_file():
        arrays = _read_npz(path)
        if arrays.keys() == {"X"} and isinstance(arrays["X"], Rows) and parameter == "data.features":
            raise ValueError(
                f"{shown(path)} has no labels: put the matrix into a folder, as X.npz beside y.npy, or as X_train.npz"
                " and X_test.npz beside y_train.npy and y_test.npy (numpy.save), and give that folder."
            )
        return arrays
    if path.is_dir():
        if is_zarr_group(path):
            return open_zarr_group(path, shown(path), _FEATURES, _SMALL, missing_chunks == "fill")
        return _open_npy_files(path)
    raise ValueError(
        f"{parameter} must be a .npz file, a zarr group, a folder of .npy files, or a table (.csv, .tsv, .parquet), got"
        f" {shown(path)}."
    )


def features_of(values: Any, name: str, source: str) -> Rows:
    """Features as rows, if they are a matrix of real numbers."""
    if isinstance(values, Rows):
        return values
    if sparse.issparse(values):
        return csr_rows_of(values, f"{source}: {name}")
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(f"{source}: {name} must be a matrix (samples, features), got shape {values.shape}.")
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{source}: {name} must be real numbers, got dtype {values.dtype}.")
    if isinstance(values, zarr.Array):
        return ZarrRows(values, f"{source}: {name}")
    return _mapped_rows(values) if isinstance(values, np.memmap) else ArrayRows(values)


def _mapped_rows(values: np.memmap[Any, Any]) -> Rows:
    path = Path(str(values.filename))
    if values.flags.c_contiguous:
        return FileRows(path, values.offset, values.shape, values.dtype)
    return MappedRows(path, values.shape, values.dtype)


def _read_npz(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise zipfile.BadZipFile("not a .npz archive")
    with zipfile.ZipFile(path) as members:
        _check_members(members, path.stat().st_size)
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: _unpickled(archive.__getitem__, name, path) for name in archive.files}
    return _with_matrix(arrays, path) if set(arrays) >= _OF_A_SPARSE_MATRIX else arrays


def _with_matrix(arrays: dict[str, NDArray[Any]], path: Path) -> dict[str, Any]:
    """The arrays of an archive of scipy.sparse.save_npz: its matrix as X, and labels and names if it has them."""
    kind = arrays["format"].tobytes().rstrip(b"\0").decode("ascii", "replace").replace("\0", "")
    if kind != "csr" or not set(arrays) >= {*CSR_PARTS, "shape"}:
        raise ValueError(
            f"{shown(path)} must hold a sparse matrix of the format 'csr', got {kind[:20]!r}: save X.tocsr()."
        )
    others = {name: values for name, values in arrays.items() if name in _SMALL}
    return {"X": csr_rows(arrays, shown(path)), **others}


def _check_members(archive: zipfile.ZipFile, size: int) -> None:
    """Raise if a member claims more bytes than Deflate can unpack from it, or an array more bytes than its member."""
    if sum(member.compress_size for member in archive.infolist()) > size:
        raise zipfile.BadZipFile("its members overlap")
    for member in archive.infolist():
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise zipfile.BadZipFile(f"{member.filename} must be stored or deflated, as numpy does")
        if member.file_size > _MOST_DEFLATED * member.compress_size:
            raise zipfile.BadZipFile(
                f"{member.filename} has {member.compress_size} bytes, which cannot hold {member.file_size}"
            )
        with archive.open(member) as file:
            _check_npy(file, member.file_size, member.filename)


def _check_npy(file: IO[bytes], size: int, name: str) -> None:
    """Raise if the header of a ``.npy`` file names more bytes than follow it. numpy would allocate them first."""
    try:
        version = np.lib.format.read_magic(file)
        read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}.get(
            version[0]
        )
        if read is None:  # numpy writes 3.0 only for names of fields, which are no features or labels
            return
        shape, _, dtype = read(file)
    except ValueError:
        return  # numpy says what is wrong with it
    named = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and named > size:
        raise EOFError(f"{name} has {size} bytes, which cannot hold {named}")


def _open_npy_files(path: Path) -> dict[str, Any]:
    """The arrays of a folder: ``.npy`` files, and sparse features as scipy.sparse.save_npz writes them."""
    files = sorted(path.glob("*.npy"))
    arrays: dict[str, Any] = {
        f.stem: _unpickled(lambda name: _open_npy(path / f"{name}.npy"), f.stem, path) for f in files
    }
    for name in _FEATURES:
        if not (matrix := path / f"{name}.npz").is_file():
            continue
        if name in arrays:
            raise ValueError(f"{shown(path)}: {name} must be one file, got {name}.npy and {name}.npz.")
        found = _read_npz(matrix).get("X")
        if not isinstance(found, Rows):
            raise ValueError(
                f"{shown(matrix)} must be a sparse matrix (scipy.sparse.save_npz), got other arrays. To use an archive"
                " of numpy, give its path, not that of its folder."
            )
        arrays[name] = found
    return arrays


def _open_npy(path: Path) -> NDArray[Any]:
    if path.stem in _FEATURES:
        try:
            mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
            return mapped
        except ValueError:
            pass  # an empty array, an array of objects, or a truncated file: the next lines report which
    with path.open("rb") as file:
        _check_npy(file, path.stat().st_size, path.name)
    loaded: NDArray[Any] = np.load(path, allow_pickle=False)
    return loaded


def _unpickled(load: Callable[[str], Any], name: str, path: Path) -> NDArray[Any]:
    try:
        loaded = load(name)
        if isinstance(loaded, bytes):  # numpy's answer for a member of an archive that is no .npy file
            raise EOFError(f"{name} is not an array")
        return np.asanyarray(loaded)
    except ValueError as error:
        if "pickle" not in str(error):
            raise ValueError(f"{shown(path)}: {name} cannot be read: {error}.") from error
        raise ValueError(
            f"{shown(path)}: {name} cannot be read without unpickling, which could run code. "
            "Save labels and class names as strings or integers, not as objects."
        ) from error
