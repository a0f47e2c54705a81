"""The layout of zarr groups on disk.

All files of a group except the chunks of its large arrays are known in advance: metadata, class names, edges.
`group_files` creates these files in memory, and `stamp` writes the ones that are missing or differ. So damaged metadata
are repaired, stamping twice is harmless, and existing chunks are never touched.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import zarr
import zict
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.buffer import Buffer
from zarr.storage import MemoryStore

from pairloom.pipeline.storage.folder import Folder

__all__ = [
    "ChunkedArray",
    "Coordinate",
    "chunk_path",
    "differing_files",
    "group_files",
    "read_whole",
    "remove_outdated",
    "stamp",
]


class ChunkedArray(NamedTuple):
    """An array that tasks write file by file. Missing chunks read as NaN (-1 for integers, empty for text).

    A file has one chunk or, with ``chunks_per_file``, that many along each axis (a shard): there are few files, and
    readers decompress only the chunks they need. Weights and logits are noise in all but their first digits: Zstd makes
    them 8% smaller and takes more than half of the time of a read or write, so they are not ``compressed``.
    """

    name: str
    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: str = "float32"
    chunks_per_file: tuple[int, ...] | None = None
    compressed: bool = True

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """The chunk size, at most the size of the array."""
        return tuple(min(chunk, max(1, n)) for chunk, n in zip(self.chunks, self.shape, strict=True))

    @property
    def shard_shape(self) -> tuple[int, ...] | None:
        """The shape of a file of several chunks, at most that of the array in whole chunks."""
        if self.chunks_per_file is None:
            return None
        axes = zip(self.chunk_shape, self.chunks_per_file, self.shape, strict=True)
        return tuple(chunk * min(several, max(1, -(-n // chunk))) for chunk, several, n in axes)

    @property
    def grid(self) -> tuple[int, ...]:
        """The number of files along each axis."""
        size_of_file = self.shard_shape or self.chunk_shape
        return tuple(-(-n // size) for size, n in zip(size_of_file, self.shape, strict=True))


class Coordinate(NamedTuple):
    """A small array that is known in advance, such as the labels of classes or the classes of each edge."""

    name: str
    dimensions: tuple[str, ...]
    values: NDArray[Any]


# Zstd's own checksum is off by default; without a checksum, a flipped bit would be read as data.
_CHECKSUM = (Crc32cCodec(),)
_COMPRESSORS = (ZstdCodec(level=1), *_CHECKSUM)


def _fill_value(dtype: str) -> float | int | str:
    if dtype == "string":
        return ""
    return np.nan if np.dtype(dtype).kind == "f" else -1


def _storable(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.dtypes.StringDType()) if values.dtype.kind == "U" else values


def group_files(
    arrays: Sequence[ChunkedArray], coordinates: Sequence[Coordinate], attributes: Mapping[str, Any]
) -> dict[str, bytes]:
    """The files of a zarr group, before any chunk of ``arrays`` is written, by path inside the group."""
    known_values = [(c.name, c.dimensions, c.values.dtype, c.values.tolist()) for c in coordinates]
    recipe = repr([arrays, attributes, known_values])
    known = _made.get(recipe)
    if known is None:
        known = _made[recipe] = _group_files(arrays, coordinates, attributes)
    return dict(known)


# Groups by their recipe: a run that grows makes all its groups again with every wave, although most do not change.
_made: Any = zict.LRU(
    64 * 2**20, {}, weight=lambda recipe, files: len(recipe) + sum(map(len, files.values()))
)


def _group_files(
    arrays: Sequence[ChunkedArray], coordinates: Sequence[Coordinate], attributes: Mapping[str, Any]
) -> dict[str, bytes]:
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
            config={"write_empty_chunks": True},  # else an array of zeros would have no chunk
        )
    for array in arrays:
        group.create_array(
            array.name,
            shape=array.shape,
            chunks=array.chunk_shape,
            shards=array.shard_shape,
            dtype=array.dtype,
            fill_value=_fill_value(array.dtype),
            compressors=_COMPRESSORS if array.compressed else _CHECKSUM,
            dimension_names=array.dimensions,
        )
    with warnings.catch_warnings():
        # Consolidated metadata are not in the v3 specification yet. xarray looks for them first; others ignore them.
        warnings.simplefilter("ignore", zarr.errors.ZarrUserWarning)
        zarr.consolidate_metadata(store)
    return {path: buffer.to_bytes() for path, buffer in files.items()}


def stamp(folder: Folder, files: Mapping[str, bytes]) -> list[str]:
    """Write the ``files`` that are missing in a folder or differ; return their paths."""
    differing = differing_files(folder, files)
    for path in differing:
        folder.write(path, files[path])
    return differing


def differing_files(folder: Folder, files: Mapping[str, bytes]) -> list[str]:
    """The paths of ``files`` that are missing in a folder or differ."""
    return [path for path, data in files.items() if not _holds(folder, path, data)]


def _holds(folder: Folder, path: str, data: bytes) -> bool:
    try:
        return folder.read(path) == data
    except (FileNotFoundError, NotADirectoryError):
        return False


def remove_outdated(
    folder: Folder,
    group: str,
    arrays: Sequence[ChunkedArray],
    members: Collection[str],
    known: Collection[str],
) -> None:
    """Remove the arrays among ``known`` that are not ``members`` any longer, and chunks beyond the end of an array.

    Any other files in the group are left alone: a file manager's litter, a symbolic link, a user's note.
    """
    there = folder.below(group)
    for name in sorted(set(known) - set(members)):
        _delete_chunks(folder, there, f"{group}/{name}", lambda index: True)
        if f"{group}/{name}/zarr.json" in there:
            folder.delete(f"{group}/{name}/zarr.json")
        folder.prune(f"{group}/{name}")
    for array in arrays:
        _delete_chunks(folder, there, f"{group}/{array.name}", functools.partial(_is_beyond, array.grid))


def _delete_chunks(
    folder: Folder, there: Iterable[str], array: str, outdated: Callable[[tuple[int, ...]], bool]
) -> None:
    """Delete the chunks of an array whose index is outdated, of the files that are there."""
    for path in there:
        index = path.removeprefix(f"{array}/c/").split("/")
        if all(place.isdecimal() for place in index) and outdated(tuple(map(int, index))):
            folder.delete(path)


def _is_beyond(grid: tuple[int, ...], index: tuple[int, ...]) -> bool:
    return any(place >= count for place, count in zip(index, grid, strict=False))


def chunk_path(array: zarr.Array[Any], index: Iterable[int]) -> str:
    """The path, inside the store of an array, of the file with this index in the grid of files."""
    return f"{array.path}/{array.metadata.encode_chunk_key(tuple(index))}".removeprefix("/")


def read_whole(array: zarr.Array[Any], selection: Any = Ellipsis) -> NDArray[Any]:
    """Read a selection of an array. Raises if a chunk is missing.

    Missing chunks read as the fill value, which no finished array contains.
    """
    values = np.asarray(array[selection])
    missing = np.isnan(values) if values.dtype.kind == "f" else values == array.fill_value
    if missing.any():
        raise ValueError(f"{array.store_path}: chunks are missing in {selection}.")
    return values
