"""Growing from a star to the complete graph: how soon the accuracy rises [S Figure 4].

Pairs are added in random order (`uniform`) or the most confused first (`confusion`, by the nearest class mean on the
training samples). The accuracy is measured with three couplings at several sizes.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import networkx as nx
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import (
    LARGE_SETS_TOO,
    PAPER,
    Each,
    Experiment,
    Finding,
    in_turn,
    mean_and_standard_error,
    side_by_side,
)
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS, TrainedTensor
from pairloom.pipeline.growth.growing_tensor import GrowingTensor

COSTS = ("uniform", "confusion")
#: The sizes at which the accuracy is measured, as shares of the pairs that are missing at the start.
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
#: The share of the gain that counts as "almost all" of it.
ALMOST_ALL = 0.8

COLOURS = dict(zip(COUPLINGS, ("#3465a4", "#a40000", "#4e9a06"), strict=True))


class GrowthPoint(NamedTuple):
    """Mean accuracy of a growing model at one size. `share` is relative to the pairs missing at the start."""

    curve: str
    coupling: str
    share: float
    pairs: int
    accuracy: float
    standard_error: float


class GrowthDigest(NamedTuple):
    """Accuracies of the three couplings at one size."""

    curve: str
    share: float
    pairs: int
    wlw2: float
    stratified: float
    normal: float


def measure(
    trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn
) -> list[GrowthPoint]:
    """Mean curves from stars with random centres."""
    drawn = each(partial(curves_by_cost, seed=seed), trained, range(repetitions))
    return mean_curves(trained.n_classes, drawn)


def curves_by_cost(trained: TrainedTensor, repetition: int, seed: int) -> dict[str, NDArray[np.float64]]:
    """One curve per cost, from the same random star."""
    rng = np.random.default_rng([seed, repetition])
    start = graphs.star(trained.n_classes, rng.integers(trained.n_classes))
    order_seed = int(rng.integers(2**31))
    orders = {
        "uniform": graphs.grow(start, "uniform", seed=order_seed),
        "confusion": graphs.grow(start, "confusion", matrix=trained.confusion),
    }
    return {cost: growth_curve(trained, start, list(order)) for cost, order in orders.items()}


def growth_curve(
    trained: TrainedTensor, start: nx.Graph, order: Sequence[tuple[int, int]]
) -> NDArray[np.float64]:
    """(couplings, shares) accuracies of a model that grows from `start` by the pairs of `order`."""
    model = GrowingTensor(start, trained.of_edges(start))
    accuracies, added = np.empty((len(COUPLINGS), len(SHARES))), 0
    for place, share in enumerate(SHARES):
        upto = round(share * len(order))
        for i, j in order[added:upto]:
            model.add(i, j, trained.logits[i, j])
        added = upto
        accuracies[:, place] = [1 - trained.error_of(model.probabilities(c)) for c in COUPLINGS]
    return accuracies


def mean_curves(n_classes: int, drawn: Sequence[Mapping[str, NDArray[np.float64]]]) -> list[GrowthPoint]:
    """Points of the mean curves from stars; `drawn` holds {name: curve} for every repetition."""
    return [
        point
        for name in drawn[0]
        for point in _mean_curve(name, n_classes, [curves[name] for curves in drawn])
    ]


def _mean_curve(name: str, n_classes: int, curves: Sequence[NDArray[np.float64]]) -> list[GrowthPoint]:
    mean, spread = (values.tolist() for values in mean_and_standard_error(curves))
    missing = (n_classes - 1) * (n_classes - 2) // 2
    pairs = [n_classes - 1 + round(share * missing) for share in SHARES]
    return [
        GrowthPoint(name, coupling, share, pairs[s], mean[c][s], spread[c][s])
        for c, coupling in enumerate(COUPLINGS)
        for s, share in enumerate(SHARES)
    ]


def accuracy_at(rows: Sequence[GrowthPoint], curve: str, coupling: str) -> dict[float, float]:
    """{share: accuracy} of one curve."""
    return {row.share: row.accuracy for row in rows if (row.curve, row.coupling) == (curve, coupling)}


def share_of_gain(rows: Sequence[GrowthPoint], curve: str, coupling: str, share: float = 0.5) -> float:
    """Share of a curve's gain at some share of the missing pairs; NaN if there is no gain."""
    at = accuracy_at(rows, curve, coupling)
    gain = at[1] - at[0]
    return (at[share] - at[0]) / gain if gain > 0 else np.nan


def findings(rows: Sequence[GrowthPoint]) -> list[Finding]:
    """Half of the missing pairs give almost all of the gain, with every coupling."""
    return [_soon(rows, curve) for curve in dict.fromkeys(row.curve for row in rows)]


def _soon(rows: Sequence[GrowthPoint], curve: str) -> Finding:
    halves = {coupling: share_of_gain(rows, curve, coupling) for coupling in COUPLINGS}
    return Finding(
        PAPER,
        f"{curve}: half of the remaining pairs give almost all of the gain",
        ", ".join(f"{c} no gain" if np.isnan(half) else f"{c} {half:.0%}" for c, half in halves.items()),
        all(half >= ALMOST_ALL for half in halves.values()),
    )


def summary(rows: Sequence[GrowthPoint]) -> list[GrowthDigest]:
    """Start, a fifth, half and end of every curve, with the couplings side by side."""
    return side_by_side([row for row in rows if row.share in (0, 0.2, 0.5, 1)], GrowthDigest)


def draw(trained: TrainedTensor, rows: Sequence[GrowthPoint], title: str) -> Figure:
    """Accuracy against the number of pairs, with one colour per coupling and one line style per curve."""
    figure = Figure(figsize=(9, 4.8), layout="constrained")
    axes = figure.subplots()
    styles = dict(zip(dict.fromkeys(row.curve for row in rows), ("-", "--", ":"), strict=False))
    for curve, style in styles.items():
        for coupling, colour in COLOURS.items():
            line = [row for row in rows if (row.curve, row.coupling) == (curve, coupling)]
            pairs, accuracy = [row.pairs for row in line], 100 * np.array([row.accuracy for row in line])
            axes.plot(pairs, accuracy, style, color=colour, marker=".", label=f"{coupling}, {curve}")
            spread = 100 * np.array([row.standard_error for row in line])
            axes.fill_between(
                pairs, accuracy - spread, accuracy + spread, color=colour, alpha=0.12, linewidth=0
            )
    half = next(row.pairs for row in rows if row.share == 0.5)
    axes.axvline(half, color="#888888", linewidth=0.8)
    axes.annotate(
        "half of the\nremaining pairs",
        (half, 0.02),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        color="#666666",
        fontsize=8,
    )
    axes.set(xlabel="trained pairs", ylabel="accuracy, %", title=title)
    axes.grid(alpha=0.3)
    figure.legend(frameon=False, fontsize=8, loc="outside right center", handlelength=3.5)
    return figure


EXPERIMENT = Experiment(
    name="growth",
    shows="Figure 4: accuracy of a model that grows from a star",
    row=GrowthPoint,
    measure=measure,
    findings=findings,
    draw=draw,
    summary=summary,
    repetitions=10,
    full=200,
    of_many_classes=5,
    data=LARGE_SETS_TOO,
)
