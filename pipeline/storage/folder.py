"""A folder of files that are whole or absent: the one interface to the files of a run directory.

Everything that a run reads or writes passes through it, by paths inside the folder: JSON files, the ledger, records of
drivers, the log, and the chunks and metadata of zarr arrays. Only `run.ownership`, which tells a run from other folders
and finds leftovers of killed processes, looks at the folder itself.
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import zarr
from zarr.storage import LocalStore

from pairloom.pipeline.storage.atomic_file import PARTIAL_SUFFIX, create_exclusively, write_atomically
from pairloom.pipeline.storage.digests import file_digest

__all__ = ["Folder", "Version", "folder_of"]

Version = tuple[int, int, int]


@dataclass(frozen=True)
class Folder:
    """The files below a root, by their paths inside it, with "/" between the parts."""

    root: Path

    def read(self, path: str) -> bytes:
        """The bytes of a file. Raise `FileNotFoundError` if there is none."""
        return (self.root / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """Write a file as a whole: readers find the old one or the new one, even after a crash."""
        write_atomically(self.root / path, data)

    def create(self, path: str, data: bytes) -> bool:
        """Write a file unless it exists, and tell whether it was written. Only one of several callers succeeds."""
        return create_exclusively(self.root / path, data)

    def append(self, path: str, data: bytes) -> None:
        """Append to a file in a single operation, so that lines of several processes do not mix."""
        with (self.root / path).open("ab", buffering=0) as file:
            file.write(data)

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        (self.root / path).unlink(missing_ok=True)

    def exists(self, path: str) -> bool:
        """Whether there is a file."""
        return (self.root / path).is_file()

    def names(self, folder: str, suffix: str = ".json") -> list[str]:
        """The names of the files directly in a folder, without their suffix, sorted."""
        return sorted(path.stem for path in (self.root / folder).glob(f"*{suffix}"))

    def below(self, folder: str) -> list[str]:
        """The paths of all regular files below a folder. Links are not followed: what they name is not ours."""
        root = self.root / folder
        if root.is_symlink():
            return []
        files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
        return sorted(path.relative_to(self.root).as_posix() for path in files)

    def prune(self, folder: str) -> None:
        """Remove the empty folders at and below a folder. Those that hold anything stay."""
        root = self.root / folder
        if root.is_symlink() or not root.is_dir():
            return
        for path in [*sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True), root]:
            with contextlib.suppress(OSError):  # not empty
                path.rmdir()

    def digest(self, path: str) -> str | None:
        """The SHA-256 of a file, or None if it cannot be read."""
        with contextlib.suppress(OSError):
            return file_digest(self.root / path)
        return None

    def version(self, path: str) -> Version:
        """A value that changes whenever a file is written again. Raise `FileNotFoundError` if there is none."""
        status = (self.root / path).stat()
        return status.st_ino, status.st_mtime_ns, status.st_size

    def age(self, path: str) -> float:
        """Seconds since a file was written, by the clock of the store: that of this host may differ."""
        folder = (self.root / path).parent
        with tempfile.NamedTemporaryFile(dir=folder, suffix=PARTIAL_SUFFIX) as probe:
            probe.write(b"now")
            probe.flush()
            now = os.fstat(probe.fileno()).st_mtime
        return now - (self.root / path).stat().st_mtime

    def array(self, path: str, *, write: bool = False) -> Any:
        """A zarr array. (The type is Any because zarr's knows no data type.)"""
        return _opened_array(self.root, path, "r+" if write else "r", self.version(f"{path}/zarr.json"))


@functools.lru_cache(maxsize=64)
def _opened_array(root: Path, path: str, mode: Literal["r", "r+"], version: Version) -> zarr.Array[Any]:
    """An array whose metadata has this version. Opening one takes as long as reading a chunk.

    A run that grows has its metadata written again, and its arrays are then opened again.
    """
    return zarr.open_array(LocalStore(root), path=path, mode=mode)


def folder_of(array: zarr.Array[Any]) -> Folder:
    """The folder that an array was opened in."""
    store = array.store
    assert isinstance(store, LocalStore)
    return Folder(store.root)
