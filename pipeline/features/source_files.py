"""Read the arrays of a ``.npz`` file, a zarr group, a folder of ``.npy`` files, or a table. Nothing is unpickled.

The features of a zarr group or of a ``.npy`` file are opened, not read: they may be larger than memory. A member of a
``.npz`` archive can only be read whole. A CSV or Parquet file is read row by row: see `tables`.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from pairloom.pipeline.features.row_sources import ArrayRows, Arrays, FileRows, MappedRows, Rows, ZarrRows
from pairloom.pipeline.features.tables import TableColumns, is_table, open_table, read_table

__all__ = ["DATA_FOLDER", "expand_data_folder", "open_arrays", "shown"]

DATA_FOLDER = "PAIRLOOM_DATA"

_FEATURES = ("X_train", "X_test", "X")
# What is read at once from a zarr group. It may hold other arrays, which nothing here asks for: a network's own
# probabilities can be larger than memory.
_SMALL = ("y_train", "y_test", "y", "classes", "feature_names")


def open_arrays(
    source: str,
    parameter: str = "data.features",
    embedded: Iterable[str] = (),
    columns: TableColumns | None = None,
    features: Sequence[str] | None = None,
) -> Arrays:
    """The arrays of a source. Errors name ``parameter``, and the ``embedded`` sets if there is no such source.

    ``columns`` say how the columns of a table are used; ``features`` are the names of those to read, if they are known.
    """
    path = expand_data_folder(source)
    if not _exists(path):
        sets = f" (embedded sets: {', '.join(embedded)})" if embedded else ""
        raise FileNotFoundError(f"{parameter}: no such file or folder: {shown(path)}{sets}.")
    try:
        if path.is_file() and is_table(path):
            return _open_table(path, parameter, columns or TableColumns(), features)
        if columns is not None and columns != TableColumns() and parameter == "data.features":
            raise ValueError(
                "data.label, data.leave_out and data.missing must not be set, since they are for tables (.csv, .tsv,"
                f" .parquet), got data.features = {shown(path)!r}."
            )
        return {
            name: _opened(values, name, shown(source)) for name, values in _arrays(path, parameter).items()
        }
    except _BROKEN as error:
        raise ValueError(
            f"{parameter}: {shown(path)} is damaged or not what its name says: {error}."
        ) from error
    except (OSError, MemoryError) as error:
        raise ValueError(f"{parameter}: {shown(path)} cannot be read: {error}.") from error


def shown(path: str | Path) -> str:
    """A path as messages name it: from the working directory on, if it is in there.

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
    """A table as one pool: features, labels if it has them, and the names of the features."""
    path = Path(shown(path))
    if columns.label is None and parameter == "data.features":
        names = ", ".join(map(repr, open_table(path).names))
        raise ValueError(
            f"{path}: data.label must name the column with the classes, got none. The columns are {names}."
        )
    table = read_table(path, columns, features, settings=parameter.startswith("data."))
    labels = {} if table.y is None else {"y": table.y}
    return {"X": table.X, **labels, "feature_names": np.array(table.names)}


def expand_data_folder(source: str) -> Path:
    """Replace ``$PAIRLOOM_DATA`` by the value of the environment variable."""
    if f"${DATA_FOLDER}" not in source:
        return Path(source).expanduser()
    if not os.environ.get(DATA_FOLDER):
        name = source.replace(f"${DATA_FOLDER}", "").lstrip("/")
        raise ValueError(f"data.features is {source!r}: set {DATA_FOLDER} to the folder that holds {name}.")
    return Path(source.replace(f"${DATA_FOLDER}", os.environ[DATA_FOLDER]))


# What numpy, zipfile and zarr raise for files that are cut short, changed, or of another kind.
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


def _arrays(path: Path, parameter: str) -> dict[str, Any]:
    if path.suffix == ".npz" and path.is_file():
        return _read_npz(path)
    if path.is_dir():
        is_zarr = (path / "zarr.json").exists() or (path / ".zgroup").exists()
        return _open_zarr(path) if is_zarr else _open_npy_files(path)
    raise ValueError(
        f"{parameter} must be a .npz file, a zarr group, a folder of .npy files, or a table (.csv, .tsv, .parquet), got"
        f" {shown(path)}."
    )


def _opened(values: Any, name: str, source: str) -> NDArray[Any] | Rows:
    """Features as rows, if they are a matrix of real numbers."""
    if name not in _FEATURES or isinstance(values, Rows):
        return values  # type: ignore[no-any-return]
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


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise zipfile.BadZipFile("not a .npz archive")
    with np.load(path, allow_pickle=False) as archive:
        return {name: _unpickled(archive.__getitem__, name, path) for name in archive.files}


def _open_zarr(path: Path) -> dict[str, Any]:
    try:
        group = zarr.open_group(path, mode="r")
        return {name: np.asarray(array[:]) if name in _SMALL else array for name, array in group.arrays()}
    except Exception as error:  # zarr and its codecs raise many kinds
        raise RuntimeError(error) from error


def _open_npy_files(path: Path) -> dict[str, NDArray[Any]]:
    files = sorted(path.glob("*.npy"))
    return {f.stem: _unpickled(lambda name: _open_npy(path / f"{name}.npy"), f.stem, path) for f in files}


def _open_npy(path: Path) -> NDArray[Any]:
    if path.stem in _FEATURES:
        try:
            mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
            return mapped
        except ValueError:
            pass  # an empty array, one of objects, or a file that is cut short: the next line reports which
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
