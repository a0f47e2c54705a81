"""Which classes are taken for which, as a figure that can be read with two classes and with hundreds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform
from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import unique_labels

from pairloom.pipeline.display.axes import PALE, axes_for, fitted_ticks
from pairloom.pipeline.display.known_labels import indices_of
from pairloom.pipeline.storage.names import figure_text

__all__ = ["ConfusionDisplay", "cluster_order"]

#: Up to this many classes, cells have numbers, and classes keep their order.
FEW_CLASSES = 20


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
        Order of the classes: by clusters of confused classes, or as they come. "auto" is "cluster" for more than 20.

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
            indices_of(y, known, f"ConfusionDisplay: {name}")
            for y, name in ((y_true, "y_true"), (y_pred, "y_pred"))
        )
        counts = confusion_matrix(true, predicted, labels=np.arange(len(known)))
        return cls(counts, display_labels=known.tolist(), order=order).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the matrix; see `from_estimator`."""
        n = len(self.confusion_matrix)
        if self.order not in ("auto", "cluster", "labels"):
            raise ValueError(
                f"ConfusionDisplay: order must be 'auto', 'cluster' or 'labels', got {self.order!r}."
            )
        clustered = self.order == "cluster" or (self.order == "auto" and n > FEW_CLASSES)
        self.order_ = cluster_order(self.confusion_matrix) if clustered else np.arange(n)
        names = [figure_text(str(self.display_labels[c])) for c in self.order_]
        counts = self.confusion_matrix[np.ix_(self.order_, self.order_)]
        # Rows of five points at least, so that every class can be named.
        side = float(np.clip(0.085 * n, 6, 24))
        self.ax_ = axes_for(ax, (side + 1, side))
        self.figure_ = self.ax_.figure
        draw = _draw_numbers if n <= FEW_CLASSES else _draw_errors
        self.im_ = draw(self.ax_, counts, names)
        self.ax_.set(xlabel="predicted class", ylabel="true class")
        return self


def cluster_order(confusion: NDArray[np.int64]) -> NDArray[np.intp]:
    """(N,) classes in an order in which those that are confused with each other are neighbours.

    Average linkage of the shares that two classes lose to each other, with the order of leaves that keeps neighbours
    closest.

    Examples
    --------
    >>> order = cluster_order(np.array([[8, 0, 2], [0, 9, 0], [3, 0, 7]])).tolist()
    >>> abs(order.index(0) - order.index(2))
    1
    """
    if len(confusion) < 3:
        return np.arange(len(confusion))
    totals = np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    lost = confusion / totals
    distance = 1 - (lost + lost.T) / 2
    np.fill_diagonal(distance, 0)
    condensed = np.maximum(squareform(distance, checks=False), 0)
    return np.asarray(leaves_list(optimal_leaf_ordering(linkage(condensed, "average"), condensed)), np.intp)


def _draw_numbers(ax: Any, counts: NDArray[np.int64], names: list[str]) -> Any:
    shown = ConfusionMatrixDisplay(counts, display_labels=names)
    long = max(map(len, names)) > 3
    shown.plot(ax=ax, cmap="Blues", colorbar=False, xticks_rotation="vertical" if long else "horizontal")
    return shown.im_


def _draw_errors(ax: Any, counts: NDArray[np.int64], names: list[str]) -> Any:
    """Errors as shares of their true class; the diagonal only says where it is."""
    from matplotlib.colors import ListedColormap, PowerNorm

    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    diagonal = np.eye(len(counts), dtype=bool)
    errors = np.ma.masked_where(diagonal | (counts == 0), share)
    ax.imshow(np.ma.masked_where(~diagonal, diagonal), cmap=ListedColormap([PALE]), interpolation="nearest")
    most = float(errors.max()) if errors.count() else 1.0
    # Single errors are as visible as they are important: shares are drawn on the scale of their roots.
    image = ax.imshow(errors, cmap="inferno_r", norm=PowerNorm(0.5, 0, most), interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, shrink=0.6, label="share of the true class")
    ax.figure.canvas.draw()  # the layout decides how high a row is
    fitted_ticks(ax, names, both=True)
    right, total = int(np.trace(counts)), int(counts.sum())
    ax.set_title(f"{total - right} errors in {total} samples; accuracy {right / max(total, 1):.3f}")
    return image
