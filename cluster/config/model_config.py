"""The section ``[model]``: the parameters of `PairwiseSVC`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from pairloom.cluster.config.section import Section
from pairloom.pipeline.calibration.coupled_calibration import CoupledLevel
from pairloom.pipeline.coupling.model_coupling import MachineWeight
from pairloom.pipeline.machines.folds import FitOn
from pairloom.pipeline.machines.kernel_function import HIGHEST_DEGREE, KernelFunction
from pairloom.pipeline.model.learning import Learn
from pairloom.pipeline.model.number_checks import MOST

__all__ = ["Coupling", "ModelConfig", "PairCoupling"]

PairCoupling = Literal["stratified", "normal", "wlw2", "bradley_terry", "vote"]
Coupling = Literal[
    "stratified", "normal", "wlw2", "bradley_terry", "vote", "linear", "zadrozny", "closed_form"
]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Penalty = Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["auto", "scale"]


class ModelConfig(Section):
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
