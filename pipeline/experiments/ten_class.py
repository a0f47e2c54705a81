"""Ten classes: best star, minimum spanning tree, complete graph by three couplings, and the network [S Table 5].

The network's own answers are in the store of the features, or a softmax layer stands in for it: `softmax_layer`. Of a
network of more classes, the likeliest of the ten counts.
"""

from collections.abc import Sequence

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import Each, Experiment, in_turn
from pairloom.pipeline.experiments.finding import PAPER, Finding, compared
from pairloom.pipeline.experiments.model_errors import (
    ANY,
    MAXIMAL,
    Key,
    ModelError,
    Wrong,
    between_calibrations,
    between_couplings,
    class_draws,
    draw_errors,
    in_the_paper,
    mean_errors,
    percent_errors,
    stacked,
    wrong_on,
)
from pairloom.pipeline.experiments.paired_bootstrap import resampled_means
from pairloom.pipeline.experiments.published import TABLE_5, TenClasses, printed
from pairloom.pipeline.experiments.trained_tensor import CALIBRATIONS, COUPLINGS, TrainedTensor

TREES = ("star", "MST")
#: The network, or the layer that stands in for it.
NETWORK, STAND_IN = "network", "softmax layer"


def measure(
    trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn
) -> dict[Key, NDArray[np.float32]]:
    """Which samples the models and the network get wrong on ten classes, drawn at random from larger sets."""
    draws = class_draws(trained.n_classes, min(10, trained.n_classes), repetitions, seed)
    return stacked(each(wrong_with_network, trained, draws))


def wrong_with_network(trained: TrainedTensor, chosen: NDArray[np.int64]) -> dict[Key, NDArray[np.float32]]:
    """Which samples the models of Table 5 get wrong, and which the network does."""
    part, samples = trained.of_classes(chosen.tolist()), trained.samples_of(chosen.tolist())
    network = np.full(len(trained.labels), np.nan, np.float32)
    network[samples] = part.network.argmax(axis=1) != part.labels
    name = STAND_IN if trained.stand_in else NETWORK
    return {**wrong_on(trained, chosen, trees_by_dprime), ("", name, ANY): network}


def trees_by_dprime(dprime: NDArray[np.float64]) -> dict[str, nx.Graph]:
    """The best star and the minimum spanning tree."""
    return {"star": graphs.star_of_least_distance(dprime), "MST": graphs.spanning_tree(dprime)}


def findings(wrong: Wrong) -> list[Finding]:
    """Maximal models err less than trees, and the couplings hardly differ."""
    error = resampled_means(wrong)
    return [
        *(_tree_errs_more(error, tree) for tree in TREES),
        between_couplings(error, TABLE_5),
        *between_calibrations(error, TREES),
    ]


def _tree_errs_more(error: dict[Key, NDArray[np.float64]], tree: str) -> Finding:
    return compared(
        PAPER,
        f"{tree} errs more than maximal models ({in_the_paper(TABLE_5, tree, COUPLINGS)})",
        {c: error["platt", tree, ANY] - error["platt", MAXIMAL, c] for c in COUPLINGS},
        above=0,
    )


def summary(rows: Sequence[ModelError]) -> list[TenClasses]:
    """The rows of Table 5, one per calibration. The answer of a stand-in is said to be one."""
    return [_row(percent_errors(rows, calibration), calibration) for calibration in CALIBRATIONS]


def _row(errors: dict[str, float], calibration: str) -> TenClasses:
    layer = errors.pop(STAND_IN, None)
    row = printed(TenClasses(calibration, **{NETWORK: layer, **errors}), 2)
    return row if layer is None else row._replace(network=f"{row.network} ({STAND_IN})")


EXPERIMENT = Experiment(
    name="ten-class",
    shows="Table 5: star, minimum spanning tree, complete graph and network on ten classes; errors in percent",
    row=ModelError,
    measure=measure,
    rows=mean_errors,
    findings=findings,
    draw=draw_errors,
    summary=summary,
    published=tuple(printed(row, 1) for row in TABLE_5),
    repetitions=20,
    full=200,
)
