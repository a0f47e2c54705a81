"""The problems of a configuration in the words of this package: one line per key, what it must be, what it was."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from pairloom.cluster.config import PATTERNS, Config
from pairloom.cluster.meant_key import key_that_was_meant

__all__ = ["problems_of"]


def problems_of(details: list[dict[str, Any]], tables: dict[str, Any]) -> list[str]:
    """One line per key. If a key may have several types, pydantic reports a problem with each."""
    by_key: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for detail in details:
        by_key.setdefault(_key_in_file(detail, tables), []).append(detail)
    # A problem inside a list or a table makes the other types of its key irrelevant.
    inner = {key[:length] for key in by_key for length in range(len(key))}
    return [_problem(key, found) for key, found in by_key.items() if key not in inner]


def _problem(location: tuple[str, ...], details: list[dict[str, Any]]) -> str:
    key, detail = ".".join(location), details[0]
    if detail["type"] == "extra_forbidden":
        return f"{key}: unknown key.{key_that_was_meant(location, _keys_beside(location))}"
    if detail["type"] == "missing":
        return f"{key}: missing, and there is no default."
    if detail["type"] == "value_error" and isinstance(detail["input"], dict):
        return f"{detail['ctx']['error']}."  # the check of a section names its keys itself
    return f"{key} {_or([_requirement(detail) for detail in details])}, got {detail['input']!r}."


def _requirement(detail: dict[str, Any]) -> str:
    """What a value must be, in the words of this package."""
    if detail["type"] == "string_pattern_mismatch":
        return f"must be {PATTERNS[detail['ctx']['pattern']]}"
    text = re.sub(r"^(Input|String|List) should", "must", detail["msg"].removeprefix("Value error, "))
    text = re.sub(r"dictionary( or instance of \w+)?", "table", text)
    return text.replace("a valid integer", "an integer").replace("a valid ", "a ")


def _or(requirements: list[str]) -> str:
    """Join requirements: "must be a number", "must be 'scale'" become "must be a number or 'scale'"."""
    first, *others = requirements
    others = [other.removeprefix("must be ") for other in others]
    if not others:
        return first
    return f"{', '.join([first, *others[:-1]])} or {others[-1]}"


def _key_in_file(detail: dict[str, Any], tables: dict[str, Any]) -> tuple[str, ...]:
    """The part of pydantic's location that is in the file; the rest are the types that it tried for a value."""
    key, value, location = [], tables, detail["loc"]
    for part in location:
        if (isinstance(value, dict) and part in value) or (
            isinstance(value, list) and isinstance(part, int) and part < len(value)
        ):
            value = value[part]
        elif detail["type"] != "missing" or part is not location[-1]:
            continue
        key.append(str(part))
    return tuple(key)


def _keys_beside(location: Sequence[str]) -> list[str]:
    model: Any = Config
    for part in location[:-1]:
        annotation = model.model_fields[part].annotation
        options = getattr(annotation, "__args__", (annotation,))
        model = next(o for o in options if isinstance(o, type) and issubclass(o, BaseModel))
    return list(model.model_fields)
