"""The number of likely classes of a sample: those whose stratified probability exceeds 0.1 [S Figure 10].

A sample is erroneous here if stratified predicts it wrong and normal right. A sample far from every boundary has one
class above 0.1; a sample that could be of any class has none.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import (
    AS_LARGE_AS_THE_PAPERS,
    LARGE_SETS_TOO,
    Each,
    Experiment,
    in_turn,
)
from pairloom.pipeline.experiments.finding import PAPER, Finding, compared
from pairloom.pipeline.experiments.paired_bootstrap import resampled_means
from pairloom.pipeline.experiments.trained_tensor import TrainedTensor

#: A class counts if its probability is above this.
LIKELY = 0.1


class LikelyClasses(NamedTuple):
    """(R,) number of likely classes of every sample, and whether the sample is erroneous."""

    number: NDArray[np.int64]
    erroneous: NDArray[np.bool_]


class LikelyCount(NamedTuple):
    """Number of samples with this number of likely classes, and of the erroneous ones among them."""

    classes_above: int
    samples: int
    erroneous: int


def measure(
    trained: TrainedTensor, repetitions: int = 1, seed: int = 0, each: Each = in_turn
) -> LikelyClasses:
    """Count the likely classes of every sample. This is not random, so it is not repeated."""
    p = trained.probabilities(graphs.complete(trained.n_classes), ["stratified", "normal"])
    right = {coupling: of_coupling.argmax(axis=1) == trained.labels for coupling, of_coupling in p.items()}
    return LikelyClasses(likely_classes(p["stratified"]), ~right["stratified"] & right["normal"])


def likely_classes(p: NDArray[np.floating]) -> NDArray[np.int64]:
    """(R,) number of classes whose probability (R, N) exceeds 0.1."""
    return np.asarray((p > LIKELY).sum(axis=1))


def rows(measured: LikelyClasses) -> list[LikelyCount]:
    """The numbers of samples with 0, 1, ... likely classes, up to the largest number that occurs."""
    number, most = measured.number, int(measured.number.max()) + 1
    counts = [
        np.bincount(numbers, minlength=most).tolist() for numbers in (number, number[measured.erroneous])
    ]
    return [LikelyCount(m, *both) for m, both in enumerate(zip(*counts, strict=True))]


def findings(measured: LikelyClasses) -> list[Finding]:
    """The claim that such errors occur where several classes meet."""
    number, erroneous = measured
    usual = number[~erroneous].mean()
    # The sum, not the mean, over the erroneous samples: a mean over three samples would not be reliable.
    excess = resampled_means({"": np.where(erroneous, number - usual, 0.0)[None]})[""]
    average = f"{number[erroneous].mean():.2f}" if erroneous.any() else "none"
    return [
        compared(
            PAPER,
            "samples that stratified gets wrong and normal right have more classes above 0.1 than others (section 5.5)",
            {"": len(number) * excess},
            above=0,
            form="+.1f",
            aside=f"summed over {erroneous.sum()} samples, which have {average} on average, the others {usual:.2f}",
        )
    ]


def draw(trained: TrainedTensor, rows: Sequence[LikelyCount], title: str) -> Figure:
    """Numbers of samples on a square-root axis, so that a few erroneous ones are visible beside thousands."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    places = np.array([row.classes_above for row in rows])
    for shift, (kind, colour, name) in enumerate(
        (("samples", "#3465a4", "all samples"), ("erroneous", "#a40000", "stratified wrong, normal right"))
    ):
        counts = np.array([getattr(row, kind) for row in rows])
        bars = axes.bar(
            places + 0.4 * (shift - 0.5), counts, 0.4, color=colour, label=f"{name} ({counts.sum()})"
        )
        axes.bar_label(bars, [str(count) if count else "" for count in counts], fontsize=8, padding=2)
    axes.set_yscale("function", functions=(_root, np.square))
    top = max(row.samples for row in rows)
    axes.set_ylim(0, 1.12 * top)
    axes.set_yticks(_squares(top))
    axes.set_xticks(places)
    axes.set(
        xlabel=f"classes whose stratified probability exceeds {LIKELY:g}", ylabel="samples (square-root axis)"
    )
    axes.legend(frameon=False)
    axes.set_title(title)
    return figure


def _root(values: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.asarray(np.sqrt(np.maximum(values, 0)))


def _squares(top: int) -> list[int]:
    """Ticks for a square-root axis: about evenly spaced, with few digits."""
    nice = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
    ticks, last = [], -1.0
    for value in nice:
        if value <= top and np.sqrt(value) - last > np.sqrt(top) / 18:
            ticks.append(value)
            last = np.sqrt(value)
    return ticks


EXPERIMENT = Experiment(
    name="boundaries",
    shows="Figure 10: for how many classes the stratified probability exceeds 0.1",
    row=LikelyCount,
    measure=measure,
    rows=rows,
    findings=findings,
    draw=draw,
    data=LARGE_SETS_TOO,
    full_data=AS_LARGE_AS_THE_PAPERS,
)
