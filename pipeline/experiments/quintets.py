"""Five classes, four machines: path, fork or star [S Table 4].

The topological finding: of all trees on five classes the star, with the smallest diameter, errs least.
"""

from functools import partial

import networkx as nx

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import Experiment, in_turn
from pairloom.pipeline.experiments.model_errors import (
    ModelError,
    class_draws,
    draw_errors,
    errors_on,
    mean_errors,
    ordering,
)

#: The five-vertex trees by what they look like, the largest diameter first.
SHAPES = {"G4": "path (G4)", "G3": "fork (G3)", "G2": "star (G2)"}


def measure(trained, repetitions, seed=0, each=in_turn):
    """The mean errors of the three trees and of the maximal model, on random classes in random places."""
    draws = class_draws(trained.n_classes, 5, repetitions, seed)
    return mean_errors(each(partial(errors_on, trees=trees_by_shape), trained, draws))


def trees_by_shape(dprime) -> dict[str, nx.Graph]:
    """The trees on five classes, class c at vertex c, whatever their d'."""
    trees = graphs.five_vertex_trees()
    return {shape: trees[name] for name, shape in SHAPES.items()}


def findings(rows):
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
