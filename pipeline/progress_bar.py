"""A progress bar as text, in characters that its stream can show."""

from __future__ import annotations

from typing import NamedTuple, TextIO

__all__ = ["ASCII", "BLOCKS", "Marks", "bar_text", "marks_for"]


class Marks(NamedTuple):
    """Characters: of what is done, of what is running, and of the full and the empty part of a bar."""

    done: str
    running: str
    full: str
    empty: str


BLOCKS, ASCII = Marks("✓", "▸", "█", "░"), Marks("*", ">", "#", "-")


def marks_for(stream: TextIO) -> Marks:
    """Blocks where the encoding of a stream has them, ASCII elsewhere."""
    try:
        "".join(BLOCKS).encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BLOCKS


def bar_text(share: float, width: int, marks: Marks = BLOCKS) -> str:
    """A bar of ``width`` characters, of which a share is full. It is full at the end only.

    Examples
    --------
    >>> bar_text(0.5, 8, ASCII), bar_text(0.999, 8, ASCII), bar_text(1, 8, ASCII)
    ('####----', '#######-', '########')
    """
    full = int(min(max(share, 0.0), 1.0) * width)
    return marks.full * full + marks.empty * (width - full)
