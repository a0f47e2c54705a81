"""A section of the page: a heading, its content, and the values that the page's script reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["Section"]


class Section(NamedTuple):
    """A part of the report.

    Attributes
    ----------
    key : str
        Its anchor in the page.
    title : str
    body : str
        HTML. Every name in it is escaped.
    data : mapping
        JSON values for the script, by name.
    """

    key: str
    title: str
    body: str
    data: Mapping[str, Any] = {}
