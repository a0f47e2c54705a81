"""Machines: folds and parts, the SVM solver, whitening, and the training of the edges of a graph or columns of a code.

A decision value becomes a logit by Platt's sigmoid or as a distance to the hyperplane, unless it is log odds already.
`train_edges`, or for sets of classes `train_columns`, is the unit of work of threads and of the cluster alike;
`collapse` makes one affine map of its machines. `train_kernel_edges` is the same for machines with a kernel.
"""

from pairloom.pipeline.machines.estimator_model import EstimatorModel, train_estimator_model
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kernel_machines import (
    KernelMachines,
    train_kernel_edges,
    train_kernel_problem,
)
from pairloom.pipeline.machines.kernel_model import KernelModel, train_kernel_model
from pairloom.pipeline.machines.linear_machines import Machines, train_columns, train_edges
from pairloom.pipeline.machines.linear_model import LinearModel, train_linear_model, train_machines
from pairloom.pipeline.machines.logits import AffineLogits, collapse
from pairloom.pipeline.machines.nearest_neighbours import NearestNeighboursCV
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
    "NearestNeighboursCV",
    "Normalisation",
    "Whitening",
    "collapse",
    "fit_normalisation",
    "fit_whitening",
    "train_columns",
    "train_edges",
    "train_estimator_model",
    "train_kernel_edges",
    "train_kernel_model",
    "train_kernel_problem",
    "train_linear_model",
    "train_machines",
]
