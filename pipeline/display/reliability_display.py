"""Accuracy against confidence, as a figure."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.calibration import calibration_curve
from sklearn.utils import check_consistent_length

from pairloom.pipeline.display.axes import INK, PALE, STRONG, axes_for
from pairloom.pipeline.display.known_labels import indices_of

__all__ = ["ReliabilityDisplay"]


class ReliabilityDisplay:
    """Reliability diagram: of samples with the same confidence, how many are right. The diagonal is calibrated.

    Confidence is the probability of the predicted class, so this is one curve for any number of classes. Bars show how
    many samples each bin has, and so does the size of its point.

    It is recommended to use `from_estimator`, `from_predictions` or ``PairwiseSVC.plot_reliability(X, y)``.

    Parameters
    ----------
    prob_true : (bins,) array
        The share of right predictions of each bin that has samples.
    prob_pred : (bins,) array
        The mean confidence of each bin that has samples.
    counts : (n_bins,) int array
        Samples of each bin, in bins of equal width from 0 to 1.
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
        right = p.argmax(axis=1) == indices_of(y_true, known, "ReliabilityDisplay: y_true")
        # Rounding may leave a probability a little above one.
        confidence = np.minimum(p.max(axis=1), 1.0)
        prob_true, prob_pred = calibration_curve(right, confidence, n_bins=n_bins, pos_label=True)
        inner = np.linspace(0, 1, n_bins + 1)[1:-1]
        counts = np.bincount(np.searchsorted(inner, confidence), minlength=n_bins)
        return cls(prob_true, prob_pred, counts, name=name).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the diagram; see `from_estimator`."""
        self.ax_ = axes_for(ax, (5.5, 5))
        self.figure_ = self.ax_.figure
        width = 1 / len(self.counts)
        self.ax_counts_ = self.ax_.twinx()
        self.ax_counts_.bar(
            (np.arange(len(self.counts)) + 0.5) * width, self.counts, 0.96 * width, color=PALE, alpha=0.5
        )
        self.ax_counts_.set_ylabel("samples", color="#666666")
        # Bars in the lower third, behind the curve.
        self.ax_counts_.set_ylim(0, 3 * max(int(self.counts.max()), 1))
        self.ax_.set_zorder(self.ax_counts_.get_zorder() + 1)
        self.ax_.patch.set_visible(False)
        self.ax_.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle="--", label="calibrated")
        label = "" if self.name is None else f"{self.name}, "
        (self.line_,) = self.ax_.plot(
            self.prob_pred,
            self.prob_true,
            linewidth=1.2,
            color=STRONG,
            label=f"{label}calibration error {self.calibration_error:.3f}",
        )
        # A bin of two samples says little, and looks it.
        seen = self.counts[self.counts > 0]
        self.ax_.scatter(
            self.prob_pred, self.prob_true, 8 + 60 * np.sqrt(seen / seen.max()), color=STRONG, clip_on=False
        )
        self.ax_.set(xlim=(0, 1), ylim=(0, 1.02))
        self.ax_.set(xlabel="probability of the predicted class", ylabel="share of right predictions")
        self.ax_.legend(loc="upper left", frameon=False)
        return self
