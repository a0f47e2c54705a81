"""Ten classes: the best star, the minimum spanning tree, and the complete graph by three couplings [S Table 5]."""

from functools import partial
from typing import NamedTuple

import networkx as nx

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import PAPER, Experiment, Finding, in_turn
from pairloom.pipeline.experiments.model_errors import class_draws, draw_errors, errors_on, mean_errors

#: Errors in [S Table 5], features of a ResNet-18: imagenette ("whole") and CIFAR-10.
PUBLISHED = {
    ("star", "any"): (0.095, 0.066),
    ("MST", "any"): (0.098, 0.065),
    ("maximal", "wlw2"): (0.071, 0.061),
    ("maximal", "stratified"): (0.070, 0.061),
    ("maximal", "normal"): (0.075, 0.062),
}
_LABELS = {"paper_imagenette": "[S], imagenette, ResNet-18", "paper_cifar10": "[S], CIFAR-10, ResNet-18"}


class TenClassError(NamedTuple):
    """The mean error of a model, beside the paper's for two sets."""

    model: str
    coupling: str
    error: float
    standard_error: float
    paper_imagenette: float
    paper_cifar10: float


def measure(trained, repetitions, seed=0, each=in_turn):
    """The mean errors on ten classes: all of a set that has ten, random ones of a larger set."""
    draws = class_draws(trained.n_classes, min(10, trained.n_classes), repetitions, seed)
    means = mean_errors(each(partial(errors_on, trees=trees_by_dprime), trained, draws))
    return [TenClassError(*row, *PUBLISHED[row.model, row.coupling]) for row in means]


def trees_by_dprime(dprime) -> dict[str, nx.Graph]:
    """The best star and the minimum spanning tree."""
    return {"star": graphs.star_of_least_distance(dprime), "MST": graphs.spanning_tree(dprime)}


def findings(rows):
    """Maximal models err less than trees; the iterative couplings no more than normal."""
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


def draw(trained, rows, title):
    """The errors, and the paper's for its own sets and features as hollow marks."""
    figure = draw_errors(trained, rows, title)
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
