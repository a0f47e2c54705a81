"""Every key of a configuration with its default, values and meaning: as TOML text, JSON Schema, and table rows.

Everything is read from pydantic's JSON Schema of `Config`, where each key is defined once.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple

from pairloom.pipeline.config.cluster_config import JOB_QUEUES
from pairloom.pipeline.config.config import Config
from pairloom.pipeline.config.sections import PATTERNS

__all__ = [
    "ConfigKey",
    "ConfigSection",
    "config_schema",
    "config_text",
    "sections",
    "toml_value",
    "unset_keys",
]

_WIDTH = 110
_TYPES = {"string": "a string", "integer": "a whole number", "number": "a number", "boolean": "true or false"}
_PLURALS = {"string": "strings", "integer": "whole numbers", "number": "numbers"}
_BOUNDS = {
    "exclusiveMinimum": "above",
    "minimum": "at least",
    "exclusiveMaximum": "below",
    "maximum": "at most",
}


class ConfigKey(NamedTuple):
    """A key of a section."""

    name: str
    schema: Mapping[str, Any]
    must_be_set: bool

    @property
    def meaning(self) -> str:
        """The meaning of the key, as a phrase without a full stop."""
        return str(self.schema.get("description", ""))

    @property
    def values(self) -> str:
        """The allowed values, such as ``"auto", "scale" or a number above 0``."""
        return _values(self.schema)

    @property
    def default(self) -> Any:
        """Its default; None if there is none."""
        return self.schema.get("default")

    @property
    def line(self) -> str:
        """The line of a TOML file that sets the key to its default; a comment if it has none."""
        if self.must_be_set:
            return f'# {self.name} = "..."  # must be set'
        return f"# {self.name} =" if self.default is None else f"{self.name} = {toml_value(self.default)}"


class ConfigSection(NamedTuple):
    """A section: its name, such as ``cluster.slurm``, its description, and its keys, without nested sections."""

    name: str
    about: str
    keys: tuple[ConfigKey, ...]
    optional: bool


def config_schema() -> dict[str, Any]:
    """The JSON Schema of a configuration, with the meaning of every key, for editors and other programs."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of a run of pairloom",
        **{key: value for key, value in Config.model_json_schema().items() if key != "title"},
    }


def sections() -> dict[str, ConfigSection]:
    """The sections of a configuration, by name. Those of batch systems are alike, so only the first is listed."""
    schema = Config.model_json_schema()
    return {section.name: section for section in _sections(schema["properties"], schema["$defs"], "")}


def _sections(
    properties: Mapping[str, Any], known: Mapping[str, Any], parent: str
) -> Iterator[ConfigSection]:
    for name, field in properties.items():
        reference = _reference(field)
        if reference is None or name in JOB_QUEUES[1:]:
            continue
        section = known[reference]
        keys = tuple(
            ConfigKey(key, inner, key in section.get("required", ()))
            for key, inner in section["properties"].items()
            if _reference(inner) is None
        )
        about = section.get("description", "")
        if name in JOB_QUEUES:
            others = ", ".join(f"`[{parent}{queue}]`" for queue in JOB_QUEUES[1:])
            about += f"\n\nThe sections {others} are alike."
        # Writing the header of a section that may be null turns it on.
        yield ConfigSection(f"{parent}{name}", about, keys, optional="anyOf" in field)
        yield from _sections(section["properties"], known, f"{parent}{name}.")


def _reference(schema: Mapping[str, Any]) -> str | None:
    """The name of the section to which a property refers, if it is one, whether or not it may be null."""
    options = [schema, *schema.get("anyOf", ())]
    return next((option["$ref"].rpartition("/")[2] for option in options if "$ref" in option), None)


def _values(schema: Mapping[str, Any]) -> str:
    """The values that a schema accepts, in words."""
    if "anyOf" in schema:
        options = [_values(option) for option in schema["anyOf"] if option.get("type") != "null"]
        options.sort(key=lambda option: not option.startswith('"'))  # words first
        return " or ".join([", ".join(options[:-1]), options[-1]] if len(options) > 1 else options)
    if "enum" in schema or "const" in schema:
        return ", ".join(map(json.dumps, schema.get("enum", [schema.get("const")])))
    if "pattern" in schema:
        return PATTERNS[schema["pattern"]]
    if schema["type"] in ("array", "object"):
        return _collection(schema)
    if {"minimum", "maximum"} <= schema.keys():
        return f"{_TYPES[schema['type']]} from {schema['minimum']:g} to {schema['maximum']:.10g}"
    bounds = " and ".join(f"{word} {schema[bound]}" for bound, word in _BOUNDS.items() if bound in schema)
    return f"{_TYPES[schema['type']]} {bounds}".rstrip()


def _collection(schema: Mapping[str, Any]) -> str:
    if schema["type"] == "object":
        return f"a table of {_plural(schema['additionalProperties'])} by name"
    return f"a list of {_plural(schema['items'])}"


def _plural(schema: Mapping[str, Any]) -> str:
    """The elements of a list or a table: ``whole numbers``."""
    if schema.get("type") == "array":
        return f"lists of {_plural(schema['items'])}"
    is_plain = schema.get("type") in _PLURALS and "enum" not in schema
    return _PLURALS[schema["type"]] if is_plain else f"values, each {_values(schema)}"


def config_text() -> str:
    """Every key with its default, its values and its meaning. The text is TOML; only `data.features` is missing."""
    head = (
        "# Every key of a configuration, with its default. A key that starts with # has no default, or is not set.\n"
        "# A configuration needs data.features only; `pairloom init` writes one for your data."
    )
    return (
        "\n\n".join([head, *("\n".join(_section_lines(section)) for section in sections().values())]) + "\n"
    )


def _section_lines(section: ConfigSection) -> Iterator[str]:
    """The header, then each key: its meaning and values, and a line with its default."""
    yield f"{'# ' if section.optional else ''}[{section.name}]"
    yield from _comment(section.about)
    for key in section.keys:
        yield ""
        # Only choices are listed; otherwise the default and the meaning show the type.
        choice = f" One of {key.values}." if key.values.startswith('"') else ""
        yield from _comment(f"{key.meaning[:1].upper()}{key.meaning[1:]}.{choice}")
        yield f"# {key.line}" if section.optional and not key.line.startswith("#") else key.line


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def unset_keys(section: str, given: Container[str]) -> Iterator[str]:
    """The other keys of a section as comments, one line each: the default and the meaning."""
    others = [key for key in sections()[section].keys if key.name not in given]
    lines = [key.line.removeprefix("# ") for key in others]
    width = min(30, max(map(len, lines), default=0))
    for line, key in zip(lines, others, strict=True):
        yield f"# {line:<{width}}  # {key.meaning}"


def toml_value(value: Any) -> str:
    """A value in TOML syntax.

    Examples
    --------
    >>> toml_value("a"), toml_value(True), toml_value(["x", 1e-3]), toml_value({"a b": 1.0})
    ('"a"', 'true', '["x", 0.001]', '{ "a b" = 1.0 }')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # TOML escapes like JSON, and DEL too.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        inner = ", ".join(f"{toml_value(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value)
