"""Centres of stars: which classes are good centres [S Figure 3], and how long the choice matters [S Figure 5].

Figure 3 is a map of the classes by d', coloured by the accuracy of their stars. Figure 5 shows models that grow from
the best and from the worst star.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.stats import rankdata

from pairloom import graphs
from pairloom.pipeline.experiments import growth_curves
from pairloom.pipeline.experiments.experiment import AS_LARGE_AS_THE_PAPERS, Each, Experiment, in_turn
from pairloom.pipeline.experiments.finding import OURS, PAPER, Finding, compared
from pairloom.pipeline.experiments.growth_curves import Growth, GrowthPoint
from pairloom.pipeline.experiments.paired_bootstrap import resampled_means
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS, TrainedTensor
from pairloom.pipeline.growth.growing_block import GrowthOutcome, sample_blocks

BEST, WORST = "best centre", "worst centre"
#: The choice of the centre does not matter if two accuracies differ by less than this: our limit.
CLOSE = 0.005


class Centre(NamedTuple):
    """A class as the centre of a star: its place on the map, its mean d' to the others, and its star's accuracy."""

    centre: str
    x: float
    y: float
    mean_dprime: float
    accuracy: float


class StarCentres(NamedTuple):
    """The classes as centres of stars.

    Attributes
    ----------
    classes : tuple of N names
    dprime : (N, N) array
    right : (N, R) bool array
        Whether the star around each class predicts each sample correctly.
    """

    classes: tuple[str, ...]
    dprime: NDArray[np.float64]
    right: NDArray[np.bool_]

    @property
    def mean_dprime(self) -> NDArray[np.float64]:
        """(N,) mean d' of a class to the others."""
        return np.asarray(self.dprime.sum(axis=0) / (len(self.classes) - 1))


def measure(trained: TrainedTensor, repetitions: int = 1, seed: int = 0, each: Each = in_turn) -> StarCentres:
    """Every class as the centre. This is not random, so it is not repeated."""
    right = each(star_right, trained, range(trained.n_classes))
    return StarCentres(trained.classes, trained.dprime, np.array(right))


def star_accuracies(trained: TrainedTensor, each: Each = in_turn) -> list[float]:
    """Accuracy of the star around each class."""
    return [float(right.mean()) for right in each(star_right, trained, range(trained.n_classes))]


def star_right(trained: TrainedTensor, centre: int) -> NDArray[np.bool_]:
    """(R,) whether the star around one class predicts a sample correctly. On a tree all couplings agree."""
    p = trained.probabilities(graphs.star(trained.n_classes, centre), ["normal"])["normal"]
    return np.asarray(p.argmax(axis=1) == trained.labels)


def rows(measured: StarCentres) -> list[Centre]:
    """The map of the classes, the best centres first."""
    x, y = classical_scaling(measured.dprime).T.tolist()
    columns = (measured.classes, x, y, measured.mean_dprime.tolist(), measured.right.mean(axis=1).tolist())
    centres = [Centre(*row) for row in zip(*columns, strict=True)]
    return sorted(centres, key=lambda centre: -centre.accuracy)


def classical_scaling(distances: ArrayLike, dimensions: int = 2) -> NDArray[np.float64]:
    """(N, dimensions) coordinates whose distances approximate `distances`: classical multidimensional scaling.

    Double centring turns the squared distances into -2 times inner products. The coordinates are their leading
    eigenvectors times the square roots of the eigenvalues.
    """
    squared = np.asarray(distances) ** 2
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean()
    n = len(squared)
    values, vectors = eigh(-centred / 2, subset_by_index=[n - dimensions, n - 1])
    # The sign of an eigenvector is arbitrary: make its largest entry in absolute value positive.
    vectors *= np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(dimensions)])
    places: NDArray[np.float64] = (vectors * np.sqrt(np.maximum(values, 0)))[:, ::-1]
    return places


def findings(measured: StarCentres) -> list[Finding]:
    """The metrical finding for stars [S 4.1]: a centre near the other classes is better."""
    accuracies = resampled_means({c: right[None] for c, right in enumerate(measured.right)})
    correlation = rank_correlations(measured.mean_dprime, np.array(list(accuracies.values())))
    best, *_, worst = rows(measured)
    return [
        compared(
            PAPER,
            "a centre that is near to the other classes (small d') makes a better star (section 4.1)",
            {"rank correlation of mean d' and accuracy": correlation},
            below=0,
            form="+.2f",
            aside=f"best {best.centre} {best.accuracy:.2%}, worst {worst.centre} {worst.accuracy:.2%}",
        )
    ]


def rank_correlations(values: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spearman's rank correlation of values (N,) with each column of (N, B) others."""
    ranks, of_others = rankdata(values), rankdata(others, axis=0)
    ranks, of_others = ranks - ranks.mean(), of_others - of_others.mean(axis=0)
    scale = np.sqrt((ranks**2).sum() * (of_others**2).sum(axis=0))
    return np.asarray(ranks @ of_others / scale)


def summary(rows: Sequence[Centre]) -> Sequence[Centre]:
    """The best and the worst centres."""
    return rows if len(rows) <= 10 else [*rows[:4], *rows[-4:]]


def draw(trained: TrainedTensor, rows: Sequence[Centre], title: str) -> Figure:
    """The map of the classes."""
    figure = Figure(figsize=(10, 7.5), layout="constrained")
    axes = figure.subplots()
    x, y = [row.x for row in rows], [row.y for row in rows]
    dots = axes.scatter(x, y, c=[100 * row.accuracy for row in rows], cmap="viridis", s=45)
    figure.colorbar(dots, ax=axes, label="accuracy of the star about this class, %")
    axes.set(xlabel="first coordinate of d'", ylabel="second coordinate of d'", title=title)
    axes.margins(0.15)  # for the names beside the dots
    axes.set_aspect("equal", adjustable="box")  # the limits of data would be narrowed again
    _write_names(figure, axes, rows)
    return figure


#: Possible places of a name beside its dot, in points, with its alignment; the first free place is taken.
_PLACES = (
    (5, 0, "left", "center"),
    (-5, 0, "right", "center"),
    (0, 6, "center", "bottom"),
    (0, -6, "center", "top"),
    (5, 7, "left", "bottom"),
    (-5, 7, "right", "bottom"),
    (5, -7, "left", "top"),
    (-5, -7, "right", "top"),
)


def _write_names(figure: Figure, axes: Axes, rows: Sequence[Centre]) -> None:
    """Name every class, from the best and the worst inwards, at a place where the name covers no dot and no other name.

    If there is no such place, the name is put farther out, with a line to its dot.
    """
    figure.draw_without_rendering()  # positions in pixels are known only now
    dots = axes.transData.transform([(row.x, row.y) for row in rows])
    taken: list[Bbox] = []
    for c in sorted(range(len(rows)), key=lambda c: min(c, len(rows) - 1 - c)):
        for distance in (1, 3, 5, 8, 12):
            if any(_named(figure, axes, rows[c], place, distance, dots, taken) for place in _PLACES):
                break


def _named(
    figure: Figure,
    axes: Axes,
    row: Centre,
    place: tuple[float, float, str, str],
    distance: int,
    dots: NDArray[np.float64],
    taken: list[Bbox],
) -> bool:
    """Write a name at a place if it is free; return whether it was."""
    x, y, across, up = place
    name = axes.annotate(
        row.centre,
        (row.x, row.y),
        xytext=(distance * x, distance * y),
        textcoords="offset points",
        ha=across,
        va=up,
        fontsize=6.5,
        arrowprops={"arrowstyle": "-", "linewidth": 0.3, "color": "#888888"} if distance > 1 else None,
    )
    box = name.get_window_extent() if distance == 1 else Text.get_window_extent(name)
    if any(box.padded(1).contains(*dot) for dot in dots) or any(box.overlaps(other) for other in taken):
        name.remove()
        return False
    taken.append(box)
    return True


STAR_CENTRES = Experiment(
    name="star-centres",
    shows="Figure 3: classes on a map by d', coloured by the accuracy of their star",
    row=Centre,
    measure=measure,
    rows=rows,
    findings=findings,
    draw=draw,
    summary=summary,
    full_data=AS_LARGE_AS_THE_PAPERS,
)


def measure_growth(trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn) -> Growth:
    """Curves, in random orders of the pairs, from the most and the least accurate star."""
    accuracies = star_accuracies(trained)
    centres = {BEST: int(np.argmax(accuracies)), WORST: int(np.argmin(accuracies))}
    drawn = each(partial(curves_from, centres=centres, seed=seed), trained, range(repetitions))
    return growth_curves.gathered(trained.n_classes, drawn)


def curves_from(
    trained: TrainedTensor, repetition: int, centres: Mapping[str, int], seed: int
) -> dict[str, GrowthOutcome]:
    """One curve per centre, from its star, all in the same random order of the pairs."""
    order_seed = int(np.random.default_rng([seed, repetition]).integers(2**31))
    starts = {name: graphs.star(trained.n_classes, centre) for name, centre in centres.items()}
    blocks = sample_blocks(trained.logits, trained.labels)
    return {
        name: growth_curves.growth_curve(
            trained, blocks, start, list(graphs.grow(start, "uniform", seed=order_seed))
        )
        for name, start in starts.items()
    }


def growth_findings(growth: Growth) -> list[Finding]:
    """The claim of [S 4.4] on Figure 5, and one of ours. [S 4.1] recommends a random centre, which lies between."""
    at = resampled_means(growth.outcomes)
    gaps = {
        stage: {coupling: at[BEST, coupling, stage] - at[WORST, coupling, stage] for coupling in COUPLINGS}
        for stage in ("star", "small", "half")
    }
    return [
        compared(
            PAPER,
            "the centre matters for a long initial period (section 4.4)",
            gaps["small"],
            above=0,
            aside="best less worst centre, on average up to a fifth of the remaining pairs",
        ),
        compared(
            OURS,
            "when half of the remaining pairs are there, the best centre is as good as the worst",
            gaps["half"],
            above=-CLOSE,
            below=CLOSE,
            aside=f"{CLOSE:.1%} allowed, the stars differ by {gaps['star'][COUPLINGS[0]][0]:.2%}",
        ),
    ]


CENTRES = Experiment(
    name="centres",
    shows="Figure 5: growing from the best and from the worst centre, after every pair",
    row=GrowthPoint,
    measure=measure_growth,
    rows=growth_curves.rows,
    findings=growth_findings,
    draw=growth_curves.draw,
    summary=growth_curves.summary,
    repetitions=10,
    full=100,
    full_data=AS_LARGE_AS_THE_PAPERS,
)
