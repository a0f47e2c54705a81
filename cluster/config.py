"""What a run is told: the sections of its TOML file, checked whole before anything is made."""

from __future__ import annotations

import difflib
import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pairloom.pipeline.growth.budget import GrowthBudget
from pairloom.pipeline.growth.wave import GrowthCost

__all__ = [
    "CalibrationConfig",
    "ClusterConfig",
    "Config",
    "ConfigError",
    "CouplingConfig",
    "DataConfig",
    "GraphConfig",
    "GrowthConfig",
    "MachineConfig",
    "RunConfig",
    "SlurmConfig",
    "differing_keys",
    "digest_of",
    "load_config",
    "named_configs",
    "with_overrides",
    "with_section",
]


class ConfigError(ValueError):
    """A configuration that cannot be run. Its message lists everything that is wrong with it."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class DataConfig(_Section):
    """Where the features come from."""

    features: str = Field(min_length=1, description="file.npz, file.zarr, folder of .npy, or an embedded set")
    test: str | None = Field(None, description="other test samples than those of `features`")
    test_fraction: float = Field(0.25, gt=0, lt=1, description="test share, where the data are one pool X, y")


class GraphConfig(_Section):
    """Which pairs are trained. Parameters that are not given take the family's defaults."""

    family: Literal["star", "path", "spanning_tree", "bipartite", "complete", "hub_neighbours"] = "complete"
    centre: int | None = Field(None, ge=0)
    hubs: int | None = Field(None, ge=1)
    neighbours: int | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _only_what_the_family_takes(self) -> Self:
        taken = {"star": {"centre"}, "bipartite": {"hubs"}, "hub_neighbours": {"hubs", "neighbours"}}
        for name in self.parameters().keys() - taken.get(self.family, set()):
            raise ValueError(f"{name} is not a parameter of the family {self.family!r}")
        if self.family == "bipartite" and self.hubs is None:
            raise ValueError("the family 'bipartite' needs hubs, the number of classes joined to all others")
        return self

    def parameters(self) -> dict[str, int]:
        """What was given besides the family."""
        return {k: v for k, v in self.model_dump(exclude={"family"}).items() if v is not None}


class MachineConfig(_Section):
    """The machine of one pair."""

    C: float | Literal["scale"] = "scale"
    folds: int = Field(4, ge=2)
    fit_on: Literal["rest", "fold"] = "rest"
    calibration: Literal["average", "crossval"] = "average"
    thresholds: bool = False
    tol: float = Field(1e-3, gt=0, lt=1)
    # shrinkage of the pooled within-class covariance, 0 to 1
    whiten: float | Literal["none"] = 0.8

    @field_validator("C")
    @classmethod
    def _positive(cls, C: float | str) -> float | str:
        if not isinstance(C, str) and C <= 0:
            raise ValueError("must be positive, or 'scale'")
        return C

    @field_validator("whiten")
    @classmethod
    def _share(cls, t: float | str) -> float | str:
        if not isinstance(t, str) and not 0 <= t <= 1:
            raise ValueError("must be from 0 to 1, or 'none'")
        return t


Method = Literal["normal", "wlw2", "stratified", "bradley_terry", "vote"]


class CouplingConfig(_Section):
    """How the pairs become probabilities."""

    # the first is the one that `predict` uses
    methods: list[Method] = Field(["stratified", "normal", "wlw2", "bradley_terry", "vote"], min_length=1)
    tensor: Literal["auto", "stored", "virtual"] = "auto"

    @field_validator("methods")
    @classmethod
    def _different(cls, methods: list[Method]) -> list[Method]:
        if len(set(methods)) != len(methods):
            raise ValueError("must not name a method twice")
        return methods


class CalibrationConfig(_Section):
    """How the coupled model is scaled."""

    level: Literal["scale", "none"] = "scale"
    samples: int = Field(2000, ge=1, description="training samples whose out-of-fold logits choose the scale")


class GrowthConfig(_Section):
    """How the graph grows, wave by wave, from the one that `graph` names. Whatever is reached first ends it.

    Nothing here but `cost`, `method` and `wave` changes a result, only how far it goes: the others may be raised later.
    """

    cost: GrowthCost = "confusion"
    method: Method | None = Field(
        None, description="what judges a wave; default: the first of coupling.methods"
    )
    wave: int | None = Field(
        None, ge=1, description="pairs added at a time; default: a fifth more, at least one for each class"
    )
    pairs: int | None = Field(None, ge=1, description="pairs in the end, those of the start among them")
    share: float | None = Field(None, gt=0, le=1, description="the same as a share of all pairs")
    seconds: float | None = Field(None, gt=0, description="of growing, counted anew when a run is resumed")
    # two waves in a row that lessen the out-of-fold log loss by less than this share of it end the growth
    plateau: float | Literal["never"] = 0.01

    @field_validator("plateau")
    @classmethod
    def _share(cls, plateau: float | str) -> float | str:
        if not isinstance(plateau, str) and not 0 <= plateau < 1:
            raise ValueError("must be from 0 to below 1, or 'never'")
        return plateau

    @property
    def budget(self) -> GrowthBudget:
        """How far it may go."""
        return GrowthBudget(**self.model_dump(include={"pairs", "share", "seconds", "plateau"}))


#: Families in which all classes have a common neighbour, so that every missing pair can be completed.
GROWING_FAMILIES = ("star", "bipartite", "hub_neighbours", "complete")


class SlurmConfig(_Section):
    """Jobs that a SLURM scheduler starts, in the words of ``dask_jobqueue.SLURMCluster``."""

    queue: str | None = None
    account: str | None = None
    cores: int = Field(1, ge=1)
    processes: int = Field(1, ge=1)
    memory: str = Field("4GiB", pattern=r"^\d+(\.\d+)?\s?[KMGT]i?B$")
    walltime: str = Field("01:00:00", pattern=r"^(\d+-)?\d{1,2}:\d{2}:\d{2}$")
    jobs: int = Field(1, ge=1)
    interface: str | None = None
    job_extra_directives: list[str] = []
    job_script_prologue: list[str] = []

    @model_validator(mode="after")
    def _a_core_for_every_process(self) -> Self:
        if self.processes > self.cores:
            raise ValueError(f"processes must be at most cores ({self.cores}), got {self.processes}")
        return self


class ClusterConfig(_Section):
    """Where the tasks run: nothing here changes a result."""

    kind: Literal["processes", "threads", "scheduler", "slurm"] = "processes"
    workers: int | None = Field(None, ge=1, description="default: one for each processor")
    scheduler: str | None = Field(None, pattern=r"^(tcp|tls)://\S+:\d+$")
    scheduler_file: str | None = None
    tls_ca_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    insecure: bool = Field(False, description="allow a scheduler that is neither on loopback nor behind TLS")
    retries: int = Field(10, ge=0, description="how often a task may lose its worker before the run gives up")
    slurm: SlurmConfig | None = None

    @model_validator(mode="after")
    def _one_way_to_the_cluster(self) -> Self:
        if self.scheduler and self.scheduler_file:
            raise ValueError("scheduler and scheduler_file exclude each other")
        if (self.kind == "scheduler") != bool(self.scheduler or self.scheduler_file):
            raise ValueError('kind = "scheduler" and scheduler or scheduler_file go together')
        if (self.kind == "slurm") != (self.slurm is not None):
            raise ValueError('kind = "slurm" and the section [cluster.slurm] go together')
        if len({bool(part) for part in (self.tls_ca_file, self.tls_cert, self.tls_key)}) > 1:
            raise ValueError("tls_ca_file, tls_cert and tls_key must be given together")
        return self


class RunConfig(_Section):
    """The run itself."""

    name: str = Field("run", pattern=r"^[\w][\w.-]*$")
    seed: int = Field(0, ge=0)
    edges_per_tile: int | None = Field(None, ge=1)
    samples_per_slab: int | None = Field(None, ge=1)
    memory_limit: str = Field("2GiB", pattern=r"^\d+(\.\d+)?\s?[KMGT]i?B$", description="of one worker")


class Config(_Section):
    """A whole configuration."""

    data: DataConfig
    graph: GraphConfig = GraphConfig()
    machine: MachineConfig = MachineConfig()
    coupling: CouplingConfig = CouplingConfig()
    calibration: CalibrationConfig = CalibrationConfig()
    growth: GrowthConfig | None = None
    cluster: ClusterConfig = ClusterConfig()
    run: RunConfig = RunConfig()

    @model_validator(mode="after")
    def _growth_has_a_start_and_judges(self) -> Self:
        if self.growth is None:
            return self
        if self.graph.family not in GROWING_FAMILIES:
            known = ", ".join(GROWING_FAMILIES)
            raise ValueError(f"graph.family must be one of {known} to grow from, got {self.graph.family!r}")
        if self.calibration.level == "none":
            raise ValueError('calibration.level must be "scale" with [growth]: drawn samples judge the waves')
        return self

    def result_settings(self) -> dict[str, Any]:
        """The part that decides the result: not where it is computed, how far it has grown, or what it is called.

        The data are recognised by their fingerprint, so the path of their file is left out too.
        """
        return self.model_dump(
            mode="json",
            exclude={
                "cluster": True,
                "data": {"features", "test"},
                "growth": {"pairs", "share", "seconds", "plateau"},
                "run": {"name", "memory_limit"},
            },
        )


def named_configs() -> dict[str, Path]:
    """The configurations that come with the package, by name."""
    folder = Path(str(resources.files("pairloom.configs")))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_config(source: str | Path, overrides: Iterable[str] = ()) -> Config:
    """Read a configuration and check all of it.

    Parameters
    ----------
    source : str or Path
        The name of a configuration that comes with the package, or the path of a TOML file.
    overrides : iterable of str
        ``"graph.hubs=5"`` and the like, as ``--set`` takes them. The value is TOML, or else a plain string.

    Raises
    ------
    ConfigError
        With one line for everything that is wrong: the file, the key, what it must be and what it was.
    """
    path = _config_file(source)
    try:
        tables = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    tables.setdefault("run", {}).setdefault("name", path.stem)
    return _validated(tables, overrides, str(path))


def with_overrides(config: Config, overrides: Iterable[str]) -> Config:
    """Another configuration, with some keys set as ``--set`` sets them."""
    return _validated(config.model_dump(mode="json"), overrides, "configuration of the run")


def with_section(config: Config, section: str, values: Mapping[str, Any]) -> Config:
    """Another configuration, with some keys of one section replaced."""
    tables = config.model_dump(mode="json")
    tables[section] |= values
    return _validated(tables, (), f"[{section}]")


def _validated(tables: dict[str, Any], overrides: Iterable[str], source: str) -> Config:
    for override in overrides:
        _set(tables, override)
    try:
        return Config.model_validate(tables)
    except ValidationError as error:
        problems = "\n".join(f"  {line}" for line in _problems([dict(detail) for detail in error.errors()]))
        raise ConfigError(f"{source}:\n{problems}") from error


def _config_file(source: str | Path) -> Path:
    path, known = Path(source), named_configs()
    if path.is_file():
        return path
    if str(source) in known:
        return known[str(source)]
    nearest = _nearest(str(source), known)
    raise ConfigError(f"no such file or named configuration: {source}{nearest}; there are {', '.join(known)}")


def _set(tables: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    section, dot, name = key.strip().rpartition(".")
    if not (equals and dot and section and name):
        raise ConfigError(f"--set must be SECTION.KEY=VALUE, got {override!r}")
    table = tables
    for part in section.split("."):
        if table.get(part) is None:  # a section that is left out is written as null
            table[part] = {}
        table = table[part]
        if not isinstance(table, dict):
            raise ConfigError(f"--set must name a key of a section, got {override!r}: {part} is a key itself")
    table[name] = _toml_value(text.strip())


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _problems(details: list[dict[str, Any]]) -> list[str]:
    """A line for each key. Where a value may be a word or a number, pydantic complains of both one after the other."""
    lines: dict[tuple[str, ...], str] = {}
    for detail in details:
        key = tuple(str(part) for part in detail["loc"] if not _is_union_branch(part))
        lines[key] = _problem(detail, " or a number" if key in lines else "")
    return list(lines.values())


def _problem(detail: dict[str, Any], otherwise: str = "") -> str:
    location = [str(part) for part in detail["loc"] if not _is_union_branch(part)]
    key = ".".join(location) or "configuration"
    if detail["type"] == "extra_forbidden":
        return f"{key}: unknown key{_nearest(location[-1], _keys_beside(location))}"
    if detail["type"] == "missing":
        return f"{key}: missing, and there is no default"
    # A section's own check speaks of several keys: pydantic then gives the whole section as the input.
    got = "" if isinstance(detail["input"], dict) else f", got {detail['input']!r}"
    return f"{key}: {detail['msg'].removeprefix('Value error, ')}{otherwise}{got}"


def _is_union_branch(part: str | int) -> bool:
    """Whether a part of pydantic's location names the type that was tried and not a key of the file."""
    return isinstance(part, str) and (part in {"float", "str", "int"} or part.startswith("literal["))


def _keys_beside(location: list[str]) -> list[str]:
    model: Any = Config
    for part in location[:-1]:
        annotation = model.model_fields[part].annotation
        options = getattr(annotation, "__args__", (annotation,))
        model = next(o for o in options if isinstance(o, type) and issubclass(o, BaseModel))
    return list(model.model_fields)


def _nearest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else f" (known: {', '.join(known)})"


def digest_of(value: Any) -> str:
    """Digest of a JSON value, the same for equal values whatever the order of their keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def differing_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line for each key whose values differ: ``"graph.hubs: was 5, is 7"``."""
    before, after = dict(_flattened(old)), dict(_flattened(new))
    return [
        f"{key}: was {before.get(key)!r}, is {after.get(key)!r}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def _flattened(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
