"""Graphs of diameter two against wider ones with as many pairs, on all classes of a set.

[S] finds on five classes (Table 4) that a tree of small diameter errs less. Here trees of all classes are compared, and
the same trees after random pairs were added: stars, whose missing pairs are always completed over one common
neighbour, against random trees and paths, where pairs at distance three or more are completed by potentials
(`completion.complete`). With fifty classes there is a graph of diameter two without any hub, the Hoffman-Singleton
graph; it is compared with random graphs of the same degree, whose diameter is three. The authors of [S] released its
accuracy on ImageNet-50.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

import networkx as nx
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import (
    AS_LARGE_AS_THE_PAPERS,
    Each,
    Experiment,
    in_turn,
    mean_and_standard_error,
    side_by_side,
)
from pairloom.pipeline.experiments.finding import OURS, Finding, compared
from pairloom.pipeline.experiments.growth_curves import (
    RELEASED_CLASSES,
    RELEASED_COUPLING,
    draw_released_graphs,
    released_accuracy,
)
from pairloom.pipeline.experiments.paired_bootstrap import resampled_means
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS, TrainedTensor

STAR, TREE, PATH = "star, then random pairs", "random tree, then random pairs", "path, then random pairs"
HOFFMAN_SINGLETON, REGULAR = "Hoffman-Singleton", "random regular"
#: The numbers of pairs, relative to those of a tree.
SIZES = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
DEGREE = 7
STYLES = {
    STAR: ("#3465a4", "o"),
    TREE: ("#888a85", "s"),
    PATH: ("#c17d11", "^"),
    HOFFMAN_SINGLETON: ("#a40000", "D"),
    REGULAR: ("#4e9a06", "v"),
}


class WideGraph(NamedTuple):
    """Mean diameter, and mean accuracy by one coupling, of the graphs of a family with the same number of pairs."""

    graph: str
    pairs: int
    diameter: float
    coupling: str
    accuracy: float
    standard_error: float


class WideDigest(NamedTuple):
    """Accuracies of the three couplings for one family and size."""

    graph: str
    pairs: int
    diameter: float
    wlw2: float
    stratified: float
    normal: float


class Diameters(NamedTuple):
    """All measurements.

    Attributes
    ----------
    n_classes : int
    diameters : mapping of (family, pairs) -> (repetitions,) array
    right : mapping of (family, pairs, coupling) -> (repetitions, R) array
        Whether each sample is predicted correctly.
    """

    n_classes: int
    diameters: dict[tuple[str, int], NDArray[np.float64]]
    right: dict[tuple[str, int, str], NDArray[np.float32]]


Outcomes = dict[tuple[str, int], tuple[int, NDArray[np.float32]]]


def measure(trained: TrainedTensor, repetitions: int, seed: int = 0, each: Each = in_turn) -> Diameters:
    """All families at all sizes."""
    drawn = each(partial(outcomes_of_draw, seed=seed), trained, range(repetitions))
    return Diameters(
        trained.n_classes,
        {key: np.array([outcomes[key][0] for outcomes in drawn], float) for key in drawn[0]},
        {
            (*key, coupling): np.array([outcomes[key][1][c] for outcomes in drawn])
            for key in drawn[0]
            for c, coupling in enumerate(COUPLINGS)
        },
    )


def outcomes_of_draw(trained: TrainedTensor, repetition: int, seed: int) -> Outcomes:
    """{(family, pairs): diameter and (couplings, R) correct predictions} of one draw of graphs."""
    rng = np.random.default_rng([seed, repetition])
    return {
        (family, graph.number_of_edges()): (nx.diameter(graph), _right(trained, graph))
        for family, graph in drawn_graphs(trained.n_classes, rng)
    }


def drawn_graphs(n: int, rng: np.random.Generator) -> Iterator[tuple[str, nx.Graph]]:
    """Each family at each size; classes are at random places, and the pairs of a size are among those of the next."""
    order = rng.permutation(n)
    starts = {
        STAR: graphs.star(n, int(order[0])),
        TREE: nx.from_prufer_sequence(rng.integers(n, size=n - 2).tolist()),
        PATH: nx.path_graph(order.tolist()),
    }
    for family, start in starts.items():
        added = list(graphs.grow(start, "uniform", seed=int(rng.integers(2**31))))
        for pairs in sizes_of(n):
            grown = nx.Graph(start)
            grown.add_edges_from(islice(added, pairs - (n - 1)))
            yield family, grown
    if n == RELEASED_CLASSES:
        yield (
            HOFFMAN_SINGLETON,
            nx.relabel_nodes(nx.hoffman_singleton_graph(), dict(enumerate(order.tolist()))),
        )
        yield REGULAR, nx.random_regular_graph(DEGREE, n, seed=int(rng.integers(2**31)))


def sizes_of(n: int) -> list[int]:
    """Numbers of pairs, below that of all."""
    pairs = dict.fromkeys(round(size * (n - 1)) for size in SIZES)
    return [size for size in pairs if size < n * (n - 1) // 2]


def _right(trained: TrainedTensor, graph: nx.Graph) -> NDArray[np.float32]:
    p = trained.probabilities(graph)
    return np.array([p[c].argmax(axis=1) == trained.labels for c in COUPLINGS], np.float32)


def rows(measured: Diameters) -> list[WideGraph]:
    """Means over the graphs of every family and size."""
    found = []
    for (family, pairs, coupling), right in measured.right.items():
        mean, spread = mean_and_standard_error(right.mean(axis=1, dtype=np.float64))
        diameter = float(measured.diameters[family, pairs].mean())
        found.append(WideGraph(family, pairs, diameter, coupling, float(mean), float(spread)))
    return found


def findings(measured: Diameters) -> list[Finding]:
    """Our claims: with as many pairs, diameter two is better than more."""
    at, n = resampled_means(measured.right), measured.n_classes
    tree, *larger = sizes_of(n)
    accuracy = {family: at[family, tree, "normal"] for family in (STAR, TREE, PATH)}
    diameter = {family: measured.diameters[family, tree].mean() for family in accuracy}

    def mean(family: str, coupling: str) -> NDArray[np.float64]:
        return np.asarray(np.mean([at[family, pairs, coupling] for pairs in larger], axis=0))

    found = [
        compared(
            OURS,
            "trees of all classes: a star is more accurate than a random tree, and that than a path",
            {
                "star less tree": accuracy[STAR] - accuracy[TREE],
                "tree less path": accuracy[TREE] - accuracy[PATH],
            },
            above=0,
            aside="diameters 2, " + " and ".join(f"{diameter[family]:.1f}" for family in (TREE, PATH)),
        ),
        compared(
            OURS,
            "graphs of diameter two (a star and random pairs) are more accurate than a random tree and random pairs",
            {c: mean(STAR, c) - mean(TREE, c) for c in COUPLINGS},
            above=0,
            aside=f"on average over sizes from {larger[0]} to {larger[-1]} pairs",
        ),
    ]
    if n != RELEASED_CLASSES:
        return found
    pairs = DEGREE * n // 2
    released = " and ".join(
        f"{released_accuracy('Hof-Sing', pairs, kernel):.1%} ({kernel})" for kernel in ("linear", "radial")
    )
    return [
        *found,
        compared(
            OURS,
            f"Hoffman-Singleton, of diameter two, is more accurate than random graphs of degree {DEGREE}",
            {c: at[HOFFMAN_SINGLETON, pairs, c] - at[REGULAR, pairs, c] for c in COUPLINGS},
            above=0,
            aside=f"wlw2 has {at[HOFFMAN_SINGLETON, pairs, 'wlw2'][0]:.1%} with it here, and {released} in the runs"
            f" that the authors of [S] released; diameter {measured.diameters[REGULAR, pairs].mean():.1f} of the"
            " others",
        ),
    ]


def summary(rows: Sequence[WideGraph]) -> list[WideDigest]:
    """The couplings side by side."""
    return side_by_side(rows, WideDigest)


def draw(trained: TrainedTensor, rows: Sequence[WideGraph], title: str) -> Figure:
    """Accuracy against the share of pairs, one panel per coupling."""
    figure = Figure(figsize=(13, 4.4), layout="constrained")
    panels = figure.subplots(1, len(COUPLINGS), sharey=True)
    every = trained.n_classes * (trained.n_classes - 1) / 2
    for axes, coupling in zip(panels, COUPLINGS, strict=True):
        for family, (colour, marker) in STYLES.items():
            line = [row for row in rows if (row.graph, row.coupling) == (family, coupling)]
            if not line:
                continue
            wide = sorted({round(row.diameter) for row in line})
            name = f"{family} (diameter {wide[0]}" + (f" to {wide[-1]})" if len(wide) > 1 else ")")
            axes.errorbar(
                [100 * row.pairs / every for row in line],
                [100 * row.accuracy for row in line],
                yerr=[100 * np.nan_to_num(row.standard_error) for row in line],
                color=colour,
                marker=marker,
                markersize=4,
                capsize=2,
                label=name,
            )
        if trained.n_classes == RELEASED_CLASSES and coupling == RELEASED_COUPLING:
            draw_released_graphs(axes, ("Hof-Sing",))
        axes.set(xlabel="trained pairs, % of all", title=coupling)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("accuracy, %")
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, loc="outside right center")
    figure.suptitle(title)
    return figure


EXPERIMENT = Experiment(
    name="diameters",
    shows="Table 4 on all classes (ours): graphs of diameter two, and wider ones of as many pairs",
    row=WideGraph,
    measure=measure,
    rows=rows,
    findings=findings,
    draw=draw,
    summary=summary,
    repetitions=5,
    full=100,
    full_data=AS_LARGE_AS_THE_PAPERS,
)
