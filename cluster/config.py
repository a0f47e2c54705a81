"""The configuration of a run: the sections of its TOML file, all checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from dask.utils import format_bytes, parse_bytes
from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from pairloom.cluster.local_path import looks_like_url
from pairloom.cluster.worker_memory import least_worker_bytes
from pairloom.graphs import CODE_FAMILIES, family_parameters
from pairloom.pipeline.calibration.code_gradient import CODE_GRADIENTS
from pairloom.pipeline.calibration.coupled_calibration import CoupledLevel
from pairloom.pipeline.calibration.coupling_gradient import GRADIENTS
from pairloom.pipeline.coupling.model_coupling import MachineWeight, check_weighted, model_coupling
from pairloom.pipeline.features.table_rows import Missing, TableColumns
from pairloom.pipeline.growth.budget import GrowthBudget
from pairloom.pipeline.growth.wave import GrowthCost
from pairloom.pipeline.machines.folds import FitOn
from pairloom.pipeline.machines.kernel_function import HIGHEST_DEGREE, KernelFunction
from pairloom.pipeline.model.learning import Learn, check_learnable
from pairloom.pipeline.model.number_checks import MOST

__all__ = [
    "JOB_QUEUES",
    "PATTERNS",
    "ClusterConfig",
    "Config",
    "ConfigError",
    "DataConfig",
    "GraphConfig",
    "GrowthConfig",
    "JobQueueConfig",
    "ModelConfig",
    "RunConfig",
    "differing_keys",
    "flattened",
]

_SIZE = r"^\d{1,12}(\.\d{1,12})?\s?[KMGT]i?B$"
_WALLTIME = r"^(\d+-)?\d{1,2}:\d{2}:\d{2}$"
_ADDRESS = r"^(tcp|tls)://\S+:\d+$"
_NAME = r"^[\w][\w.-]*$"
# The same for people.
PATTERNS = {
    _SIZE: "a size such as '2GiB'",
    _WALLTIME: "a time such as '01:00:00'",
    _ADDRESS: "an address such as 'tcp://127.0.0.1:8786'",
    _NAME: "a name of letters, digits, '_', '.' and '-'",
}


class ConfigError(ValueError):
    """An invalid configuration. The message lists all problems, one line each."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class DataConfig(_Section):
    """Where the features come from."""

    features: str = Field(
        min_length=1,
        description=".npz file, zarr group, folder of .npy files, table (.csv, .tsv, .parquet), or an embedded set",
    )
    label: str | None = Field(None, min_length=1, description="column of a table that holds the classes")
    leave_out: list[str] = Field([], description="columns of a table that are no features")
    missing: Missing = Field(
        "refuse", description="what to do about missing values of a table: refuse it, or leave out their rows"
    )
    test: str | None = Field(None, description="source of test samples that replace those of `features`")
    test_fraction: float = Field(
        0.25, gt=0, lt=1, description="share of test samples, if the data are one pool X, y"
    )

    @field_validator("features", "test")
    @classmethod
    def _local(cls, source: str | None) -> str | None:
        if source is not None and looks_like_url(source):
            raise ValueError("must be a path, not a URL (mount the storage, or copy the files)")
        return source

    @property
    def columns(self) -> TableColumns:
        """How the columns of a table are used."""
        return TableColumns(self.label, tuple(self.leave_out), self.missing)


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
    "one_vs_rest",
    "one_vs_one",
    "dense",
    "sparse",
    "code",
]
PairCoupling = Literal["stratified", "normal", "wlw2", "bradley_terry", "vote"]
Coupling = Literal[
    "stratified", "normal", "wlw2", "bradley_terry", "vote", "linear", "zadrozny", "closed_form"
]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Penalty = Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["auto", "scale"]


class GraphConfig(_Section):
    """Which pairs, or sets of classes, to train. Missing parameters take the defaults of the family.

    See `pairloom.graphs`.
    """

    family: Family = Field("hub_neighbours", description="family of graphs or codes")
    centre: int | None = Field(None, ge=0, description="class at the centre of a star")
    hubs: int | list[int] | None = Field(None, description="number of hubs, or a list of classes")
    neighbours: int | None = Field(
        None, ge=0, description="number of nearest classes that each class is paired with"
    )
    parents: list[int] | None = Field(None, description="parent of each class in a tree, -1 for the root")
    edges: int | None = Field(None, ge=1, description="number of pairs to grow a star to")
    cost: GrowthCost | None = Field(None, description="order in which a star grows")
    matrix: list[list[float]] | None = Field(
        None, description="confusion or d' of every pair, for that cost; or the matrix of a code"
    )
    seed: int | None = Field(None, ge=0, description="seed, if cost is 'uniform', and of random codes")

    @model_validator(mode="after")
    def _only_what_the_family_takes(self) -> Self:
        taken, given = family_parameters(self.family), self.parameters()
        for name in given.keys() - taken.keys():
            known = ", ".join(taken) or "none"
            raise ValueError(
                f"graph.{name} is not a parameter of the family {self.family!r}; its parameters: {known}"
            )
        for name in [name for name, required in taken.items() if required and name not in given]:
            raise ValueError(f"graph.{name} must be set: the family {self.family!r} needs it")
        return self

    def parameters(self) -> dict[str, Any]:
        """The parameters that are set, without the family."""
        return {k: v for k, v in self.model_dump(exclude={"family"}).items() if v is not None}

    def requested(self) -> dict[str, Any]:
        """The value of the parameter `graph` of `PairwiseSVC`."""
        return {"family": self.family, **self.parameters()}


class ModelConfig(_Section):
    """The model. Keys have the names, values and defaults of the parameters of `PairwiseSVC`."""

    coupling: Coupling | Literal["auto"] = Field("auto", description="how logits become probabilities")
    kernel: Literal["linear", "rbf", "poly", "sigmoid"] = Field(
        "linear", description="kernel of the machines"
    )
    gamma: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["scale", "auto"] = Field(
        "scale", description="coefficient of the kernels rbf, poly and sigmoid"
    )
    degree: int = Field(3, ge=1, le=HIGHEST_DEGREE, description="degree of the kernel poly")
    coef0: Finite = Field(0.0, description="constant of the kernels poly and sigmoid")
    C: Penalty | list[Penalty] = Field(
        "auto", description="penalty of an error; of several values, the run keeps the best"
    )
    folds: Annotated[int, Field(ge=2)] | Literal["auto"] = Field("auto", description="folds per class")
    fit_on: FitOn = Field("rest", description="fold scheme")
    # Machines of a run are linear: none has probabilities of its own, so calibration = "none" is not for them.
    calibration: Literal["auto", "distance", "platt"] = Field(
        "auto", description="how decision values become logits"
    )
    coupled_calibration: CoupledLevel = Field("scale", description="parameters learned through the coupling")
    calibration_samples: int = Field(
        2000, ge=1, le=MOST, description="maximum number of training samples for that"
    )
    learn: Learn = Field(
        "machines",
        description="weights of the machines, or learned from these, all together, through the coupling",
    )
    standardise: bool = Field(
        False,
        description="divide each column by its standard deviation; C and gamma are then for such columns",
    )
    whiten: float | Literal["auto", "none"] = Field(
        "auto", description="shrinkage of the pooled within-class covariance, 0 to 1"
    )
    shortlist: Annotated[int, Field(ge=2)] | Literal["auto", "none"] = Field(
        "auto", description="how many classes of a sample are coupled, the likeliest by a ranking of all"
    )
    machine_weight: MachineWeight = Field("none", description="weight of a machine in the coupling")
    thresholds: bool = Field(False, description="shift each pair's logit to the point of fewest errors")
    priors: list[float] | None = Field(None, description="class priors at prediction")
    class_weight: dict[str, Finite] | Literal["balanced"] | None = Field(
        None, description="weight of the samples of each class, by class name"
    )
    tol: float = Field(1e-3, gt=0, lt=1, description="relative duality gap at which training stops")
    random_state: int = Field(
        0, ge=0, description="seed of folds and draws; must be set, since runs are repeatable"
    )

    @field_validator("C")
    @classmethod
    def _some(cls, value: Any) -> Any:
        if value == []:
            raise ValueError("must have at least one value")
        return value

    @field_validator("whiten")
    @classmethod
    def _share(cls, t: float | str) -> float | str:
        if not isinstance(t, str) and not 0 <= t <= 1:
            raise ValueError("must be between 0 and 1, 'auto' or 'none'")
        return t

    @model_validator(mode="after")
    def _has_a_slope(self) -> Self:
        if self.calibration == "distance" and self.coupled_calibration == "none":
            raise ValueError(
                'model.coupled_calibration must be "scale" or "edges" with model.calibration = "distance", whose slope '
                'is the scale of the coupled model, got "none"'
            )
        return self

    @model_validator(mode="after")
    def _measures_distances(self) -> Self:
        measured = self.kernel == "linear" or KernelFunction(self.kernel, coef0=self.coef0).is_inner_product
        if self.calibration == "distance" and not measured:
            raise ValueError(
                'model.calibration = "distance" needs a kernel that is an inner product, which neither the sigmoid nor '
                f"a polynomial with coef0 < 0 is, got model.kernel = {self.kernel!r}, model.coef0 = {self.coef0!r}"
            )
        return self


class GrowthConfig(_Section):
    """How the graph of `[graph]` grows, wave by wave. Keys are the arguments of `PairwiseSVC.grow`.

    `cost`, `coupling` and `wave` decide which pairs are added. The other keys only decide when growth stops, and may
    be raised later.
    """

    cost: GrowthCost = Field("confusion", description="which pairs to add first")
    coupling: PairCoupling | None = Field(
        None, description="coupling used to score each wave; default: that of the model"
    )
    wave: int | None = Field(
        None,
        ge=1,
        description="pairs per wave; default: a fifth of the current pairs, at least one per class",
    )
    pairs: int | None = Field(None, ge=1, description="maximum number of pairs, including the initial graph")
    share: float | None = Field(None, gt=0, le=1, description="the same, as a share of all pairs")
    seconds: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="maximum time to grow; restarts when a run is resumed"
    )
    plateau: float | Literal["never"] = Field(
        0.01, description="stop when two waves in a row improve the log loss by less than this share"
    )

    @field_validator("plateau")
    @classmethod
    def _share(cls, plateau: float | str) -> float | str:
        if not isinstance(plateau, str) and not 0 <= plateau < 1:
            raise ValueError("must be at least 0 and below 1, or 'never'")
        return plateau

    @property
    def budget(self) -> GrowthBudget:
        """The limits of growth."""
        return GrowthBudget(**self.model_dump(include={"pairs", "share", "seconds", "plateau"}))


#: In these families all classes have a common neighbour, so every missing pair can be completed.
GROWING_FAMILIES = ("star", "star_of_least_distance", "bipartite", "hub_neighbours", "complete", "grown")


#: Batch systems that dask-jobqueue submits to. Each has a section of its own, ``[cluster.slurm]`` and so on.
JOB_QUEUES = ("slurm", "pbs", "lsf", "sge")


class JobQueueConfig(_Section):
    """Jobs of a batch system. Keys are arguments of its class in dask-jobqueue, except `jobs`, the number of jobs.

    Those that are not declared here are compared with the signature of the class.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]

    queue: str | None = Field(None, description="queue, or partition, of the batch system")
    account: str | None = Field(None, description="account that the jobs are charged to")
    cores: int = Field(1, ge=1, description="cores per job")
    processes: int = Field(1, ge=1, description="workers per job")
    memory: str = Field("4GiB", pattern=_SIZE, description="memory per job")
    walltime: str = Field("01:00:00", pattern=_WALLTIME, description="workers leave shortly before it ends")
    jobs: int = Field(1, ge=1, description="number of jobs; lost ones are asked for again")
    interface: str | None = Field(None, description="network interface of scheduler and workers, such as ib0")
    job_extra_directives: list[str] = Field([], description="further lines of the job's header")
    job_script_prologue: list[str] = Field([], description="commands of the job before a worker starts")
    worker_extra_args: list[str] = Field([], description="further arguments of dask worker")


class ClusterConfig(_Section):
    """Where the tasks run. No result depends on these keys."""

    kind: Literal["processes", "threads", "scheduler", "slurm", "pbs", "lsf", "sge"] = Field(
        "processes",
        description="where workers are: processes or threads of this computer, a Dask scheduler, or a batch system",
    )
    workers: int | None = Field(None, ge=1, description="number of local workers; default: one per CPU")
    scheduler: str | None = Field(
        None, pattern=_ADDRESS, description="address of a Dask scheduler, such as tcp://127.0.0.1:8786"
    )
    scheduler_file: str | None = Field(None, description="scheduler file that a Dask scheduler wrote")
    tls_ca_file: str | None = Field(None, description="certificate of the authority (PEM)")
    tls_cert: str | None = Field(None, description="certificate of this client (PEM)")
    tls_key: str | None = Field(None, description="private key of this client (PEM)")
    insecure: bool = Field(False, description="allow a scheduler off loopback without TLS")
    worker_timeout: float = Field(
        120.0, gt=0, le=MOST, description="seconds to wait for the first worker of a scheduler"
    )
    retries: int = Field(10, ge=0, description="how often a task may lose its worker before the run fails")
    slurm: JobQueueConfig | None = Field(None, description="jobs of SLURM")
    pbs: JobQueueConfig | None = Field(None, description="jobs of PBS")
    lsf: JobQueueConfig | None = Field(None, description="jobs of LSF")
    sge: JobQueueConfig | None = Field(None, description="jobs of SGE")

    @property
    def is_elsewhere(self) -> bool:
        """Whether the workers are others than processes or threads that the driver starts on its computer."""
        return self.kind not in ("processes", "threads")

    @property
    def job_queue(self) -> JobQueueConfig | None:
        """The section of the batch system, if one runs the workers."""
        section: JobQueueConfig | None = getattr(self, self.kind) if self.kind in JOB_QUEUES else None
        return section

    @model_validator(mode="after")
    def _one_way_to_the_cluster(self) -> Self:
        if self.scheduler and self.scheduler_file:
            raise ValueError("cluster.scheduler and cluster.scheduler_file must not both be set: remove one")
        if (self.kind == "scheduler") != bool(self.scheduler or self.scheduler_file):
            raise ValueError(
                'cluster.kind must be "scheduler" if and only if cluster.scheduler or cluster.scheduler_file '
                f"is set, got {self.kind!r}"
            )
        for queue in JOB_QUEUES:
            if (self.kind == queue) != (getattr(self, queue) is not None):
                raise ValueError(
                    f'cluster.kind must be "{queue}" if and only if there is a section [cluster.{queue}], '
                    f"got {self.kind!r}"
                )
        if len({bool(part) for part in (self.tls_ca_file, self.tls_cert, self.tls_key)}) > 1:
            raise ValueError("cluster.tls_ca_file, tls_cert and tls_key must be set together")
        return self

    @model_validator(mode="after")
    def _a_core_for_every_process(self) -> Self:
        jobs = self.job_queue
        if jobs is not None and jobs.processes > jobs.cores:
            raise ValueError(
                f"cluster.{self.kind}.processes must be at most cluster.{self.kind}.cores ({jobs.cores}), "
                f"got {jobs.processes}"
            )
        return self

    @model_validator(mode="after")
    def _memory_for_every_process(self) -> Self:
        jobs, least = self.job_queue, least_worker_bytes()
        if jobs is not None and parse_bytes(jobs.memory) < jobs.processes * least:
            raise ValueError(
                f"cluster.{self.kind}.memory must be at least {format_bytes(jobs.processes * least)}, "
                f"{format_bytes(least)} for each process, or Dask pauses them before their first task, "
                f"got {jobs.memory}"
            )
        return self


class RunConfig(_Section):
    """Settings of the run itself."""

    name: str = Field("run", pattern=_NAME, description="name of the run directory")
    also_couple: list[Coupling] = Field(
        [], description="further couplings, besides model.coupling, to report and to predict with"
    )
    tensor: Literal["auto", "stored", "virtual"] = Field(
        "auto", description="whether to store the N x N x R tensor; auto: only up to 2 GiB"
    )
    edges_per_tile: int | None = Field(
        None, ge=1, description="pairs that one task trains; default: up to a second of work"
    )
    samples_per_slab: int | None = Field(
        None, ge=1, description="test samples that one task predicts; default: about 16 MiB of the tensor"
    )
    memory_limit: str = Field("2GiB", pattern=_SIZE, description="memory that one task may take")

    @field_validator("also_couple")
    @classmethod
    def _different(cls, couplings: list[Coupling]) -> list[Coupling]:
        if len(set(couplings)) != len(couplings):
            raise ValueError("must not name a coupling twice")
        return couplings


class Config(_Section):
    """A complete configuration."""

    data: DataConfig = Field(description="where the features come from")
    graph: GraphConfig = Field(GraphConfig(), description="which pairs, or sets of classes, to train")
    model: ModelConfig = Field(ModelConfig(), description="the parameters of PairwiseSVC")
    growth: GrowthConfig | None = Field(None, description="how the graph grows; without it, it does not")
    cluster: ClusterConfig = Field(ClusterConfig(), description="where the tasks run")
    run: RunConfig = Field(RunConfig(), description="settings of the run itself")

    @property
    def has_code(self) -> bool:
        """Whether machines are on sets of classes."""
        return self.graph.family in CODE_FAMILIES

    @property
    def couplings(self) -> tuple[str, ...]:
        """The coupling of the model, then those of `run.also_couple`."""
        own = model_coupling(self.model.coupling, self.has_code, "model.coupling")
        return (own, *(coupling for coupling in self.run.also_couple if coupling != own))

    @model_validator(mode="after")
    def _couplings_suit_the_machines(self) -> Self:
        model = self.model
        for coupling, key in ((model.coupling, "model.coupling"), *self._further_couplings()):
            try:
                found = model_coupling(coupling, self.has_code, key)
                check_weighted(found, model.machine_weight, self.has_code, key)
            except ValueError as error:
                raise ValueError(str(error).rstrip(".")) from error
        if model.coupled_calibration == "edges" and model.machine_weight == "counts" and not self.has_code:
            raise ValueError(
                'model.machine_weight must be "none" with model.coupled_calibration = "edges" on pairs, got "counts"'
            )
        return self

    def _further_couplings(self) -> list[tuple[str, str]]:
        further: list[tuple[str, str]] = [(coupling, "run.also_couple") for coupling in self.run.also_couple]
        if self.growth is not None and self.growth.coupling is not None:
            further.append((self.growth.coupling, "growth.coupling"))
        return further

    @model_validator(mode="after")
    def _every_coupling_can_be_calibrated(self) -> Self:
        known = CODE_GRADIENTS if self.has_code else GRADIENTS
        missing = [coupling for coupling in self.couplings if coupling not in known]
        if self.model.coupled_calibration == "edges" and missing:
            key = "model.coupling" if missing[0] == self.couplings[0] else "run.also_couple"
            raise ValueError(
                f"{key} must be one of {', '.join(known)} "
                f'with model.coupled_calibration = "edges", got {missing[0]!r}'
            )
        return self

    @model_validator(mode="after")
    def _sets_of_classes_have_no_lists(self) -> Self:
        if not self.has_code:
            return self
        if isinstance(self.model.shortlist, int):
            raise ValueError(
                f'model.shortlist must be "auto" or "none" with graph.family = "{self.graph.family}", whose machines '
                f"are coupled with all classes, got {self.model.shortlist}"
            )
        if self.run.tensor == "stored":
            raise ValueError(
                f'run.tensor must be "auto" or "virtual" with graph.family = "{self.graph.family}", which has no '
                'tensor of pairs, got "stored"'
            )
        return self

    @model_validator(mode="after")
    def _weights_can_be_learned(self) -> Self:
        model = self.model
        if model.learn != "coupled":
            return self
        try:
            check_learnable(
                'model.learn = "coupled"',
                on_pairs=not self.has_code and model.machine_weight == "none",
                linear=model.kernel == "linear",
                coupling=self.couplings[0],
                wiring=f"graph.family = {self.graph.family!r}, model.machine_weight = {model.machine_weight!r}",
                machines=f"model.kernel = {model.kernel!r}",
            )
        except ValueError as error:
            raise ValueError(str(error).rstrip(".")) from error
        if self.growth is not None:
            raise ValueError(
                'model.learn must be "machines" with [growth], since the weights of all pairs are learned together and '
                'no pair can be added later, got "coupled"'
            )
        if len(self.couplings) > 1:
            raise ValueError(
                'run.also_couple must be empty with model.learn = "coupled", whose weights are learned for the one '
                f"coupling of the model, got {self.run.also_couple}: make a run for each coupling"
            )
        return self

    @model_validator(mode="after")
    def _growth_has_a_start(self) -> Self:
        if self.growth is None:
            return self
        if self.graph.family not in GROWING_FAMILIES:
            known = ", ".join(GROWING_FAMILIES)
            raise ValueError(f"graph.family must be one of {known} with [growth], got {self.graph.family!r}")
        if self.model.coupled_calibration == "edges":
            raise ValueError('model.coupled_calibration must be "scale" or "none" with [growth], got "edges"')
        if self.model.kernel != "linear":
            raise ValueError(f'model.kernel must be "linear" with [growth], got {self.model.kernel!r}')
        return self

    def result_settings(self) -> dict[str, Any]:
        """The keys that decide the result. Where it is computed, its name and its growth budget do not.

        The path of the data is left out too: a fingerprint identifies the data.
        """
        settings = self.model_dump(
            mode="json",
            exclude={
                "cluster": True,
                "data": {"features", "test"},
                "growth": {"pairs", "share", "seconds", "plateau"},
                "run": {"name", "memory_limit"},
            },
        )
        settings["model"]["coupling"] = self.couplings[0]  # not "auto", which is another name of one of them
        return settings


def differing_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line per key whose values differ: ``"graph.hubs: was 5, is 7"``."""
    before, after = dict(flattened(old)), dict(flattened(new))
    return [
        f"{key}: was {before.get(key)!r}, is {after.get(key)!r}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def flattened(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The keys of nested tables with dots between their parts, and their values."""
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
