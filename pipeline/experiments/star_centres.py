"""Where a good centre of a star lies: classes on a map by d', coloured by the accuracy of their star [S Figure 3]."""

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.linalg import eigh
from scipy.stats import spearmanr

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import OURS, Experiment, Finding, in_turn


class Centre(NamedTuple):
    """A class as the centre of a star: its place on the map, its mean d' to the others, the accuracy of its star."""

    centre: str
    x: float
    y: float
    mean_dprime: float
    accuracy: float


def measure(trained, repetitions=1, seed=0, each=in_turn):
    """Every class as the centre, the best first. Nothing is drawn: there is nothing to repeat."""
    n = trained.n_classes
    places = classical_scaling(trained.dprime).tolist()
    mean_dprime = (trained.dprime.sum(axis=0) / (n - 1)).tolist()
    accuracies = star_accuracies(trained, each)
    rows = [Centre(trained.classes[c], *places[c], mean_dprime[c], accuracies[c]) for c in range(n)]
    return sorted(rows, key=lambda row: -row.accuracy)


def star_accuracies(trained, each=in_turn) -> list[float]:
    """The accuracy of the star about each class."""
    return each(star_accuracy, trained, range(trained.n_classes))


def star_accuracy(trained, centre) -> float:
    """The accuracy of the star about one class."""
    return 1 - trained.tree_error(graphs.star(trained.n_classes, centre))


def classical_scaling(distances, dimensions=2):
    """(N, dimensions) places whose distances are nearest to those given: classical multidimensional scaling.

    The squared distances, centred twice, are -2 times inner products; their leading eigenvectors are the places.
    """
    squared = np.asarray(distances) ** 2
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean()
    n = len(squared)
    values, vectors = eigh(-centred / 2, subset_by_index=[n - dimensions, n - 1])
    # A sign is left open by the eigenvectors: the entry that is largest in size is made positive.
    vectors *= np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(dimensions)])
    return (vectors * np.sqrt(np.maximum(values, 0)))[:, ::-1]


def findings(rows):
    """The metrical finding, seen on stars."""
    correlation = spearmanr([row.mean_dprime for row in rows], [row.accuracy for row in rows]).statistic
    best, worst = rows[0], rows[-1]
    return [
        Finding(
            OURS,
            "a centre that is near to the other classes (small d') makes a better star",
            f"rank correlation of mean d' and accuracy {correlation:+.2f};"
            f" best {best.centre} {best.accuracy:.2%}, worst {worst.centre} {worst.accuracy:.2%}",
            bool(correlation < 0),
        )
    ]


def summary(rows):
    """The best and the worst centres."""
    return rows if len(rows) <= 10 else [*rows[:4], *rows[-4:]]


def draw(trained, rows, title):
    """The map of the classes."""
    figure = Figure(figsize=(8, 6.2), layout="constrained")
    axes = figure.subplots()
    x, y = [row.x for row in rows], [row.y for row in rows]
    dots = axes.scatter(x, y, c=[100 * row.accuracy for row in rows], cmap="viridis", s=45)
    figure.colorbar(dots, ax=axes, label="accuracy of the star about this class, %")
    axes.set(xlabel="first coordinate of d'", ylabel="second coordinate of d'", title=title)
    axes.margins(x=0.25)  # names stand to the right of their dots
    axes.set_aspect("equal", adjustable="datalim")
    _write_names(axes, rows)
    return figure


def _write_names(axes, rows):
    """Name the classes, best and worst first, then inwards, where a name covers neither a dot nor another name."""
    inwards = sorted(range(len(rows)), key=lambda c: min(c, len(rows) - 1 - c))
    names = [
        axes.annotate(
            rows[c].centre, (rows[c].x, rows[c].y), xytext=(5, 3), textcoords="offset points", fontsize=6.5
        )
        for c in inwards
    ]
    axes.figure.draw_without_rendering()  # settles where everything is
    dots = axes.transData.transform([(row.x, row.y) for row in rows])
    taken = []
    for name in names:
        box = name.get_window_extent()
        if any(box.padded(3).contains(*dot) for dot in dots) or any(box.overlaps(other) for other in taken):
            name.remove()
        else:
            taken.append(box)


EXPERIMENT = Experiment(
    name="star-centres",
    shows="Figure 3: classes on a map by d', coloured by the accuracy of their star",
    row=Centre,
    measure=measure,
    findings=findings,
    draw=draw,
    summary=summary,
)
