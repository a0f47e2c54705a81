"""The settings of a model: the values behind the parameters of PairwiseSVC and behind a run's [model] alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.coupled_calibration import CoupledLevel
from pairloom.pipeline.calibration.drawn_samples import CALIBRATION_SAMPLES
from pairloom.pipeline.completion.shortlist import shortlist_size
from pairloom.pipeline.coupling.model_coupling import MachineWeight
from pairloom.pipeline.machines.folds import FitOn
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.settings import Calibration, MachineSettings
from pairloom.pipeline.machines.whitening import is_whitened
from pairloom.pipeline.model.choice import Candidate

__all__ = ["ModelSettings"]

#: Relative duality gap of the machines of a trial. Their losses differ from those at 0.001 by less than one percent.
TRIAL_TOL = 0.01


@dataclass(frozen=True)
class ModelSettings:
    """How a model is fitted, given its samples and its graph.

    Attributes
    ----------
    candidates : tuple of Candidate
        The values of C, whitening and calibration to choose from; one, if there is nothing to choose.
    coupling : str
        The coupling through which the model is calibrated and its candidates are compared.
    folds, fit_on, thresholds, tol, seed
        See `machines.settings.MachineSettings`.
    coupled_calibration : {"scale", "edges", "none"}
        What is learned through the coupling.
    calibration_samples : int
        How many training samples, at most, it is learned from.
    shortlist : int, "auto" or "none"
        How many classes of a sample are coupled; "none" lists none and couples all.
    machine_weight : {"none", "counts"}
        Whether all machines weigh alike in the coupling, or each as many as it has training samples.
    kernel : KernelFunction, optional
        The kernel of the machines; None means that they are linear, or classifiers of scikit-learn.
    learn : {"machines", "coupled"}
        Whether the weights of the machines are then learned through the coupling.
    """

    candidates: tuple[Candidate, ...]
    coupling: str = "stratified"
    folds: int = 4
    fit_on: FitOn = "rest"
    coupled_calibration: CoupledLevel = "scale"
    calibration_samples: int = CALIBRATION_SAMPLES
    thresholds: bool = False
    tol: float = 1e-3
    seed: int = 0
    shortlist: int | Literal["auto", "none"] = "auto"
    machine_weight: MachineWeight = "none"
    kernel: KernelFunction | None = None
    learn: Literal["machines", "coupled"] = "machines"

    def machines(self, C: float = 1.0, calibration: Calibration = "platt") -> MachineSettings:
        """The settings of the machines at one C."""
        return MachineSettings(
            C=C,
            folds=self.folds,
            fit_on=self.fit_on,
            calibration=calibration,
            thresholds=self.thresholds,
            tol=self.tol,
            seed=self.seed,
            # Log odds of their own need no held-out samples, unless a shift or a scale is learned from these.
            holds_out=calibration != "none" or self.thresholds or self.coupled_calibration != "none",
        )

    def for_trials(self) -> ModelSettings:
        """The same with machines that are fitted roughly, which is enough to compare candidates."""
        return replace(self, tol=max(self.tol, TRIAL_TOL))

    @property
    def may_whiten(self) -> bool:
        """Whether any candidate whitens."""
        return any(is_whitened(candidate.whiten) for candidate in self.candidates)

    def counts_of(self, totals: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """The samples of each class where machines are weighted by them, else None."""
        return totals if self.machine_weight == "counts" else None

    def shortlist_of(self, n_classes: int) -> int | None:
        """How many of so many classes are coupled; None means all."""
        return shortlist_size(self.shortlist, n_classes)
