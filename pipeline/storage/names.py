"""Class names are data: how they are written into spreadsheets and figures, where some characters are orders."""

from __future__ import annotations

__all__ = ["csv_cell", "figure_text"]


def csv_cell(name: str) -> str:
    """A name as a cell of a CSV file. A spreadsheet would take one that begins with =, +, - or @ for a formula.

    Examples
    --------
    >>> csv_cell("=cmd()"), csv_cell("cat")
    ("'=cmd()", 'cat')
    """
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name


def figure_text(name: str, most: int = 40) -> str:
    """A name as text in a figure: one line, not too long, and no mathematics between dollar signs.

    Examples
    --------
    >>> figure_text("$x^2$\\nfar too long a name", most=16)
    '\\\\$x^2\\\\$ far too l…'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in name).split()) or repr(name)
    short = line if len(line) <= most else f"{line[: most - 1]}…"
    return short.replace("$", r"\$")
