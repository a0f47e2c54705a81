"""Samples that one coupling gets right and another wrong, and the machine of the critical pair [S Table 6].

The critical pair of a disagreement is the true class and the class that the wrong coupling predicts. Its machine is the
only one that compares the two directly. Figures 7 to 9 show such samples one by one.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, groupby, permutations, zip_longest
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.coupling import couple
from pairloom.pipeline.experiments.experiment import (
    LARGE_SETS_TOO,
    OURS,
    PAPER,
    Each,
    Experiment,
    Finding,
    in_turn,
)
from pairloom.pipeline.experiments.growth_curves import COLOURS
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS, TrainedTensor

#: Number of the 2500 samples in [S Table 6] for which the first coupling is wrong and the second right.
PUBLISHED = {
    ("wlw2", "stratified"): 5,
    ("stratified", "wlw2"): 0,
    ("wlw2", "normal"): 20,
    ("normal", "wlw2"): 18,
}
#: Number of samples in the figure, and of classes per sample.
SHOWN, TOP = 6, 5


class Disagreement(NamedTuple):
    """A sample that one coupling gets wrong and another right. Log-odds are those of the true class over the other."""

    sample: int
    wrong: str
    right: str
    true_class: str
    taken_for: str
    machine_log_odds: float
    wrong_log_odds: float
    right_log_odds: float


class Count(NamedTuple):
    """Number of disagreements of one kind, and of those in which the machine of the critical pair is right."""

    wrong: str
    right: str
    samples: int
    critical_machine_right: int
    paper: int | str


def measure(
    trained: TrainedTensor, repetitions: int = 1, seed: int = 0, each: Each = in_turn
) -> list[Disagreement]:
    """Every disagreement of two couplings of the complete graph. Nothing is random, so nothing is repeated."""
    coupled = trained.probabilities(graphs.complete(trained.n_classes))
    return [
        _disagreement(trained, coupled, wrong, right, r)
        for wrong, right in permutations(COUPLINGS, 2)
        for r in _only_second_right(trained.labels, coupled[wrong], coupled[right])
    ]


def _only_second_right(
    labels: NDArray[np.integer], wrong: NDArray[np.floating], right: NDArray[np.floating]
) -> list[int]:
    return np.flatnonzero((wrong.argmax(axis=1) != labels) & (right.argmax(axis=1) == labels)).tolist()


def _disagreement(
    trained: TrainedTensor, coupled: Mapping[str, NDArray[np.floating]], wrong: str, right: str, r: int
) -> Disagreement:
    truth, other = trained.labels[r], coupled[wrong][r].argmax()
    log_odds = (
        float(np.log(coupled[method][r, truth] / coupled[method][r, other])) for method in (wrong, right)
    )
    machine = float(trained.logits[truth, other, r])
    return Disagreement(r, wrong, right, trained.classes[truth], trained.classes[other], machine, *log_odds)


def summary(rows: Sequence[Disagreement]) -> list[Count]:
    """Table 6: the counts for every ordered pair of couplings."""
    return [_count(rows, wrong, right) for wrong, right in permutations(COUPLINGS, 2)]


def _count(rows: Sequence[Disagreement], wrong: str, right: str) -> Count:
    cases = [row for row in rows if (row.wrong, row.right) == (wrong, right)]
    sound = sum(row.machine_log_odds > 0 for row in cases)
    return Count(wrong, right, len(cases), sound, PUBLISHED.get((wrong, right), ""))


def findings(rows: Sequence[Disagreement]) -> list[Finding]:
    """wlw2 and stratified seldom differ; wlw2 and normal differ often, and each is right about equally often."""
    counts = {(row.wrong, row.right): row for row in summary(rows)}
    count = {kind: row.samples for kind, row in counts.items()}
    near = count["wlw2", "stratified"] + count["stratified", "wlw2"]
    far = count["wlw2", "normal"] + count["normal", "wlw2"]
    ways = count["wlw2", "normal"], count["normal", "wlw2"]
    sound = [counts[kind].critical_machine_right for kind in (("wlw2", "normal"), ("normal", "wlw2"))]
    followed = ways[0] - sound[0] + sound[1]
    return [
        Finding(
            PAPER,
            "wlw2 differs less from stratified than from normal",
            f"{near} and {far} samples",
            near < far,
        ),
        Finding(
            PAPER,
            "wlw2 and normal win against each other about equally often (20 and 18)",
            f"normal right {ways[0]}, wlw2 right {ways[1]}",
            min(ways) >= 0.75 * max(ways),
        ),
        Finding(
            OURS,
            "where they disagree, wlw2 follows the machine of the critical pair and normal overrules it",
            f"the machine agrees with wlw2 on {followed} of {far} samples",
            2 * followed > far,
        ),
    ]


def draw(trained: TrainedTensor, rows: Sequence[Disagreement], title: str) -> Figure:
    """The first samples of each kind: the most probable classes by each coupling, and the odds of the critical pair."""
    figure = Figure(figsize=(12, 6.8), layout="constrained")
    figure.suptitle(title if rows else f"{title}: the couplings agree wherever one of them is right")
    for place, row in enumerate(_shown(rows)):
        _draw_sample(figure.add_subplot(2, SHOWN // 2, place + 1), trained, row)
    return figure


def _shown(rows: Sequence[Disagreement]) -> list[Disagreement]:
    """The first disagreement of each kind, then the second of each, and so on, without repeating a sample."""
    kinds = [list(kind) for _, kind in groupby(rows, key=lambda row: (row.wrong, row.right))]
    shown: dict[int, Disagreement] = {}
    for row in chain.from_iterable(zip_longest(*kinds)):
        if row is not None:
            shown.setdefault(row.sample, row)
    return list(shown.values())[:SHOWN]


def _draw_sample(axes: Axes, trained: TrainedTensor, row: Disagreement) -> None:
    logits = trained.logits[:, :, [row.sample]]
    coupled = {method: couple(logits, method)[0] for method in COUPLINGS}
    top = np.argsort(-sum(coupled.values()), kind="stable")[:TOP]
    width = 0.8 / len(COUPLINGS)
    for at, (method, p) in enumerate(coupled.items()):
        axes.bar(np.arange(len(top)) + at * width, p[top], width, color=COLOURS[method], label=method)
    names = [trained.classes[c] for c in top]
    axes.set_xticks(np.arange(len(top)) + width, names, rotation=25, ha="right", fontsize=7)
    for label, name in zip(axes.get_xticklabels(), names, strict=True):
        label.set_fontweight("bold" if name == row.true_class else "normal")
    axes.set_title(
        f"sample {row.sample}: {row.right} right, {row.wrong} wrong\n"
        f"odds of {row.true_class} against {row.taken_for}:\n"
        f"machine {_odds(row.machine_log_odds)}, {row.right} {_odds(row.right_log_odds)},"
        f" {row.wrong} {_odds(row.wrong_log_odds)}",
        fontsize=8,
    )
    axes.set_ylabel("probability", fontsize=8)
    axes.tick_params(axis="y", labelsize=8)
    axes.legend(frameon=False, fontsize=7)


def _odds(log_odds: float) -> str:
    return f"{np.exp(log_odds):.3g}"


EXPERIMENT = Experiment(
    name="disagreements",
    shows="Table 6 and Figures 7 to 9: samples on which couplings disagree, and the machine of the critical pair",
    row=Disagreement,
    measure=measure,
    findings=findings,
    draw=draw,
    summary=summary,
    data=LARGE_SETS_TOO,
)
