"""Near how many classes a sample lies [S Figure 10].

A sample is near a class if the machine between that class and the predicted one gives the class odds of at least 1 to
9; the predicted class itself counts, so a sample far from every boundary is near one class.
"""

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import LARGE_SETS_TOO, OURS, Experiment, Finding, in_turn
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS

#: Odds of the predicted class at which another one is no longer near.
NEAR = 9.0
#: The coupling whose prediction is meant.
COUPLING = "stratified"


class Nearness(NamedTuple):
    """The samples that lie near so many classes, and on how many of them not all couplings predict the same."""

    classes_near: int | str
    right: int
    wrong: int
    couplings_differ: int


def measure(trained, repetitions=1, seed=0, each=in_turn):
    """How many samples lie near 1, 2, ... classes. Nothing is drawn: there is nothing to repeat."""
    coupled = trained.probabilities(graphs.complete(trained.n_classes))
    predicted = np.array([coupled[method].argmax(axis=1) for method in COUPLINGS])
    chosen = predicted[COUPLINGS.index(COUPLING)]
    near = classes_near(trained.logits, chosen)
    right = chosen == trained.labels
    differ = (predicted != chosen).any(axis=0)
    counts = [np.bincount(near[kind], minlength=near.max() + 1).tolist() for kind in (right, ~right, differ)]
    return [Nearness(m, *(count[m] for count in counts)) for m in range(1, near.max() + 1)]


def classes_near(logits, predicted, odds=NEAR):
    """(R,) numbers of classes near each sample. The logit of a class against itself is zero: it is near."""
    of_predicted = logits[predicted, :, np.arange(len(predicted))]
    return (of_predicted < np.log(odds)).sum(axis=1)


def mean_nearness(rows, kind):
    """Near how many classes the samples of one kind lie on average."""
    counts = [getattr(row, kind) for row in rows]
    return float(np.average([row.classes_near for row in rows], weights=counts)) if any(counts) else np.nan


def findings(rows):
    """Errors are made where classes meet."""
    right, wrong = mean_nearness(rows, "right"), mean_nearness(rows, "wrong")
    differ = mean_nearness(rows, "couplings_differ")
    return [
        Finding(
            OURS,
            "samples that are predicted wrongly lie near more classes",
            f"wrong {wrong:.1f} on average, right {right:.1f}, couplings differ {differ:.1f}",
            wrong > right,
        )
    ]


def summary(rows):
    """As far as nearly all samples, then the rest in one row."""
    if len(rows) <= 10:
        return rows
    tail = (sum(column) for column in list(zip(*rows[9:], strict=True))[1:])
    return [*rows[:9], Nearness("10 or more", *tail)]


def draw(trained, rows, title):
    """Shares of the right and of the wrong samples by the number of classes near them."""
    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.subplots()
    places = np.array([row.classes_near for row in rows])
    for shift, (kind, colour) in enumerate((("right", "#3465a4"), ("wrong", "#a40000"))):
        counts = np.array([getattr(row, kind) for row in rows])
        share = 100 * counts / max(counts.sum(), 1)
        axes.bar(
            places + 0.4 * (shift - 0.5), share, 0.4, color=colour, label=f"{kind} ({counts.sum()} samples)"
        )
    axes.set(
        xlabel=f"classes near the sample (odds of the predicted class below {NEAR:g})",
        ylabel="share of these samples, %",
    )
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)
    axes.set_title(title)
    return figure


EXPERIMENT = Experiment(
    name="boundaries",
    shows="Figure 10: near how many classes a sample lies",
    row=Nearness,
    measure=measure,
    findings=findings,
    draw=draw,
    summary=summary,
    data=LARGE_SETS_TOO,
)
