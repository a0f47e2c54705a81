"""What a unit of work knows of an object store, so that it need not ask again.

While a unit works, nothing that it reads changes: the units that wrote it are finished, and the plan is looked at again
before anything is written. So the metadata of an array are asked for once, neighbouring parts of a file together, and
the digest of a file is that of the bytes that were put.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import zict

from pairloom.pipeline.storage.location import Location

__all__ = ["UnitMemory", "remembering", "unit_memory"]

#: Files are read in blocks of so many bytes, of which a unit keeps the last ones.
BLOCK_BYTES, _KEPT_BLOCKS = 2**20, 16


class UnitMemory:
    """The knowledge of one unit. Keys begin with the root and the path of a file.

    Attributes
    ----------
    versions : dict
        Versions of the metadata of arrays.
    digests : dict
        SHA-256 of the files that were put.
    blocks : mapping
        The last blocks of files that were read, and the indices at the ends of files.
    """

    def __init__(self) -> None:
        self.versions: dict[Any, Any] = {}
        self.digests: dict[Any, str] = {}
        self.blocks: Any = zict.LRU(_KEPT_BLOCKS, {})

    def forget(self, root: Location, path: str) -> None:
        """Forget a file that the unit itself changes."""
        self.versions.pop((root, path), None)
        self.digests.pop((root, path), None)
        for key in [key for key in self.blocks if key[:2] == (root, path)]:
            del self.blocks[key]


_memory: ContextVar[UnitMemory | None] = ContextVar("unit_memory", default=None)


@contextlib.contextmanager
def remembering() -> Iterator[None]:
    """Let this thread remember, until the end, what it has found in object stores and put there."""
    token = _memory.set(UnitMemory())
    try:
        yield
    finally:
        _memory.reset(token)


def unit_memory() -> UnitMemory | None:
    """The memory of the unit at work, or None."""
    return _memory.get()
