"""Figures of a fitted model in the form of scikit-learn's Display classes: reliability, confusion, model graph.

They draw plain arrays, graphs and names. Of an estimator they use only scikit-learn's interface, and a `PairwiseSVC`'s
graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Literal, Self

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.utils import check_consistent_length, check_scalar
from sklearn.utils.multiclass import unique_labels

from pairloom.graphs.decomposition import Pairs
from pairloom.graphs.hubs import hubs_to_mark
from pairloom.graphs.model_graph import edge_array
from pairloom.graphs.text import figure_text, listed
from pairloom.pipeline.display.class_layout import circle_layout, order_classes
from pairloom.pipeline.display.evaluation import count_confusions, reliability

__all__ = ["ConfusionDisplay", "GraphDisplay", "ReliabilityDisplay"]

_INK, _STRONG, _PALE = "#222222", "#3465a4", "#b8c7dd"
#: Smallest and largest size of names beside the rows of a matrix, in points. Lower rows are not all named.
_SMALLEST_NAME, _LARGEST_NAME = 4.0, 9.0
#: Up to this many classes, cells of a confusion matrix have numbers, and classes keep their order.
_FEW_CLASSES = 20
#: A graph with more edges than this would be a black disc, so it is shown as a matrix.
_MOST_LINES = 1500
#: With more classes than the first only hubs are named, and with more than the second names are rotated.
_MOST_NAMES, _MOST_LEVEL_NAMES = 60, 24


class ReliabilityDisplay:
    """Reliability diagram: accuracy against confidence. A calibrated model is on the diagonal.

    Confidence is the probability of the predicted class, so there is one curve for any number of classes. Bars and the
    sizes of points show how many samples each bin has.

    It is recommended to use `from_estimator`, `from_predictions` or ``PairwiseSVC.plot_reliability(X, y)``.

    Parameters
    ----------
    prob_true : (bins,) array
        Accuracy of each bin that has samples.
    prob_pred : (bins,) array
        Mean confidence of each bin that has samples.
    counts : (n_bins,) int array
        Number of samples of each bin, in bins of equal width from 0 to 1.
    name : str, default=None
        Name of the curve.

    Attributes
    ----------
    ax_ : matplotlib Axes
    ax_counts_ : matplotlib Axes
        The axis of the bars, on the right.
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The curve.
    calibration_error : float
        Expected calibration error: the mean distance of the bins from the diagonal, weighted by their samples.
    """

    def __init__(
        self,
        prob_true: NDArray[np.float64],
        prob_pred: NDArray[np.float64],
        counts: NDArray[np.int64],
        *,
        name: str | None = None,
    ) -> None:
        self.prob_true = prob_true
        self.prob_pred = prob_pred
        self.counts = counts
        self.name = name

    @property
    def calibration_error(self) -> float:
        """Expected calibration error."""
        seen = self.counts[self.counts > 0]
        return float(np.abs(self.prob_true - self.prob_pred) @ seen / seen.sum())

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        n_bins: int = 10,
        name: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the diagram of a fitted classifier on labelled samples that it was not fitted on.

        Parameters
        ----------
        estimator : classifier with predict_proba
        X : (R, D) array-like
        y : (R,) array-like
            True labels.
        n_bins : int, default=10
            Number of bins.
        name : str, default=None
            Name of the curve; by default the estimator's class.
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        ReliabilityDisplay
        """
        name = type(estimator).__name__ if name is None else name
        p = estimator.predict_proba(X)
        return cls.from_predictions(y, p, estimator.classes_, n_bins=n_bins, name=name, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        labels: ArrayLike,
        *,
        n_bins: int = 10,
        name: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the diagram of probabilities.

        Parameters
        ----------
        y_true : (R,) array-like
            True labels.
        y_proba : (R, N) array-like
            Probabilities.
        labels : (N,) array-like
            The class of each column.
        n_bins, name, ax
            See `from_estimator`.

        Returns
        -------
        ReliabilityDisplay
        """
        p, known = np.asarray(y_proba, np.float64), np.asarray(labels)
        check_consistent_length(y_true, p)
        check_scalar(n_bins, "n_bins", Integral, min_val=1)
        bins = reliability(p, _indices(y_true, known, "ReliabilityDisplay: y_true"), n_bins)
        seen = bins.samples > 0
        return cls(bins.accuracy[seen], bins.confidence[seen], bins.samples, name=name).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the diagram; see `from_estimator`."""
        self.ax_ = _axes(ax, (5.5, 5))
        self.figure_ = self.ax_.figure
        width = 1 / len(self.counts)
        self.ax_counts_ = self.ax_.twinx()
        self.ax_counts_.bar(
            (np.arange(len(self.counts)) + 0.5) * width, self.counts, 0.96 * width, color=_PALE, alpha=0.5
        )
        self.ax_counts_.set_ylabel("samples", color="#666666")
        # Bars in the lower third, behind the curve.
        self.ax_counts_.set_ylim(0, 3 * max(int(self.counts.max()), 1))
        self.ax_.set_zorder(self.ax_counts_.get_zorder() + 1)
        self.ax_.patch.set_visible(False)
        self.ax_.plot([0, 1], [0, 1], color=_INK, linewidth=0.8, linestyle="--", label="calibrated")
        label = "" if self.name is None else f"{self.name}, "
        (self.line_,) = self.ax_.plot(
            self.prob_pred,
            self.prob_true,
            linewidth=1.2,
            color=_STRONG,
            label=f"{label}calibration error {self.calibration_error:.3f}",
        )
        # Small points for bins of few samples, whose accuracy is uncertain.
        seen = self.counts[self.counts > 0]
        self.ax_.scatter(
            self.prob_pred, self.prob_true, 8 + 60 * np.sqrt(seen / seen.max()), color=_STRONG, clip_on=False
        )
        self.ax_.set(xlim=(0, 1), ylim=(0, 1.02))
        self.ax_.set(xlabel="probability of the predicted class", ylabel="share of right predictions")
        self.ax_.legend(loc="upper left", frameon=False)
        return self


class ConfusionDisplay:
    """Confusion matrix: true classes in rows, predicted ones in columns.

    With few classes it is scikit-learn's `ConfusionMatrixDisplay`, with a number in every cell. With more than 20 the
    classes are ordered so that those which are confused stand side by side, errors are drawn in colour on a pale
    diagonal, and there are no numbers.

    It is recommended to use `from_estimator`, `from_predictions` or ``PairwiseSVC.plot_confusion(X, y)``.

    Parameters
    ----------
    confusion_matrix : (N, N) int array
        Samples by true class (rows) and predicted class (columns).
    display_labels : sequence of length N
        The classes.
    order : {"auto", "cluster", "labels"}, default="auto"
        Order of the classes: by clusters of confused classes, or unchanged. "auto" is "cluster" for more than 20.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    im_ : matplotlib AxesImage
    order_ : (N,) int array
        The class of each row of the figure.
    """

    def __init__(
        self,
        confusion_matrix: NDArray[np.int64],
        *,
        display_labels: Sequence[Any],
        order: Literal["auto", "cluster", "labels"] = "auto",
    ) -> None:
        self.confusion_matrix = confusion_matrix
        self.display_labels = display_labels
        self.order = order

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        order: Literal["auto", "cluster", "labels"] = "auto",
        ax: Any = None,
    ) -> Self:
        """Draw the matrix of a fitted classifier on labelled samples that it was not fitted on.

        Parameters
        ----------
        estimator : classifier
        X : (R, D) array-like
        y : (R,) array-like
            True labels.
        order : {"auto", "cluster", "labels"}, default="auto"
            Order of the classes.
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure, which is larger for more classes.

        Returns
        -------
        ConfusionDisplay
        """
        return cls.from_predictions(y, estimator.predict(X), labels=estimator.classes_, order=order, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        order: Literal["auto", "cluster", "labels"] = "auto",
        ax: Any = None,
    ) -> Self:
        """Draw the matrix of predicted labels.

        Parameters
        ----------
        y_true, y_pred : (R,) array-like
            True and predicted labels.
        labels : (N,) array-like, default=None
            The classes; by default those that occur.
        order, ax
            See `from_estimator`.

        Returns
        -------
        ConfusionDisplay
        """
        check_consistent_length(y_true, y_pred)
        known = np.asarray(unique_labels(y_true, y_pred) if labels is None else labels)
        true, predicted = (
            _indices(y, known, f"ConfusionDisplay: {name}")
            for y, name in ((y_true, "y_true"), (y_pred, "y_pred"))
        )
        counts = count_confusions(true, predicted, len(known))
        return cls(counts, display_labels=known.tolist(), order=order).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the matrix; see `from_estimator`."""
        n = len(self.confusion_matrix)
        if self.order not in ("auto", "cluster", "labels"):
            raise ValueError(
                f"ConfusionDisplay: order must be 'auto', 'cluster' or 'labels', got {self.order!r}."
            )
        clustered = self.order == "cluster" or (self.order == "auto" and n > _FEW_CLASSES)
        self.order_ = order_classes(_shares(self.confusion_matrix)).classes if clustered else np.arange(n)
        names = [figure_text(str(self.display_labels[c])) for c in self.order_]
        counts = self.confusion_matrix[np.ix_(self.order_, self.order_)]
        # Rows of at least five points, so that every class can be named.
        side = float(np.clip(0.085 * n, 6, 24))
        self.ax_ = _axes(ax, (side + 1, side))
        self.figure_ = self.ax_.figure
        draw = _draw_numbers if n <= _FEW_CLASSES else _draw_errors
        self.im_ = draw(self.ax_, counts, names)
        self.ax_.set(xlabel="predicted class", ylabel="true class")
        return self


def _shares(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Counts as shares of the true class."""
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def _draw_numbers(ax: Any, counts: NDArray[np.int64], names: list[str]) -> Any:
    shown = ConfusionMatrixDisplay(counts, display_labels=names)
    long = max(map(len, names)) > 3
    shown.plot(ax=ax, cmap="Blues", colorbar=False, xticks_rotation="vertical" if long else "horizontal")
    return shown.im_


def _draw_errors(ax: Any, counts: NDArray[np.int64], names: list[str]) -> Any:
    """Errors as shares of their true class, on a pale diagonal."""
    from matplotlib.colors import ListedColormap, PowerNorm

    share = _shares(counts)
    diagonal = np.eye(len(counts), dtype=bool)
    errors = np.ma.masked_where(diagonal | (counts == 0), share)
    ax.imshow(np.ma.masked_where(~diagonal, diagonal), cmap=ListedColormap([_PALE]), interpolation="nearest")
    most = float(errors.max()) if errors.count() else 1.0
    # A square-root scale, so that frequent confusions do not hide single ones.
    image = ax.imshow(errors, cmap="inferno_r", norm=PowerNorm(0.5, 0, most), interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, shrink=0.6, label="share of the true class")
    ax.figure.canvas.draw()  # the layout decides how high a row is
    _name_rows(ax, names, both=True)
    right, total = int(np.trace(counts)), int(counts.sum())
    ax.set_title(f"{total - right} errors in {total} samples; accuracy {right / max(total, 1):.3f}")
    return image


class GraphDisplay:
    """The trained pairs of a model: classes on a circle with hubs inside it; or, if there are many pairs, a matrix.

    Machines on sets of classes are shown as their code matrix, with a row per class and a column per machine.

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
        The classes that the family of the graph names as hubs, or else those that are joined to all others; none if
        every class is one.
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
            self.ax_ = _axes(ax, (7, 5.5))
            _draw_code(self.ax_, np.asarray(self.graph), names)
        else:
            self.hubs_ = hubs_to_mark(
                Pairs(edge_array(self.graph), len(self.graph), self.graph.graph)
            ).tolist()
            self.ax_ = _axes(ax, (7, 7))
            draw = _draw_matrix if self.graph.number_of_edges() > _MOST_LINES else _draw_circle
            draw(self.ax_, self.graph, self.hubs_, names)
        self.figure_ = self.ax_.figure
        return self


def _draw_circle(ax: Any, graph: nx.Graph, hubs: list[int], names: list[str]) -> None:
    rest = [c for c in sorted(graph) if c not in set(hubs)]
    # The second coordinate of the layout points down, that of the figure up.
    places = circle_layout(np.arange(len(graph)), np.array(hubs, np.int64)) * (1, -1)
    alpha = float(np.clip(30 / (graph.number_of_edges() + 1), 0.05, 0.6))
    nx.draw_networkx_edges(graph, places, ax=ax, alpha=alpha, edge_color=_INK)
    nx.draw_networkx_nodes(graph, places, rest, ax=ax, node_size=30, node_color=_PALE)
    nx.draw_networkx_nodes(graph, places, hubs, ax=ax, node_size=90, node_color=_STRONG)
    turned = len(graph) > _MOST_LEVEL_NAMES
    for c in [*hubs, *rest] if len(graph) <= _MOST_NAMES else hubs:
        _name_beside(ax, names[c], *places[c], is_hub=c in set(hubs), turned=turned)
    ax.set_title(_title(graph, hubs))
    ax.set_aspect("equal")
    ax.margins(0.12)
    ax.axis("off")


def _name_beside(ax: Any, name: str, x: float, y: float, *, is_hub: bool, turned: bool) -> None:
    """A name outside the circle, turned if there are many; the name of a hub is above its mark."""
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
    _name_rows(ax, [names[c] for c in order], both=True)
    ax.set_title(_title(graph, hubs))


def _draw_code(ax: Any, code: NDArray[np.int8], names: list[str]) -> None:
    ax.imshow(code, cmap="PuOr", vmin=-1.4, vmax=1.4, aspect="auto", interpolation="nearest")
    _name_rows(ax, names, both=False)
    ax.set_xlabel("machine (purple: side +1, orange: side -1, white: left out)")
    ax.set_title(f"{len(code)} classes, {code.shape[1]} machines on sets of classes")


def _title(graph: nx.Graph, hubs: list[int]) -> str:
    n, pairs = len(graph), graph.number_of_edges()
    share = f"{pairs} of {n * (n - 1) // 2} pairs"
    return f"{n} classes, {share}" + (f", {len(hubs)} hubs" if len(hubs) > 1 else ", 1 hub" if hubs else "")


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    """The given axes, or the axes of a new figure of this size in inches."""
    if ax is not None:
        return ax
    # Imported here: pyplot takes as long to import as all other modules, and few processes draw.
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def _name_rows(ax: Any, names: Sequence[str], *, both: bool) -> None:
    """Name the rows of a matrix, and with ``both`` the columns: all of them, or every k-th if they are low."""
    height = ax.get_window_extent().height * 72 / ax.figure.dpi / max(len(names), 1)
    size = float(np.clip(0.75 * height, _SMALLEST_NAME, _LARGEST_NAME))
    step = int(np.ceil(1.2 * _SMALLEST_NAME / height)) if height < 1.2 * _SMALLEST_NAME else 1
    places = range(0, len(names), step)
    shown = [names[at] for at in places]
    ax.set_yticks(places, shown, fontsize=size)
    if both:
        ax.set_xticks(places, shown, fontsize=size, rotation=90)
    ax.tick_params(length=1.5, pad=1.5)


def _indices(y: ArrayLike, labels: NDArray[np.generic], owner: str) -> NDArray[np.intp]:
    """(R,) the index of each label among the classes. Raises if a label is not one of them.

    Examples
    --------
    >>> _indices(["b", "a"], np.array(["a", "b"]), "y")
    array([1, 0])
    """
    given, place = np.asarray(y), {label: at for at, label in enumerate(labels.tolist())}
    strangers = sorted({label for label in given.tolist() if label not in place}, key=str)
    if strangers:
        raise ValueError(
            f"{owner} must hold classes of the model, {listed(labels)}, got {listed(strangers)}:"
            " leave out samples of other classes."
        )
    return np.array([place[label] for label in given.tolist()], dtype=np.intp)
