"""The arrays of a zarr group in a folder or an object store: features are opened, all others are read.

Sparse features are a group within the group, or the arrays of a CSR matrix beside the labels.

Before zarr opens an array, in a folder or a store, its codecs and data type are checked, and that every chunk exists
and can hold its values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import zarr

from pairloom.pipeline.features.row_sources import Rows
from pairloom.pipeline.features.sparse_rows import CSR_PARTS, csr_rows
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import Location, StoreUrl
from pairloom.pipeline.storage.object_store import StoreError
from pairloom.pipeline.storage.zarr_metadata import (
    HARMLESS,
    MOST_METADATA_BYTES,
    MissingChunk,
    RefusedArray,
    StoredArray,
    array_of_metadata,
    is_array,
    open_checked,
    parsed_json,
    stored_array,
)

__all__ = ["has_array", "is_zarr_group", "open_zarr_group"]

# File names that cannot be zarr groups.
_OTHER_FILES = re.compile(r"\.(npz|npy|csv|tsv|csv\.gz|tsv\.gz|parquet)$")


def is_zarr_group(folder: Path) -> bool:
    """Whether a folder is a zarr group."""
    return (folder / "zarr.json").exists() or (folder / ".zgroup").exists()


def has_array(group: Location, name: str) -> bool:
    """Whether a group has a member of this name."""
    return name in Folder(group).folders()


def open_zarr_group(
    group: Location, shown: str, features: Collection[str], others: Collection[str], filled: bool
) -> dict[str, Any]:
    """The arrays of a group with these names. Other arrays are returned empty: messages list their names only.

    Parameters
    ----------
    shown
        The name of the group in errors.
    filled
        Whether missing chunks of features are read as the fill value of their array.
    """
    try:
        arrays = _in_store(group) if isinstance(group, StoreUrl) else _in_folder(group)
        opened: dict[str, Any] = {}
        for name in features:
            if (attributes := _attributes_of_group(group, name)) is not None:
                opened[name] = _open_csr(group, name, attributes, shown)
        if arrays.keys() >= set(CSR_PARTS):
            arrays = {name: array for name, array in arrays.items() if name in others}
            opened["X"] = _open_csr(group, "", _attributes_of_group(group, "") or {}, shown)
        for name, array in arrays.items():
            if name in opened:
                continue
            if name not in (*features, *others):
                opened[name] = np.empty(0)
                continue
            stored = array.opened(shown, filled and name in features, name in features)
            opened[name] = stored if name in features else np.asarray(stored[...])
        return opened
    except (RefusedArray, StoreError, FileNotFoundError):
        raise
    except Exception as error:  # zarr and its codecs raise many kinds
        raise RuntimeError(error) from error


def _attributes_of_group(group: Location, name: str) -> Mapping[str, Any] | None:
    """The attributes of a group within the group, or of the group itself; None if there is no group of this name."""
    folder, inside = Folder(group), PurePosixPath(name)

    def read(file: str) -> Mapping[str, Any] | None:
        path = (inside / file).as_posix()
        return parsed_json(file, folder.read(path)) if folder.exists(path) else None

    content = read("zarr.json")
    if content is not None:
        attributes = content.get("attributes", {}) if content.get("node_type") == "group" else None
    else:
        attributes = None if read(".zgroup") is None else read(".zattrs") or {}
    return attributes if attributes is None or isinstance(attributes, dict) else {}


def _open_csr(group: Location, name: str, attributes: Mapping[str, Any], shown: str) -> Rows:
    """The rows of a group with the arrays of a CSR matrix. Its shape is an attribute or an array."""
    matrix = f"{shown}: {name}" if name else shown
    kind, shape = attributes.get("encoding-type", "csr_matrix"), attributes.get("shape")
    if kind not in ("csr_matrix", "csr_array"):
        raise ValueError(f"{matrix} must be a sparse matrix of the format 'csr', got {str(kind)[:40]!r}.")
    parts: dict[str, Any] = {}
    for part in (*CSR_PARTS, *(["shape"] if shape is None else [])):
        path = f"{name}/{part}" if name else part
        member = _StoredMember(group, path) if isinstance(group, StoreUrl) else _Member(group / path, path)
        try:
            opened = member.opened(shown, False, False)
        except RefusedArray as error:
            if part != "shape":
                raise
            raise RefusedArray(
                f"{matrix}: shape must be an attribute of the group or an array in it, with the numbers of rows and of"
                f" columns, got neither: {error}"
            ) from error
        parts[part] = opened if part in ("data", "indices") else np.asarray(opened[...])
    if shape is not None:
        if not isinstance(shape, list) or not all(type(size) is int and abs(size) < 2**63 for size in shape):
            raise ValueError(
                f"{matrix}: shape must be the numbers of rows and of columns, got {str(shape)[:40]}."
            )
        parts["shape"] = np.array(shape, np.int64)
    return csr_rows(parts, matrix)


class _Member:
    """An array of a group in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name

    def opened(self, shown: str, filled: bool, is_features: bool) -> Any:
        """The array, by its own metadata: zarr would prefer the group's consolidated metadata, which may differ."""
        try:
            return self._checked(filled)
        except MissingChunk as error:
            advice = _advice_for(is_features)
            raise MissingChunk(f"{shown}: {self._name}: {error}. {advice}") from None
        except RefusedArray as error:
            raise RefusedArray(f"{shown}: {self._name} is not read: {error}.") from error

    def _checked(self, filled: bool) -> Any:
        stored = stored_array(self._folder, HARMLESS)
        stored.check_files(may_be_absent=filled)
        return open_checked(stored)


def _advice_for(is_features: bool) -> str:
    """Advice about a missing chunk. By default, zarr does not write chunks that hold only the fill value."""
    write_all = 'write it with zarr.config.set({"array.write_empty_chunks": True})'
    if is_features:
        return (
            "Copy the group again if it is incomplete. If such chunks mean the fill value of the array, say"
            f' data.missing_chunks = "fill" (--fill-missing-chunks), or {write_all}.'
        )
    return f"Copy the group again if it is incomplete. If the chunk means the fill value of the array, {write_all}."


def _in_folder(group: Path) -> dict[str, _Member]:
    zarr.open_group(group, mode="r", use_consolidated=False)
    return {
        folder.name: _Member(folder, folder.name) for folder in sorted(group.iterdir()) if is_array(folder)
    }


class _StoredMember(_Member):
    """An array of a group in an object store. Only objects below its own name are listed."""

    def __init__(self, group: StoreUrl, name: str) -> None:
        self._group, self._name = Folder(group), name

    def _checked(self, filled: bool) -> Any:
        group: Any = self._group  # an `ObjectFolder`, which needs the extra `cloud`
        sizes: dict[Path, int] = {Path(path): size for path, size in group.sizes(self._name).items()}
        stored = self._metadata(sizes)

        def size_of(chunk: Path) -> int:
            if chunk not in sizes:
                raise FileNotFoundError(chunk)
            return sizes[chunk]

        stored.check_files(may_be_absent=filled, size_of=size_of, there=sizes)
        return group.opened(self._name, stored.zarr_format)

    def _metadata(self, sizes: dict[Path, int]) -> StoredArray:
        for name, zarr_format in (("zarr.json", 3), (".zarray", 2)):
            path = Path(self._name, name)
            if path in sizes:
                if sizes[path] > MOST_METADATA_BYTES:
                    raise RefusedArray(f"{name} must have at most {MOST_METADATA_BYTES} bytes")
                data = self._group.read(path.as_posix())
                return array_of_metadata(self._name, data, HARMLESS, zarr_format)
        raise RefusedArray("it has no zarr.json")


def _in_store(group: StoreUrl) -> dict[str, _Member]:
    if _OTHER_FILES.search(group.name):
        raise RefusedArray(
            "only zarr groups are read from an object store. Copy the file to this computer, or store its arrays as a"
            " zarr group"
        )
    folder = Folder(group)
    if not {"zarr.json", ".zgroup"} & set(folder.names("", "")):
        raise FileNotFoundError(f"no such zarr group: {group}")
    return {name: _StoredMember(group, name) for name in folder.folders()}
