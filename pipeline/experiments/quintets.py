"""Five classes, four machines: path, fork or star [S Table 4].

The topological finding: of all trees on five classes the star, with the smallest diameter, errs least.
"""

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import Experiment
from pairloom.pipeline.experiments.model_errors import (
    ModelError,
    class_draws,
    draw_errors,
    maximal_errors,
    mean_errors,
    ordering,
)

#: The five-vertex trees by what they look like, the largest diameter first.
SHAPES = {"G4": "path (G4)", "G3": "fork (G3)", "G2": "star (G2)"}


def measure(trained, repetitions, seed=0, track=iter):
    """The mean errors of the three trees and of the maximal model, on random classes in random places."""
    draws = class_draws(trained.n_classes, 5, repetitions, seed)
    return mean_errors([quintet_errors(trained.of_classes(quintet)) for quintet in track(draws)])


def quintet_errors(trained):
    """The errors of the trees on five classes, class c at vertex c, and of the complete graph."""
    trees = graphs.five_vertex_trees()
    minimal = {(shape, "any"): trained.tree_error(trees[name]) for name, shape in SHAPES.items()}
    return minimal | maximal_errors(trained)


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
