"""A prefix of an object store with the interface of a folder.

It relies on three guarantees of stores. Objects are put as a whole. Once an object has been put, every later request by
name and every later list finds it. And a conditional put succeeds only if the object does not exist yet, or has not
changed. Nothing is renamed, there are no links and no empty folders, and nothing outside the prefix is accessed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, Literal, cast

import obstore
import zarr
import zict
from obstore.exceptions import AlreadyExistsError, PreconditionError
from zarr.abc.store import RangeByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import ObjectStore

from pairloom.pipeline.storage.folder import Folder, Version, check_fence, fence
from pairloom.pipeline.storage.location import StoreUrl
from pairloom.pipeline.storage.object_store import (
    StoreAway,
    StoreError,
    StoreUnfit,
    open_store,
    patience,
    requests,
    translated,
)
from pairloom.pipeline.storage.unit_memory import BLOCK_BYTES, UnitMemory, unit_memory
from pairloom.pipeline.storage.zarr_metadata import OURS, RefusedArray, StoredArray, array_of_metadata

__all__ = ["ObjectFolder"]

# Concurrent requests of one process when it reads or writes several objects.
_THREADS = 16
# The log of a process is put at most once in so many seconds. It begins a new object when one has so many bytes.
_LOG_SECONDS, _LOG_BYTES = 2.0, 2**16
_PAUSE_SECONDS = 0.1
# Refusals in a row to put an unchanged object, before the store counts as unfit: S3 refuses while a put is under way.
_MOST_REFUSALS = 10
# Small objects are cached by their version, since entries of the ledger are read again and again.
_KEPT_BYTES = 2**24


@dataclass(frozen=True)
class ObjectFolder(Folder):
    """The objects below a URL."""

    root: StoreUrl

    @property
    def _store(self) -> Any:
        return open_store(self.root)

    def _request(self, kind: str, path: str, *arguments: Any, **options: Any) -> Any:
        """The answer to a request for one object, or for the list of the objects below a path.

        obstore does not repeat a delete or a conditional put without an answer in time, since it may have succeeded.
        Here both are repeated: callers check whether the object is the one they put.
        """
        deadline = time.monotonic() + patience()
        while True:
            requests[kind] += 1
            try:
                with translated(self.root / path):
                    return getattr(obstore, kind)(self._store, path, *arguments, **options)
            except StoreAway:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def make(self) -> None:
        """Check, on a temporary object, that the store honours conditions. Raises `StoreUnfit` if it does not."""
        name = f".probe.{secrets.token_hex(16)}.partial"
        try:
            _Probed(self.root).try_conditions(name)
        finally:
            self.delete(name)

    def _is_put(self, path: str, data: bytes, mode: Any) -> bool:
        """Put an object on a condition; return whether the store did. If an answer was lost, False may be wrong."""
        try:
            self._request("put", path, data, mode=mode, use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        return True

    def read(self, path: str) -> bytes:
        """The bytes of an object. Raises `FileNotFoundError` if there is none."""
        return self._bytes_of(self._request("get", path), path)

    def _bytes_of(self, answer: Any, path: str) -> bytes:
        with translated(self.root / path):
            return bytes(answer.bytes())

    def read_each(self, paths: Sequence[str]) -> Iterator[bytes | None]:
        """The bytes of several objects of one folder. It is listed once, and only objects not in the cache are read."""
        folders = {path.rpartition("/")[0] for path in paths}
        there = {entry["path"]: entry for folder in folders for entry in self._listed(folder)}
        with ThreadPoolExecutor(_THREADS) as threads:
            yield from threads.map(self._read_known, (there.get(path) for path in paths))

    def _read_known(self, answer: Any) -> bytes | None:
        if answer is None:
            return None
        key = (self.root, *_version(answer), answer["path"])
        with _keeping:
            data = _kept.get(key)
        if data is None:
            try:
                data = self.read(answer["path"])
            except FileNotFoundError:
                return None
            with _keeping:
                _kept[key] = data
        return bytes(data)

    def write(self, path: str, data: bytes) -> None:
        """Put an object; inside `fenced`, on the condition that nobody has put it since the check."""
        check = fence()
        if check is None:
            self._forget(path)
            self._put(path, data)
            return
        for condition, _ in self._attempts(path, "head"):
            check()
            if self._is_put(path, data, condition):
                self._forget(path)
                memory = unit_memory()
                if memory is not None:
                    memory.digests[self.root, path] = hashlib.sha256(data).hexdigest()
                return

    def _forget(self, path: str) -> None:
        memory = unit_memory()
        if memory is not None:
            memory.forget(self.root, path)

    def _put(self, path: str, data: bytes) -> None:
        self._request("put", path, data, use_multipart=False)

    def create(self, path: str, data: bytes) -> bool:
        """Put an object unless it exists; return whether it was put.

        If an answer was lost, the request may have succeeded: then the object has exactly these bytes. So competing
        callers must pass different ``data``.
        """
        return self._is_put(path, data, "create") or self._holds(path, data)

    def _holds(self, path: str, data: bytes) -> bool:
        try:
            return self.read(path) == bytes(data)
        except FileNotFoundError:
            return False

    def put_once(self, path: str, data: bytes, is_final: Callable[[bytes], bool]) -> None:
        """Put an object unless a final one exists: the first final one stays."""
        for condition, answer in self._attempts(path, "get"):
            if answer is not None and is_final(self._bytes_of(answer, path)):
                return
            check_fence()
            if self._is_put(path, data, condition):
                return

    def _attempts(self, path: str, kind: Literal["head", "get"]) -> Iterator[tuple[Any, Any]]:
        """Conditions for putting an object, to be tried until a put succeeds.

        First that the object does not exist, then that it has not changed since the request of this kind. Each
        condition comes with the answer to that request, None if there is no object. If the answer to a put was lost,
        the object is put once more. Raises `StoreUnfit` if the store keeps refusing although the object is unchanged.
        """
        yield "create", None
        refused, refusals = None, 0
        while True:
            try:
                answer = self._request(kind, path)
                condition = _unchanged(answer if kind == "head" else answer.meta)
            except FileNotFoundError:
                answer, condition = None, "create"
            refusals = refusals + 1 if condition == refused else 0
            if refusals > _MOST_REFUSALS:
                raise _unfit(self.root, "refuses to put an object that nobody has changed")
            time.sleep(_PAUSE_SECONDS * refusals)
            refused = condition
            yield condition, answer

    def append(self, path: str, data: bytes) -> None:
        """Append to the part of a file that this process writes, which is put some time later."""
        self._part(path).append(data)

    def flush(self, path: str) -> None:
        """Put what this process has appended to a file."""
        self._part(path).flush()

    def _part(self, path: str) -> _Part:
        return _part_of_process(self.root, path, os.getpid())

    def appended(self, path: str) -> list[bytes]:
        """What each process has appended, in the order in which they began."""
        self.flush(path)
        return [data for data in self.read_each(self.below(path)) if data is not None]

    def delete(self, path: str) -> None:
        """Delete an object, if it exists."""
        check_fence()
        self._forget(path)
        try:
            self._request("delete", path)
        except FileNotFoundError:
            return

    def retract(self, path: str) -> None:
        """Delete an object; inside `fenced`, empty it on the condition that nobody has put it since the check."""
        if fence() is None:
            self.delete(path)
        elif self.exists(path):
            self.write(path, b"")

    def exists(self, path: str) -> bool:
        """Whether there is an object."""
        try:
            self._request("head", path)
        except FileNotFoundError:
            return False
        return True

    def _listed(self, folder: str) -> list[Any]:
        """The objects directly in a folder."""
        return list(self._request("list_with_delimiter", folder)["objects"])

    def names(self, folder: str, suffix: str = ".json") -> list[str]:
        """The names of the objects directly in a folder, without their suffix, sorted."""
        names = (entry["path"].rpartition("/")[2] for entry in self._listed(folder))
        return sorted(name.removesuffix(suffix) for name in names if name.endswith(suffix))

    def below(self, folder: str) -> list[str]:
        """The paths of all objects below a folder."""
        return sorted(entry["path"] for entry in self._all(folder))

    def sizes(self, folder: str) -> dict[str, int]:
        """The bytes of all objects below a folder, by their paths."""
        return {entry["path"]: int(entry["size"]) for entry in self._all(folder)}

    def _all(self, folder: str) -> Iterable[Any]:
        listing = self._request("list", folder)
        with translated(self.root / folder):
            return list(listing.collect())

    def folders(self) -> list[str]:
        """The names up to the next slash below the root, sorted."""
        prefixes = self._request("list_with_delimiter", "")["common_prefixes"]
        return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in prefixes)

    def prune(self, folder: str) -> None:
        """Do nothing: a store has no empty folders."""

    def digest(self, path: str) -> str | None:
        """The SHA-256 of an object, or None if there is none. A unit knows those that it has put."""
        memory = unit_memory()
        if memory is not None and (self.root, path) in memory.digests:
            return memory.digests[self.root, path]
        digest = hashlib.sha256()
        try:
            answer = self._request("get", path)
            with translated(self.root / path):
                for chunk in answer.stream():
                    digest.update(chunk)
        except FileNotFoundError:
            return None
        return digest.hexdigest()

    def size(self) -> int:
        """Bytes of all objects."""
        return sum(entry["size"] for entry in self._all(""))

    def version(self, path: str) -> Version:
        """The entity tag and the time of the put, since equal bytes have equal tags."""
        return _version(self._request("head", path))

    def written_at(self, path: str) -> float:
        """The time an object was put, in seconds since 1970."""
        return float(self._request("head", path)["last_modified"].timestamp())

    def age(self, path: str) -> float:
        """Seconds since an object was put, by the clock of the store."""
        # The store's clock is read from the time of a new object.
        probe = f"{path}.{secrets.token_hex(16)}.partial"
        self._put(probe, b"now")
        try:
            return self.written_at(probe) - self.written_at(path)
        finally:
            self.delete(probe)

    def chunks(self, path: str) -> list[str]:
        """The objects of all chunks of a zarr array, after checking them."""
        stored = self._array_stored(path)
        sizes = self.sizes(path)

        def size_of(chunk: Path) -> int:
            if chunk.as_posix() not in sizes:
                raise FileNotFoundError(chunk)
            return sizes[chunk.as_posix()]

        stored.check_files(size_of=size_of)
        return [chunk.as_posix() for chunk in stored.files()]

    def _array_stored(self, path: str) -> StoredArray:
        try:
            return array_of_metadata(path, self.read(f"{path}/zarr.json"), OURS)
        except FileNotFoundError:
            raise RefusedArray("it has no zarr.json") from None

    def opened(self, path: str, zarr_format: Any) -> zarr.Array[Any]:
        """Open an array of somebody else's data, whose metadata the caller has checked."""
        return zarr.open_array(_RunStore(self, read_only=True), path=path, mode="r", zarr_format=zarr_format)

    def array(self, path: str, *, write: bool = False) -> Any:
        """A zarr array, opened again only if its metadata has changed. A unit looks once whether it has."""
        metadata, memory = f"{path}/zarr.json", unit_memory()
        versions = {} if memory is None else memory.versions
        if (self.root, metadata) not in versions:
            versions[self.root, metadata] = self.version(metadata)
        return _opened_array(self.root, path, "r+" if write else "r", versions[self.root, metadata])


class _Probed(ObjectFolder):
    """A prefix whose store is being probed. Requests answered by 501 are not repeated: it may reject a condition."""

    @property
    def _store(self) -> Any:
        return open_store(self.root, repeats=False)

    def try_conditions(self, name: str) -> None:
        """Raise `StoreUnfit` if the store ignores a condition, or refuses a put whose condition holds."""
        if not self.create(name, b"first"):
            raise _unfit(self.root, f"refuses a new object on the condition {_NEW}")
        if self._is_put(name, b"second", "create"):
            raise _unfit(self.root, f"ignores the condition {_NEW}")
        before = _unchanged(self._request("head", name))
        if not (self._is_put(name, b"third", before) or self._holds(name, b"third")):
            raise _unfit(self.root, f"refuses an object on the condition {_UNCHANGED}")
        if self._is_put(name, b"fourth", before):
            raise _unfit(self.root, f"ignores the condition {_UNCHANGED}")


_NEW = "that it must not exist yet (If-None-Match)"
_UNCHANGED = "that it must be unchanged (If-Match)"


def _unfit(root: StoreUrl, fault: str) -> StoreUnfit:
    return StoreUnfit(
        f"{root}: the store {fault}. Without conditions, two drivers could work on one run without noticing. Use a"
        " store that honours them (Amazon S3, Google Cloud Storage, Azure, MinIO, SeaweedFS), or a folder."
    )


def _unchanged(answer: Any) -> Any:
    """The condition that an object has not changed: its entity tag, and its generation in Google's stores."""
    return {name: answer[name] for name in ("e_tag", "version") if answer[name] is not None}


_kept: Any = zict.LRU(_KEPT_BYTES, {}, weight=lambda key, data: len(data))
_keeping = threading.Lock()


def _version(answer: Any) -> Version:
    return answer["e_tag"], answer["last_modified"].timestamp()


class _Part:
    """The lines that this process appends to a file, in objects of at most `_LOG_BYTES`.

    Its object is put again with all its lines, but only every few seconds: requests cost money, and Google takes one
    put of an object per second. A process that is killed takes the lines of these seconds with it.
    """

    def __init__(self, folder: ObjectFolder, path: str) -> None:
        self._folder, self._path, self._lock = folder, path, threading.Lock()
        self._put_at, self._timer = -math.inf, False
        self._begin()

    def _begin(self) -> None:
        self._lines, self._stored, self._object = b"", 0, f"{self._path}/{secrets.token_hex(16)}"

    def append(self, data: bytes) -> None:
        with self._lock:
            self._lines += data
            wait = self._put_at + _LOG_SECONDS - time.monotonic()
            if wait <= 0:
                self._put()
            elif not self._timer:
                self._timer = True
                timer = threading.Timer(wait, self._put_later)
                timer.daemon = True
                timer.start()

    def flush(self) -> None:
        with self._lock:
            self._put()

    def _put_later(self) -> None:
        with self._lock:
            self._timer = False
            with contextlib.suppress(StoreError):  # its lines are put with the next ones
                self._put()

    def _put(self) -> None:
        if self._stored == len(self._lines):
            return
        self._put_at = time.monotonic()
        self._folder._put(self._object, self._lines)
        self._stored = len(self._lines)
        if self._stored > _LOG_BYTES:
            self._begin()


@lru_cache(maxsize=64)
def _part_of_process(root: StoreUrl, path: str, process: int) -> _Part:
    part = _Part(ObjectFolder(root), path)
    # The end of a process that multiprocessing has started runs no function of atexit.
    Finalize(None, _put_at_exit, (part,), exitpriority=0)
    return part


def _put_at_exit(part: _Part) -> None:
    with contextlib.suppress(StoreError):
        part.flush()


class _RunStore(ObjectStore[Any]):
    """A zarr store that puts whole objects, with the errors of `object_store`."""

    def __init__(self, folder: ObjectFolder, *, read_only: bool) -> None:
        super().__init__(open_store(folder.root), read_only=read_only)
        self.folder = folder

    async def get(self, key: str, prototype: BufferPrototype, byte_range: Any = None) -> Buffer | None:
        """Read a chunk or metadata, or a part of it."""
        memory = unit_memory()
        if memory is None or byte_range is None:
            return await self._get(key, prototype, byte_range)
        if isinstance(byte_range, RangeByteRequest):
            data = await self._from_blocks(memory, key, byte_range)
            return prototype.buffer.from_bytes(data)
        place = (self.folder.root, key, byte_range)  # the index of a file of several chunks, at its end
        if place not in memory.blocks:
            memory.blocks[place] = await self._get(key, prototype, byte_range)
        return cast(Buffer | None, memory.blocks[place])

    async def _get(self, key: str, prototype: BufferPrototype, byte_range: Any) -> Buffer | None:
        requests["get"] += 1
        with translated(self.folder.root / key):
            return await super().get(key, prototype, byte_range)

    async def _from_blocks(self, memory: UnitMemory, key: str, wanted: RangeByteRequest) -> bytes:
        """A part of an object, read in whole blocks: zarr asks for every chunk of a file by itself."""
        first, last = wanted.start // BLOCK_BYTES, (wanted.end - 1) // BLOCK_BYTES
        blocks = {n: memory.blocks.get((self.folder.root, key, n)) for n in range(first, last + 1)}
        missing = [n for n, block in blocks.items() if block is None]
        if missing:
            start, end = missing[0] * BLOCK_BYTES, (missing[-1] + 1) * BLOCK_BYTES
            requests["get"] += 1
            with translated(self.folder.root / key):
                data = bytes(await obstore.get_range_async(self.store, key, start=start, end=end))
            for n in range(missing[0], missing[-1] + 1):
                offset = n * BLOCK_BYTES - start
                blocks[n] = memory.blocks[self.folder.root, key, n] = data[offset : offset + BLOCK_BYTES]
        joined = b"".join(blocks.values())
        return joined[wanted.start - first * BLOCK_BYTES : wanted.end - first * BLOCK_BYTES]

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, Any]]
    ) -> list[Buffer | None]:
        """Read parts of chunks."""
        requests["get"] += 1
        with translated(self.folder.root):
            return await super().get_partial_values(prototype, key_ranges)

    async def set(self, key: str, value: Buffer) -> None:
        """Write a chunk or metadata in a single request: parts of an interrupted upload would remain, and be billed."""
        self._check_writable()
        if fence() is not None:
            data: Any = value.as_buffer_like()
            await asyncio.to_thread(self.folder.write, key, data)
            return
        self.folder._forget(key)
        requests["put"] += 1
        with translated(self.folder.root / key):
            await obstore.put_async(self.store, key, value.as_buffer_like(), use_multipart=False)

    async def delete(self, key: str) -> None:
        """Remove a chunk."""
        await asyncio.to_thread(check_fence)
        requests["delete"] += 1
        with translated(self.folder.root / key):
            await super().delete(key)


@lru_cache(maxsize=64)
def _opened_array(root: StoreUrl, path: str, mode: Literal["r", "r+"], version: Version) -> zarr.Array[Any]:
    """An open array, cached by the version of its metadata."""
    folder = ObjectFolder(root)
    try:
        folder._array_stored(path)
    except RefusedArray as error:
        raise RefusedArray(f"{root / path} is not what a run writes: {error}.") from error
    return zarr.open_array(_RunStore(folder, read_only=mode == "r"), path=path, mode=mode, zarr_format=3)
