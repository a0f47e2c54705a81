"""Samples that one coupling gets right and another wrong, and the machine of the critical pair [S Table 6].

The critical pair of a disagreement is the true class and the class that the wrong coupling predicts. Its machine is the
only one that compares the two directly. Figures 7 to 9 of [S] show such samples one by one, four of each kind.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.experiments.disagreement_figure import draw_samples
from pairloom.pipeline.experiments.experiment import LARGE_SETS_TOO, Each, Experiment, in_turn
from pairloom.pipeline.experiments.finding import PAPER, Finding, compared
from pairloom.pipeline.experiments.model_errors import NEGLIGIBLE
from pairloom.pipeline.experiments.paired_bootstrap import Resampled, resampled_means
from pairloom.pipeline.experiments.published import TABLE_6
from pairloom.pipeline.experiments.trained_tensor import CALIBRATIONS, COUPLINGS, TrainedTensor

#: Number of samples of each kind in the figure.
SHOWN = 4
#: Odds are near 1 within this factor, a limit of ours.
NEAR = 2.0
#: Format of a number of samples.
IN_SAMPLES = "+.0f"


class Disagreement(NamedTuple):
    """A sample that one coupling gets wrong and another right. Log-odds are those of the true class over the other."""

    calibration: str
    sample: int
    wrong: str
    right: str
    true_class: str
    taken_for: str
    machine_log_odds: float
    wrong_log_odds: float
    right_log_odds: float
    in_figure: bool


class Disagreements(NamedTuple):
    """All disagreements on a set of so many samples."""

    found: tuple[Disagreement, ...]
    n_samples: int


class Count(NamedTuple):
    """Number of disagreements of one kind, and of those in which the machine of the critical pair is right."""

    wrong: str
    right: str
    platt: int
    platt_machine_right: int
    distance: int
    distance_machine_right: int
    paper: int


def measure(
    trained: TrainedTensor, repetitions: int = 1, seed: int = 0, each: Each = in_turn
) -> Disagreements:
    """Every disagreement of two couplings of the complete graph. The seed draws those in the figure."""
    by_calibration = each(partial(disagreements_by, seed=seed), trained, CALIBRATIONS)
    return Disagreements(tuple(row for found in by_calibration for row in found), len(trained.labels))


def disagreements_by(trained: TrainedTensor, calibration: str, seed: int) -> list[Disagreement]:
    """The disagreements with machines of one calibration."""
    rng = np.random.default_rng(seed)
    own = trained.calibrated(calibration)
    coupled = own.probabilities(graphs.complete(own.n_classes))
    found = []
    for wrong, right in permutations(COUPLINGS, 2):
        samples = _only_second_right(own.labels, coupled[wrong], coupled[right])
        shown = set(rng.permutation(samples)[:SHOWN].tolist())
        found += [
            _disagreement(own, calibration, coupled, wrong, right, r, in_figure=r in shown) for r in samples
        ]
    return found


def _only_second_right(
    labels: NDArray[np.integer], wrong: NDArray[np.floating], right: NDArray[np.floating]
) -> list[int]:
    return np.flatnonzero((wrong.argmax(axis=1) != labels) & (right.argmax(axis=1) == labels)).tolist()


def _disagreement(
    trained: TrainedTensor,
    calibration: str,
    coupled: Mapping[str, NDArray[np.floating]],
    wrong: str,
    right: str,
    r: int,
    *,
    in_figure: bool,
) -> Disagreement:
    truth, other = trained.labels[r], coupled[wrong][r].argmax()

    def log_odds(method: str) -> float:
        return float(np.log(coupled[method][r, truth] / coupled[method][r, other]))

    return Disagreement(
        calibration=calibration,
        sample=r,
        wrong=wrong,
        right=right,
        true_class=trained.classes[truth],
        taken_for=trained.classes[other],
        machine_log_odds=float(trained.logits[truth, other, r]),
        wrong_log_odds=log_odds(wrong),
        right_log_odds=log_odds(right),
        in_figure=in_figure,
    )


def rows(measured: Disagreements) -> list[Disagreement]:
    """All disagreements."""
    return list(measured.found)


def summary(rows: Sequence[Disagreement]) -> list[Count]:
    """Table 6: the counts for every ordered pair of couplings."""
    return [
        Count(*kind, *_counts(rows, "platt", kind), *_counts(rows, "distance", kind), TABLE_6[kind])
        for kind in permutations(COUPLINGS, 2)
    ]


def _counts(rows: Iterable[Disagreement], calibration: str, kind: tuple[str, str]) -> tuple[int, int]:
    cases = _of_kinds(rows, [kind], calibration)
    return len(cases), sum(row.machine_log_odds > 0 for row in cases)


def _of_kinds(
    rows: Iterable[Disagreement], kinds: Sequence[tuple[str, str]], calibration: str = "platt"
) -> list[Disagreement]:
    return [row for row in rows if row.calibration == calibration and (row.wrong, row.right) in kinds]


def findings(measured: Disagreements) -> list[Finding]:
    """wlw2 and stratified seldom differ, and hardly; with normal they differ often, and they follow the machines."""
    near = _of_kinds(measured.found, _both_ways("wlw2", "stratified"))
    far = {c: _of_kinds(measured.found, _both_ways(c, "normal")) for c in ("wlw2", "stratified")}
    samples = measured.n_samples
    return [
        compared(
            PAPER,
            "wlw2 differs less from stratified than from normal (on 5 and 38 of 2500 samples)",
            {"": _more(far["wlw2"], near, samples)},
            above=0,
            form=IN_SAMPLES,
            aside=f"on {len(near)} and {len(far['wlw2'])} of {samples} samples",
        ),
        compared(
            PAPER,
            "the differences among the couplings are negligible on the maximal model of all classes",
            {
                f"{first} right less {second} right": _more(*_wins(measured.found, first, second), samples)
                / samples
                for first, second in combinations(COUPLINGS, 2)
            },
            above=-NEGLIGIBLE,
            below=NEGLIGIBLE,
            aside=f"{NEGLIGIBLE:.0%} allowed, 0.2% at most in Table 6",
        ),
        compared(
            PAPER,
            "where they disagree with normal, wlw2 and stratified follow the critical machine (section 5.5)",
            {c: _more(*_split(own, follows_the_machine), samples) for c, own in far.items()},
            above=0,
            form=IN_SAMPLES,
            aside="samples that follow it, less those that do not; "
            + " and ".join(
                f"{len(_split(own, follows_the_machine)[0])} of {len(own)} do" for own in far.values()
            ),
        ),
        compared(
            PAPER,
            "disagreements of wlw2 and stratified lie near odds 1",
            {
                name: _more(*_split(near, is_near), samples)
                for name, is_near in {"machine": near_by_machine, "couplings": near_by_couplings}.items()
            },
            above=0,
            form=IN_SAMPLES,
            aside=f"samples with odds from 1/{NEAR:g} to {NEAR:g}, less others; of {len(near)},"
            f" {len(_split(near, near_by_machine)[0])} by the machine and"
            f" {len(_split(near, near_by_couplings)[0])} by both couplings are near",
        ),
    ]


def follows_the_machine(row: Disagreement) -> bool:
    """Whether the machine of the critical pair is on the side of the coupling that is not normal."""
    return (row.machine_log_odds > 0) == (row.wrong == "normal")


def near_by_machine(row: Disagreement) -> bool:
    """Whether the odds of the critical pair are near 1 by its machine."""
    return abs(row.machine_log_odds) < math.log(NEAR)


def near_by_couplings(row: Disagreement) -> bool:
    """Whether the odds of the critical pair are near 1 by both couplings."""
    return max(abs(row.wrong_log_odds), abs(row.right_log_odds)) < math.log(NEAR)


def _both_ways(first: str, second: str) -> list[tuple[str, str]]:
    return [(first, second), (second, first)]


def _wins(
    rows: Iterable[Disagreement], first: str, second: str
) -> tuple[list[Disagreement], list[Disagreement]]:
    """The disagreements of two couplings in which the first is right, and those in which the second is."""
    return _split(_of_kinds(rows, _both_ways(first, second)), lambda row: row.right == first)


def _split(
    rows: Iterable[Disagreement], test: Callable[[Disagreement], bool]
) -> tuple[list[Disagreement], list[Disagreement]]:
    """The rows that pass a test, and the others."""
    parts: tuple[list[Disagreement], list[Disagreement]] = ([], [])
    for row in rows:
        parts[not test(row)].append(row)
    return parts


def _more(these: Iterable[Disagreement], those: Iterable[Disagreement], n_samples: int) -> Resampled:
    """How many more samples there are of one kind than of another, among as many samples drawn again.

    A difference of counts, and not a share: three samples of three are no proof of anything.
    """
    balance = np.zeros((1, n_samples))
    for sign, rows in ((1, these), (-1, those)):
        np.add.at(balance[0], [row.sample for row in rows], sign)
    return n_samples * resampled_means({"": balance})[""]


def draw(trained: TrainedTensor, rows: Sequence[Disagreement], title: str) -> Figure:
    """Four samples of each kind, with Platt's calibration as in the paper."""
    kinds = {(wrong, right): _of_kinds(rows, [(wrong, right)]) for wrong, right in permutations(COUPLINGS, 2)}
    return draw_samples(trained, kinds, title)


EXPERIMENT = Experiment(
    name="disagreements",
    shows="Table 6 and Figures 7 to 9: samples on which couplings disagree, and the machine of the critical pair",
    row=Disagreement,
    measure=measure,
    rows=rows,
    findings=findings,
    draw=draw,
    summary=summary,
    data=LARGE_SETS_TOO,
)
