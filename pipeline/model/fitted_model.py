"""The fitted model: everything that prediction, saving and later changes need of a fit. It never changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.uncoupled import Wiring, wiring_of
from pairloom.pipeline.coupling.model_coupling import MachineWeight
from pairloom.pipeline.machines.estimator_model import EstimatorModel
from pairloom.pipeline.machines.kernel_model import KernelModel
from pairloom.pipeline.machines.linear_model import LinearModel
from pairloom.pipeline.machines.logits import calibrated, collapse
from pairloom.pipeline.machines.normalisation import Normalisation
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.machines.whitening import Shrinkage
from pairloom.pipeline.model.affine_model import AffineModel
from pairloom.pipeline.model.class_table import ClassTable
from pairloom.pipeline.model.curved_model import CurvedModel
from pairloom.pipeline.model.learning import Learned

__all__ = ["FittedModel"]


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A model that was fitted, by an estimator or by a run.

    Functions that change a model (a class added, a pair retrained, a wave of growth) return a new one. So a change that
    fails half-way leaves the old model whole.

    Attributes
    ----------
    classes : ClassTable
    graph : networkx.Graph or ModelCode
        On the indices of the classes: the graph of the trained pairs, or the code of machines on sets of classes.
    trained : LinearModel, KernelModel or EstimatorModel
        The machines, in the order of `edges` or of the columns of the code.
    settings : MachineSettings
        How the machines were trained, C on normalised features included.
    whiten : float or "none"
        The shrinkage of the whitening they were trained under.
    coupling : str
        The coupling through which the model was calibrated.
    coupled : CoupledCalibration
    calibration_samples : int
        How many training samples, at most, calibrated it.
    shortlist : int, "auto" or "none"
        How many classes of a sample are coupled, as it was asked for.
    normalisation : Normalisation
        Of the features; classifiers of scikit-learn are given them as they come.
    weighted : str
        The kind of weights that the fit had, which a later change would miss: "sample_weight", "class_weight" or "".
    n_features : int
    machine_weight : {"none", "counts"}
        Whether all machines weigh alike in the coupling, or each as many as it has training samples.
    learned : Learned, optional
        Logits that were learned through the coupling, in place of those of the machines.
    """

    classes: ClassTable
    graph: nx.Graph | graphs.ModelCode
    trained: LinearModel | KernelModel | EstimatorModel
    settings: MachineSettings
    whiten: Shrinkage
    coupling: str
    coupled: CoupledCalibration
    calibration_samples: int
    shortlist: int | Literal["auto", "none"]
    normalisation: Normalisation
    weighted: str
    n_features: int
    machine_weight: MachineWeight = "none"
    learned: Learned | None = None

    @property
    def C(self) -> float:
        """The C that the machines were trained with, on features as they came."""
        return self.normalisation.outer_C(self.settings.C)

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """(E, 2) pairs of classes, sorted: the order of the machines."""
        return graphs.edge_array(self.pairs)

    @property
    def code(self) -> graphs.ModelCode | None:
        """The code of machines on sets of classes; None for machines on pairs."""
        return self.graph if isinstance(self.graph, graphs.ModelCode) else None

    @property
    def pairs(self) -> nx.Graph:
        """The graph of the trained pairs, or an error if machines are on sets of classes."""
        if isinstance(self.graph, graphs.ModelCode):
            raise AttributeError(
                "PairwiseSVC: this model has no pairs, its machines are on sets of classes: see code_."
            )
        return self.graph

    @cached_property
    def wiring(self) -> Wiring:
        """How the logits of the machines are joined."""
        return wiring_of(self.graph, self.classes.totals if self.machine_weight == "counts" else None)

    @property
    def completion(self) -> Completion:
        """How pairs that were not trained are completed."""
        assert isinstance(self.wiring, Completion)
        return self.wiring

    @cached_property
    def by_decision_value(self) -> FittedModel:
        """The same machines with their decision values for logits: nothing that was learned from samples moves a sign.

        Of several machines of a pair it is the mean of their decision values.
        """
        uncalibrated = CoupledCalibration.uniform("none", 1.0, len(self.edges))
        return replace(self, trained=self.trained.by_decision_value(), coupled=uncalibrated, learned=None)

    @cached_property
    def affine(self) -> AffineModel:
        """The machines with their calibration as affine maps: all that prediction needs of linear ones."""
        if not isinstance(self.trained, LinearModel):
            raise TypeError("FittedModel: only linear machines are one affine map.")
        if self.learned is not None and self.learned.logits is not None:
            return AffineModel(self.learned.logits, self.completion)
        machines, whitening = self.trained
        raw = collapse(machines, self.settings.scheme.shares, whitening)
        return AffineModel(calibrated(raw, self.coupled.slope, self.coupled.shift), self.wiring)

    @cached_property
    def curved(self) -> CurvedModel:
        """The machines with their calibration: all that prediction needs of those with a kernel."""
        if not isinstance(self.trained, KernelModel):
            raise TypeError("FittedModel: only machines with a kernel are a sum of kernel values.")
        raw = self.trained.collapsed(self.settings.scheme.shares)
        return CurvedModel(raw.calibrated(self.coupled.slope, self.coupled.shift), self.wiring)
