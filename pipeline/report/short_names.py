"""Names of classes, cut for narrow places so that they can still be told apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pairloom.pipeline.storage.names import plain_line

__all__ = ["short_names"]

_DIGITS = "0123456789"


def short_names(names: Sequence[str], most: int) -> list[str]:
    """The names in at most so many characters: cut at the end, in the middle, at the front, or to where they differ.

    All are cut in the same way, the first that leaves the most of them different. Those that fit are not cut.

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
    """A cut of what all long names begin with or end in; a number that they share the first digits of stays whole."""
    begin = len(_common_beginning(names).rstrip(_DIGITS))
    end = len(_common_beginning([name[begin:][::-1] for name in names]).rstrip(_DIGITS))

    def cut(name: str, most: int) -> str:
        core = f"…{name[begin : len(name) - end]}" + ("…" if end else "")
        return core if len(core) <= most else _cut_end(core, most)

    return cut


def _common_beginning(names: Sequence[str]) -> str:
    """Of sorted names, the first and the last differ earliest."""
    first, last = min(names), max(names)
    return first[
        : next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    ]
