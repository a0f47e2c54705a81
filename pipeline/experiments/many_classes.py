"""Sparse graphs of more than a thousand classes: the outlook of [S], whose largest set has fifty.

The tensor of all pairs of 1654 classes would not fit into memory, so models are fitted over each graph by itself, as
users fit them: machines calibrated by distance, one scale, and a shortlist of classes that are completed and coupled
[maths.md, 10]. Graphs of a size have as many pairs as K(d, N - d). The set is looked for in the folder that
PAIRLOOM_DATA names.
"""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

import networkx as nx
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.held_out import mean_log_loss
from pairloom.pipeline.estimator.pairwise_svc import PairwiseSVC
from pairloom.pipeline.experiments.bipartite import (
    BIPARTITE,
    GROWN,
    HUBS,
    STYLES,
    filled_hub_neighbours,
    pairs_of,
)
from pairloom.pipeline.experiments.experiment import Each, Experiment, in_turn, side_by_side
from pairloom.pipeline.experiments.finding import OURS, PAPER, Finding, compared
from pairloom.pipeline.experiments.paired_bootstrap import Resampled, resampled_means
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS, TrainedTensor, load_set
from pairloom.pipeline.features.feature_set import FeatureSet
from pairloom.pipeline.features.moments import mean_distances

TABLE = "icd10cm"
SIDES = (3, 7, 20)
FAMILIES = (BIPARTITE, GROWN, HUBS)


class SparseModel(NamedTuple):
    """Accuracy and log loss of a model over a graph with as many pairs as K(d, N - d), by one coupling."""

    graph: str
    d: int
    pairs: int
    share_of_pairs: float
    coupling: str
    accuracy: float
    log_loss: float


class SparseDigest(NamedTuple):
    """Accuracies of the three couplings for one family and size."""

    graph: str
    d: int
    pairs: int
    share_of_pairs: float
    wlw2: float
    stratified: float
    normal: float


class Outcomes(NamedTuple):
    """Models over graphs, and whether each predicts each test sample correctly: {(family, d, coupling): (1, R)}."""

    models: list[SparseModel]
    right: dict[tuple[str, int, str], NDArray[np.float32]]


def measure(trained: TrainedTensor, repetitions: int = 1, seed: int = 0, each: Each = in_turn) -> Outcomes:
    """Every family at every size; random graphs are drawn once."""
    items = [(family, d) for d in SIDES for family in FAMILIES]
    fitted = each(partial(fitted_models, seed=seed), trained, items)
    models = [model for outcome in fitted for model in outcome.models]
    return Outcomes(models, {key: right for outcome in fitted for key, right in outcome.right.items()})


def fitted_models(trained: TrainedTensor, item: tuple[str, int], seed: int) -> Outcomes:
    """The models over one graph."""
    data = load_set(TABLE)
    return models_over(data, *item, seed, trained.n_jobs)


def models_over(data: FeatureSet, family: str, d: int, seed: int, n_jobs: int = 1) -> Outcomes:
    """Fit a model over a graph of a family, and predict the test samples by every coupling."""
    if data.y_test is None:
        raise ValueError("models_over: the test samples must have labels, got none.")
    n = len(data.classes)
    graph = graph_of(data, family, d, np.random.default_rng([seed, d]))
    svc = PairwiseSVC(
        graph,
        coupling=COUPLINGS[0],
        calibration="distance",
        C="scale",
        whiten="none",
        kernel="linear",
        standardise=False,
        random_state=seed,
        n_jobs=n_jobs,
    ).fit(data.X_train, data.y_train)
    models, right, pairs = [], {}, graph.number_of_edges()
    for coupling in COUPLINGS:
        p = svc.set_params(coupling=coupling).predict_proba(data.X_test)
        correct = np.asarray(p.argmax(axis=1) == data.y_test, np.float32)[None]
        right[family, d, coupling] = correct
        loss = mean_log_loss(p, data.y_test)
        share = 2 * pairs / (n * (n - 1))
        models.append(SparseModel(family, d, pairs, share, coupling, float(correct.mean()), float(loss)))
    return Outcomes(models, right)


def graph_of(data: FeatureSet, family: str, d: int, rng: np.random.Generator) -> nx.Graph:
    """The graph of a family with as many pairs as K(d, N - d)."""
    n = len(data.classes)
    hubs = rng.choice(n, d, replace=False)
    if family == BIPARTITE:
        return graphs.bipartite(n, hubs)
    if family == HUBS:
        return filled_hub_neighbours(
            np.asarray(mean_distances(data.X_train, data.y_train, n)), pairs_of(n, d)
        )
    graph = graphs.star(n, int(hubs[0]))
    added = graphs.grow(graph, "uniform", seed=int(rng.integers(2**31)))
    graph.add_edges_from(list(islice(added, pairs_of(n, d) - (n - 1))))
    return graph


def findings(measured: Outcomes) -> list[Finding]:
    """The claims on graphs of the same size, on average over the sizes; the interval covers test samples only."""
    at = resampled_means(measured.right)

    def mean(family: str, coupling: str) -> Resampled:
        return np.asarray(np.mean([at[family, d, coupling] for d in SIDES], axis=0))

    return [
        compared(
            source,
            f"{better} is more accurate than {other} of the same size",
            {c: mean(better, c) - mean(other, c) for c in COUPLINGS},
            above=0,
            aside=f"on average over d of {', '.join(map(str, SIDES))}; one graph each",
        )
        for source, better, other in ((PAPER, BIPARTITE, GROWN), (OURS, HUBS, BIPARTITE), (OURS, HUBS, GROWN))
    ]


def summary(rows: Sequence[SparseModel]) -> list[SparseDigest]:
    """The couplings side by side."""
    return side_by_side(rows, SparseDigest)


def draw(trained: TrainedTensor, rows: Sequence[SparseModel], title: str) -> Figure:
    """Accuracy against the share of pairs, one panel per coupling."""
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    panels = figure.subplots(1, len(COUPLINGS), sharey=True)
    for axes, coupling in zip(panels, COUPLINGS, strict=True):
        for family in FAMILIES:
            line = [row for row in rows if (row.graph, row.coupling) == (family, coupling)]
            colour, marker = STYLES[family]
            axes.plot(
                [100 * row.share_of_pairs for row in line],
                [100 * row.accuracy for row in line],
                marker=marker,
                color=colour,
                label=family,
            )
        axes.set(xlabel="trained pairs, % of all", title=coupling)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("accuracy, %")
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, loc="outside right center")
    figure.suptitle(title)
    return figure


EXPERIMENT = Experiment(
    name="many-classes",
    shows="Figure 6 on 1654 classes (the outlook): K(d, N - d) and other graphs of the same size, with shortlists",
    row=SparseModel,
    measure=measure,
    rows=lambda measured: measured.models,
    findings=findings,
    draw=draw,
    summary=summary,
    data=("digits",),
    tables=(TABLE,),
    machines="linear, C = scale, calibrated by distance, folds and their use by default",
)
