"""Three classes, two machines: which of the three pairs to leave out [S Table 3].

The metrical finding: keep the pairs with small d', the confusable ones. MIN1 leaves out the pair with the largest d',
MIN2 the middle one, MIN3 the smallest.
"""

from functools import partial

import networkx as nx
import numpy as np

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


def measure(trained, repetitions, seed=0, each=in_turn):
    """The mean errors of the minimal and maximal models of random triplets of classes."""
    draws = class_draws(trained.n_classes, 3, repetitions, seed)
    return mean_errors(each(partial(errors_on, trees=minimal_models), trained, draws))


def minimal_models(dprime) -> dict[str, nx.Graph]:
    """The three trees on three classes under the paper's names."""
    pairs = graphs.edge_array(graphs.complete(3))
    farthest_first = pairs[np.argsort(-dprime[pairs[:, 0], pairs[:, 1]], kind="stable")]
    models = {}
    for rank, left_out in enumerate(farthest_first.tolist(), start=1):
        models[f"MIN{rank}"] = graphs.complete(3)
        models[f"MIN{rank}"].remove_edge(*left_out)
    return models


def findings(rows):
    """MIN3 > MIN2 > MIN1 > maximal in error, everywhere in the paper."""
    return ordering(rows, ("MIN3", "MIN2", "MIN1", "maximal"))


EXPERIMENT = Experiment(
    name="triplets",
    shows="Table 3: two machines for three classes, the pair left out chosen by d'",
    row=ModelError,
    measure=measure,
    findings=findings,
    draw=draw_errors,
    repetitions=500,
    full=1000,
)
