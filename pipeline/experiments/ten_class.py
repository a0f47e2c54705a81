"""Ten classes: the best star, the minimum spanning tree, and the complete graph by three couplings [S Table 5]."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import networkx as nx
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import PAPER, Each, Experiment, Finding, in_turn
from pairloom.pipeline.experiments.model_errors import (
    ModelError,
    class_draws,
    draw_errors,
    errors_on,
    mean_errors,
)
from pairloom.pipeline.experiments.trained_tensor import TrainedTensor

#: Errors in [S Table 5] with features of a ResNet-18, on imagenette ("whole") and on CIFAR-10.
PUBLISHED = {
    ("star", "any"): (0.095, 0.066),
    ("MST", "any"): (0.098, 0.065),
    ("maximal", "wlw2"): (0.071, 0.061),
    ("maximal", "stratified"): (0.070, 0.061),
    ("maximal", "normal"): (0.075, 0.062),
}
_LABELS = {"paper_imagenette": "[S], imagenette, ResNet-18", "paper_cifar10": "[S], CIFAR-10, ResNet-18"}


class TenClassError(NamedTuple):
    """Mean error of a model, and the paper's errors on two sets."""

    model: str
    coupling: str
    error: float
    standard_error: float
    paper_imagenette: float
    paper_cifar10: float


def measure(
    trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn
) -> list[TenClassError]:
    """Mean errors on ten classes, drawn at random from larger sets."""
    draws = class_draws(trained.n_classes, min(10, trained.n_classes), repetitions, seed)
    means = mean_errors(each(partial(errors_on, trees=trees_by_dprime), trained, draws))
    return [TenClassError(*row, *PUBLISHED[row.model, row.coupling]) for row in means]


def trees_by_dprime(dprime: NDArray[np.float64]) -> dict[str, nx.Graph]:
    """The best star and the minimum spanning tree."""
    return {"star": graphs.star_of_least_distance(dprime), "MST": graphs.spanning_tree(dprime)}


def findings(rows: Sequence[TenClassError]) -> list[Finding]:
    """Maximal models err less than trees, and the iterative couplings no more than normal."""
    error = {(row.model, row.coupling): row.error for row in rows}
    trees = min(error["star", "any"], error["MST", "any"])
    best = min(error["maximal", coupling] for coupling in ("wlw2", "stratified"))
    normal = error["maximal", "normal"]
    return [
        Finding(
            PAPER,
            "every maximal model errs less than star and MST",
            f"maximal {best:.2%} (normal {normal:.2%}), trees {trees:.2%}",
            max(best, normal) < trees,
        ),
        Finding(
            PAPER,
            "wlw2 and stratified err no more than normal",
            " and ".join(f"{c} {error['maximal', c]:.2%}" for c in ("wlw2", "stratified"))
            + f", normal {normal:.2%}",
            max(error["maximal", c] for c in ("wlw2", "stratified")) <= normal,
        ),
    ]


def draw(trained: TrainedTensor, rows: Sequence[TenClassError], title: str) -> Figure:
    """Errors of the models; hollow marks are the paper's errors, on its own sets and features."""
    figure = draw_errors(trained, [ModelError(*row[:4]) for row in rows], title)
    (axes,) = figure.axes
    for name, marker in (("paper_imagenette", "s"), ("paper_cifar10", "^")):
        published = [100 * getattr(row, name) for row in rows]
        axes.plot(published, range(len(rows)), marker, color="#888a85", fillstyle="none", label=_LABELS[name])
    figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=2)
    return figure


EXPERIMENT = Experiment(
    name="ten-class",
    shows="Table 5: star, minimum spanning tree and complete graph on ten classes",
    row=TenClassError,
    measure=measure,
    findings=findings,
    draw=draw,
    repetitions=20,
    full=200,
)
