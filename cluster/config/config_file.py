"""The file of a configuration: read, overridden by ``--set``, and validated."""

from __future__ import annotations

import copy
import datetime
import os
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pairloom.cluster.config.config_problems import problems_of
from pairloom.cluster.connect.job_queue import unknown_arguments
from pairloom.graphs.text import did_you_mean
from pairloom.pipeline.config.cluster_config import JOB_QUEUES
from pairloom.pipeline.config.config import Config, ConfigError
from pairloom.pipeline.features.embedded_sets import EMBEDDED
from pairloom.pipeline.features.source_files import DATA_FOLDER
from pairloom.pipeline.storage.location import check_local, looks_like_url

__all__ = [
    "configured",
    "load_config",
    "named_configs",
    "with_absolute_paths",
    "with_cluster",
    "with_overrides",
    "with_section",
]


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
    return _validated(_tables_of(path), overrides, str(path))


def configured(
    source: str | Path | Mapping[str, Any] | Config, overrides: Mapping[str, Any] | None = None
) -> Config:
    """A validated configuration from Python.

    Parameters
    ----------
    source : str, Path, mapping or Config
        Name of a configuration that ships with the package, path of a TOML file, or its tables.
    overrides : mapping, default=None
        Values by dotted key, such as ``{"graph.hubs": 5}``.

    Raises
    ------
    ConfigError
        If anything is invalid.

    Examples
    --------
    >>> configured({"data": {"features": "digits"}}, {"graph.hubs": 5}).graph.hubs
    5
    """
    if isinstance(source, Config):
        tables, name = source.model_dump(mode="json"), "config"
    elif isinstance(source, Mapping):
        tables, name = copy.deepcopy(dict(source)), "config"
    elif isinstance(source, str | Path):
        path = _config_file(source)
        tables, name = _tables_of(path), str(path)
    else:
        raise ConfigError(
            f"config must be a name, a path, a mapping or a Config, got {type(source).__name__}."
        )
    for key, value in (overrides or {}).items():
        _set(tables, str(key), copy.deepcopy(value), f"overrides must have keys SECTION.KEY, got {key!r}")
    return _validated(tables, (), name)


def _tables_of(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. The run is named after the file, unless the file sets its name.

    Paths are relative to the folder of the file. Paths in a configuration that ships with the package are relative to
    the working directory, since users do not know its folder.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or nested too deeply
        raise ConfigError(f"{path}: not TOML: {error}.") from error
    if isinstance(tables.setdefault("run", {}), dict):  # otherwise the validation reports it
        tables["run"].setdefault("name", path.stem)
    return tables if path in named_configs().values() else with_absolute_paths(tables, path.parent.absolute())


def with_overrides(config: Config, overrides: Iterable[str]) -> Config:
    """A copy of a configuration with some keys set, in the syntax of ``--set``."""
    return _validated(config.model_dump(mode="json"), overrides, "configuration of the run")


def with_section(config: Config, section: str, values: Mapping[str, Any]) -> Config:
    """A copy of a configuration with some keys of one section replaced."""
    tables = config.model_dump(mode="json")
    tables[section] |= values
    return _validated(tables, (), f"[{section}]")


def with_cluster(config: Config, values: Mapping[str, Any]) -> Config:
    """A copy of a configuration with another cluster, given by ``values``."""
    others = dict.fromkeys(("scheduler", "scheduler_file", *JOB_QUEUES))
    return with_section(config, "cluster", {**others, **values})


def _validated(tables: dict[str, Any], overrides: Iterable[str], source: str) -> Config:
    for override in overrides:
        key, equals, text = override.partition("=")
        requirement = f"--set must be SECTION.KEY=VALUE, got {override!r}"
        _set(tables, key if equals else "", _toml_value(text.strip()), requirement)
    tables = with_absolute_paths(tables, Path.cwd())
    unknown = _unknown_job_arguments(tables)
    try:
        config = Config.model_validate(tables)
    except ValidationError as error:
        details = [dict(detail) for detail in error.errors()]
        raise _invalid(source, [*problems_of(details, tables), *unknown]) from error
    if unknown:
        raise _invalid(source, unknown)
    return config


def _invalid(source: str, problems: list[str]) -> ConfigError:
    listed = "\n".join(f"  {line}" for line in problems)
    return ConfigError(f"{source}:\n{listed}")


def _unknown_job_arguments(tables: dict[str, Any]) -> list[str]:
    """Problems with the sections of batch systems. Workers, which may lack dask-jobqueue, skip this check."""
    cluster = tables.get("cluster")
    sections = {kind: cluster.get(kind) for kind in JOB_QUEUES} if isinstance(cluster, dict) else {}
    return [
        line
        for kind, section in sections.items()
        if isinstance(section, dict)
        for line in unknown_arguments(kind, section)
    ]


def _config_file(source: str | Path) -> Path:
    check_local("CONFIG", source)
    path, known = Path(source), named_configs()
    if path.is_file():
        return path
    if str(source) in known:
        return known[str(source)]
    raise ConfigError(
        f"CONFIG must be a TOML file or the name of a configuration, got {source}."
        f"{did_you_mean(str(source), known)} Names: {', '.join(known)}."
    )


def _set(tables: dict[str, Any], key: str, value: Any, requirement: str) -> None:
    """Set a dotted key. ``requirement`` is the message if the key is not valid."""
    section, dot, name = key.strip().rpartition(".")
    if not (dot and section and name):
        raise ConfigError(f"{requirement}.")
    table = tables
    for part in section.split("."):
        if table.get(part) is None:  # a missing section is stored as null
            table[part] = {}
        table = table[part]
        if not isinstance(table, dict):
            raise ConfigError(f"{requirement}: {part} is a key, not a section.")
    table[name] = value


def _toml_value(text: str) -> Any:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
    return (
        text if isinstance(value, datetime.time) else value
    )  # a wall time such as 01:00:00, which TOML reads as a time of day


_PATHS = (
    ("data", "features"),
    ("data", "test"),
    ("cluster", "scheduler_file"),
    ("cluster", "tls_ca_file"),
    ("cluster", "tls_cert"),
    ("cluster", "tls_key"),
)


def with_absolute_paths(tables: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The tables of a configuration in which paths relative to a folder are made absolute.

    Values that are not paths, or have the wrong type, are left to the validation.

    Examples
    --------
    >>> with_absolute_paths({"data": {"features": "x.npz", "test": "/there/y.npz"}}, Path("/here"))
    {'data': {'features': '/here/x.npz', 'test': '/there/y.npz'}}
    >>> with_absolute_paths({"data": {"features": "digits"}}, Path("/here"))
    {'data': {'features': 'digits'}}
    """
    absolute = dict(tables)
    for section, key in _PATHS:
        table = absolute.get(section)
        if isinstance(table, dict) and _is_relative(table.get(key)):
            # Normalised, because the settings of two runs are compared as text.
            absolute[section] = table | {key: os.path.normpath(folder.resolve() / table[key])}
    return absolute


def _is_relative(source: Any) -> bool:
    """Whether a value is a path that depends on the working directory."""
    return (
        isinstance(source, str)
        and source != ""
        and source not in EMBEDDED
        and not source.startswith("~")
        and f"${DATA_FOLDER}" not in source
        and not looks_like_url(source)
        and not Path(source).is_absolute()
    )
