"""Keys of nested tables, and those whose values differ between two of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["differing_keys", "flattened"]


def differing_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line per key whose values differ: ``"graph.hubs: was 5, is 7"``."""
    before, after = dict(flattened(old)), dict(flattened(new))
    return [
        f"{key}: was {before.get(key)!r}, is {after.get(key)!r}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def flattened(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The keys of nested tables with dots between their parts, and their values."""
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
