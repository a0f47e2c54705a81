"""What a run is told: the sections of its TOML file, checked whole before anything is made."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pairloom.graphs import family_parameters
from pairloom.graphs.labels import did_you_mean
from pairloom.pipeline.calibration.coupled_calibration import CoupledLevel
from pairloom.pipeline.calibration.coupling_gradient import GRADIENTS
from pairloom.pipeline.growth.budget import GrowthBudget
from pairloom.pipeline.growth.wave import GrowthCost
from pairloom.pipeline.machines.folds import FitOn
from pairloom.pipeline.machines.settings import Calibration

__all__ = [
    "ClusterConfig",
    "Config",
    "ConfigError",
    "DataConfig",
    "GraphConfig",
    "GrowthConfig",
    "ModelConfig",
    "RunConfig",
    "SlurmConfig",
    "differing_keys",
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


Family = Literal[
    "star",
    "path",
    "tree",
    "spanning_tree",
    "star_of_least_distance",
    "bipartite",
    "complete",
    "hub_neighbours",
    "grown",
]
Coupling = Literal["stratified", "normal", "wlw2", "bradley_terry", "vote"]
Penalty = Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["scale"]


class GraphConfig(_Section):
    """Which pairs are trained. Parameters that are not given take the family's defaults; see `pairloom.graphs`."""

    family: Family = "hub_neighbours"
    centre: int | None = Field(None, ge=0, description="the class in the middle of a star")
    hubs: int | list[int] | None = Field(None, description="how many hubs, or which classes they are")
    neighbours: int | None = Field(None, ge=0, description="nearest classes that each class is joined to")
    parents: list[int] | None = Field(None, description="the parent of each class of a tree, -1 for the root")
    edges: int | None = Field(None, ge=1, description="how many pairs a star is grown to")
    cost: GrowthCost | None = Field(None, description="the order in which a star is grown")
    matrix: list[list[float]] | None = Field(None, description="confusion or d' of the pairs, for that cost")
    seed: int | None = Field(None, ge=0, description="of the cost uniform")

    @model_validator(mode="after")
    def _only_what_the_family_takes(self) -> Self:
        taken, given = family_parameters(self.family), self.parameters()
        for name in given.keys() - taken.keys():
            raise ValueError(f"{name} is not a parameter of the family {self.family!r}")
        for name in [name for name, required in taken.items() if required and name not in given]:
            raise ValueError(f"the family {self.family!r} needs {name}")
        return self

    def parameters(self) -> dict[str, Any]:
        """All that was given besides the family."""
        return {k: v for k, v in self.model_dump(exclude={"family"}).items() if v is not None}

    def requested(self) -> dict[str, Any]:
        """The graph in the form in which `PairwiseSVC` takes it."""
        return {"family": self.family, **self.parameters()}


class ModelConfig(_Section):
    """The model. Keys have the names, values and defaults of the parameters of `PairwiseSVC`."""

    coupling: Coupling = Field("stratified", description="how the pairs become probabilities")
    C: Penalty | list[Penalty] = Field(
        "scale", description="the penalty of an error; of a list the best is kept"
    )
    folds: int = Field(4, ge=2, description="folds per class")
    fit_on: FitOn = Field("rest", description="the fold scheme")
    calibration: Calibration = Field("platt", description="how a decision value becomes a logit")
    coupled_calibration: CoupledLevel = Field("scale", description="what is learned through the coupling")
    calibration_samples: int = Field(2000, ge=1, description="training samples for that, at most")
    whiten: float | Literal["auto", "none"] = Field(
        "auto", description="shrinkage of the pooled within-class covariance, 0 to 1"
    )
    thresholds: bool = Field(False, description="shift each pair's logit to its fewest errors")
    priors: list[float] | None = Field(None, description="share of each class where predictions are made")
    class_weight: dict[str, float] | Literal["balanced"] | None = Field(
        None, description="weight of the samples of each class, by its name"
    )
    tol: float = Field(1e-3, gt=0, lt=1, description="relative duality gap at which a machine is done")
    random_state: int = Field(0, ge=0, description="seeds folds and draws; a run must be repeatable")

    @field_validator("C")
    @classmethod
    def _some(cls, value: Any) -> Any:
        if value == []:
            raise ValueError("must hold at least one value")
        return value

    @field_validator("whiten")
    @classmethod
    def _share(cls, t: float | str) -> float | str:
        if not isinstance(t, str) and not 0 <= t <= 1:
            raise ValueError("must be from 0 to 1, 'auto' or 'none'")
        return t

    @model_validator(mode="after")
    def _has_a_gradient(self) -> Self:
        if self.coupled_calibration == "edges" and self.coupling not in GRADIENTS:
            known = ", ".join(GRADIENTS)
            raise ValueError(f'coupled_calibration = "edges" needs a coupling with a gradient: {known}')
        return self


class GrowthConfig(_Section):
    """How the graph grows, wave by wave, from the one that `graph` names. Keys are the arguments of `PairwiseSVC.grow`.

    Nothing here but `cost`, `coupling` and `wave` changes a result, only how far it goes: the others may be raised
    later.
    """

    cost: GrowthCost = Field("confusion", description="which pairs come first")
    coupling: Coupling | None = Field(
        None, description="the coupling that judges a wave; default: that of the model"
    )
    wave: int | None = Field(
        None, ge=1, description="pairs added at a time; default: a fifth more, at least one per class"
    )
    pairs: int | None = Field(None, ge=1, description="pairs in the end, those of the start included")
    share: float | None = Field(None, gt=0, le=1, description="the same as a share of all pairs")
    seconds: float | None = Field(None, gt=0, description="of growing, counted anew when a run is resumed")
    plateau: float | Literal["never"] = Field(
        0.01, description="stop when two waves in a row improve the log loss by less than this share"
    )

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
GROWING_FAMILIES = ("star", "star_of_least_distance", "bipartite", "hub_neighbours", "complete", "grown")


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

    name: str = Field("run", pattern=r"^[\w][\w.-]*$", description="names the run directory")
    also_couple: list[Coupling] = Field(
        [], description="further couplings, beside model.coupling, to report and to predict by"
    )
    tensor: Literal["auto", "stored", "virtual"] = Field(
        "auto", description="whether the N x N x R tensor is kept; auto: while it is below 2 GiB"
    )
    edges_per_tile: int | None = Field(None, ge=1, description="default: half a second of work")
    samples_per_slab: int | None = Field(None, ge=1, description="default: 16 MiB of the tensor")
    memory_limit: str = Field("2GiB", pattern=r"^\d+(\.\d+)?\s?[KMGT]i?B$", description="of one worker")

    @field_validator("also_couple")
    @classmethod
    def _different(cls, couplings: list[Coupling]) -> list[Coupling]:
        if len(set(couplings)) != len(couplings):
            raise ValueError("must not name a coupling twice")
        return couplings


class Config(_Section):
    """A whole configuration."""

    data: DataConfig
    graph: GraphConfig = GraphConfig()
    model: ModelConfig = ModelConfig()
    growth: GrowthConfig | None = None
    cluster: ClusterConfig = ClusterConfig()
    run: RunConfig = RunConfig()

    @property
    def couplings(self) -> tuple[Coupling, ...]:
        """The model's coupling, and the others that were asked for."""
        own = self.model.coupling
        return (own, *(coupling for coupling in self.run.also_couple if coupling != own))

    @model_validator(mode="after")
    def _every_coupling_can_be_calibrated(self) -> Self:
        missing = [coupling for coupling in self.couplings if coupling not in GRADIENTS]
        if self.model.coupled_calibration == "edges" and missing:
            raise ValueError(
                f'run.also_couple must be couplings with a gradient where model.coupled_calibration = "edges",'
                f" got {missing[0]!r}"
            )
        return self

    @model_validator(mode="after")
    def _growth_has_a_start(self) -> Self:
        if self.growth is None:
            return self
        if self.graph.family not in GROWING_FAMILIES:
            known = ", ".join(GROWING_FAMILIES)
            raise ValueError(f"graph.family must be one of {known} to grow from, got {self.graph.family!r}")
        if self.model.coupled_calibration == "edges":
            raise ValueError(
                'model.coupled_calibration must be "scale" or "none" with [growth]: edges would have slopes of '
                "their own"
            )
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
    raise ConfigError(
        f"no such file or named configuration: {source}.{did_you_mean(str(source), known)} Known: {', '.join(known)}."
    )


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
        return f"{key}: unknown key.{_nearest(location[-1], _keys_beside(location))}"
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
    known = list(known)
    return did_you_mean(word, known) or f" Known: {', '.join(known)}."


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
