"""The refusal of a store, without what fills one: every command knows its exit code, and only one needs Pillow."""

from __future__ import annotations

__all__ = ["StoreRefused"]


class StoreRefused(ValueError):
    """A place where no store may be written, or a store that was made of something else."""
