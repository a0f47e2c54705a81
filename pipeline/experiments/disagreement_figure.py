"""Samples on which couplings disagree, one by one [S Figures 7 to 9]: picture, odds of the critical pair, classes."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray

from pairloom.pipeline.coupling import couple
from pairloom.pipeline.experiments.growth_curves import COLOURS
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS, TrainedTensor
from pairloom.pipeline.images.picture import BrokenPicture, read_picture
from pairloom.pipeline.storage.names import figure_text

#: Samples per row, likeliest classes per sample, and the probability above which a class is named.
ACROSS, TOP, NAMED = 4, 4, 0.05

_MACHINE = "#2e3436"


class ShownSample(Protocol):
    """A disagreement as the figure needs it."""

    @property
    def sample(self) -> int: ...

    @property
    def true_class(self) -> str: ...

    @property
    def taken_for(self) -> str: ...

    @property
    def machine_log_odds(self) -> float: ...

    @property
    def in_figure(self) -> bool: ...


class Seen(NamedTuple):
    """A sample as the couplings see it: its probabilities, the true class and the one it was taken for."""

    coupled: dict[str, NDArray[np.floating]]
    truth: int
    other: int


def draw_samples(
    trained: TrainedTensor, kinds: Mapping[tuple[str, str], Sequence[ShownSample]], title: str
) -> Figure:
    """One row per kind (wrong coupling, right coupling), with the samples that are to be in the figure."""
    heights = [2.75 if rows else 0.4 for rows in kinds.values()]
    figure = Figure(figsize=(16.5, sum(heights) + 0.5), layout="constrained")
    figure.suptitle(title)
    lines = figure.subfigures(len(kinds), 1, squeeze=False, hspace=0.02, height_ratios=heights)[:, 0]
    for line, ((wrong, right), rows) in zip(lines, kinds.items(), strict=True):
        shown = [row for row in rows if row.in_figure]
        line.suptitle(f"{wrong} wrong, {right} right: {_number(len(rows), len(shown))}", fontsize=10)
        cells = line.subfigures(1, ACROSS, squeeze=False)[0]
        for cell, row in zip(cells, shown, strict=False):
            _draw_sample(cell, trained, row, wrong, right)
    return figure


def _number(found: int, shown: int) -> str:
    samples = "no sample" if not found else "1 sample" if found == 1 else f"{found} samples"
    return samples + (f", {shown} of them drawn at random" if shown < found else "")


def _draw_sample(cell: SubFigure, trained: TrainedTensor, row: ShownSample, wrong: str, right: str) -> None:
    seen = _seen(trained, row)
    picture = _picture(trained, row.sample)
    panels = cell.subplots(
        1, 2 if picture is None else 3, width_ratios=[1, 1] if picture is None else [1, 1, 1]
    )
    if picture is not None:
        panels[0].imshow(picture)
        panels[0].axis("off")
    names = figure_text(row.true_class, 26), figure_text(row.taken_for, 26)
    cell.suptitle(f"sample {row.sample}: {names[0]}, taken for {names[1]}", fontsize=7.5)
    _draw_odds(panels[-2], row, seen)
    _draw_classes(panels[-1], trained, seen, (right, wrong))


def _seen(trained: TrainedTensor, row: ShownSample) -> Seen:
    logits = trained.logits[:, :, [row.sample]]
    coupled = {method: couple(logits, method)[0] for method in COUPLINGS}
    return Seen(coupled, trained.classes.index(row.true_class), trained.classes.index(row.taken_for))


def _picture(trained: TrainedTensor, sample: int) -> NDArray[np.uint8] | None:
    """The picture of a sample; None if its file is not known, not at hand or broken."""
    if trained.pictures is None or not trained.files:
        return None
    try:
        return np.asarray(read_picture(trained.pictures / trained.files[sample]))
    except BrokenPicture:
        return None


def _draw_odds(axes: Axes, row: ShownSample, seen: Seen) -> None:
    """The odds of the true class against the other, by the machine of the pair and by the couplings."""
    odds = {"machine": np.exp(row.machine_log_odds)}
    odds |= {method: p[seen.truth] / p[seen.other] for method, p in seen.coupled.items()}
    colours = [_MACHINE, *(COLOURS[method] for method in seen.coupled)]
    places = np.arange(len(odds))
    axes.axvline(1, color="#888a85", linewidth=0.8)
    axes.hlines(places, 1, list(odds.values()), colors=colours, linewidth=1)
    axes.scatter(list(odds.values()), places, c=colours, s=22, zorder=3)
    axes.set_xscale("log")
    reach = max(2.5, *(max(value, 1 / value) for value in odds.values())) ** 1.15
    axes.set_xlim(1 / reach, reach)
    axes.set_yticks(places, list(odds), fontsize=7)
    for label, colour in zip(axes.get_yticklabels(), colours, strict=True):
        label.set_color(colour)
    axes.invert_yaxis()
    axes.margins(y=0.15)
    ticks = _odds_ticks(reach)
    below = ticks[:0:-1]
    axes.set_xticks(
        [*(1 / tick for tick in below), *ticks],
        [*(f"1/{tick:g}" for tick in below), *(f"{tick:g}" for tick in ticks)],
    )
    axes.minorticks_off()
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel("odds of the critical pair", fontsize=7)


def _odds_ticks(reach: float) -> list[float]:
    """Odds from 1 upwards to be marked on an axis that reaches so far: at most three, evenly spaced."""
    step = next((step for step in (2, 5) if reach < step**3), 10 ** max(1, math.ceil(math.log10(reach) / 3)))
    return [float(step**k) for k in range(3) if step**k < reach]


def _draw_classes(axes: Axes, trained: TrainedTensor, seen: Seen, methods: Sequence[str]) -> None:
    """The likeliest classes by the two couplings that disagree, the right one first; those above 5% are named."""
    own = np.array([seen.coupled[method] for method in methods])
    top = np.argsort(-own.mean(axis=0), kind="stable")[:TOP]
    width = 0.8 / len(methods)
    for at, (method, p) in enumerate(zip(methods, own, strict=True)):
        axes.bar(np.arange(len(top)) + at * width, p[top], width, color=COLOURS[method])
    for place, c in enumerate(top.tolist()):
        if own[:, c].max() > NAMED:
            axes.text(
                place + width / 2,
                own[:, c].max() + 0.02,
                figure_text(trained.classes[c], 20),
                rotation=90,
                ha="center",
                va="bottom",
                fontsize=6.5,
                fontweight="bold" if c == seen.truth else "normal",
            )
    axes.set_ylim(0, 1.4)  # room for the names above high bars
    axes.set_yticks([0, 0.5, 1])
    axes.set_xticks([])
    axes.tick_params(axis="y", labelsize=7)
    axes.set_ylabel("probability", fontsize=7)
