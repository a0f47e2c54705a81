"""Machines: folds and parts, the SVM solver, whitening, and the training of the edges of a model graph.

A decision value becomes a logit by Platt's sigmoid or as a distance to the hyperplane. `train_edges` is the unit of
work of threads and of the cluster alike; `collapse` makes one affine map of its machines. `train_kernel_edges` is the
same for machines with a kernel.
"""

from pairloom.pipeline.machines.estimator_model import EstimatorModel, train_estimator_model
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kernel_machines import (
    KernelMachines,
    train_kernel_edges,
    train_kernel_problem,
)
from pairloom.pipeline.machines.kernel_model import KernelModel, train_kernel_model
from pairloom.pipeline.machines.linear_machines import Machines, train_edges
from pairloom.pipeline.machines.linear_model import LinearModel, train_linear_model, train_machines
from pairloom.pipeline.machines.logits import AffineLogits, collapse
from pairloom.pipeline.machines.normalisation import Normalisation, fit_normalisation
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.machines.whitening import Whitening, fit_whitening

__all__ = [
    "AffineLogits",
    "EstimatorModel",
    "KernelFunction",
    "KernelMachines",
    "KernelModel",
    "LinearModel",
    "MachineSettings",
    "Machines",
    "Normalisation",
    "Whitening",
    "collapse",
    "fit_normalisation",
    "fit_whitening",
    "train_edges",
    "train_estimator_model",
    "train_kernel_edges",
    "train_kernel_model",
    "train_kernel_problem",
    "train_linear_model",
    "train_machines",
]
