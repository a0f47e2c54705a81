"""How a zarr group of the run lies on disk.

Everything in a group but the chunks of its large arrays follows from the plan: the metadata, the class names,
which edge is which. `group_files` makes those files in memory and `stamp` puts them on disk where they are
missing or differ, so that damaged metadata heals, a layout can be stamped twice, and chunks already written
are never touched.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.buffer import Buffer
from zarr.storage import LocalStore, MemoryStore

from pairloom.pipeline.storage.atomic_file import write_atomically

__all__ = [
    "ChunkedArray",
    "Coordinate",
    "chunk_file",
    "differing_files",
    "group_files",
    "read_whole",
    "remove_strangers",
    "stamp",
]


class ChunkedArray(NamedTuple):
    """An array that tasks fill chunk by chunk. What is not written yet reads as NaN (-1 for integers)."""

    name: str
    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: str = "float32"

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Chunks no longer than the array."""
        return tuple(min(chunk, max(1, n)) for chunk, n in zip(self.chunks, self.shape, strict=True))

    @property
    def grid(self) -> tuple[int, ...]:
        """How many chunks there are along each axis."""
        return tuple(-(-n // chunk) for chunk, n in zip(self.chunk_shape, self.shape, strict=True))


class Coordinate(NamedTuple):
    """A small array known when the run is planned: names of classes, ends of edges."""

    name: str
    dimensions: tuple[str, ...]
    values: NDArray[Any]


# Zstd's own checksum is off by default, and a flipped bit then reads as data.
_COMPRESSORS = (ZstdCodec(level=1), Crc32cCodec())


def _fill_value(dtype: str) -> float | int:
    return np.nan if np.dtype(dtype).kind == "f" else -1


def _storable(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.dtypes.StringDType()) if values.dtype.kind == "U" else values


def group_files(
    arrays: Sequence[ChunkedArray], coordinates: Sequence[Coordinate], attributes: Mapping[str, Any]
) -> dict[str, bytes]:
    """The files of a zarr group before any chunk of ``arrays`` is written, by path inside the group."""
    files: dict[str, Buffer] = {}
    store = MemoryStore(files)
    indexes = [c.name for c in coordinates if c.dimensions != (c.name,)]
    group = zarr.create_group(store, attributes={**attributes, "coordinates": " ".join(indexes)})
    for name, dimensions, values in coordinates:
        group.create_array(
            name,
            data=_storable(values),
            chunks=values.shape,
            compressors=_COMPRESSORS,
            dimension_names=dimensions,
        )
    for array in arrays:
        group.create_array(
            array.name,
            shape=array.shape,
            chunks=array.chunk_shape,
            dtype=array.dtype,
            fill_value=_fill_value(array.dtype),
            compressors=_COMPRESSORS,
            dimension_names=array.dimensions,
        )
    with warnings.catch_warnings():
        # Consolidated metadata is not in the v3 specification yet; xarray looks for it first, others ignore
        # it.
        warnings.simplefilter("ignore", zarr.errors.ZarrUserWarning)
        zarr.consolidate_metadata(store)
    return {path: buffer.to_bytes() for path, buffer in files.items()}


def stamp(root: Path, files: Mapping[str, bytes]) -> list[str]:
    """Write the ``files`` that are missing under ``root`` or differ; return their paths."""
    differing = differing_files(root, files)
    for path in differing:
        write_atomically(root / path, files[path])
    return differing


def remove_strangers(root: Path, arrays: Sequence[ChunkedArray], files: Mapping[str, bytes]) -> None:
    """Remove arrays, and chunks beyond the end of an array, that a group of another layout has left."""
    members = {path.split("/")[0] for path in files}
    for path in root.glob("*"):
        if path.name not in members:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for array in arrays:
        for path in (root / array.name / "c").rglob("*"):
            index = path.relative_to(root / array.name / "c").parts
            within = (int(place) < count for place, count in zip(index, array.grid, strict=False))
            if path.is_file() and not all(within):
                path.unlink()


def differing_files(root: Path, files: Mapping[str, bytes]) -> list[str]:
    """Paths of ``files`` that are missing under ``root`` or hold something else."""
    return [path for path, data in files.items() if not _holds(root / path, data)]


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except (FileNotFoundError, NotADirectoryError):
        return False


def chunk_file(array: zarr.Array[Any], index: Iterable[int]) -> Path:
    """Where on disk the chunk with this index in the chunk grid lies."""
    store = array.store
    assert isinstance(store, LocalStore)
    return store.root / array.path / array.metadata.encode_chunk_key(tuple(index))


def read_whole(array: zarr.Array[Any], selection: Any = Ellipsis) -> NDArray[Any]:
    """Read a selection in which nothing may be missing.

    A chunk that does not exist reads as the fill value, which no finished array holds: that is an error here,
    as a wrong checksum is, and never data.
    """
    values = np.asarray(array[selection])
    missing = np.isnan(values).any() if values.dtype.kind == "f" else (values == -1).any()
    if missing:
        raise ValueError(f"{array.store_path}: chunks are missing in {selection}")
    return values
