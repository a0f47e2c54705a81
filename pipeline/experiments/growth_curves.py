"""Growing from a star to the complete graph: how soon the gain is had [S Figure 4].

Pairs are added in random order (`uniform`) or the most confused first (`confusion`, by the nearest class mean on the
training samples), and the model is coupled three ways on the way.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import (
    LARGE_SETS_TOO,
    PAPER,
    Experiment,
    Finding,
    in_turn,
    mean_and_standard_error,
    side_by_side,
)
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS
from pairloom.pipeline.growth.growing_tensor import GrowingTensor

COSTS = ("uniform", "confusion")
#: Of the pairs that are missing at the start: where the curves are read.
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
#: What counts as "almost all" of the gain.
ALMOST_ALL = 0.8

COLOURS = dict(zip(COUPLINGS, ("#3465a4", "#a40000", "#4e9a06"), strict=True))


class GrowthPoint(NamedTuple):
    """The mean accuracy of a growing model at some size. `share`: of the pairs missing at the start."""

    curve: str
    coupling: str
    share: float
    pairs: int
    accuracy: float
    standard_error: float


class GrowthDigest(NamedTuple):
    """The accuracies by the three couplings at some size."""

    curve: str
    share: float
    pairs: int
    wlw2: float
    stratified: float
    normal: float


def measure(trained, repetitions, seed=0, each=in_turn):
    """The mean curves from stars with random centres."""
    drawn = each(partial(curves_by_cost, seed=seed), trained, range(repetitions))
    return mean_curves(trained.n_classes, drawn)


def curves_by_cost(trained, repetition, seed):
    """The curve for each cost, from one random star."""
    rng = np.random.default_rng([seed, repetition])
    start, order_seed = (
        graphs.star(trained.n_classes, rng.integers(trained.n_classes)),
        int(rng.integers(2**31)),
    )
    orders = {
        "uniform": graphs.grow(start, "uniform", seed=order_seed),
        "confusion": graphs.grow(start, "confusion", matrix=trained.confusion),
    }
    return {cost: growth_curve(trained, start, list(order)) for cost, order in orders.items()}


def growth_curve(trained, start, order):
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


def mean_curves(n_classes, drawn):
    """The points of the mean curves from stars. A draw is {name: curve}."""
    return [
        point
        for name in drawn[0]
        for point in _mean_curve(name, n_classes, [curves[name] for curves in drawn])
    ]


def _mean_curve(name, n_classes, curves):
    mean, spread = (values.tolist() for values in mean_and_standard_error(curves))
    missing = (n_classes - 1) * (n_classes - 2) // 2
    pairs = [n_classes - 1 + round(share * missing) for share in SHARES]
    return [
        GrowthPoint(name, coupling, share, pairs[s], mean[c][s], spread[c][s])
        for c, coupling in enumerate(COUPLINGS)
        for s, share in enumerate(SHARES)
    ]


def accuracy_at(rows, curve, coupling):
    """{share: accuracy} of one curve."""
    return {row.share: row.accuracy for row in rows if (row.curve, row.coupling) == (curve, coupling)}


def share_of_gain(rows, curve, coupling, share=0.5):
    """How much of a curve's gain some share of the missing pairs gives; NaN where there is none."""
    at = accuracy_at(rows, curve, coupling)
    gain = at[1] - at[0]
    return (at[share] - at[0]) / gain if gain > 0 else np.nan


def findings(rows):
    """Half of the missing pairs give almost all of the gain, whatever the coupling."""
    return [_soon(rows, curve) for curve in dict.fromkeys(row.curve for row in rows)]


def _soon(rows, curve):
    halves = {coupling: share_of_gain(rows, curve, coupling) for coupling in COUPLINGS}
    return Finding(
        PAPER,
        f"{curve}: half of the remaining pairs give almost all of the gain",
        ", ".join(f"{c} no gain" if np.isnan(half) else f"{c} {half:.0%}" for c, half in halves.items()),
        all(half >= ALMOST_ALL for half in halves.values()),
    )


def summary(rows):
    """Start, a fifth, half and end of every curve, the couplings side by side."""
    return side_by_side([row for row in rows if row.share in (0, 0.2, 0.5, 1)], GrowthDigest)


def draw(trained, rows, title):
    """Accuracy against the number of pairs: colours are couplings, a line style is a curve."""
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
