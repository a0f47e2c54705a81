"""Atomic files: either complete or absent."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from pairloom.pipeline.storage.places import Place, place_of

__all__ = [
    "PARTIAL_SUFFIX",
    "create_exclusively",
    "partial_beside",
    "put",
    "put_exclusively",
    "write_atomically",
]

# zarr's LocalStore uses the same suffix for its temporary files, so one search finds the leftovers of both.
PARTIAL_SUFFIX = ".partial"


def partial_beside(place: Place) -> Place:
    """The place of a new temporary file in the same folder."""
    return place.beside(f".{place.path.name}.{uuid.uuid4().hex}{PARTIAL_SUFFIX}")


@contextlib.contextmanager
def _neighbour(place: Place, data: bytes | memoryview, *, flush: bool) -> Iterator[Place]:
    """A temporary file with ``data`` next to ``place``. It is removed at the end unless it was moved."""
    temporary = partial_beside(place)
    try:
        with open(temporary.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(data)
            file.flush()
            if flush:
                os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink()


def put(place: Place, data: bytes | memoryview, *, flush: bool = True) -> None:
    """Write ``data`` so that readers find either the old file or the new one; with ``flush``, even after a crash."""
    with _neighbour(place, data, flush=flush) as temporary:
        temporary.move_to(place)
    if flush:
        place.flush_folder()


def put_exclusively(place: Place, data: bytes) -> bool:
    """Create a file with ``data``, or return False if it exists. Only one of several callers succeeds."""
    with _neighbour(place, data, flush=True) as temporary:
        try:
            temporary.link_as(place)
        except FileExistsError:
            return False
    place.flush_folder()
    return True


def write_atomically(path: Path, data: bytes) -> None:
    """`put` at a path that a user gave."""
    path.parent.mkdir(parents=True, exist_ok=True)
    put(place_of(path), data)


def create_exclusively(path: Path, data: bytes) -> bool:
    """`put_exclusively` at a path that a user gave."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return put_exclusively(place_of(path), data)
