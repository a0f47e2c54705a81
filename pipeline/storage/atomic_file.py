"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PARTIAL_SUFFIX", "create_exclusively", "write_atomically"]

# zarr's LocalStore ends its own temporary files the same way, so one sweep finds what a killed process left
# of either.
PARTIAL_SUFFIX = ".partial"


@contextlib.contextmanager
def _flushed_neighbour(path: Path, data: bytes) -> Iterator[Path]:
    """A temporary file beside ``path`` with ``data`` on the disk, removed if it was not moved away."""
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
    """Flush the folder of ``path``: until then a crash of the machine can take the new name back."""
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` so that a reader, or a crash at any moment, finds the old file or the new one."""
    with _flushed_neighbour(path, data) as temporary:
        temporary.replace(path)
    _flush_name(path)


def create_exclusively(path: Path, data: bytes) -> bool:
    """Create ``path`` holding ``data``, or return False if it exists. Of many callers at once one wins."""
    with _flushed_neighbour(path, data) as temporary:
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            return False
    _flush_name(path)
    return True
