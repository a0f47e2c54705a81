"""The file of a configuration: read, overridden by ``--set``, and validated."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pairloom.cluster.config import Config, ConfigError
from pairloom.cluster.config_problems import problems_of
from pairloom.graphs.labels import did_you_mean

__all__ = ["load_config", "named_configs", "with_overrides", "with_section"]


def named_configs() -> dict[str, Path]:
    """The configurations that ship with the package, by name."""
    folder = Path(str(resources.files("pairloom.configs")))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_config(source: str | Path, overrides: Iterable[str] = ()) -> Config:
    """Read and validate a configuration.

    Parameters
    ----------
    source : str or Path
        Name of a configuration that ships with the package, or path of a TOML file.
    overrides : iterable of str
        Arguments of ``--set``, such as ``"graph.hubs=5"``. A value that is not TOML is a plain string.

    Raises
    ------
    ConfigError
        If anything is invalid. The message has one line per problem: the key, what it must be, what it was.
    """
    path = _config_file(source)
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or an endless number
        raise ConfigError(f"{path}: not TOML: {error}.") from error
    if isinstance(tables.setdefault("run", {}), dict):  # else the validation says what it must be
        tables["run"].setdefault("name", path.stem)
    return _validated(tables, overrides, str(path))


def with_overrides(config: Config, overrides: Iterable[str]) -> Config:
    """A copy of a configuration with some keys set, in the syntax of ``--set``."""
    return _validated(config.model_dump(mode="json"), overrides, "configuration of the run")


def with_section(config: Config, section: str, values: Mapping[str, Any]) -> Config:
    """A copy of a configuration with some keys of one section replaced."""
    tables = config.model_dump(mode="json")
    tables[section] |= values
    return _validated(tables, (), f"[{section}]")


def _validated(tables: dict[str, Any], overrides: Iterable[str], source: str) -> Config:
    for override in overrides:
        _set(tables, override)
    try:
        return Config.model_validate(tables)
    except ValidationError as error:
        details = [dict(detail) for detail in error.errors()]
        problems = "\n".join(f"  {line}" for line in problems_of(details, tables))
        raise ConfigError(f"{source}:\n{problems}") from error


def _config_file(source: str | Path) -> Path:
    path, known = Path(source), named_configs()
    if path.is_file():
        return path
    if str(source) in known:
        return known[str(source)]
    raise ConfigError(
        f"CONFIG must be a TOML file or the name of a configuration, got {source}."
        f"{did_you_mean(str(source), known)} Names: {', '.join(known)}."
    )


def _set(tables: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    section, dot, name = key.strip().rpartition(".")
    if not (equals and dot and section and name):
        raise ConfigError(f"--set must be SECTION.KEY=VALUE, got {override!r}.")
    table = tables
    for part in section.split("."):
        if table.get(part) is None:  # a missing section is stored as null
            table[part] = {}
        table = table[part]
        if not isinstance(table, dict):
            raise ConfigError(
                f"--set must be SECTION.KEY=VALUE, got {override!r}: {part} is a key, not a section."
            )
    table[name] = _toml_value(text.strip())


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
