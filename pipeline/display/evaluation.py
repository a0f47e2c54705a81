"""Quality of probabilities: accuracy, log loss, calibration, and confusions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.held_out import SMALLEST

__all__ = [
    "Confusions",
    "Outcomes",
    "Reliability",
    "RiskCoverage",
    "Scores",
    "confusion_counts",
    "count_confusions",
    "outcomes",
    "reliability",
    "reliability_of",
    "risk_coverage_of",
    "scores",
    "scores_of",
]


class Scores(NamedTuple):
    """Scores of one coupling method on labelled samples.

    ``macro_f1`` is the mean F1 of the classes that occur, as a label or as a prediction.
    """

    accuracy: float
    log_loss: float
    expected_calibration_error: float
    top_5_accuracy: float
    macro_f1: float


class Outcomes(NamedTuple):
    """The outcomes of labelled samples: all that scores need, without the probabilities of all classes.

    Attributes
    ----------
    label, predicted : (R,) int64 arrays
        True and most probable class.
    confidence, likelihood : (R,) float64 arrays
        Probability of the predicted class, and of the true one.
    rank : (R,) int64 array
        Rank of the true class, from 0; equally likely classes are ranked in their order.
    """

    label: NDArray[np.int64]
    predicted: NDArray[np.int64]
    confidence: NDArray[np.float64]
    likelihood: NDArray[np.float64]
    rank: NDArray[np.int64]

    @property
    def right(self) -> NDArray[np.bool_]:
        """Which samples are predicted right."""
        return np.asarray(self.predicted == self.label)

    @property
    def losses(self) -> NDArray[np.float64]:
        """Log loss per sample."""
        return np.asarray(-np.log(np.maximum(self.likelihood, SMALLEST)))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The outcomes of samples that were scored in parts."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


class Reliability(NamedTuple):
    """Samples binned by the probability of the predicted class. Bins without samples are NaN."""

    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    samples: NDArray[np.int64]

    @property
    def expected_calibration_error(self) -> float:
        """Mean distance of the accuracy from the confidence, over samples."""
        gap = np.abs(self.confidence - self.accuracy)
        return float(np.nansum(gap * self.samples) / self.samples.sum())


class RiskCoverage(NamedTuple):
    """Over the most confident samples, for every number of them: their share of all, and the share of errors.

    ``confidence`` is the lowest confidence among them.
    """

    coverage: NDArray[np.float64]
    risk: NDArray[np.float64]
    confidence: NDArray[np.float64]

    @property
    def area(self) -> float:
        """The mean risk over all coverages. It is small if errors have low confidence."""
        return float(self.risk.mean())


def outcomes(p: NDArray[np.floating], y: NDArray[np.integer]) -> Outcomes:
    """Compare probabilities (sample, class) with labels."""
    predicted, every = p.argmax(axis=1), np.arange(len(p))
    of_true = p[every, y][:, None]
    before = (p == of_true) & (np.arange(p.shape[1]) < y[:, None])
    return Outcomes(
        label=y.astype(np.int64),
        predicted=predicted,
        confidence=p[every, predicted].astype(np.float64),
        likelihood=p[every, y].astype(np.float64),
        rank=((p > of_true) | before).sum(axis=1),
    )


def scores(p: NDArray[np.floating], y: NDArray[np.integer]) -> Scores:
    """Score probabilities (sample, class) against labels.

    Examples
    --------
    >>> scores(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0, 1])).accuracy
    1.0
    """
    return scores_of(outcomes(p, y))


def scores_of(samples: Outcomes) -> Scores:
    """Score samples by their outcomes. Without probabilities, their log loss and calibration error are NaN."""
    unknown = bool(np.isnan(samples.confidence).any())
    return Scores(
        accuracy=float(samples.right.mean()),
        log_loss=float(samples.losses.mean()),
        expected_calibration_error=np.nan if unknown else reliability_of(samples).expected_calibration_error,
        top_5_accuracy=float((samples.rank < 5).mean()),
        macro_f1=macro_f1_of(samples),
    )


def macro_f1_of(samples: Outcomes) -> float:
    """The mean F1 of the classes that occur, from counts per class."""
    n_classes = int(max(samples.label.max(), samples.predicted.max())) + 1
    counts = [np.bincount(which, minlength=n_classes) for which in (samples.label, samples.predicted)]
    right = np.bincount(samples.label[samples.right], minlength=n_classes)
    both = counts[0] + counts[1]
    return float((2 * right[both > 0] / both[both > 0]).mean())


def risk_coverage_of(samples: Outcomes) -> RiskCoverage:
    """The errors among the most confident samples, for every number of them."""
    order = np.argsort(-samples.confidence, kind="stable")
    number = np.arange(1, len(order) + 1)
    return RiskCoverage(
        number / len(order), np.cumsum(~samples.right[order]) / number, samples.confidence[order]
    )


def reliability(p: NDArray[np.floating], y: NDArray[np.integer], bins: int = 15) -> Reliability:
    """Accuracy against confidence, the probability of the predicted class, in bins of equal width."""
    return reliability_of(outcomes(p, y), bins)


def reliability_of(samples: Outcomes, bins: int = 15) -> Reliability:
    """Accuracy against confidence, from the outcomes of samples."""
    place = np.minimum((samples.confidence * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        return Reliability(
            np.bincount(place, samples.confidence, bins) / count,
            np.bincount(place, samples.right, bins) / count,
            count,
        )


class Confusions(NamedTuple):
    """A confusion matrix as its cells that are not zero: with thousands of classes they are few.

    Attributes
    ----------
    n_classes : int
    true, predicted, samples : (m,) int64 arrays
        Cells, sorted by true and then by predicted class, and their counts.
    """

    n_classes: int
    true: NDArray[np.int64]
    predicted: NDArray[np.int64]
    samples: NDArray[np.int64]

    @classmethod
    def of(cls, label: NDArray[np.integer], predicted: NDArray[np.integer], n_classes: int) -> Confusions:
        """Count samples by their true and their predicted class."""
        cells, counts = np.unique(label.astype(np.int64) * n_classes + predicted, return_counts=True)
        return cls(n_classes, *np.divmod(cells, n_classes), counts.astype(np.int64))

    @property
    def errors(self) -> Confusions:
        """The cells off the diagonal."""
        wrong = self.true != self.predicted
        return Confusions(self.n_classes, *(values[wrong] for values in self[1:]))

    @property
    def by_true(self) -> NDArray[np.int64]:
        """(N,) samples of each class."""
        return np.bincount(self.true, self.samples, self.n_classes).astype(np.int64)

    @property
    def by_predicted(self) -> NDArray[np.int64]:
        """(N,) samples that are predicted as each class."""
        return np.bincount(self.predicted, self.samples, self.n_classes).astype(np.int64)

    @property
    def right(self) -> NDArray[np.int64]:
        """(N,) samples of each class that are predicted correctly."""
        return self.by_true - self.errors.by_true

    def at(self, true: NDArray[np.integer], predicted: NDArray[np.integer]) -> NDArray[np.int64]:
        """The counts of some cells, zero for cells that are not stored."""
        cells = self.true * self.n_classes + self.predicted
        asked = np.asarray(true, np.int64) * self.n_classes + predicted
        if not len(cells):
            return np.zeros(asked.shape, np.int64)
        place = np.searchsorted(cells, asked).clip(max=len(cells) - 1)
        return np.where(cells[place] == asked, self.samples[place], 0)

    def worst_pairs(self, most: int) -> list[tuple[int, int, int]]:
        """The pairs (i, j, samples) that are confused most often, in either direction, worst first."""
        errors = self.errors
        first, second = np.minimum(errors.true, errors.predicted), np.maximum(errors.true, errors.predicted)
        pairs, place = np.unique(first * self.n_classes + second, return_inverse=True)
        both = np.bincount(place, errors.samples, len(pairs)).astype(np.int64)
        i, j = np.divmod(pairs, self.n_classes)
        order = np.lexsort([j, i, -both])[:most]
        return list(zip(i[order].tolist(), j[order].tolist(), both[order].tolist(), strict=True))


def confusion_counts(p: NDArray[np.floating], y: NDArray[np.integer]) -> NDArray[np.int64]:
    """Counts (true class, predicted class)."""
    return count_confusions(y, p.argmax(axis=1), p.shape[1])


def count_confusions(
    label: NDArray[np.integer], predicted: NDArray[np.integer], n_classes: int
) -> NDArray[np.int64]:
    """Counts (true class, predicted class) of samples."""
    counts = np.bincount(label.astype(np.int64) * n_classes + predicted, minlength=n_classes**2)
    return counts.reshape(n_classes, n_classes)
