"""Names of classes, shortened for narrow places so that they still differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pairloom.graphs.text import plain_line

__all__ = ["short_names"]

_DIGITS = "0123456789"


def short_names(names: Sequence[str], most: int) -> list[str]:
    """The names in at most so many characters: cut at the end, in the middle, at the front, or to where they differ.

    All are cut in the same way, the one that keeps the most of them distinct. Names that fit are not cut.

    Examples
    --------
    >>> short_names(["a rather long name 1", "a rather long name 2", "short"], 10)
    ['a rat…me 1', 'a rat…me 2', 'short']
    """
    whole = [plain_line(name, max(len(name), 2)) for name in names]
    cuts = [_cut_end, _cut_middle, _cut_front, _without_common_ends(whole)]
    ways = [[name if len(name) <= most else cut(name, most) for name in whole] for cut in cuts]
    return max(ways, key=lambda way: len(set(way)))


def _cut_end(name: str, most: int) -> str:
    return f"{name[: most - 1]}…"


def _cut_middle(name: str, most: int) -> str:
    front = most // 2
    return f"{name[:front]}…{name[1 + front - most :]}"


def _cut_front(name: str, most: int) -> str:
    return f"…{name[1 - most :]}"


def _without_common_ends(names: Sequence[str]) -> Callable[[str, int], str]:
    """A cut that removes what all names begin or end with, but no part of a number."""
    begin = len(_common_beginning(names).rstrip(_DIGITS))
    end = len(_common_beginning([name[begin:][::-1] for name in names]).rstrip(_DIGITS))

    def cut(name: str, most: int) -> str:
        core = f"…{name[begin : len(name) - end]}" + ("…" if end else "")
        return core if len(core) <= most else _cut_end(core, most)

    return cut


def _common_beginning(names: Sequence[str]) -> str:
    """The first and the last of the sorted names differ earliest, so no others need comparing."""
    first, last = min(names), max(names)
    return first[
        : next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    ]
