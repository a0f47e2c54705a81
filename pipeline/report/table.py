"""Tables of the page. They sort by any column and can be searched; a long one scrolls in a frame of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pairloom.pipeline.report.markup import element, escaped, named

__all__ = ["Cell", "Column", "Markup", "Name", "table"]


class Column(NamedTuple):
    """A column: its heading, whether its cells are numbers, and what it means, if that needs to be said."""

    heading: str
    numeric: bool = False
    meaning: str = ""


class Name(NamedTuple):
    """A cell that holds the name of a class."""

    text: str


class Markup(NamedTuple):
    """A cell that is markup already."""

    text: str


Cell = str | int | float | Name | Markup


def table(
    key: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    caption: str,
    *,
    search: str = "",
    sortable: bool = False,
    row_keys: Sequence[int] | None = None,
) -> str:
    """A table in a frame.

    Parameters
    ----------
    key
        Names it in the page: its id is ``table-`` and this.
    columns, rows
        Headings, and the cells below them.
    caption
        What it holds, for those who do not see where it stands.
    search
        What to search for, such as "class"; without it there is no search.
    sortable
        Whether headings are buttons that sort.
    row_keys
        A number for every row, by which the script knows it.
    """
    keys = [""] * len(rows) if row_keys is None else [f' data-key="{number}"' for number in row_keys]
    head = "".join(_heading(column, sortable) for column in columns)
    body = "".join(f"<tr{of_row}>{_cells(columns, row)}</tr>" for of_row, row in zip(keys, rows, strict=True))
    content = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    framed = element("table", content, id=f"table-{key}", aria_label=caption)
    # A frame that scrolls must be reached by the keyboard.
    frame = element("div", framed, class_="frame", tabindex=0, role="region", aria_label=caption)
    return (_search(key, search, len(rows)) if search else "") + frame


def _heading(column: Column, sortable: bool) -> str:
    values = {"class_": "number"} if column.numeric else {}
    if column.meaning:
        values["title"] = column.meaning
    text = escaped(column.heading)
    content = f'<button type="button">{text}</button>' if sortable else text
    return element("th", content, scope="col", **values)


def _cells(columns: Sequence[Column], row: Sequence[Cell]) -> str:
    return "".join(_cell(column, cell) for column, cell in zip(columns, row, strict=True))


def _cell(column: Column, cell: Cell) -> str:
    if isinstance(cell, Name):
        return f'<td class="name">{named(cell.text)}</td>'
    text = cell.text if isinstance(cell, Markup) else escaped(cell)
    return f'<td class="number">{text}</td>' if column.numeric else f"<td>{text}</td>"


def _search(key: str, what: str, rows: int) -> str:
    return (
        f'<p class="search"><input type="search" placeholder="Search {escaped(what)}" data-table="table-{key}"'
        f' aria-label="Search {escaped(what)}"> <output>{rows} rows</output></p>'
    )
