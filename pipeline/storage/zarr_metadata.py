"""Metadata of zarr arrays, checked before zarr opens an array and before a chunk is read.

The metadata of an array names its codecs, and some codecs run code from the chunks (``pickle``). So only arrays with
listed codecs and data types are opened: `OURS`, which Pairloom writes, for saved models and runs; `HARMLESS`, which
others use for numbers and text, for data. Chunks must exist, and must not claim more bytes than their codec can unpack
from their size, or a few bytes could fill the memory.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from zarr.storage import LocalStore

__all__ = [
    "HARMLESS",
    "MOST_METADATA_BYTES",
    "OURS",
    "MissingChunk",
    "RefusedArray",
    "Rules",
    "StoredArray",
    "array_of_metadata",
    "is_array",
    "is_group",
    "open_checked",
    "parsed_json",
    "stored_array",
]


class RefusedArray(ValueError):
    """A zarr array that is not opened, because of its metadata or because chunks are missing."""


class MissingChunk(RefusedArray):
    """A chunk of an array is missing; zarr would read it as the fill value."""


class Rules(NamedTuple):
    """The arrays that are opened: formats of zarr, names of codecs, and names of data types of format 3."""

    formats: tuple[int, ...]
    codecs: frozenset[str]
    data_types: frozenset[str]


_INTEGERS = {f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)}
# Bytes per number. The bytes of text and of times are in the configuration of their type, or vary.
_NUMBERS = {
    "bool": 1,
    **_INTEGERS,
    "float16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
_TEXT_AND_TIMES = (
    "string",
    "fixed_length_utf32",
    "null_terminated_bytes",
    "numpy.datetime64",
    "numpy.timedelta64",
)
_OWN_CODECS = frozenset({"bytes", "zstd", "blosc", "crc32c", "sharding_indexed", "vlen-utf8"})
_COMPRESSORS = frozenset({"zstd", "gzip", "blosc", "zlib", "lz4"})
_SMALLER = _COMPRESSORS | {"sharding_indexed"}
# The prefix that zarr gives to codecs of format 2 in arrays of format 3.
_NUMCODECS = "numcodecs."
_REARRANGING = frozenset({"transpose", "shuffle", "crc32", "adler32", "fletcher32"})

#: The arrays that Pairloom writes.
OURS = Rules((3,), _OWN_CODECS, frozenset({*_NUMBERS, "string"}))
#: The arrays that data may have: no codec can run code.
HARMLESS = Rules((2, 3), _OWN_CODECS | _COMPRESSORS | _REARRANGING, frozenset({*_NUMBERS, *_TEXT_AND_TIMES}))

# Zstd, the strongest codec, unpacks a block of four bytes to at most 128 KiB.
_MOST_EXPANSION = 2**17 // 4
MOST_METADATA_BYTES = 16 * 2**20
_MOST_DIMENSIONS = 32
# The path of a chunk's file, relative to the folder of its array.
_CHUNK = re.compile(r"(c|(c[./])?\d+([./]\d+)*)")


class StoredArray(NamedTuple):
    """A zarr array by its metadata.

    Attributes
    ----------
    folder : Path
    zarr_format : int
    shape, file_shape : tuple of int
        The shape of the array, and of the part of it in one file.
    item_bytes : int
        The least number of bytes per item; four for text of any length.
    compressed : bool
        Whether a file may be smaller than its content: it is compressed, or a shard without its empty chunks.
    separator, prefix : str
        The name of the file of chunk (0, 1): ``c/0/1``, ``0.1`` and so on.
    """

    folder: Path
    zarr_format: int
    shape: tuple[int, ...]
    file_shape: tuple[int, ...]
    item_bytes: int
    compressed: bool
    separator: str
    prefix: str

    @property
    def grid(self) -> tuple[int, ...]:
        """The number of files along each axis."""
        return tuple(-(-n // size) for n, size in zip(self.shape, self.file_shape, strict=True))

    def files(self) -> Iterator[Path]:
        """The files of all chunks, as an iterator: metadata may claim more files than memory holds."""
        for number in range(math.prod(self.grid)):
            yield self.folder / self.file_of(_unravelled(number, self.grid))

    def file_of(self, index: tuple[int, ...]) -> str:
        """The path of the file of a chunk, relative to the folder of the array."""
        places = [self.prefix, *map(str, index)] if self.prefix else list(map(str, index))
        return self.separator.join(places) or "0"

    def check_files(
        self,
        *,
        may_be_absent: bool = False,
        size_of: Callable[[Path], int] = lambda file: file.stat().st_size,
        there: Iterable[Path] | None = None,
    ) -> None:
        """Raise `RefusedArray` if the file of a chunk is missing, or too small for its content.

        If chunks may be absent, ``there`` are the existing files below the folder, by default from the file system.
        """
        for file in self.files() if not may_be_absent else self._present(there):
            try:
                self._check_size(file, size_of(file))
            except FileNotFoundError:
                raise MissingChunk(f"chunk {file.relative_to(self.folder).as_posix()} is missing") from None

    def _present(self, there: Iterable[Path] | None) -> Iterator[Path]:
        """The existing files of chunks."""
        local = (path for path in self.folder.rglob("*") if path.is_file())
        for path in local if there is None else there:
            if _CHUNK.fullmatch(path.relative_to(self.folder).as_posix()):
                yield path

    def _check_size(self, file: Path, size: int) -> None:
        unpacked = math.prod(self.file_shape) * self.item_bytes
        if unpacked > size * (_MOST_EXPANSION if self.compressed else 1):
            raise RefusedArray(
                f"chunk {file.relative_to(self.folder).as_posix()} has {size} bytes, which cannot hold {unpacked}"
            )


def _unravelled(number: int, grid: tuple[int, ...]) -> tuple[int, ...]:
    """The index of a chunk from its number; the last axis varies fastest."""
    index = []
    for count in reversed(grid):
        number, place = divmod(number, count)
        index.append(place)
    return tuple(reversed(index))


def is_array(folder: Path) -> bool:
    """Whether a folder has the metadata of a zarr array, of format 3 or 2."""
    return (folder / ".zarray").is_file() or ((folder / "zarr.json").is_file() and not is_group(folder))


def is_group(folder: Path) -> bool:
    """Whether a folder has the metadata of a group of zarr format 3."""
    return _read_json(folder / "zarr.json").get("node_type") == "group"


def open_checked(array: StoredArray) -> zarr.Array[Any]:
    """Open an array for reading, after its metadata has been checked."""
    zarr_format: Any = array.zarr_format
    return zarr.open_array(LocalStore(array.folder, read_only=True), mode="r", zarr_format=zarr_format)


def stored_array(folder: Path, rules: Rules) -> StoredArray:
    """The array in a folder. Raises `RefusedArray` if its metadata breaks the rules."""
    if (folder / "zarr.json").is_file() or 2 not in rules.formats:
        return _of_format_3(folder, _read_json(folder / "zarr.json"), rules)
    return _of_format_2(folder, _read_json(folder / ".zarray"), rules)


def array_of_metadata(path: str, data: bytes, rules: Rules, zarr_format: int = 3) -> StoredArray:
    """The array with this zarr.json (format 3) or .zarray (2). Raises `RefusedArray` if it breaks the rules."""
    if zarr_format == 2:
        return _of_format_2(Path(path), parsed_json(".zarray", data), rules)
    return _of_format_3(Path(path), parsed_json("zarr.json", data), rules)


def _read_json(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        raise RefusedArray(f"it has no {path.name}")
    try:
        data = path.read_bytes() if path.stat().st_size <= MOST_METADATA_BYTES else b"null"
    except OSError as error:
        raise RefusedArray(f"{path.name} cannot be read: {error}") from error
    return parsed_json(path.name, data)


def parsed_json(name: str, data: bytes) -> Mapping[str, Any]:
    """The parsed metadata. Raises `RefusedArray` if they are not a JSON object, or a very large one."""
    try:
        content = json.loads(data) if len(data) <= MOST_METADATA_BYTES else None
    except (ValueError, RecursionError) as error:
        raise RefusedArray(f"{name} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise RefusedArray(f"{name} must be a JSON object of at most {MOST_METADATA_BYTES} bytes")
    return content


def _of_format_3(folder: Path, content: Mapping[str, Any], rules: Rules) -> StoredArray:
    if content.get("zarr_format") != 3 or content.get("node_type") != "array":
        raise RefusedArray("it must be an array of zarr format 3")
    if content.get("storage_transformers"):
        raise RefusedArray("storage transformers are not read")
    grid, encoding = _named(content.get("chunk_grid")), _named(content.get("chunk_key_encoding"))
    if grid.name != "regular" or encoding.name not in ("default", "v2"):
        raise RefusedArray("its chunks must be a regular grid")
    codecs = _codecs_of_format_3(content.get("codecs"), rules)
    shape = _sizes(content.get("shape"), "shape", 0)
    return StoredArray(
        folder,
        3,
        shape,
        _file_shape(grid.configuration.get("chunk_shape"), shape),
        _item_bytes(_named(content.get("data_type")), rules),
        not codecs.isdisjoint(_SMALLER),
        _separator(encoding.configuration.get("separator", "/" if encoding.name == "default" else ".")),
        "c" if encoding.name == "default" else "",
    )


def _of_format_2(folder: Path, content: Mapping[str, Any], rules: Rules) -> StoredArray:
    if content.get("zarr_format") != 2:
        raise RefusedArray("it must be an array of zarr format 2")
    steps = [content.get("compressor"), *_listed(content.get("filters"))]
    if not all(isinstance(step, dict) for step in steps if step is not None):
        raise RefusedArray("its filters and compressor must be named by an id")
    codecs = frozenset(str(step.get("id")) for step in steps if step is not None)
    _check_codecs(codecs, rules)
    shape = _sizes(content.get("shape"), "shape", 0)
    return StoredArray(
        folder,
        2,
        shape,
        _file_shape(content.get("chunks"), shape),
        _numpy_item_bytes(content.get("dtype")),
        not codecs.isdisjoint(_COMPRESSORS),
        _separator(content.get("dimension_separator", ".")),
        "",
    )


class _Named(NamedTuple):
    name: str
    configuration: Mapping[str, Any]


def _named(value: Any) -> _Named:
    """An entry of metadata: a name, perhaps with a configuration."""
    if isinstance(value, str):
        return _Named(value, {})
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        configuration = value.get("configuration") or {}
        if isinstance(configuration, dict):
            return _Named(value["name"], configuration)
    raise RefusedArray(f"its metadata must name types, grids and codecs, got {str(value)[:60]!r}")


def _codecs_of_format_3(codecs: Any, rules: Rules) -> frozenset[str]:
    """The names of all codecs, including those within shards, which must not be shards themselves."""
    if not isinstance(codecs, list):
        raise RefusedArray("its metadata must have a list of codecs")
    named = [_named(codec) for codec in codecs]
    names = {codec.name.removeprefix(_NUMCODECS) for codec in named}
    for shard in (codec.configuration for codec in named if codec.name == "sharding_indexed"):
        inner = [*_listed(shard.get("codecs")), *_listed(shard.get("index_codecs"))]
        within = {_named(codec).name.removeprefix(_NUMCODECS) for codec in inner}
        if "sharding_indexed" in within:
            raise RefusedArray("shards within shards are not read")
        names |= within
    _check_codecs(frozenset(names), rules)
    return frozenset(names)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _check_codecs(codecs: frozenset[str], rules: Rules) -> None:
    if strange := sorted(codecs - rules.codecs):
        raise RefusedArray(
            f"its codecs must be among {', '.join(sorted(rules.codecs))}, got {', '.join(strange)[:60]}"
        )


def _sizes(value: Any, name: str, least: int) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > _MOST_DIMENSIONS:
        raise RefusedArray(f"its {name} must be a list of sizes")
    if not all(type(size) is int and least <= size < 2**63 for size in value):
        raise RefusedArray(f"its {name} must be whole numbers of at least {least}, got {str(value)[:60]}")
    return tuple(value)


def _file_shape(value: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    sizes = _sizes(value, "chunk shape", 1)
    if len(sizes) != len(shape):
        raise RefusedArray(f"its chunks must have the {len(shape)} dimensions of the array, got {len(sizes)}")
    return sizes


def _item_bytes(data_type: _Named, rules: Rules) -> int:
    if data_type.name not in rules.data_types:
        raise RefusedArray(f"its data type must be numbers or text, got {data_type.name[:60]!r}")
    length = data_type.configuration.get("length_bytes", 4 if data_type.name == "string" else 8)
    if type(length) is not int or length < 0:
        raise RefusedArray(f"its data type must have a length, got {str(length)[:60]}")
    return _NUMBERS.get(data_type.name, length)


def _numpy_item_bytes(data_type: Any) -> int:
    """The bytes per item of a data type of format 2. Objects are refused, since chunks could choose the code to run."""
    try:
        dtype = np.dtype(data_type) if isinstance(data_type, str) else np.dtype(object)
    except (TypeError, ValueError, SyntaxError):
        dtype = np.dtype(object)
    if dtype.kind not in "biufcUSmM":
        raise RefusedArray(
            f"its data type must be numbers or text, got {str(data_type)[:60]!r}; save text with a length (<U20), or in"
            " zarr format 3"
        )
    return dtype.itemsize


def _separator(value: Any) -> str:
    if value not in (".", "/"):
        raise RefusedArray(f"its chunks must be separated by . or /, got {str(value)[:60]!r}")
    return str(value)
