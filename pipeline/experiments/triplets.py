"""Three classes, two machines: which of the three pairs to leave out [S Table 3].

The metrical finding: keep the pairs with small d', the confusable ones. MIN1 leaves out the pair with the largest d',
MIN2 the middle one, MIN3 the smallest.
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


def measure(
    trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn
) -> list[ModelError]:
    """Mean errors of the minimal models and of the maximal model, on random triplets of classes."""
    draws = class_draws(trained.n_classes, 3, repetitions, seed)
    return mean_errors(each(partial(errors_on, trees=minimal_models), trained, draws))


def minimal_models(dprime: NDArray[np.float64]) -> dict[str, nx.Graph]:
    """The three trees on three classes, with the paper's names."""
    pairs = graphs.edge_array(graphs.complete(3))
    farthest_first = pairs[np.argsort(-dprime[pairs[:, 0], pairs[:, 1]], kind="stable")]
    models = {}
    for rank, left_out in enumerate(farthest_first.tolist(), start=1):
        models[f"MIN{rank}"] = graphs.complete(3)
        models[f"MIN{rank}"].remove_edge(*left_out)
    return models


def findings(rows: Sequence[ModelError]) -> list[Finding]:
    """MIN3 > MIN2 > MIN1 > maximal in error, on every set of the paper."""
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
