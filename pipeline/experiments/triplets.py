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
from pairloom.pipeline.experiments.experiment import Each, Experiment, in_turn
from pairloom.pipeline.experiments.finding import Finding
from pairloom.pipeline.experiments.model_errors import (
    Key,
    ModelError,
    Wrong,
    between_calibrations,
    between_couplings,
    class_draws,
    draw_errors,
    mean_errors,
    ordering,
    percent_errors,
    stacked,
    wrong_on,
)
from pairloom.pipeline.experiments.paired_bootstrap import resampled_means
from pairloom.pipeline.experiments.published import TABLE_3, Triplets, printed
from pairloom.pipeline.experiments.trained_tensor import CALIBRATIONS, TrainedTensor

MODELS = ("MIN3", "MIN2", "MIN1")


def measure(
    trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn
) -> dict[Key, NDArray[np.float32]]:
    """Which samples the minimal and the maximal models get wrong, on triplets of classes."""
    draws = class_draws(trained.n_classes, 3, repetitions, seed)
    return stacked(each(partial(wrong_on, trees=minimal_models), trained, draws))


def minimal_models(dprime: NDArray[np.float64]) -> dict[str, nx.Graph]:
    """The three trees on three classes, with the paper's names."""
    pairs = graphs.edge_array(graphs.complete(3))
    farthest_first = pairs[np.argsort(-dprime[pairs[:, 0], pairs[:, 1]], kind="stable")]
    models = {}
    for rank, left_out in enumerate(farthest_first.tolist(), start=1):
        models[f"MIN{rank}"] = graphs.complete(3)
        models[f"MIN{rank}"].remove_edge(*left_out)
    return models


def findings(wrong: Wrong) -> list[Finding]:
    """MIN3 > MIN2 > MIN1 > maximal in error; the couplings hardly differ."""
    error = resampled_means(wrong)
    return [
        *ordering(error, MODELS, dict(zip(MODELS, MODELS, strict=True)), TABLE_3),
        between_couplings(error, TABLE_3),
        *between_calibrations(error, MODELS),
    ]


def summary(rows: Sequence[ModelError]) -> list[Triplets]:
    """The rows of Table 3, one per calibration."""
    return [
        printed(Triplets(calibration, **percent_errors(rows, calibration)), 2) for calibration in CALIBRATIONS
    ]


EXPERIMENT = Experiment(
    name="triplets",
    shows="Table 3: two machines for three classes, the pair left out chosen by d'; errors in percent",
    row=ModelError,
    measure=measure,
    rows=mean_errors,
    findings=findings,
    draw=draw_errors,
    summary=summary,
    published=tuple(printed(row, 1) for row in TABLE_3),
    repetitions=500,
    full=1000,
)
