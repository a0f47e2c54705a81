"""Five classes, four machines: path, fork or star [S Table 4].

The topological finding: of all trees on five classes, the star has the smallest diameter and the smallest error. As in
the paper, five classes are drawn 500 times and put on the vertices at random, also where there are fewer sets of five.
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
    draw_errors,
    mean_errors,
    ordered_draws,
    ordering,
    percent_errors,
    stacked,
    wrong_on,
)
from pairloom.pipeline.experiments.paired_bootstrap import resampled_means
from pairloom.pipeline.experiments.published import TABLE_4, Quintets, printed
from pairloom.pipeline.experiments.trained_tensor import CALIBRATIONS, TrainedTensor

#: Names of the five-vertex trees by their shapes, largest diameter first, and the columns of Table 4.
SHAPES = {"G4": "path (G4)", "G3": "fork (G3)", "G2": "star (G2)"}
COLUMNS = {"path (G4)": "path_G4", "fork (G3)": "fork_G3", "star (G2)": "star_G2"}


def measure(
    trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn
) -> dict[Key, NDArray[np.float32]]:
    """Which samples the three trees and the maximal models get wrong, on random classes at random vertices."""
    draws = ordered_draws(trained.n_classes, 5, repetitions, seed)
    return stacked(each(partial(wrong_on, trees=trees_by_shape), trained, draws))


def trees_by_shape(dprime: NDArray[np.float64]) -> dict[str, nx.Graph]:
    """The trees on five classes, with class c at vertex c. They do not depend on d'."""
    trees = graphs.five_vertex_trees()
    return {shape: trees[name] for name, shape in SHAPES.items()}


def findings(wrong: Wrong) -> list[Finding]:
    """Path > fork > star > maximal in error; the couplings hardly differ."""
    error = resampled_means(wrong)
    return [
        *ordering(error, tuple(SHAPES.values()), COLUMNS, TABLE_4),
        between_couplings(error, TABLE_4),
        *between_calibrations(error, tuple(SHAPES.values())),
    ]


def summary(rows: Sequence[ModelError]) -> list[Quintets]:
    """The rows of Table 4, one per calibration."""
    return [_row(percent_errors(rows, calibration), calibration) for calibration in CALIBRATIONS]


def _row(errors: dict[str, float], calibration: str) -> Quintets:
    columns = {COLUMNS.get(model, model): error for model, error in errors.items()}
    return printed(Quintets(calibration, **columns), 2)


EXPERIMENT = Experiment(
    name="quintets",
    shows="Table 4: the three trees on five classes; errors in percent",
    row=ModelError,
    measure=measure,
    rows=mean_errors,
    findings=findings,
    draw=draw_errors,
    summary=summary,
    published=tuple(printed(row, 1) for row in TABLE_4),
    repetitions=500,
    full=500,
)
