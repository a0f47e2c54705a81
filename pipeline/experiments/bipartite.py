"""Complete bipartite graphs K(d, N - d) against other graphs of the same size [S Figure 6].

Beside the paper's grown graphs stands `hub_neighbours`, our own family: a few hubs joined to every class and every class
joined to its nearest ones, with no more pairs than the others have.
"""

from typing import NamedTuple

import networkx as nx
import numpy as np
from matplotlib.figure import Figure

from pairloom import graphs
from pairloom.pipeline.experiments.experiment import Experiment, Finding
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS

#: The sizes of the smaller side, as far as half of the classes.
SIDES = (1, 2, 3, 4, 5, 7, 10, 15, 20, 25, 30, 40, 50, 75)
BIPARTITE, GROWN, CONFUSED, HUBS, COMPLETE = (
    "K(d, N-d)",
    "grown, uniform",
    "grown, confusion",
    "hub_neighbours",
    "complete",
)
STYLES = {
    BIPARTITE: ("#3465a4", "o"),
    GROWN: ("#888a85", "s"),
    CONFUSED: ("#c17d11", "^"),
    HUBS: ("#a40000", "D"),
}
#: The paper's size at which K(d, N - d) reaches the complete model, and what counts as reached.
ENOUGH, REACHED = 5, 0.005


class GraphAccuracy(NamedTuple):
    """The mean accuracy of the models over graphs of one family and size. d is the bipartite graph's smaller side."""

    graph: str
    coupling: str
    d: int
    pairs: int
    share_of_pairs: float
    accuracy: float
    standard_error: float


def measure(trained, repetitions, seed=0, track=iter):
    """The mean accuracy of every family at every size, and that of the complete graph."""
    n = trained.n_classes
    sides = [d for d in SIDES if d <= n // 2]
    drawn = [
        [_of_size(trained, d, [seed, repetition, d]) for d in sides]
        for repetition in track(range(repetitions))
    ]
    rows = [
        row
        for family in STYLES
        for at, d in enumerate(sides)
        for row in _means(family, d, n, [repetition[at][family] for repetition in drawn])
    ]
    complete = _accuracies(trained, graphs.complete(n))
    return rows + _means(COMPLETE, n, n, [complete])


def _of_size(trained, d, seed):
    """{family: (pairs, accuracies)} of graphs with as many pairs as K(d, N - d) on random hubs."""
    return {family: _accuracies(trained, graph) for family, graph in graphs_of_size(trained, d, seed).items()}


def graphs_of_size(trained, d, seed) -> dict[str, nx.Graph]:
    """The graphs that are compared: none has more pairs than K(d, N - d)."""
    n, rng = trained.n_classes, np.random.default_rng(seed)
    budget, center = d * (n - d), int(rng.integers(n))
    return {
        BIPARTITE: graphs.bipartite(n, rng.choice(n, d, replace=False)),
        GROWN: graphs.grown(n, budget, center=center, seed=int(rng.integers(2**31))),
        CONFUSED: graphs.grown(n, budget, "confusion", center=center, matrix=trained.confusion),
        HUBS: largest_hub_neighbours(trained.distances, budget),
    }


def largest_hub_neighbours(distances, budget) -> nx.Graph:
    """The hub_neighbours graph with the most neighbours that a number of pairs allows.

    One hub for the diameter, and another for every ten neighbours that each class could have: what the family's
    usual three hubs and ten neighbours become where pairs are few or many.
    """
    n = len(distances)
    hubs = max(1, min(round(budget / n / 4), 3))
    sizes = (graphs.hub_neighbours(distances, hubs, k) for k in range(n))
    allowed = [graph for graph in sizes if graph.number_of_edges() <= budget]
    return allowed[-1]


def _accuracies(trained, graph):
    errors = trained.errors(graph)
    return graph.number_of_edges(), [1 - errors[coupling] for coupling in COUPLINGS]


def _means(family, d, n, drawn):
    pairs, accuracies = drawn[0][0], np.array([accuracy for _, accuracy in drawn])
    mean = accuracies.mean(axis=0)
    spread = (
        accuracies.std(axis=0, ddof=1) / np.sqrt(len(drawn)) if len(drawn) > 1 else np.full(len(mean), np.nan)
    )
    share = pairs / (n * (n - 1) / 2)
    return [
        GraphAccuracy(family, coupling, d, pairs, share, float(mean[c]), float(spread[c]))
        for c, coupling in enumerate(COUPLINGS)
    ]


def findings(rows):
    """K(d, N - d) beats grown graphs, reaches the complete model at d = 5; hub_neighbours beats both."""
    accuracy = {(row.graph, row.coupling, row.d): row.accuracy for row in rows}
    sides = sorted({row.d for row in rows if row.graph == BIPARTITE and row.d > 1})
    found = []
    for coupling in COUPLINGS:
        found += [
            _beats(accuracy, coupling, sides, BIPARTITE, GROWN, "[S]"),
            _reaches(rows, accuracy, coupling),
            _beats(accuracy, coupling, sides, HUBS, BIPARTITE, "ours"),
            _beats(accuracy, coupling, sides, HUBS, GROWN, "ours"),
            _beats(accuracy, coupling, sides, HUBS, CONFUSED, "ours"),
        ]
    return found


def _beats(accuracy, coupling, sides, better, other, whose):
    gaps = [accuracy[better, coupling, d] - accuracy[other, coupling, d] for d in sides]
    wins = sum(gap > 0 for gap in gaps)
    return Finding(
        f"{better} beats {other} of the same size ({coupling}; {whose})",
        f"at {wins} of {len(gaps)} sizes, by {np.mean(gaps):+.2%} on average",
        wins > len(gaps) / 2 and np.mean(gaps) > 0,
    )


def _reaches(rows, accuracy, coupling):
    complete = next(row.accuracy for row in rows if (row.graph, row.coupling) == (COMPLETE, coupling))
    reached = accuracy[BIPARTITE, coupling, ENOUGH] if (BIPARTITE, coupling, ENOUGH) in accuracy else np.nan
    return Finding(
        f"K({ENOUGH}, N-{ENOUGH}) reaches the complete model within {REACHED:.1%} ({coupling}; [S])",
        f"{reached:.2%} against {complete:.2%}",
        bool(reached >= complete - REACHED),
    )


def digest(rows):
    """A few sizes of every curve."""
    return [row for row in rows if row.d in (2, 5, 10, 20) or row.graph == COMPLETE]


def draw(rows, title):
    """A panel for each coupling: accuracy against the share of pairs, the complete model as a horizontal line."""
    figure = Figure(figsize=(12, 4.4), layout="constrained")
    panels = figure.subplots(1, len(COUPLINGS), sharey=True)
    for axes, coupling in zip(panels, COUPLINGS, strict=True):
        for family, (colour, marker) in STYLES.items():
            line = [row for row in rows if (row.graph, row.coupling) == (family, coupling)]
            x, y = [100 * row.share_of_pairs for row in line], [100 * row.accuracy for row in line]
            spread = None if np.isnan(line[0].standard_error) else [100 * row.standard_error for row in line]
            axes.errorbar(
                x, y, yerr=spread, color=colour, marker=marker, markersize=4, capsize=2, label=family
            )
        complete = next(row for row in rows if (row.graph, row.coupling) == (COMPLETE, coupling))
        axes.axhline(100 * complete.accuracy, color="black", linewidth=0.9, linestyle="--", label=COMPLETE)
        axes.set(xlabel="trained pairs, % of all", title=coupling)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("accuracy, %")
    panels[-1].legend(frameon=False, fontsize=8, loc="lower right")
    figure.suptitle(title)
    return figure


EXPERIMENT = Experiment(
    name="bipartite",
    shows="Figure 6: K(d, N - d) against other graphs of the same size",
    row=GraphAccuracy,
    measure=measure,
    findings=findings,
    draw=draw,
    digest=digest,
    repetitions=5,
    full=200,
    data=("imagenet50-synthetic", "digits", "imagenette", "tinyimagenet50", "clinc150"),
)
