"""The whole configuration of a run: its sections, and the checks that concern more than one of them."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from pairloom.cluster.config.cluster_config import ClusterConfig
from pairloom.cluster.config.data_config import DataConfig
from pairloom.cluster.config.graph_config import GraphConfig
from pairloom.cluster.config.growth_config import GROWING_FAMILIES, GrowthConfig
from pairloom.cluster.config.model_config import ModelConfig
from pairloom.cluster.config.run_config import RunConfig
from pairloom.cluster.config.section import Section
from pairloom.graphs import CODE_FAMILIES
from pairloom.pipeline.calibration.code_gradient import CODE_GRADIENTS
from pairloom.pipeline.calibration.coupling_gradient import GRADIENTS
from pairloom.pipeline.coupling.model_coupling import check_weighted, model_coupling
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.model.choice import Candidate
from pairloom.pipeline.model.learning import check_learnable
from pairloom.pipeline.model.model_settings import ModelSettings

__all__ = ["Config", "ConfigError"]


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

    def settings_of_model(
        self, folds: int, kernel: KernelFunction | None, candidates: tuple[Candidate, ...]
    ) -> ModelSettings:
        """The settings of the model, as in `PairwiseSVC`; the arguments are what is found from the data."""
        model = self.model
        return ModelSettings(
            candidates=candidates,
            coupling=self.couplings[0],
            folds=folds,
            fit_on=model.fit_on,
            coupled_calibration=model.coupled_calibration,
            calibration_samples=model.calibration_samples,
            thresholds=model.thresholds,
            tol=model.tol,
            seed=model.random_state,
            shortlist="none" if self.has_code else model.shortlist,
            machine_weight=model.machine_weight,
            kernel=kernel,
            learn=model.learn,
        )

    def most_pairs(self, edges: int, n_classes: int) -> int:
        """The maximum number of edges of a model that has so many now, after growth."""
        return edges if self.growth is None else max(edges, self.growth.budget.most_pairs(n_classes))

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
