"""The sections of a configuration, except [cluster]: their keys, defaults and allowed values. Types are strict."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from annotated_types import MinLen
from pydantic import BaseModel, ByteSize, ConfigDict, Field, TypeAdapter, field_validator, model_validator

from pairloom.graphs import family_parameters
from pairloom.pipeline.calibration.coupled_calibration import CoupledLevel
from pairloom.pipeline.coupling.model_coupling import MachineWeight
from pairloom.pipeline.features.source_files import MissingChunks
from pairloom.pipeline.features.tables import Missing, TableColumns
from pairloom.pipeline.growth.waves import GrowthBudget, GrowthCost
from pairloom.pipeline.machines.folds import FitOn
from pairloom.pipeline.machines.kernel_function import Gamma, is_inner_product
from pairloom.pipeline.model.rules import CONFIGURATION, MEASURED, check_distances, check_fold_alone
from pairloom.pipeline.model.settings import (
    CalibrationSamples,
    Degree,
    Folds,
    Kernel,
    Learn,
    Penalty,
    RunCalibration,
    Shortlist,
    Tolerance,
    Whiten,
)
from pairloom.pipeline.storage.location import BadUrl, location_of

__all__ = [
    "ADDRESS",
    "GROWING_FAMILIES",
    "NAME",
    "PATTERNS",
    "SIZE",
    "WALLTIME",
    "Coupling",
    "DataConfig",
    "Family",
    "GraphConfig",
    "GrowthConfig",
    "ModelConfig",
    "PairCoupling",
    "RunConfig",
    "Section",
]


class Section(BaseModel):
    """A section of the TOML file, or the whole of it."""

    # Some values are secrets, so pydantic's own errors, which a traceback may show, must not repeat values.
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, allow_inf_nan=False
    )


SIZE = r"^\d{1,12}(\.\d{1,12})?\s?[KMGT]i?B$"
WALLTIME = r"^(\d+-)?\d{1,2}:\d{2}:\d{2}$"
ADDRESS = r"^(tcp|tls)://\S+:\d+$"
NAME = r"^[\w][\w.-]*$"
#: What a string must be, for a message.
PATTERNS = {
    SIZE: "a size such as '2GiB'",
    WALLTIME: "a time such as '01:00:00'",
    ADDRESS: "an address such as 'tcp://127.0.0.1:8786'",
    NAME: "a name of letters, digits, '_', '.' and '-'",
}


def bytes_in(size: str) -> int:
    """The number of bytes that a size such as "2GiB" stands for."""
    return int(TypeAdapter(ByteSize).validate_python(size))


class DataConfig(Section):
    """Where the features come from."""

    features: str = Field(
        min_length=1,
        description=".npz file, zarr group (also s3://bucket/features.zarr), folder of .npy files, table (.csv, .tsv,"
        " .parquet), or an embedded set",
    )
    label: str | None = Field(None, min_length=1, description="column of a table that holds the classes")
    id: str | None = Field(
        None,
        min_length=1,
        description="column of a table that names the rows; default: their numbers, from 0",
    )
    leave_out: list[str] = Field([], description="columns of a table that are no features")
    missing: Missing = Field(
        "refuse", description="what to do about missing values of a table: refuse it, or leave out their rows"
    )
    missing_chunks: MissingChunks = Field(
        "refuse",
        description="what to do about chunks that the features of a zarr group lack: refuse it, or fill in the array's"
        " fill value",
    )
    test: str | None = Field(None, description="source of test samples that replace those of `features`")
    test_fraction: float = Field(
        0.25, gt=0, lt=1, description="share of test samples, if the data are one pool X, y"
    )

    @field_validator("features", "test")
    @classmethod
    def _no_strange_url(cls, source: str | None) -> str | None:
        try:
            location_of(source or "", "")
        except BadUrl:  # its message repeats the value; the caller shows it without credentials
            raise ValueError(
                "must be a path, or a URL such as s3://bucket/features.zarr without user, password, query or fragment"
            ) from None
        return source

    @property
    def columns(self) -> TableColumns:
        """How the columns of a table are used."""
        return TableColumns(self.label, tuple(self.leave_out), self.missing, self.id)


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


class GraphConfig(Section):
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


PairCoupling = Literal["stratified", "normal", "wlw2", "bradley_terry", "vote"]
Coupling = Literal[
    "stratified", "normal", "wlw2", "bradley_terry", "vote", "linear", "zadrozny", "closed_form"
]


class ModelConfig(Section):
    """The model. Keys have the names, values and defaults of the parameters of `PairwiseSVC`."""

    coupling: Coupling | Literal["auto"] = Field("auto", description="how logits become probabilities")
    kernel: Kernel = Field(
        "auto", description="kernel of the machines; auto: linear or rbf, by held-out log loss"
    )
    gamma: Gamma = Field("scale", description="coefficient of the kernels rbf, poly and sigmoid")
    degree: Degree = Field(3, description="degree of the kernel poly")
    coef0: float = Field(0.0, description="constant of the kernels poly and sigmoid")
    C: Penalty | Annotated[list[Penalty], MinLen(1)] = Field(
        "auto", description="penalty of an error; of several values, the run keeps the best"
    )
    folds: Folds = Field("auto", description="folds per class")
    fit_on: FitOn = Field("rest", description="fold scheme")
    calibration: RunCalibration = Field("auto", description="how decision values become logits")
    coupled_calibration: CoupledLevel = Field("scale", description="parameters learned through the coupling")
    calibration_samples: CalibrationSamples = Field(
        2000, description="maximum number of training samples for that"
    )
    learn: Learn = Field(
        "machines",
        description="weights of the machines, or learned from these, all together, through the coupling",
    )
    standardise: bool | Literal["auto"] = Field(
        "auto",
        description="divide each column by its standard deviation; C and gamma are then for such columns; auto: where"
        " units differ, by held-out log loss",
    )
    whiten: Whiten = Field("auto", description="shrinkage of the pooled within-class covariance, 0 to 1")
    shortlist: Shortlist = Field(
        "auto", description="how many classes of a sample are coupled, the likeliest by a ranking of all"
    )
    machine_weight: MachineWeight = Field("none", description="weight of a machine in the coupling")
    thresholds: bool = Field(False, description="shift each pair's logit to the point of fewest errors")
    priors: list[float] | dict[str, float] | None = Field(
        None, description="class priors at prediction, in the order of the sorted labels or by class name"
    )
    class_weight: dict[str, float] | Literal["balanced"] | None = Field(
        None, description="weight of the samples of each class, by class name"
    )
    tol: Tolerance = Field(1e-3, description="relative duality gap at which training stops")
    random_state: int = Field(
        0, ge=0, description="seed of folds and draws; must be set, since runs are repeatable"
    )

    @model_validator(mode="after")
    def _measures_distances(self) -> Self:
        if self.calibration in MEASURED:
            measured = is_inner_product(self.kernel, self.coef0)
            machines = (
                f"{CONFIGURATION.value('kernel', self.kernel)}, {CONFIGURATION.value('coef0', self.coef0)}"
            )
            check_distances(self, measured, machines, CONFIGURATION)
        return self

    @model_validator(mode="after")
    def _knows_one_fold(self) -> Self:
        check_fold_alone(self, CONFIGURATION)
        return self


#: In these families all classes have a common neighbour, so every missing pair can be completed.
GROWING_FAMILIES = ("star", "star_of_least_distance", "bipartite", "hub_neighbours", "complete", "grown")


class GrowthConfig(Section):
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
        None, gt=0, description="maximum time to grow; restarts when a run is resumed"
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


class RunConfig(Section):
    """Settings of the run itself."""

    name: str = Field("run", pattern=NAME, description="name of the run directory")
    also_couple: list[Coupling] = Field(
        [], description="further couplings, besides model.coupling, to report and to predict with"
    )
    tensor: Literal["auto", "stored", "virtual"] = Field(
        "auto", description="whether to store the N x N x R tensor; auto: only up to 2 GiB"
    )
    probabilities: Literal["auto", "lists", "dense"] = Field(
        "auto",
        description="store the probabilities of all classes (dense), or of the likeliest and the mass of the rest"
        " (lists); auto: lists for more than 2048 classes",
    )
    edges_per_tile: int | None = Field(
        None, ge=1, description="pairs that one task trains; default: up to a second of work"
    )
    samples_per_slab: int | None = Field(
        None, ge=1, description="test samples that one task predicts; default: about 16 MiB of the tensor"
    )
    memory_limit: str | None = Field(
        None, pattern=SIZE, description="memory that one task may take; default: what a worker has"
    )

    @property
    def memory_bytes(self) -> int | None:
        """`memory_limit` in bytes; None for what a worker has."""
        return None if self.memory_limit is None else bytes_in(self.memory_limit)

    @field_validator("also_couple")
    @classmethod
    def _different(cls, couplings: list[Coupling]) -> list[Coupling]:
        if len(set(couplings)) != len(couplings):
            raise ValueError("must not name a coupling twice")
        return couplings
