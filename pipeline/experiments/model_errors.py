"""Errors of models on the same draws of classes: their means, their order and a figure."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise
from math import comb
from typing import NamedTuple

import networkx as nx
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import PAPER, Finding, mean_and_standard_error
from pairloom.pipeline.experiments.trained_tensor import TrainedTensor


class ModelError(NamedTuple):
    """Mean error of a model over draws of classes. The coupling of a tree is `any`, as all couplings give one model.

    The standard error is that of the difference between the error and its mean over the models in the same draw, since
    the draws of classes differ much more than the models.
    """

    model: str
    coupling: str
    error: float
    standard_error: float


def class_draws(n_classes: int, size: int, repetitions: int, seed: int) -> list[NDArray[np.int64]]:
    """Random draws of `size` classes in random order, or every set of classes once if there are no more sets."""
    rng = np.random.default_rng(seed)
    if comb(n_classes, size) <= repetitions:
        return [rng.permutation(chosen) for chosen in combinations(range(n_classes), size)]
    return [rng.choice(n_classes, size, replace=False) for _ in range(repetitions)]


def errors_on(
    trained: TrainedTensor,
    chosen: NDArray[np.int64],
    trees: Callable[[NDArray[np.float64]], Mapping[str, nx.Graph]],
) -> dict[tuple[str, str], float]:
    """Errors of the trees in ``trees(dprime)`` and of the complete graph, on the chosen classes only."""
    part = trained.of_classes(chosen.tolist())
    minimal = {(name, "any"): part.tree_error(tree) for name, tree in trees(part.dprime).items()}
    maximal = part.errors(graphs.complete(part.n_classes))
    return minimal | {("maximal", coupling): error for coupling, error in maximal.items()}


def wrong_on(
    trained: TrainedTensor,
    chosen: NDArray[np.int64],
    trees: Callable[[NDArray[np.float64]], Mapping[str, nx.Graph]],
) -> dict[tuple[str, str], NDArray[np.float32]]:
    """Which test samples the models of `errors_on` get wrong: 1 or 0, and NaN for samples of other classes."""
    part = trained.of_classes(chosen.tolist())
    coupled = {
        (name, "any"): part.probabilities(tree, ["normal"])["normal"]
        for name, tree in trees(part.dprime).items()
    }
    maximal = part.probabilities(graphs.complete(part.n_classes))
    coupled |= {("maximal", coupling): p for coupling, p in maximal.items()}
    drawn = np.isin(trained.labels, chosen)
    wrong = {key: np.full(len(drawn), np.nan, np.float32) for key in coupled}
    for key, p in coupled.items():
        wrong[key][drawn] = p.argmax(axis=1) != part.labels
    return wrong


def stacked(
    draws: Sequence[Mapping[tuple[str, str], NDArray[np.float32]]],
) -> dict[tuple[str, str], NDArray[np.float32]]:
    """{(model, coupling): (draws, samples) outcomes}, as they are resampled."""
    return {key: np.array([wrong[key] for wrong in draws]) for key in draws[0]}


def errors_of_draws(
    wrong: Mapping[tuple[str, str], NDArray[np.float32]],
) -> list[dict[tuple[str, str], float]]:
    """The errors of all models in each draw, from the outcomes of all samples."""
    means = {key: np.nanmean(outcomes, axis=1, dtype=np.float64).tolist() for key, outcomes in wrong.items()}
    return [dict(zip(means, errors, strict=True)) for errors in zip(*means.values(), strict=True)]


def mean_errors(draws: Sequence[Mapping[tuple[str, str], float]]) -> list[ModelError]:
    """Mean error of each (model, coupling) over the draws."""
    errors = np.array([list(draw.values()) for draw in draws])
    _, spreads = mean_and_standard_error(errors - errors.mean(axis=1, keepdims=True))
    rows = zip(draws[0], errors.mean(axis=0).tolist(), spreads.tolist(), strict=True)
    return [ModelError(*key, mean, spread) for key, mean, spread in rows]


def ordering(rows: Sequence[ModelError], models: Sequence[str]) -> list[Finding]:
    """Compare the errors with the paper's order of the models, largest error first; one finding per step.

    The error of the maximal model is that of its worst coupling, so the order holds for all couplings.
    """
    worst: dict[str, float] = {}
    for row in rows:
        worst[row.model] = max(row.error, worst.get(row.model, 0.0))
    return [
        Finding(
            PAPER,
            f"{high} errs more than {low}",
            f"{worst[high]:.2%} against {worst[low]:.2%}",
            worst[high] > worst[low],
        )
        for high, low in pairwise(models)
    ]


def draw_errors(trained: TrainedTensor, rows: Sequence[ModelError], title: str) -> Figure:
    """Errors with their standard errors, one line per model."""
    figure = Figure(figsize=(6.8, 0.42 * len(rows) + 1.5), layout="constrained")
    axes = figure.subplots()
    names = [row.model if row.coupling == "any" else f"{row.model}, {row.coupling}" for row in rows]
    errors = 100 * np.array([row.error for row in rows])
    bars = 100 * np.array([row.standard_error for row in rows])
    trees = np.array([row.coupling == "any" for row in rows])
    for kind, colour in ((trees, "#a40000"), (~trees, "#3465a4")):
        places = np.flatnonzero(kind)
        whiskers = None if np.isnan(bars).any() else bars[kind]
        axes.errorbar(errors[kind], places, xerr=whiskers, fmt="o", capsize=3, color=colour)
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.margins(y=0.08)
    axes.grid(axis="x", alpha=0.3)
    axes.set(
        xlabel="error, %"
        + ("" if np.isnan(bars).any() else " (with its standard error within a draw of classes)")
    )
    axes.set_title(title)
    return figure
