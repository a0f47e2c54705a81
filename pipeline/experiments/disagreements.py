"""Samples that one coupling gets right and another wrong, and the machine of the critical pair [S Table 6].

The critical pair of a disagreement consists of the true class and the class that the wrong coupling predicts. Its
machine is the only one that compares the two directly. Figures 7 to 9 of [S] show such samples, four of each kind; the
figure here shows two of each.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray
from scipy.stats import chi2

from pairloom import graphs
from pairloom.graphs.text import figure_text
from pairloom.pipeline.coupling.pairs.couple import couple
from pairloom.pipeline.experiments.experiment import (
    AS_LARGE_AS_THE_PAPERS,
    LARGE_SETS_TOO,
    Each,
    Experiment,
    in_turn,
)
from pairloom.pipeline.experiments.few_classes import NEGLIGIBLE
from pairloom.pipeline.experiments.finding import PAPER, Finding, compared
from pairloom.pipeline.experiments.growth_curves import COLOURS
from pairloom.pipeline.experiments.paired_bootstrap import LEVEL, Resampled, resampled_means
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS, TrainedTensor
from pairloom.pipeline.images.picture import BrokenPicture, read_picture

#: Number of samples of each kind in the figure, in one row.
SHOWN = 2
#: In the figure, likeliest classes per sample, and the probability above which a class is named.
TOP, NAMED = 4, 0.05

#: The calibrations whose disagreements are counted.
COUNTED = ("platt", "distance")
_MACHINE = "#2e3436"
#: Odds within this factor of 1 count as near 1; the limit is ours.
NEAR = 2.0
#: Format of a number of samples.
IN_SAMPLES = "+.0f"
#: [S Table 6] The number of samples, of 2500, that the first coupling predicts wrong and the second right.
TABLE_6 = {
    ("wlw2", "stratified"): 5,
    ("wlw2", "normal"): 20,
    ("stratified", "wlw2"): 0,
    ("stratified", "normal"): 17,
    ("normal", "wlw2"): 18,
    ("normal", "stratified"): 20,
}


class Disagreement(NamedTuple):
    """A sample that one coupling predicts wrong and another right. Log odds are of the true class over the other."""

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
    """All disagreements on a set, and its number of samples."""

    cases: tuple[Disagreement, ...]
    n_samples: int


class Count(NamedTuple):
    """Number of disagreements of one kind, with its interval, and of those in which the critical machine is right.

    Columns of a calibration without any disagreement are empty: the authors' machines have Platt's only.
    """

    wrong: str
    right: str
    platt: str
    platt_machine_right: int | str
    distance: str
    distance_machine_right: int | str
    paper: str


def measure(
    trained: TrainedTensor, repetitions: int = 1, seed: int = 0, each: Each = in_turn
) -> Disagreements:
    """Every disagreement of two couplings of the complete graph. The seed draws those in the figure."""
    calibrations = [name for name in trained.calibrations if name in COUNTED]
    by_calibration = each(partial(disagreements_by, seed=seed), trained, calibrations)
    return Disagreements(tuple(row for cases in by_calibration for row in cases), len(trained.labels))


def disagreements_by(trained: TrainedTensor, calibration: str, seed: int) -> list[Disagreement]:
    """The disagreements with machines of one calibration."""
    rng = np.random.default_rng(seed)
    calibrated = trained.calibrated(calibration)
    coupled = calibrated.probabilities(graphs.complete(calibrated.n_classes))
    cases = []
    for wrong, right in permutations(COUPLINGS, 2):
        samples = _only_second_right(calibrated.labels, coupled[wrong], coupled[right])
        shown = set(rng.permutation(samples)[:SHOWN].tolist())
        cases += [
            _disagreement(calibrated, calibration, coupled, wrong, right, r, in_figure=r in shown)
            for r in samples
        ]
    return cases


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
    return list(measured.cases)


def summary(rows: Sequence[Disagreement]) -> list[Count]:
    """Table 6: the counts for every ordered pair of couplings."""
    return [_count(rows, wrong, right) for wrong, right in permutations(COUPLINGS, 2)]


def _count(rows: Sequence[Disagreement], wrong: str, right: str) -> Count:
    platt, platt_right = _counts(rows, "platt", (wrong, right))
    distance, distance_right = _counts(rows, "distance", (wrong, right))
    return Count(wrong, right, platt, platt_right, distance, distance_right, counted(TABLE_6[wrong, right]))


def _counts(rows: Sequence[Disagreement], calibration: str, kind: tuple[str, str]) -> tuple[str, int | str]:
    if not any(row.calibration == calibration for row in rows):
        return "", ""
    cases = _of_kinds(rows, [kind], calibration)
    return counted(len(cases)), sum(row.machine_log_odds > 0 for row in cases)


def counted(number: int) -> str:
    """A number of samples with its 95% interval, the exact one of a Poisson distribution.

    A bootstrap of no samples would always draw none; other samples could have up to four.

    Examples
    --------
    >>> counted(0), counted(20)
    ('0 (0 to 4)', '20 (12 to 31)')
    """
    tail = (1 - LEVEL) / 2
    low = chi2.ppf(tail, 2 * number) / 2 if number else 0.0
    high = chi2.ppf(1 - tail, 2 * number + 2) / 2
    return f"{number} ({low:.0f} to {high:.0f})"


def _of_kinds(
    rows: Iterable[Disagreement], kinds: Sequence[tuple[str, str]], calibration: str = "platt"
) -> list[Disagreement]:
    return [row for row in rows if row.calibration == calibration and (row.wrong, row.right) in kinds]


def findings(measured: Disagreements) -> list[Finding]:
    """The claims: wlw2 and stratified rarely differ; they often differ from normal, and follow the machines."""
    near = _of_kinds(measured.cases, _both_ways("wlw2", "stratified"))
    far = {c: _of_kinds(measured.cases, _both_ways(c, "normal")) for c in ("wlw2", "stratified")}
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
                f"{first} right less {second} right": _more(*_wins(measured.cases, first, second), samples)
                / samples
                for first, second in combinations(COUPLINGS, 2)
            },
            above=-NEGLIGIBLE,
            below=NEGLIGIBLE,
            aside=f"{NEGLIGIBLE:.1%} allowed, 0.2% at most in Table 6",
        ),
        _stratified_avoids_all(measured.cases),
        compared(
            PAPER,
            "stratified has a slight edge on the maximal model of all classes (the conclusion)",
            {
                f"over {other}": _more(*_wins(measured.cases, "stratified", other), samples) / samples
                for other in ("wlw2", "normal")
            },
            above=0,
        ),
        compared(
            PAPER,
            "where they disagree with normal, wlw2 and stratified follow the critical machine (section 5.5)",
            {c: _more(*_split(cases, follows_the_machine), samples) for c, cases in far.items()},
            above=0,
            form=IN_SAMPLES,
            aside="samples that follow it, less those that do not; "
            + " and ".join(
                f"{len(_split(cases, follows_the_machine)[0])} of {len(cases)} do" for cases in far.values()
            ),
        ),
        compared(
            PAPER,
            "where it disagrees with normal, wlw2 tempers the critical machine: its odds are nearer to 1 (section 5.2)",
            {"": _more(*_split(far["wlw2"], tempered), samples)},
            above=0,
            form=IN_SAMPLES,
            aside=f"samples with nearer odds, less others; {len(_split(far['wlw2'], tempered)[0])} of"
            f" {len(far['wlw2'])} have",
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


def _stratified_avoids_all(cases: Iterable[Disagreement]) -> Finding:
    """[S 5.4] There is no error of stratified that wlw2 avoids. This is a count without randomness."""
    avoided = len(_of_kinds(cases, [("stratified", "wlw2")]))
    return Finding(
        PAPER,
        "stratified makes no error that wlw2 avoids (section 5.4)",
        f"{avoided} such samples, and {len(_of_kinds(cases, [('wlw2', 'stratified')]))} the other way round",
        avoided == 0,
    )


def tempered(row: Disagreement) -> bool:
    """Whether the odds of the critical pair by wlw2 are nearer to 1 than those of its machine."""
    by_wlw2 = row.wrong_log_odds if row.wrong == "wlw2" else row.right_log_odds
    return abs(by_wlw2) < abs(row.machine_log_odds)


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
    """The number of samples of one kind minus that of another, resampled.

    It is a difference of counts and not a share, because three of three samples prove nothing.
    """
    balance = np.zeros((1, n_samples))
    for sign, rows in ((1, these), (-1, those)):
        np.add.at(balance[0], [row.sample for row in rows], sign)
    return n_samples * resampled_means({"": balance})[""]


def draw(trained: TrainedTensor, rows: Sequence[Disagreement], title: str) -> Figure:
    """Two samples of each kind, with Platt's calibration as in the paper."""
    kinds = {(wrong, right): _of_kinds(rows, [(wrong, right)]) for wrong, right in permutations(COUPLINGS, 2)}
    return draw_samples(trained, kinds, title)


class Seen(NamedTuple):
    """The probabilities of a sample by each coupling, its true class, and the class that it was confused with."""

    coupled: dict[str, NDArray[np.floating]]
    truth: int
    other: int


def draw_samples(
    trained: TrainedTensor, kinds: Mapping[tuple[str, str], Sequence[Disagreement]], title: str
) -> Figure:
    """One row per kind (wrong coupling, right coupling), with the samples that are to be in the figure."""
    heights = [2.9 if rows else 0.4 for rows in kinds.values()]
    figure = Figure(figsize=(13, sum(heights) + 0.5), layout="constrained")
    figure.suptitle(title)
    lines = figure.subfigures(len(kinds), 1, squeeze=False, hspace=0.02, height_ratios=heights)[:, 0]
    for line, ((wrong, right), rows) in zip(lines, kinds.items(), strict=True):
        shown = [row for row in rows if row.in_figure]
        line.suptitle(f"{wrong} wrong, {right} right: {_number(len(rows), len(shown))}", fontsize=12)
        cells = line.subfigures(1, SHOWN, squeeze=False)[0]
        for cell, row in zip(cells, shown, strict=False):
            _draw_sample(cell, trained, row, wrong, right)
    return figure


def _number(number: int, shown: int) -> str:
    samples = "no sample" if not number else "1 sample" if number == 1 else f"{number} samples"
    return samples + (f", {shown} of them drawn at random" if shown < number else "")


def _draw_sample(cell: SubFigure, trained: TrainedTensor, row: Disagreement, wrong: str, right: str) -> None:
    seen = _seen(trained, row)
    picture = _picture(trained, row.sample)
    panels = cell.subplots(
        1, 2 if picture is None else 3, width_ratios=[1, 1] if picture is None else [1, 1, 1]
    )
    if picture is not None:
        panels[0].imshow(picture)
        panels[0].axis("off")
    names = figure_text(row.true_class, 26), figure_text(row.taken_for, 26)
    cell.suptitle(f"sample {row.sample}: {names[0]}, taken for {names[1]}", fontsize=10)
    _draw_odds(panels[-2], row, seen)
    _draw_classes(panels[-1], trained, seen, (right, wrong))


def _seen(trained: TrainedTensor, row: Disagreement) -> Seen:
    logits = trained.logits[:, :, [row.sample]]
    coupled = {method: couple(logits, method)[0] for method in COUPLINGS}
    return Seen(coupled, trained.classes.index(row.true_class), trained.classes.index(row.taken_for))


def _picture(trained: TrainedTensor, sample: int) -> NDArray[np.uint8] | None:
    """The picture of a sample; None if its file is unknown, missing or broken."""
    if trained.pictures is None or not trained.files:
        return None
    try:
        return np.asarray(read_picture(trained.pictures / trained.files[sample]))
    except BrokenPicture:
        return None


def _draw_odds(axes: Axes, row: Disagreement, seen: Seen) -> None:
    """The odds of the true class against the other, by the machine of the pair and by the couplings: right is up."""
    odds = {"machine": np.exp(row.machine_log_odds)}
    odds |= {method: p[seen.truth] / p[seen.other] for method, p in seen.coupled.items()}
    colours = [_MACHINE, *(COLOURS[method] for method in seen.coupled)]
    places = np.arange(len(odds))
    axes.axhline(1, color="#888a85", linewidth=0.8)
    axes.vlines(places, 1, list(odds.values()), colors=colours, linewidth=2)
    axes.scatter(places, list(odds.values()), c=colours, s=30, zorder=3)
    axes.set_yscale("log")
    reach = max(2.5, *(max(value, 1 / value) for value in odds.values())) ** 1.15
    axes.set_ylim(1 / reach, reach)
    axes.set_xticks(places, list(odds), fontsize=8, rotation=30, ha="right")
    for label, colour in zip(axes.get_xticklabels(), colours, strict=True):
        label.set_color(colour)
    axes.margins(x=0.15)
    ticks = _odds_ticks(reach)
    below = ticks[:0:-1]
    axes.set_yticks(
        [*(1 / tick for tick in below), *ticks],
        [*(f"1/{tick:g}" for tick in below), *(f"{tick:g}" for tick in ticks)],
    )
    axes.minorticks_off()
    axes.tick_params(axis="y", labelsize=8)
    axes.set_ylabel("odds of the true class", fontsize=8)


def _odds_ticks(reach: float) -> list[float]:
    """Ticks for odds from 1 to ``reach``: at most three, evenly spaced."""
    step = next((step for step in (2, 5) if reach < step**3), 10 ** max(1, math.ceil(math.log10(reach) / 3)))
    return [float(step**k) for k in range(3) if step**k < reach]


def _draw_classes(axes: Axes, trained: TrainedTensor, seen: Seen, methods: Sequence[str]) -> None:
    """The likeliest classes by the two couplings that disagree, the right one first; those above 5% are named."""
    probabilities = np.array([seen.coupled[method] for method in methods])
    top = np.argsort(-probabilities.mean(axis=0), kind="stable")[:TOP]
    width = 0.8 / len(methods)
    for at, (method, p) in enumerate(zip(methods, probabilities, strict=True)):
        axes.bar(np.arange(len(top)) + at * width, p[top], width, color=COLOURS[method])
    for place, c in enumerate(top.tolist()):
        if probabilities[:, c].max() > NAMED:
            axes.text(
                place + width / 2,
                probabilities[:, c].max() + 0.02,
                figure_text(trained.classes[c], 18),
                rotation=90,
                ha="center",
                va="bottom",
                fontsize=8.5,
                fontweight="bold" if c == seen.truth else "normal",
            )
    axes.set_ylim(0, 1.4)  # room for the names above high bars
    axes.set_yticks([0, 0.5, 1])
    axes.set_xticks([])
    axes.tick_params(axis="y", labelsize=8)
    axes.set_ylabel("probability", fontsize=8)


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
    full_data=AS_LARGE_AS_THE_PAPERS,
)
