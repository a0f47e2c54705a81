"""Tables of names and figures, as text for a terminal and as HTML for a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["Records", "Table", "html_of", "others", "signed", "text_of"]

_STYLE = "border-collapse:collapse;margin:0 0 .8em 0;font-variant-numeric:tabular-nums"


class Table(NamedTuple):
    """Rows under a heading. The first column is text, the others are numbers. With ``total``, the last row is the sum
    of the rows above it."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    total: bool = False


class Records(list[dict[str, Any]]):
    """Rows as dictionaries: a list for programs, a table in a notebook."""

    def _repr_html_(self) -> str:
        names = list(dict.fromkeys(name for row in self for name in row))
        rows = [[_cell(row.get(name)) for name in names] for row in self]
        return html_of(f"{len(rows)} rows", [], [Table("", names, rows)] if rows else [])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def signed(value: float) -> str:
    """A number with its sign and three or four digits.

    Examples
    --------
    >>> signed(1.5), signed(-0.00012), signed(0.0)
    ('+1.500', '-0.000', '0.000')
    """
    return f"{value:+.3f}" if value else "0.000"


def others(left: int) -> str:
    """The number of rows that are not shown, as text.

    Examples
    --------
    >>> others(1), others(12)
    ('1 other', '12 others')
    """
    return f"{left} other{'s' if left > 1 else ''}"


def text_of(heading: str, lines: Sequence[str], tables: Sequence[Table]) -> str:
    """A heading, some lines and tables, separated by empty lines, as text."""
    parts = [
        "\n".join([heading, *(f"  {line}" for line in lines)]),
        *(_table_text(table) for table in tables),
    ]
    return "\n\n".join(parts)


def html_of(heading: str, lines: Sequence[str], tables: Sequence[Table]) -> str:
    """The same as HTML. All text is escaped: names of classes and features are data."""
    said = "".join(f"<div>{html.escape(line)}</div>" for line in lines)
    shown = "".join(_table_html(table) for table in tables)
    return f'<div class="pairloom"><strong>{html.escape(heading)}</strong>{said}<br>{shown}</div>'


def _table_text(table: Table) -> str:
    widths = [max(map(len, cells)) for cells in zip(table.head, *table.rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        texts = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        return ("  " + "   ".join(texts)).rstrip()

    rows = [line(row) for row in table.rows]
    if table.total:
        rows.insert(-1, "  " + "-" * (sum(widths) + 3 * (len(widths) - 1)))
    return "\n".join([*filter(None, [table.title]), line(table.head), *rows])


def _table_html(table: Table) -> str:
    def cells(row: Sequence[str], tag: str) -> str:
        sides = ["left", *["right"] * (len(row) - 1)]
        return "".join(
            f'<{tag} style="text-align:{side};padding:0 .8em 0 0">{html.escape(cell)}</{tag}>'
            for cell, side in zip(row, sides, strict=True)
        )

    rule = ' style="border-top:1px solid currentColor"'
    last = len(table.rows) - 1 if table.total else -1
    rows = "".join(
        f"<tr{rule if at == last else ''}>{cells(row, 'td')}</tr>" for at, row in enumerate(table.rows)
    )
    caption = f'<caption style="text-align:left">{html.escape(table.title)}</caption>' if table.title else ""
    head = f"<thead><tr>{cells(table.head, 'th')}</tr></thead>" if any(table.head) else ""
    return f'<table style="{_STYLE}">{caption}{head}<tbody>{rows}</tbody></table>'
