"""Text of names: in messages (quoted, listed, with the nearest known name), tables, CSV files and figures; shortened.

Names come from users' data. They may hold line breaks, control characters, formulas or markup, which a terminal, a
spreadsheet or a figure would interpret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any

__all__ = [
    "csv_cell",
    "did_you_mean",
    "duration",
    "duration_range",
    "durations",
    "figure_text",
    "format_bytes",
    "listed",
    "plain_line",
    "printable",
    "quoted",
    "short_names",
]


def quoted(label: object) -> str:
    """Return a label as the user wrote it.

    Examples
    --------
    >>> import numpy as np
    >>> quoted(np.str_("cat")), quoted(np.int64(3))
    ("'cat'", '3')
    """
    # repr alone would show a NumPy scalar as np.str_('cat').
    plain: Any = label.item() if hasattr(label, "item") and getattr(label, "ndim", 1) == 0 else label
    return repr(plain)


def listed(labels: Iterable[object], most: int = 5) -> str:
    """Return labels separated by commas: the first `most`, and the number of the others.

    Examples
    --------
    >>> listed(["cat", "dog"])
    "'cat', 'dog'"
    >>> listed(range(1000), most=3)
    '0, 1, 2 and 997 more'
    """
    labels = list(labels)
    shown = ", ".join(quoted(label) for label in islice(labels, most))
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Return a question with the known name nearest to `name`, or an empty string if none is near.

    Examples
    --------
    >>> did_you_mean("bipartit", ["star", "bipartite"])
    " Did you mean 'bipartite'?"
    >>> did_you_mean("zebra", ["star", "bipartite"])
    ''
    """
    by_text = {str(label): label for label in known}
    return "".join(
        f" Did you mean {quoted(by_text[text])}?" for text in get_close_matches(str(name), by_text, n=1)
    )


# Characters with which a formula may begin in a spreadsheet; the wide ones in Japanese and Chinese editions.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def csv_cell(name: str) -> str:
    """A name as a cell of a CSV file. A spreadsheet would take one that begins with =, +, - or @ for a formula.

    Such a name gets an apostrophe in front, which spreadsheets take for "this is text". So does a name that looks as
    if it had one already, so that removing one apostrophe always gives the name back. Numbers are not changed.

    Examples
    --------
    >>> csv_cell("=cmd()"), csv_cell("cat"), csv_cell("-1"), csv_cell("'=cmd()")
    ("'=cmd()", 'cat', '-1', "''=cmd()")
    """
    harmless = _NUMBER.fullmatch(name) or not name.lstrip("'").startswith(_FORMULA)
    return name if harmless else f"'{name}"


def plain_line(name: object, most: int = 80) -> str:
    """A name as one line of printable characters, cut if it is longer than `most`.

    Control characters become spaces: a terminal would interpret them.

    Examples
    --------
    >>> plain_line("two\\nlines of text", most=12), plain_line(3)
    ('two lines o…', '3')
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in str(name)).split()) or repr(str(name))
    return line if len(line) <= most else f"{line[: most - 1]}…"


def printable(text: str) -> str:
    """A text with its control characters escaped, except line breaks: a terminal would interpret them.

    Examples
    --------
    >>> printable("two\\nlines, one \\x1b[31mred")
    'two\\nlines, one \\\\x1b[31mred'
    """
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def figure_text(name: str, most: int = 40) -> str:
    """A name as text in a figure of matplotlib: one line, and no mathematics between dollar signs.

    Examples
    --------
    >>> figure_text("$x^2$\\nfar too long a name", most=16)
    '\\\\$x^2\\\\$ far too l…'
    """
    return plain_line(name, most).replace("$", r"\$")


# Units of durations: the seconds of one unit, and the shortest duration that is shown in it.
_UNITS = {"s": (1.0, 0.0), "min": (60.0, 120.0), "h": (3600.0, 7200.0), "d": (86_400.0, 345_600.0)}


def duration(seconds: float) -> str:
    """A duration in the unit that suits it, with at most two or three digits.

    Examples
    --------
    >>> [duration(s) for s in (0.31, 9.96, 61, 605, 5000, 200_000, 500_000)]
    ['0.3 s', '10 s', '61 s', '10 min', '83 min', '56 h', '6 d']
    """
    unit, size = _unit(seconds)
    return f"{seconds / size:.{int(seconds < 9.95)}f} {unit}"


def durations(seconds: Iterable[float]) -> list[str]:
    """Durations in one common unit, so that they can be compared with each other.

    Examples
    --------
    >>> durations([0.314, 480.11]), durations([1.0, 3600.0])
    (['0.3 s', '480.1 s'], ['<0.1 min', '60.0 min'])
    """
    seconds = list(seconds)
    # The unit of a tenth of the longest, so that shorter durations keep some digits.
    unit, size = _unit(max(seconds, default=0.0) / 10)
    return [f"{s / size:.1f} {unit}" if not 0 < s < 0.05 * size else f"<0.1 {unit}" for s in seconds]


def _unit(seconds: float) -> tuple[str, float]:
    """The largest unit in which a duration is shown, and the seconds of one unit."""
    return [(unit, size) for unit, (size, least) in _UNITS.items() if seconds >= least or unit == "s"][-1]


def duration_range(seconds: tuple[float, float]) -> str:
    """The shortest and the longest a task may take, as one duration if both read the same.

    Examples
    --------
    >>> duration_range((61, 300)), duration_range((3.01, 3.02))
    ('61 s to 5 min', '3.0 s')
    """
    low, high = map(duration, seconds)
    return low if low == high else f"{low} to {high}"


def format_bytes(n: int) -> str:
    """A number of bytes in the largest binary unit that it fills.

    Examples
    --------
    >>> format_bytes(1), format_bytes(1536), format_bytes(5 * 2**30)
    ('1 B', '1.50 kiB', '5.00 GiB')
    """
    for exponent, unit in ((5, "PiB"), (4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "kiB")):
        if n >= 0.9 * 2 ** (10 * exponent):
            return f"{n / 2 ** (10 * exponent):.2f} {unit}"
    return f"{n} B"


_DIGITS = "0123456789"


def short_names(names: Sequence[str], most: int) -> list[str]:
    """The names in at most `most` characters: cut at the end, in the middle, at the front, or to where they differ.

    All are cut in the same way, the one that keeps the most names distinct. Names that fit are not cut.

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
    """The longest common prefix: the first and the last of the sorted names differ earliest."""
    first, last = min(names), max(names)
    return first[
        : next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    ]
