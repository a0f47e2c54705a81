"""A folder of files that are whole or absent: the one interface to the files of a run directory.

It has two implementations: a folder of the file system (`LocalFolder`), and a prefix of an object store
(`object_folder`).

A run reads and writes all its files through it, by their paths inside the folder: JSON files, the ledger, records of
drivers, the log, and the chunks and metadata of zarr arrays. Only `run.ownership`, which tells runs from other folders
and finds leftovers of killed processes, looks at the folder itself.

Nothing is written or removed through links inside the folder, which may come from somebody else: see `places`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import zarr
from zarr.core.buffer import Buffer
from zarr.storage import LocalStore

from pairloom.pipeline.storage.atomic_file import partial_beside, put, put_exclusively
from pairloom.pipeline.storage.digests import file_digest
from pairloom.pipeline.storage.location import Location, StoreUrl
from pairloom.pipeline.storage.object_store import check_installed
from pairloom.pipeline.storage.places import link_on_the_way, place_inside
from pairloom.pipeline.storage.zarr_metadata import OURS, RefusedArray, stored_array

__all__ = ["Folder", "LocalFolder", "Version", "check_fence", "fence", "fenced", "folder_of", "is_litter"]

_LITTER = re.compile(r"\.DS_Store|Thumbs\.db|desktop\.ini|\.nfs.*|\.directory")

Version = tuple[int | str | float | None, ...]


def is_litter(name: str) -> bool:
    """Whether file managers or network file systems leave files of this name behind, which can be ignored.

    Examples
    --------
    >>> is_litter(".DS_Store"), is_litter("notes.txt")
    (True, False)
    """
    return _LITTER.fullmatch(name) is not None


Check = Callable[[], object]
_fence: ContextVar[Check | None] = ContextVar("fence", default=None)


@contextlib.contextmanager
def fenced(check: Check) -> Iterator[None]:
    """Inside the block, this thread calls ``check`` before it writes or deletes a file; ``check`` raises to stop it.

    In an object store, an object that was put after the check is not replaced, however long the process is delayed
    between check and write. Deletions (see `Folder.retract`) and folders of the file system have the check alone.
    """
    token = _fence.set(check)
    try:
        yield
    finally:
        _fence.reset(token)


def fence() -> Check | None:
    """The check of `fenced` for this thread, or None."""
    return _fence.get()


def check_fence() -> None:
    """Raise if this thread may no longer write."""
    check = _fence.get()
    if check is not None:
        check()


_HERE = Path()


class Folder:
    """The files below a root, by their paths inside it, with "/" between the parts.

    ``Folder(root)`` is a `LocalFolder` for a path, and an `ObjectFolder` for a URL, as `pathlib.Path` is a path of the
    current system.

    Attributes
    ----------
    root : Path or StoreUrl
    """

    root: Location

    def __new__(cls, root: Location = _HERE) -> Self:
        if cls is not Folder:
            return super().__new__(cls)
        if isinstance(root, StoreUrl):
            check_installed(root)
            from pairloom.pipeline.storage.object_folder import ObjectFolder

            return object.__new__(ObjectFolder)  # type: ignore[return-value]
        return object.__new__(LocalFolder)  # type: ignore[return-value]

    if TYPE_CHECKING:

        def __init__(self, root: Location) -> None: ...

    def make(self) -> None:
        """Make the folder, or check that the store is suitable. Called once, before the first file is written."""
        raise NotImplementedError

    def read(self, path: str) -> bytes:
        """The bytes of a file. Raises `FileNotFoundError` if there is none."""
        raise NotImplementedError

    def read_each(self, paths: Sequence[str]) -> Iterator[bytes | None]:
        """The bytes of several files of one folder in their order, None for missing files."""
        for path in paths:
            try:
                yield self.read(path)
            except FileNotFoundError:
                yield None

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file: readers find the old one or the new one, even after a crash."""
        raise NotImplementedError

    def create(self, path: str, data: bytes) -> bool:
        """Write a file unless it exists; return whether it was written. Only one of several callers succeeds."""
        raise NotImplementedError

    def put_once(self, path: str, data: bytes, is_final: Callable[[bytes], bool]) -> None:
        """Write a file, unless the existing one is final. In a folder of the file system, the last writer wins."""
        self.write(path, data)

    def append(self, path: str, data: bytes) -> None:
        """Append to a file in a single operation, so that lines of several processes do not mix."""
        raise NotImplementedError

    def flush(self, path: str) -> None:
        """Write what this process has appended to a file, if that waits for more."""

    def appended(self, path: str) -> list[bytes]:
        """The data appended to a file: all in one, or one part per process. Empty if there is none."""
        raise NotImplementedError

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        raise NotImplementedError

    def retract(self, path: str) -> None:
        """Delete a file for which empty means the same as missing.

        Stores have no conditional delete. Inside `fenced`, a store therefore empties the file by a conditional put.
        """
        self.delete(path)

    def exists(self, path: str) -> bool:
        """Whether there is a file."""
        raise NotImplementedError

    def names(self, folder: str, suffix: str = ".json") -> list[str]:
        """The names of the files directly in a folder, without their suffix, sorted."""
        raise NotImplementedError

    def below(self, folder: str) -> list[str]:
        """The paths of all regular files below a folder. Links are not followed: they may point outside."""
        raise NotImplementedError

    def folders(self) -> list[str]:
        """The names of the folders directly inside, sorted."""
        raise NotImplementedError

    def prune(self, folder: str) -> None:
        """Remove a folder and the folders below it, as far as they are empty."""
        raise NotImplementedError

    def digest(self, path: str) -> str | None:
        """The SHA-256 of a file, or None if it cannot be read."""
        raise NotImplementedError

    def size(self) -> int:
        """Bytes of all files."""
        raise NotImplementedError

    def version(self, path: str) -> Version:
        """A value that changes whenever a file is written. Raises `FileNotFoundError` if there is no such file."""
        raise NotImplementedError

    def written_at(self, path: str) -> float:
        """The time a file was written, in seconds since 1970. Raises `FileNotFoundError` if there is no such file."""
        raise NotImplementedError

    def age(self, path: str) -> float:
        """Seconds since a file was written, by the clock of the store, since the clock of this host may differ."""
        raise NotImplementedError

    def chunks(self, path: str) -> list[str]:
        """The files of all chunks of a zarr array that Pairloom wrote.

        Raises `RefusedArray` if its metadata is of another kind, or a chunk is missing or too small for its content.
        """
        raise NotImplementedError

    def array(self, path: str, *, write: bool = False) -> Any:
        """A zarr array. (The type is Any because zarr's knows no data type.)"""
        raise NotImplementedError


@dataclass(frozen=True)
class LocalFolder(Folder):
    """A folder of the file system."""

    root: Path

    def make(self) -> None:
        """Make the folder and those above it."""
        self.root.mkdir(parents=True, exist_ok=True)

    def read(self, path: str) -> bytes:
        """The bytes of a file. Raises `FileNotFoundError` if there is none."""
        return (self.root / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file: readers find the old one or the new one, even after a crash."""
        check_fence()
        with place_inside(self.root, path, make=True) as place:
            put(place, data)

    def create(self, path: str, data: bytes) -> bool:
        """Write a file unless it exists; return whether it was written. Only one of several callers succeeds."""
        with place_inside(self.root, path, make=True) as place:
            return put_exclusively(place, data)

    def append(self, path: str, data: bytes) -> None:
        """Append to a file in a single operation, so that lines of several processes do not mix."""
        with (
            place_inside(self.root, path) as place,
            open(place.open(os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab", buffering=0) as file,
        ):
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(f"{place.path} must be a file, got a pipe or a device.")
            file.write(data)

    def appended(self, path: str) -> list[bytes]:
        """All data appended to a file, in one part."""
        try:
            return [self.read(path)]
        except OSError:
            return []

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        check_fence()
        with contextlib.suppress(FileNotFoundError), place_inside(self.root, path) as place:
            place.unlink()

    def exists(self, path: str) -> bool:
        """Whether there is a file."""
        return (self.root / path).is_file()

    def names(self, folder: str, suffix: str = ".json") -> list[str]:
        """The names of the files directly in a folder, without their suffix, sorted."""
        return sorted(path.name.removesuffix(suffix) for path in (self.root / folder).glob(f"*{suffix}"))

    def below(self, folder: str) -> list[str]:
        """The paths of all regular files below a folder. Links are not followed: they may point outside."""
        root = self.root / folder
        if link_on_the_way(self.root, folder):
            return []
        files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
        return sorted(path.relative_to(self.root).as_posix() for path in files)

    def folders(self) -> list[str]:
        """The names of the folders directly inside, sorted."""
        return sorted(path.name for path in self.root.iterdir() if path.is_dir())

    def prune(self, folder: str) -> None:
        """Remove a folder and the folders below it, as far as they are empty."""
        root = self.root / folder
        if link_on_the_way(self.root, folder) or not root.is_dir():
            return
        inner = (path for path in root.rglob("*") if path.is_dir() and not path.is_symlink())
        for path in [*sorted(inner, reverse=True), root]:
            with (
                contextlib.suppress(OSError),  # not empty
                place_inside(self.root, path.relative_to(self.root).as_posix()) as place,
            ):
                place.rmdir()

    def digest(self, path: str) -> str | None:
        """The SHA-256 of a file, or None if it cannot be read."""
        with contextlib.suppress(OSError):
            return file_digest(self.root / path)
        return None

    def size(self) -> int:
        """Bytes of all files."""
        total = 0
        for folder, _, names in os.walk(self.root):
            for name in names:
                with contextlib.suppress(OSError):  # a driver has removed it meanwhile
                    total += os.lstat(os.path.join(folder, name)).st_size
        return total

    def written_at(self, path: str) -> float:
        """The time a file was written, in seconds since 1970. Raises `FileNotFoundError` if there is no such file."""
        return (self.root / path).stat().st_mtime

    def version(self, path: str) -> Version:
        """A value that changes whenever a file is written. Raises `FileNotFoundError` if there is no such file."""
        status = (self.root / path).stat()
        return status.st_ino, status.st_mtime_ns, status.st_size

    def age(self, path: str) -> float:
        """Seconds since a file was written, by the clock of the file system, since this host's clock may differ."""
        # The clock of a network file system is read from the time of a new file.
        with place_inside(self.root, path) as place:
            probe = partial_beside(place)
            with open(probe.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb", buffering=0) as file:
                probe.unlink()
                file.write(b"now")
                now = os.fstat(file.fileno()).st_mtime
        return now - (self.root / path).stat().st_mtime

    def chunks(self, path: str) -> list[str]:
        """The files of all chunks of a zarr array, after checking them."""
        stored = stored_array(self.root / path, OURS)
        stored.check_files()
        return [file.relative_to(self.root).as_posix() for file in stored.files()]

    def array(self, path: str, *, write: bool = False) -> Any:
        """A zarr array. (The type is Any because zarr's knows no data type.)"""
        return _opened_array(self.root, path, "r+" if write else "r", self.version(f"{path}/zarr.json"))


class _FolderStore(LocalStore):
    """A zarr store that writes and removes files like `Folder`: whole files, and none through a link."""

    async def set(self, key: str, value: Buffer) -> None:
        """Write a chunk or metadata."""
        await asyncio.to_thread(self.set_sync, key, value)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Write a chunk or metadata. It need not be flushed: its ledger entry, which is, has its checksum."""
        check_fence()
        with place_inside(self.root, key, make=True) as place:
            put(place, value.as_numpy_array().data, flush=False)

    async def delete(self, key: str) -> None:
        """Remove a chunk."""
        await asyncio.to_thread(self.delete_sync, key)

    def delete_sync(self, key: str) -> None:
        """Remove a chunk."""
        LocalFolder(self.root).delete(key)


@functools.lru_cache(maxsize=64)
def _opened_array(root: Path, path: str, mode: Literal["r", "r+"], version: Version) -> zarr.Array[Any]:
    """An open array, cached by the version of its metadata, since opening takes as long as reading a chunk.

    When a run grows, its metadata are written again, and its arrays are opened again.
    """
    try:
        stored_array(root / path, OURS)
    except RefusedArray as error:
        raise RefusedArray(f"{root / path} is not what a run writes: {error}.") from error
    return zarr.open_array(_FolderStore(root), path=path, mode=mode, zarr_format=3)


def folder_of(array: zarr.Array[Any]) -> Folder:
    """The folder from which an array was opened."""
    store = array.store
    return Folder(store.root) if isinstance(store, LocalStore) else store.folder  # type: ignore[attr-defined]
