"""The directive ``configuration``: every key of a run's configuration, from the classes that check it.

Nothing is written down twice: sections, keys, values, defaults and meanings are those of `pairloom.cluster.config`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from docutils import nodes
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from pairloom.cluster.config import JOB_QUEUES, PATTERNS, Config

WORDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}
SEVERAL = {str: "strings", int: "whole numbers", float: "numbers"}
BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


class ConfigurationReference(SphinxDirective):
    """A section per section of the configuration, a table of its keys in each."""

    def run(self) -> list[nodes.Node]:
        """The sections, in the order of `Config`."""
        return [self._section(title, model) for title, model in sections(Config)]

    def _section(self, title: str, model: type[BaseModel]) -> nodes.Node:
        lines = [*inspect.cleandoc(model.__doc__ or "").splitlines(), "", *table(rows(model))]
        section = nodes.section(ids=[nodes.make_id(title)], names=[title])
        section += nodes.title(title, "", nodes.literal(text=title))
        section += self.parse_text_to_nodes("\n".join(lines))
        return section


def sections(model: type[BaseModel], parent: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """The sections of a model and theirs: ``[cluster]``, then one that stands for all batch systems."""
    for name, field in model.model_fields.items():
        section = section_of(field)
        if section is None or name in JOB_QUEUES[1:]:
            continue
        yield f"[{parent}{name}]", section
        yield from sections(section, f"{parent}{name}.")


def rows(model: type[BaseModel]) -> list[tuple[str, str, str, str]]:
    """Key, values, default and meaning of every key that is not a section."""
    return [
        (f"`{name}`", values_of(field), default_of(field), meaning_of(field))
        for name, field in model.model_fields.items()
        if section_of(field) is None
    ]


def table(cells: list[tuple[str, str, str, str]]) -> list[str]:
    """Rows as Markdown."""
    head = ["| key | values | default | meaning |", "|---|---|---|---|"]
    return head + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """The class of a field that is a section, with or without None."""
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def values_of(field: FieldInfo) -> str:
    """What a key may be: ``a number above 0, or "auto"``."""
    pattern = next(
        (PATTERNS[p] for m in field.metadata if (p := getattr(m, "pattern", None)) in PATTERNS), None
    )
    if pattern is not None:
        return pattern
    return in_words(field.annotation, bounds_of(field.metadata))


def in_words(kind: Any, bounds: str = "") -> str:
    """A type for people. Bounds are of its numbers."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return in_words(arguments[0], bounds or bounds_of(arguments[1:]))
    if origin is Literal:
        return ", ".join(f"`{json.dumps(value)}`" for value in arguments)
    if origin in (Union, UnionType):
        return " or ".join(in_words(one, bounds) for one in arguments if one is not NoneType)
    if origin is list:
        return f"a list of {several(arguments[0])}"
    if origin is dict:
        return f"a table of {several(arguments[1])} by name"
    return WORDS[kind] + (bounds if kind in (int, float) else "")


def several(kind: Any) -> str:
    """The elements of a list: ``whole numbers``."""
    if get_origin(kind) is list:
        return f"lists of {several(get_args(kind)[0])}"
    plain = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return SEVERAL.get(plain) or f"values, each {in_words(kind)}"


def bounds_of(metadata: Any) -> str:
    """Limits of a number, as pydantic holds them: one by one, or as the metadata of a nested field."""
    flat = [m for one in metadata for m in (one.metadata if isinstance(one, FieldInfo) else [one])]
    found = [f"{word} {getattr(m, name)}" for m in flat for name, word in BOUNDS.items() if hasattr(m, name)]
    return " " + " and ".join(found) if found else ""


def default_of(field: FieldInfo) -> str:
    """The default as it would stand in the file; nothing for a key that may be left out."""
    if field.default is PydanticUndefined:
        return "must be set"
    return "" if field.default is None else f"`{json.dumps(field.default)}`"


def meaning_of(field: FieldInfo) -> str:
    """What a key means."""
    return field.description or ""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("configuration", ConfigurationReference)
    return {"parallel_read_safe": True}
