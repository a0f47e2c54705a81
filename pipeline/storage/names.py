"""Class names are data: how they are written into spreadsheets, figures and pages, where some characters are orders."""

from __future__ import annotations

import re

__all__ = ["csv_cell", "figure_text", "plain_line"]

# What a spreadsheet may take for the beginning of a formula; the wide forms in Japanese and Chinese editions.
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


def plain_line(name: str, most: int = 80) -> str:
    """A name as one line of printable characters, not too long.

    Examples
    --------
    >>> plain_line("two\\nlines of text", most=12)
    'two lines o…'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in name).split()) or repr(name)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def figure_text(name: str, most: int = 40) -> str:
    """A name as text in a figure of matplotlib: one line, and no mathematics between dollar signs.

    Examples
    --------
    >>> figure_text("$x^2$\\nfar too long a name", most=16)
    '\\\\$x^2\\\\$ far too l…'
    """
    return plain_line(name, most).replace("$", r"\$")
