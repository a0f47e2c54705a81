"""All keys of a configuration, with default, values and meaning: as text that is TOML, and as JSON Schema.

Everything comes from the sections in `config`, where each key is defined once.
"""

from __future__ import annotations

import json
import textwrap
import types
from collections.abc import Container, Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pairloom.cluster.config import JOB_QUEUES, Config, JobQueueConfig

__all__ = ["config_schema", "config_text", "sections", "toml_value", "unset_keys"]

_WIDTH = 110
_KINDS: dict[Any, str] = {int: "a number", float: "a number", list: "a list"}


def sections() -> dict[str, type[BaseModel]]:
    """The sections of a configuration, by name. Those of batch systems are alike, so one stands for all."""
    found: dict[str, type[BaseModel]] = {}
    for name, field in Config.model_fields.items():
        (section,) = [part for part in _parts(field.annotation) if _is_section(part)]
        found[name] = section
    return {**found, f"cluster.{JOB_QUEUES[0]}": JobQueueConfig}


def config_text() -> str:
    """Every key with its default, its values and its meaning. The text is TOML; only `data.features` is missing."""
    head = (
        "# Every key of a configuration, with its default. A key that starts with # has no default, or is not set.\n"
        "# A configuration needs data.features only; `pairloom init` writes one for your data."
    )
    return "\n\n".join([head, *("\n".join(_section(name, keys)) for name, keys in sections().items())]) + "\n"


def _section(name: str, section: type[BaseModel]) -> Iterator[str]:
    # Without its header, which turns it on, a section that is optional is a comment as a whole.
    optional = name == "growth" or "." in name
    yield f"{'# ' if optional else ''}[{name}]"
    about = " ".join((section.__doc__ or "").split("\n\n")[0].split())
    if name == f"cluster.{JOB_QUEUES[0]}":
        about += f" The sections {', '.join(f'[cluster.{queue}]' for queue in JOB_QUEUES[1:])} are alike."
    yield from _wrapped(about, "# ")
    yield from _section_lines(section, commented=optional)


def _section_lines(section: type[BaseModel], *, commented: bool = False) -> Iterator[str]:
    """The keys of a section: the meaning and the values, then a line with the default."""
    for key, field in _keys(section):
        yield ""
        yield from _wrapped(_meaning(field), "# ")
        line = _line(key, field)
        yield f"# {line}" if commented and not line.startswith("#") else line


def unset_keys(section: type[BaseModel], given: Container[str]) -> Iterator[str]:
    """The other keys of a section as comments, one line each: the default and the meaning."""
    others = {key: field for key, field in _keys(section) if key not in given}
    lines = [_line(key, field).removeprefix("# ") for key, field in others.items()]
    width = min(30, max(map(len, lines), default=0))
    for line, field in zip(lines, others.values(), strict=True):
        yield f"# {line:<{width}}  # {field.description}"


def _keys(section: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """The keys of a section that are no sections themselves."""
    for key, field in section.model_fields.items():
        if not any(_is_section(part) for part in _parts(field.annotation)):
            yield key, field


def _line(key: str, field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return f'# {key} = "..."  # must be set'
    if field.default is None:
        return f"# {key} ="
    return f"{key} = {toml_value(field.default)}"


def _meaning(field: FieldInfo) -> str:
    meaning = field.description or ""
    values = _values(field.annotation)
    sentence = f"{meaning[:1].upper()}{meaning[1:]}." if meaning else ""
    return f"{sentence} {values}".strip()


def _values(annotation: Any) -> str:
    """The words that a key takes, and what it takes besides."""
    parts = _parts(annotation)
    words = [word for part in parts if get_origin(part) is Literal for word in get_args(part)]
    besides = [_KINDS[kind] for part in parts if (kind := get_origin(part) or part) in _KINDS]
    if not words or len(words) + len(besides) < 2:
        return ""
    taken = [*map(toml_value, words), *dict.fromkeys(besides)]
    return f"One of {', '.join(taken[:-1])} or {taken[-1]}." if besides else f"One of {', '.join(taken)}."


def _parts(annotation: Any) -> list[Any]:
    """The types that a key may have, those of a union one by one."""
    if get_origin(annotation) is Annotated:
        return _parts(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [part for option in get_args(annotation) for part in _parts(option)]
    return [annotation]


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _wrapped(text: str, prefix: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False
    )


def toml_value(value: Any) -> str:
    """A value as TOML has it.

    Examples
    --------
    >>> toml_value("a"), toml_value(True), toml_value(["x", 1e-3]), toml_value({"a b": 1.0})
    ('"a"', 'true', '["x", 0.001]', '{ "a b" = 1.0 }')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # What JSON escapes, TOML escapes alike; DEL it does not.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        inner = ", ".join(f"{toml_value(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value)


def config_schema() -> dict[str, Any]:
    """The JSON Schema of a configuration, with the meaning of every key, for editors and other programs."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of a run of pairloom",
        **{key: value for key, value in Config.model_json_schema().items() if key != "title"},
    }
