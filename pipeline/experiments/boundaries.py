"""The number of classes near a sample [S Figure 10].

A sample is near a class if the machine between that class and the predicted one gives the class odds of more than 1 to
9. The predicted class itself counts, so a sample far from every boundary is near one class.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import LARGE_SETS_TOO, OURS, Each, Experiment, Finding, in_turn
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS, TrainedTensor

#: A class is near if the odds of the predicted class against it are below this.
NEAR = 9.0
#: The coupling that predicts the class of a sample.
COUPLING = "stratified"

Kind = Literal["right", "wrong", "couplings_differ"]


class Nearness(NamedTuple):
    """Number of samples near `classes_near` classes, and of those on which the couplings' predictions differ."""

    classes_near: int
    right: int
    wrong: int
    couplings_differ: int


class NearnessDigest(NamedTuple):
    """A row of the summary, where the last row stands for all larger numbers of classes."""

    classes_near: int | str
    right: int
    wrong: int
    couplings_differ: int


def measure(
    trained: TrainedTensor, repetitions: int = 1, seed: int = 0, each: Each = in_turn
) -> list[Nearness]:
    """Count the samples near 1, 2, ... classes. Nothing is random, so nothing is repeated."""
    coupled = trained.probabilities(graphs.complete(trained.n_classes))
    predicted = np.array([coupled[method].argmax(axis=1) for method in COUPLINGS])
    chosen = predicted[COUPLINGS.index(COUPLING)]
    near = classes_near(trained.logits, chosen)
    right = chosen == trained.labels
    differ = (predicted != chosen).any(axis=0)
    counts = [np.bincount(near[kind], minlength=near.max() + 1).tolist() for kind in (right, ~right, differ)]
    return [Nearness(m, *(count[m] for count in counts)) for m in range(1, near.max() + 1)]


def classes_near(
    logits: NDArray[np.floating], predicted: NDArray[np.integer], odds: float = NEAR
) -> NDArray[np.int64]:
    """(R,) number of classes near each sample. The predicted class is near, as its logit against itself is zero."""
    of_predicted = logits[predicted, :, np.arange(len(predicted))]
    near: NDArray[np.int64] = (of_predicted < np.log(odds)).sum(axis=1)
    return near


def mean_nearness(rows: Sequence[Nearness], kind: Kind) -> float:
    """Mean number of classes near the samples of one kind; NaN if there are none."""
    counts = [getattr(row, kind) for row in rows]
    return float(np.average([row.classes_near for row in rows], weights=counts)) if any(counts) else np.nan


def findings(rows: Sequence[Nearness]) -> list[Finding]:
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


def summary(rows: Sequence[Nearness]) -> list[NearnessDigest]:
    """The first rows, with all others added up in one row if there are more than ten."""
    shown = [NearnessDigest(*row) for row in rows]
    if len(shown) <= 10:
        return shown
    right, wrong, differ = (sum(column) for column in list(zip(*rows[9:], strict=True))[1:])
    return [*shown[:9], NearnessDigest("10 or more", right, wrong, differ)]


def draw(trained: TrainedTensor, rows: Sequence[Nearness], title: str) -> Figure:
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
    axes.locator_params(axis="x", integer=True)
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
