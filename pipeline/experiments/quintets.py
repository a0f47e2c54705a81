"""Five classes, four machines: path, fork or star [S Table 4].

The topological finding: of all trees on five classes, the star has the smallest diameter and the smallest error.
"""

from collections.abc import Sequence
from functools import partial

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import Each, Experiment, Finding, in_turn
from pairloom.pipeline.experiments.model_errors import (
    ModelError,
    class_draws,
    draw_errors,
    errors_on,
    mean_errors,
    ordering,
)
from pairloom.pipeline.experiments.trained_tensor import TrainedTensor

#: Names of the five-vertex trees by their shapes, largest diameter first.
SHAPES = {"G4": "path (G4)", "G3": "fork (G3)", "G2": "star (G2)"}


def measure(
    trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn
) -> list[ModelError]:
    """Mean errors of the three trees and of the maximal model, on random classes at random vertices."""
    draws = class_draws(trained.n_classes, 5, repetitions, seed)
    return mean_errors(each(partial(errors_on, trees=trees_by_shape), trained, draws))


def trees_by_shape(dprime: NDArray[np.float64]) -> dict[str, nx.Graph]:
    """The trees on five classes, with class c at vertex c. They do not depend on d'."""
    trees = graphs.five_vertex_trees()
    return {shape: trees[name] for name, shape in SHAPES.items()}


def findings(rows: Sequence[ModelError]) -> list[Finding]:
    """Path > fork > star > maximal in error."""
    return ordering(rows, (*SHAPES.values(), "maximal"))


EXPERIMENT = Experiment(
    name="quintets",
    shows="Table 4: the three trees on five classes",
    row=ModelError,
    measure=measure,
    findings=findings,
    draw=draw_errors,
    repetitions=500,
    full=1000,
)
