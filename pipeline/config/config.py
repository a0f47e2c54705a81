"""The whole configuration of a run: its sections, the checks that concern more than one of them, and input errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from pairloom.graphs import CODE_FAMILIES
from pairloom.pipeline.config.cluster_config import ClusterConfig
from pairloom.pipeline.config.sections import (
    GROWING_FAMILIES,
    DataConfig,
    GraphConfig,
    GrowthConfig,
    ModelConfig,
    RunConfig,
    Section,
)
from pairloom.pipeline.machines.folds import folds_of
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kinds import svm_kind
from pairloom.pipeline.machines.settings import Calibration
from pairloom.pipeline.model.rules import (
    CONFIGURATION,
    check_coupling,
    check_edges_calibrated,
    check_learnable,
    check_no_shortlist,
)
from pairloom.pipeline.model.settings import (
    Candidate,
    ModelSettings,
    calibrations_of,
    couplings_to_compare,
)

__all__ = [
    "Config",
    "ConfigError",
    "InputError",
    "InputMissing",
    "OutputExists",
    "differing_keys",
    "flattened",
    "input_errors",
]


#: Default memory limit of a task, by which tasks divide their work.
USUAL_MEMORY = 2 * 2**30


class ConfigError(ValueError):
    """An invalid configuration. The message lists all problems, one line each."""


class Config(Section):
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
    def memory_limit(self) -> int:
        """Memory limit of a task, in bytes: `run.memory_limit`, or by default 2 GiB if a worker has as much.

        The default does not grow with the computer, so that a run is divided alike wherever it is planned.
        """
        return self.run.memory_bytes or min(USUAL_MEMORY, self.cluster.worker_bytes)

    @property
    def couplings(self) -> tuple[str, ...]:
        """The coupling of the model, then those of `run.also_couple`. It is "auto" if it is still to be chosen."""
        compared = self.compared_couplings
        own = compared[0] if len(compared) == 1 else "auto"
        return (own, *(coupling for coupling in self.run.also_couple if coupling != own))

    @property
    def compared_couplings(self) -> tuple[str, ...]:
        """The couplings that the model chooses from, the usual one first."""
        growing = self.growth is not None
        return couplings_to_compare(self.model, self.has_code, "model.coupling", growing)

    @model_validator(mode="after")
    def _couplings_suit_the_machines(self) -> Self:
        model, code = self.model, self.has_code
        for coupling, key in ((model.coupling, "model.coupling"), *self._further_couplings()):
            method = check_coupling(coupling, model.machine_weight, code, CONFIGURATION, key)
            if model.coupled_calibration == "edges" and key != "growth.coupling":
                given = f"{key} = {coupling!r}"
                check_edges_calibrated(method, given, model.machine_weight, code, CONFIGURATION)
        return self

    def _further_couplings(self) -> list[tuple[str, str]]:
        further: list[tuple[str, str]] = [(coupling, "run.also_couple") for coupling in self.run.also_couple]
        if self.growth is not None and self.growth.coupling is not None:
            further.append((self.growth.coupling, "growth.coupling"))
        return further

    @model_validator(mode="after")
    def _sets_of_classes_have_no_pairs(self) -> Self:
        if not self.has_code:
            return self
        check_no_shortlist(self.model.shortlist, CONFIGURATION)
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
        check_learnable(
            self.compared_couplings[0],
            model.machine_weight,
            graph=f"graph.family = {self.graph.family!r}",
            code=self.has_code,
            machines=""
            if model.kernel in ("auto", "linear")
            else CONFIGURATION.value("kernel", model.kernel),
            door=CONFIGURATION,
        )
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
        if self.model.kernel not in ("auto", "linear"):
            raise ValueError(
                f'model.kernel must be "linear" or "auto" with [growth], got {self.model.kernel!r}'
            )
        return self

    def calibrations(self, kernel: KernelFunction | None) -> tuple[Calibration, ...]:
        """The calibrations to choose from."""
        measurable = svm_kind(kernel).measures_distances
        return calibrations_of(self.model, measurable, growing=self.growth is not None)

    def folds(self, counts: NDArray[np.integer], kernel: KernelFunction | None) -> int:
        """How many folds the training samples of each class are divided into."""
        model = self.model
        on_pairs = not self.has_code
        return folds_of(
            model.folds, counts, kernel_on_pairs=kernel is not None and on_pairs, fit_on=model.fit_on
        )

    def settings_of_model(
        self, counts: NDArray[np.integer], kernel: KernelFunction | None, candidates: tuple[Candidate, ...]
    ) -> ModelSettings:
        """The settings of the model, as in `PairwiseSVC`; the arguments are facts found from the data."""
        return ModelSettings.of_parameters(
            self.model,
            candidates=candidates,
            calibrations=self.calibrations(kernel),
            coupling=self.compared_couplings[0],
            couplings=self.compared_couplings,
            folds=self.folds(counts, kernel),
            seed=self.model.random_state,
            shortlist="none" if self.has_code else self.model.shortlist,
            kind=svm_kind(kernel, self.model.fit_on),
        )

    def most_pairs(self, edges: int, n_classes: int) -> int:
        """The maximum number of edges, after growth, of a model that starts with ``edges``."""
        return edges if self.growth is None else max(edges, self.growth.budget.most_pairs(n_classes))

    def result_settings(self) -> dict[str, Any]:
        """The keys that decide the result, so not [cluster], the name of the run and the growth budget.

        The path of the data is left out too, since a fingerprint identifies the data.
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
        settings["model"]["coupling"] = self.couplings[0]  # "auto" only where there is a choice
        return settings


def differing_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line per key whose values differ: ``"graph.hubs: was 5, is 7"``."""
    before, after = dict(flattened(old)), dict(flattened(new))
    return [
        f"{key}: was {before.get(key)!r}, is {after.get(key)!r}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def flattened(
    tables: Mapping[str, Any], levels: int | None = None, prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """The dotted keys of nested tables, with their values. Tables below so many levels are values themselves."""
    for key, value in tables.items():
        if isinstance(value, Mapping) and levels != 1:
            yield from flattened(value, levels and levels - 1, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


class InputError(ValueError):
    """Data, or an argument, that cannot be used."""


class InputMissing(InputError, FileNotFoundError):
    """A file that is not there."""

    def __str__(self) -> str:
        return str(self.args[0])  # OSError would print one argument otherwise


class OutputExists(FileExistsError):
    """A file that exists and would have to be replaced."""


@contextlib.contextmanager
def input_errors() -> Iterator[None]:
    """Turn exceptions about bad data into an `InputError`, to distinguish them from failures of the program."""
    try:
        yield
    except (ConfigError, InputError, BrokenPipeError):  # BrokenPipeError concerns the output, not the input
        raise
    except FileExistsError as error:
        raise OutputExists(str(error)) from error
    except FileNotFoundError as error:
        raise InputMissing(str(error)) from error
    except (ValueError, OSError) as error:
        raise InputError(str(error)) from error
