"""The model graph, or the code, as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.display.axes import INK, PALE, STRONG, axes_for, fitted_ticks
from pairloom.pipeline.storage.names import figure_text

__all__ = ["GraphDisplay"]

#: More edges than this would be a black disc. They are shown as a matrix.
MOST_LINES = 1500
#: More names than this do not fit around a circle. Then hubs alone are named.
MOST_NAMES = 60
#: So many fit without being turned.
MOST_LEVEL_NAMES = 24


class GraphDisplay:
    """The trained pairs of a model: classes on a circle, hubs inside it; where there are many pairs, as a matrix.

    Machines on sets of classes are shown as their code matrix, a row per class and a column per machine.

    It is recommended to use `from_estimator` or ``PairwiseSVC.plot_graph()``.

    Parameters
    ----------
    graph : networkx.Graph or (N, m) array
        A model graph on 0..N-1, or a code matrix.
    labels : sequence of length N
        The classes.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    hubs_ : list of int
        The classes that are joined to more than half of the others, unless all are.
    """

    def __init__(self, graph: nx.Graph | NDArray[np.int8], labels: Sequence[Any]) -> None:
        self.graph = graph
        self.labels = labels

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the graph of a fitted `PairwiseSVC`.

        Parameters
        ----------
        estimator : PairwiseSVC
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        GraphDisplay
        """
        graph = estimator.code_ if hasattr(estimator, "code_") else estimator.graph_
        return cls(graph, estimator.classes_.tolist()).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the graph; see `from_estimator`."""
        names = [figure_text(str(label)) for label in self.labels]
        self.hubs_: list[int] = []
        if not isinstance(self.graph, nx.Graph):
            self.ax_ = axes_for(ax, (7, 5.5))
            _draw_code(self.ax_, np.asarray(self.graph), names)
        else:
            self.hubs_ = _hubs(self.graph)
            self.ax_ = axes_for(ax, (7, 7))
            draw = _draw_matrix if self.graph.number_of_edges() > MOST_LINES else _draw_circle
            draw(self.ax_, self.graph, self.hubs_, names)
        self.figure_ = self.ax_.figure
        return self


def _hubs(graph: nx.Graph) -> list[int]:
    hubs = [c for c, degree in sorted(graph.degree) if degree > len(graph) / 2]
    return [] if len(hubs) == len(graph) else hubs


def _draw_circle(ax: Any, graph: nx.Graph, hubs: list[int], names: list[str]) -> None:
    rest = [c for c in sorted(graph) if c not in set(hubs)]
    places = {**nx.circular_layout(rest), **nx.circular_layout(hubs, scale=0.35 if len(hubs) > 1 else 0.0)}
    alpha = float(np.clip(30 / (graph.number_of_edges() + 1), 0.05, 0.6))
    nx.draw_networkx_edges(graph, places, ax=ax, alpha=alpha, edge_color=INK)
    nx.draw_networkx_nodes(graph, places, rest, ax=ax, node_size=30, node_color=PALE)
    nx.draw_networkx_nodes(graph, places, hubs, ax=ax, node_size=90, node_color=STRONG)
    turned = len(graph) > MOST_LEVEL_NAMES
    for c in [*hubs, *rest] if len(graph) <= MOST_NAMES else hubs:
        _name_beside(ax, names[c], *places[c], is_hub=c in set(hubs), turned=turned)
    ax.set_title(_title(graph, hubs))
    ax.set_aspect("equal")
    ax.margins(0.12)
    ax.axis("off")


def _name_beside(ax: Any, name: str, x: float, y: float, *, is_hub: bool, turned: bool) -> None:
    """A name outside the circle, of many turned away from its centre; that of a hub above it."""
    if is_hub:
        ax.annotate(name, (x, y), (0, 7), textcoords="offset points", ha="center", fontsize=8, weight="bold")
        return
    angle = np.degrees(np.arctan2(y, x))
    left = abs(angle) > 90
    ax.text(
        x * 1.05,
        y * 1.05,
        name,
        rotation=(angle + 180 if left else angle) if turned else 0,
        rotation_mode="anchor",
        ha="right" if left else "left",
        va="center",
        fontsize=7 if turned else 9,
    )


def _draw_matrix(ax: Any, graph: nx.Graph, hubs: list[int], names: list[str]) -> None:
    """The trained pairs as a matrix of classes, hubs first."""
    order = [*hubs, *(c for c in sorted(graph) if c not in set(hubs))]
    trained = nx.to_numpy_array(graph, nodelist=order, weight=None, dtype=np.float32)
    ax.imshow(trained, cmap="Blues", vmin=0, vmax=1.2, interpolation="nearest")
    fitted_ticks(ax, [names[c] for c in order], both=True)
    ax.set_title(_title(graph, hubs))


def _draw_code(ax: Any, code: NDArray[np.int8], names: list[str]) -> None:
    ax.imshow(code, cmap="PuOr", vmin=-1.4, vmax=1.4, aspect="auto", interpolation="nearest")
    fitted_ticks(ax, names, both=False)
    ax.set_xlabel("machine (purple: side +1, orange: side -1, white: left out)")
    ax.set_title(f"{len(code)} classes, {code.shape[1]} machines on sets of classes")


def _title(graph: nx.Graph, hubs: list[int]) -> str:
    n, pairs = len(graph), graph.number_of_edges()
    share = f"{pairs} of {n * (n - 1) // 2} pairs"
    return f"{n} classes, {share}" + (f", {len(hubs)} hubs" if len(hubs) > 1 else ", 1 hub" if hubs else "")
