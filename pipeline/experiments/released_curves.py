"""What the authors of [S] released: mean curves of ImageNet-50, to be drawn beside ours [S Figures 4 to 6].

The files are of the public result files of https://github.com/ondrej-such/svm3: real ImageNet-50 by a ResNet, 2500 test
pictures, 50 runs, the coupling wlw2, machines with a linear and with a radial kernel. They may be of another version
than the printed text.
"""

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes

#: The number of classes of these curves: figures and claims on other sets have nothing to do with them.
RELEASED_CLASSES = 50
#: The released names of growth, and what they mean.
RANDOM, LARGEST_ERRORS, LARGEST_ERRORS_2 = "random-edge", "max1-edge", "max2-edge"
GROWTHS = {
    RANDOM: "random pairs",
    LARGEST_ERRORS: "largest errors",
    LARGEST_ERRORS_2: "largest errors (max2)",
}
#: The released graphs, with their names.
GRAPHS = {"K25-25": "K(25, 25)", "Hof-Sing": "Hoffman-Singleton"}
#: All released numbers are of this coupling.
RELEASED_COUPLING = "wlw2"
_COLOUR = "#75507b"
_STYLES = dict(zip(GROWTHS, ("-", "--", ":"), strict=True))
_FOLDER = Path(__file__).parent / "released"


class ReleasedPoint(NamedTuple):
    """Mean accuracy of a released model with so many pairs."""

    kernel: str
    model: str
    pairs: int
    accuracy: float


@cache
def released_growth() -> tuple[ReleasedPoint, ...]:
    """The released growth from random stars."""
    return tuple(
        ReleasedPoint(row["kernel"], row["model"], int(float(row["n_edges"])), float(row["accuracy"]))
        for row in _rows("imagenet50-growth.csv")
    )


@cache
def released_graphs() -> tuple[ReleasedPoint, ...]:
    """The released fixed graphs."""
    return tuple(
        ReleasedPoint(row["kernel"], row["model"], int(row["n_edges"]), float(row["mean"]))
        for row in _rows("imagenet50-graphs.csv")
        if row["metric"] == "Accuracy"
    )


def _rows(name: str) -> list[dict[str, str]]:
    with (_FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))


def released_accuracy(model: str, pairs: int, kernel: str = "linear") -> float:
    """The released accuracy of a model with so many pairs.

    Examples
    --------
    >>> released_accuracy("random-edge", 1225)
    0.922
    """
    points = (*released_growth(), *released_graphs())
    return next(p.accuracy for p in points if (p.kernel, p.model, p.pairs) == (kernel, model, pairs))


def draw_released_growth(
    axes: Axes, growths: tuple[str, ...] = tuple(GROWTHS), *, share: bool = False
) -> None:
    """Draw released curves of linear machines, against pairs or their share of all."""
    for model in growths:
        line = [p for p in released_growth() if (p.kernel, p.model) == ("linear", model)]
        axes.plot(
            [_place(p.pairs, share) for p in line],
            [100 * p.accuracy for p in line],
            _STYLES[model],
            color=_COLOUR,
            linewidth=1.2,
            label=f"[S] released, {GROWTHS[model]}",
        )


def draw_released_graphs(axes: Axes) -> None:
    """Draw the released graphs of linear machines against their share of all pairs."""
    for (model, name), marker in zip(GRAPHS.items(), ("*", "P"), strict=True):
        point = next(p for p in released_graphs() if (p.kernel, p.model) == ("linear", model))
        axes.plot(
            [_place(point.pairs, share=True)],
            [100 * point.accuracy],
            marker,
            color=_COLOUR,
            markersize=8,
            label=f"[S] released, {name}",
        )


def _place(pairs: int, share: bool) -> float:
    return 100 * pairs / (RELEASED_CLASSES * (RELEASED_CLASSES - 1) / 2) if share else pairs
