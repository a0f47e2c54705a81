"""The figures of a report: functions that draw plain arrays into a matplotlib Figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import matplotlib
import networkx as nx
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pairloom.pipeline.growth.wave import Wave
from pairloom.pipeline.report.evaluation import Reliability, Scores
from pairloom.pipeline.storage.names import figure_text

__all__ = [
    "accuracy_figure",
    "confusion_figure",
    "graph_figure",
    "growth_figure",
    "reliability_figure",
    "save_figure",
]

#: Edges that are drawn as lines.
_MOST_LINES = 2000

_INK, _ACCENT, _PALE = "#222222", "#3465a4", "#b8c7dd"


def accuracy_figure(scored: Mapping[str, Scores], title: str) -> Figure:
    """Accuracy of each coupling method, with its log loss beside it."""
    figure = Figure(figsize=(6, 0.5 * len(scored) + 1.4), layout="constrained")
    axes = figure.subplots()
    methods = list(scored)[::-1]
    accuracies = [scored[method].accuracy for method in methods]
    # Points rather than bars, as the axis does not start at zero.
    axes.hlines(methods, 0, 1, color=_PALE, linewidth=0.8)
    axes.plot(accuracies, methods, "o", color=_ACCENT)
    for method in methods:
        row = scored[method]
        label = f"{row.accuracy:.4f}   log loss {row.log_loss:.3f}"
        axes.annotate(label, (row.accuracy, method), (6, 4), textcoords="offset points", fontsize=8)
    axes.set_xlim(max(0.0, min(accuracies) - 0.1), min(1.0, max(accuracies) + 0.1))
    axes.set_xlabel("accuracy")
    axes.set_title(title)
    return figure


def reliability_figure(curves: Mapping[str, Reliability], title: str) -> Figure:
    """Accuracy against confidence. The curve of a calibrated model is the diagonal."""
    figure = Figure(figsize=(5.5, 5), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=_INK, linewidth=0.8, linestyle="--")
    for method, curve in curves.items():
        seen = curve.samples > 0
        axes.plot(curve.confidence[seen], curve.accuracy[seen], marker="o", markersize=3, label=method)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.set(xlabel="probability of the predicted class", ylabel="accuracy")
    axes.legend(frameon=False)
    axes.set_title(title)
    return figure


def confusion_figure(
    confusion: NDArray[np.int64], classes: Sequence[str], pairs: Sequence[tuple[int, int, int]], title: str
) -> Figure:
    """Errors by true and predicted class; the worst pairs are named."""
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    axes, names = figure.subplots(1, 2, width_ratios=[3, 1.3])
    errors = confusion.astype(float)
    np.fill_diagonal(errors, 0)
    image = axes.imshow(errors, cmap="magma_r", interpolation="nearest")
    figure.colorbar(image, ax=axes, shrink=0.7, label="samples")
    axes.set(xlabel="predicted class", ylabel="true class", title=title)
    shown = [figure_text(name) for name in classes]
    if len(classes) <= 60:
        axes.set_xticks(range(len(classes)), shown, rotation=90, fontsize=5)
        axes.set_yticks(range(len(classes)), shown, fontsize=5)
    names.axis("off")
    lines = [f"{count:4d}  {shown[i]} / {shown[j]}" for i, j, count in pairs]
    names.text(0, 1, "\n".join(["confused classes", "", *lines]), va="top", fontsize=7, family="monospace")
    return figure


def graph_figure(graph: nx.Graph, classes: Sequence[str], title: str) -> Figure:
    """The model graph. Hubs, joined to more than half of the classes, are inside the circle of the others.

    Thousands of edges would be a black disc: they are shown as a matrix.
    """
    if graph.number_of_edges() > _MOST_LINES:
        return _pair_matrix_figure(graph, title)
    figure = Figure(figsize=(7, 7), layout="constrained")
    axes = figure.subplots()
    N = len(graph)
    hubs = [c for c, degree in graph.degree if degree > N / 2]
    if len(hubs) == N:
        hubs = []
    rest = [c for c in graph if c not in set(hubs)]
    places = {**nx.circular_layout(rest), **nx.circular_layout(hubs, scale=0.35 if len(hubs) > 1 else 0.0)}
    alpha = float(np.clip(30 / (graph.number_of_edges() + 1), 0.03, 0.6))
    nx.draw_networkx_edges(graph, places, ax=axes, alpha=alpha, edge_color=_INK)
    nx.draw_networkx_nodes(graph, places, rest, ax=axes, node_size=25, node_color=_PALE)
    nx.draw_networkx_nodes(graph, places, hubs, ax=axes, node_size=70, node_color=_ACCENT)
    if N <= 60:
        above = {c: (x * 1.08, y * 1.08) for c, (x, y) in places.items()}
        nx.draw_networkx_labels(
            graph, above, dict(enumerate(map(figure_text, classes))), ax=axes, font_size=6
        )
    axes.set_title(title)
    axes.axis("off")
    return figure


def _pair_matrix_figure(graph: nx.Graph, title: str) -> Figure:
    """The trained pairs as a matrix of classes."""
    figure = Figure(figsize=(7, 7), layout="constrained")
    axes = figure.subplots()
    trained = nx.to_numpy_array(graph, nodelist=range(len(graph)), weight=None, dtype=np.float32)
    axes.imshow(trained, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    axes.set(xlabel="class", ylabel="class", title=title)
    return figure


def growth_figure(waves: Sequence[Wave], title: str) -> Figure:
    """Held-out log loss and accuracy after every wave."""
    figure = Figure(figsize=(7, 5.5), layout="constrained")
    loss, accuracy = figure.subplots(2, 1, sharex=True)
    pairs = [wave.pairs for wave in waves]
    loss.plot(pairs, [wave.log_loss for wave in waves], marker="o", markersize=4, color=_ACCENT)
    accuracy.plot(pairs, [wave.accuracy for wave in waves], marker="o", markersize=4, color=_ACCENT)
    loss.set(ylabel="out-of-fold log loss", title=title)
    accuracy.set(xlabel="trained pairs", ylabel="out-of-fold accuracy")
    for axes in (loss, accuracy):
        axes.grid(alpha=0.3)
    return figure


def save_figure(figure: Figure, path: Path) -> Iterator[Path]:
    """Save as .png and .svg, without a date, so that equal figures give equal files."""
    with matplotlib.rc_context({"svg.hashsalt": "pairloom"}):
        for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
            file = path.with_suffix(suffix)
            figure.savefig(file, dpi=130, metadata=metadata)
            yield file
