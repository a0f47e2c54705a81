"""Atomic files: either complete or absent."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PARTIAL_SUFFIX", "create_exclusively", "write_atomically"]

# zarr's LocalStore uses the same suffix for its temporary files, so one sweep finds the leftovers of both.
PARTIAL_SUFFIX = ".partial"


@contextlib.contextmanager
def _flushed_neighbour(path: Path, data: bytes) -> Iterator[Path]:
    """A temporary file next to ``path``, with ``data`` flushed to disk. It is removed unless it was moved."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{PARTIAL_SUFFIX}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _flush_name(path: Path) -> None:
    """Flush the folder of ``path``: until then the new name can be lost if the computer crashes."""
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` so that readers find either the old file or the new one, even after a crash."""
    with _flushed_neighbour(path, data) as temporary:
        temporary.replace(path)
    _flush_name(path)


def create_exclusively(path: Path, data: bytes) -> bool:
    """Create ``path`` with ``data``, or return False if it exists. Only one of several callers succeeds."""
    with _flushed_neighbour(path, data) as temporary:
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            return False
    _flush_name(path)
    return True
