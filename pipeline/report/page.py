"""The page of a report: one file with its style, its script and its data inside, which asks no network for anything."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from pairloom.pipeline.report.markup import element, escaped, json_script
from pairloom.pipeline.report.section import Section
from pairloom.pipeline.storage.names import plain_line

__all__ = ["KeyFigure", "page"]


class KeyFigure(NamedTuple):
    """A number at the top of the page, what it is, and a word more."""

    value: str
    name: str
    note: str = ""


def page(
    title: str,
    lines: Sequence[str],
    figures: Sequence[KeyFigure],
    notices: Sequence[str],
    sections: Sequence[Section],
    data: Mapping[str, Any],
) -> str:
    """The whole page.

    Parameters
    ----------
    title
        Name of the run.
    lines
        What stands below it, as text.
    figures
        The numbers at the top.
    notices
        What a reader must not miss, as text.
    sections
        The content.
    data
        JSON values for the script, besides those of the sections.
    """
    style, script = (files(__package__).joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    values = dict(data)
    for section in sections:
        values |= section.data
    return "".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">\n',
            '<meta name="color-scheme" content="light dark">\n',
            f"<title>{escaped(plain_line(title))} · pairloom</title>\n<style>\n{style}</style>\n</head>\n<body>\n",
            _header(title, lines, figures, notices),
            _navigation(sections),
            "<main>\n",
            *map(_section, sections),
            "</main>\n",
            _FOOTER,
            '<div id="tip" role="tooltip" hidden></div>\n',
            json_script("data", values),
            f"\n<script>{script}</script>\n</body>\n</html>\n",
        ]
    )


_FOOTER = (
    "<footer><p>Made by pairloom. The tables are beside this page as CSV files: methods.csv, classes.csv, pairs.csv,"
    " errors.csv; the scores as metrics.json.</p>"
    "<noscript><p>Without JavaScript, tables do not sort and maps do not enlarge.</p></noscript></footer>\n"
)


def _policy(script: str) -> str:
    """Nothing is loaded, and no script runs but the page's own: not even if a class name could smuggle one in."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _header(title: str, lines: Sequence[str], figures: Sequence[KeyFigure], notices: Sequence[str]) -> str:
    told = "".join(element("p", escaped(line), class_="line") for line in lines)
    warned = "".join(element("p", escaped(notice), class_="notice") for notice in notices)
    numbers = "".join(
        f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}<small>{escaped(note)}</small></dd></div>"
        for value, name, note in figures
    )
    heading = f'<p class="kind">pairloom run</p><h1>{escaped(plain_line(title))}</h1>'
    return f'<header>{heading}{told}{warned}<dl class="figures">{numbers}</dl></header>\n'


def _navigation(sections: Sequence[Section]) -> str:
    """Links to the sections, by one word each."""
    links = "".join(
        f'<a href="#{section.key}">{escaped(section.key.capitalize())}</a>' for section in sections
    )
    return f'<nav aria-label="Sections">{links}</nav>\n'


def _section(section: Section) -> str:
    return f'<section id="{section.key}"><h2>{escaped(section.title)}</h2>{section.body}</section>\n'
