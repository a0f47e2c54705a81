"""The page of a report: one HTML file with its style, script and data inside, which loads nothing.

The templates page.html and sections.html write it. Everything from data is escaped, unless it is `Markup`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from pairloom.graphs.text import plain_line

__all__ = ["Column", "KeyFigure", "PageTable", "Section", "coordinate", "named", "page", "section_html"]


class Column(NamedTuple):
    """A column of a table: its heading, what its cells are, and an explanation if the heading needs one.

    A cell of kind "name" is the name of a class.
    """

    heading: str
    kind: Literal["text", "number", "name"] = "text"
    meaning: str = ""


class PageTable(NamedTuple):
    """A table of the page. A long one scrolls in a frame of its own.

    Attributes
    ----------
    key
        Its id in the page is ``table-`` and this.
    caption
        What it holds, for screen readers.
    columns, rows
        Headings, and the cells below them.
    search
        What can be searched for, such as "a class"; without it there is no search.
    sortable
        Whether headings are buttons that sort.
    keyed
        Whether the script finds a row by its number.
    """

    key: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[object]]
    search: str = ""
    sortable: bool = False
    keyed: bool = False


class Section(NamedTuple):
    """A section of the page.

    Attributes
    ----------
    key
        Its anchor in the page, and the macro of sections.html that writes it.
    title
        Its heading.
    content
        What the macro reads.
    data
        JSON values for the script, by name.
    """

    key: str
    title: str
    content: Mapping[str, Any]
    data: Mapping[str, Any] = {}


class KeyFigure(NamedTuple):
    """A number at the top of the page, its name, and a note below it."""

    value: str
    name: str
    note: str = ""


def page(
    title: str,
    line: str,
    figures: Sequence[KeyFigure],
    notices: Sequence[str],
    sections: Sequence[Section],
    data: Mapping[str, Any],
) -> str:
    """The whole page.

    Parameters
    ----------
    title, line
        Name of the run, and the line below it.
    figures
        The numbers at the top.
    notices
        What a reader must not miss.
    sections
        The content.
    data
        JSON values for the script, besides those of the sections.
    """
    script = _resource("page.js")
    values = dict(data)
    for section in sections:
        values |= section.data
    return _environment().get_template("page.html").render(
        title=plain_line(title),
        line=line,
        figures=figures,
        notices=notices,
        sections=sections,
        data=values,
        style=Markup(_resource("page.css")),
        script=Markup(script),
        policy=_policy(script),
    )  # fmt: skip


def section_html(section: Section) -> str:
    """The content of one section, without its heading."""
    macros = _environment().get_template("sections.html").module
    return str(getattr(macros, section.key)(section.content))


def _policy(script: str) -> str:
    """Nothing is loaded, and only the page's own script runs, even if markup in a class name were not escaped."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_resource),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"name": named, "px": coordinate, "thousands": "{:,}".format}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def named(name: str) -> Markup:
    """A class name as content: one line, kept apart from the direction of the text around it.

    It may break after an underscore.

    Examples
    --------
    >>> named("play_<music>")
    Markup('<bdi>play_<wbr>&lt;music&gt;</bdi>')
    """
    return Markup("<bdi>{}</bdi>").format(plain_line(name)).replace("_", Markup("_<wbr>"))


def coordinate(value: float, digits: int = 1) -> str:
    """A coordinate, as short as it can be.

    Examples
    --------
    >>> coordinate(3.0), coordinate(0.26), coordinate(-0.01)
    ('3', '0.3', '0')
    """
    text = f"{value:.{digits}f}"
    short = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if short == "-0" else short
