"""Held-out scores: the coupled model's predictions for its held-out samples, kept with the model.

Prediction sets, rejections and predictions of groups guarantee a coverage or an error rate on new samples. All of them
are calibrated on the held-out samples of the fit, which were scored by machines and with parameters that they had no
part in. So no second calibration split is needed, and a few numbers per sample are enough: the probability of the true
class, the sum of the larger probabilities, and the likeliest classes with their probabilities.

The strangeness of a sample is a weighted sum of the signals of `novelty_signals`, with learned weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.calibration.held_out import HeldOutSamples
from pairloom.pipeline.calibration.list_mass import SAMPLES_AT_ONCE, samples_stood_for
from pairloom.pipeline.calibration.novelty_signals import (
    ClassPlaces,
    Distances,
    NoveltyWeights,
    fit_signals,
    learned_weights,
    without_own_class,
)
from pairloom.pipeline.completion.couplers import Coupler, ScoredSamples
from pairloom.pipeline.completion.shortlist import with_mass
from pairloom.pipeline.threads import pieces

__all__ = [
    "HeldOutScores",
    "likeliest",
    "n_columns",
    "score_held_out",
    "true_class_ranks",
    "weighted_quantiles",
]

#: The number of likeliest classes that are kept per sample.
KEPT = 20
#: Stored in place of NaN for samples without a strangeness, since results on disk must be finite.
_NOT_JUDGED = np.finfo(np.float64).min
#: The number of fields with an entry per sample; they come first.
_BY_SAMPLE = 8


class HeldOutScores(NamedTuple):
    """R held-out samples and their scores by the model.

    Attributes
    ----------
    classes : (R,) int64
    weight : (R,) float64
        The number of training samples that each stands for, divided by the mean: every class has the same number of
        held-out samples, whatever its share.
    p, above : (R,) float64
        The probability of the true class, and the sum of the probabilities before it.
    rank : (R,) int64
        The rank of the true class, counted from 1.
    listed : (R, k) int64
        The likeliest classes, the likeliest first.
    listed_p : (R, k) float64
        Their probabilities.
    strangeness : (R,) float64
        How unlike the known classes the sample is; NaN if the sample had a part in estimating the signals.
    novelty : NoveltyWeights
        The weights of the signals of strangeness.
    places : ClassPlaces, optional
        The class means and covariance behind the signal of distance.
    """

    classes: NDArray[np.int64]
    weight: NDArray[np.float64]
    p: NDArray[np.float64]
    above: NDArray[np.float64]
    rank: NDArray[np.int64]
    listed: NDArray[np.int64]
    listed_p: NDArray[np.float64]
    strangeness: NDArray[np.float64]
    novelty: NoveltyWeights
    places: ClassPlaces | None = None

    @classmethod
    def of(
        cls,
        p: NDArray[np.floating],
        classes: NDArray[np.integer],
        weight: NDArray[np.float64],
        strangeness: NDArray[np.float64],
        novelty: NoveltyWeights,
        places: ClassPlaces | None = None,
    ) -> HeldOutScores:
        """The scores of samples with these probabilities (R, N)."""
        # Some samples at a time: the matrix of probabilities is copied several times, and large for many classes.
        parts = [_scored(p[some], classes[some]) for some in pieces(len(p), SAMPLES_AT_ONCE)]
        true, above, rank, listed, listed_p = map(
            np.concatenate, zip(*parts or [_scored(p, classes)], strict=True)
        )
        return cls(
            classes.astype(np.int64),
            weight,
            true,
            above,
            rank,
            listed,
            listed_p,
            strangeness,
            novelty,
            places,
        )

    def of_samples(self, samples: NDArray[np.bool_]) -> HeldOutScores:
        """The scores of some of the samples."""
        chosen: dict[str, Any] = {name: getattr(self, name)[samples] for name in self._fields[:_BY_SAMPLE]}
        return self._replace(**chosen)

    def predicted(self, odds: NDArray[np.float64] | None = None) -> NDArray[np.int64]:
        """(R,) the class that is predicted for each sample; with the factors (N,) of new priors, if there are any."""
        p = self.listed_p if odds is None else self.listed_p * odds[self.listed]
        return np.asarray(self.listed[np.arange(len(p)), p.argmax(axis=1)])

    @property
    def _by_sample(self) -> tuple[NDArray[Any], ...]:
        """The fields that have an entry per sample."""
        fields: tuple[Any, ...] = self
        return fields[:_BY_SAMPLE]

    def table(self) -> NDArray[np.float64]:
        """(R, 6 + 2 k) the fields with an entry per sample as one array, for storage."""
        stored = self._replace(strangeness=np.nan_to_num(self.strangeness, nan=_NOT_JUDGED))
        columns = (values if values.ndim == 2 else values[:, None] for values in stored._by_sample)
        return np.concatenate([values.astype(np.float64) for values in columns], axis=1)

    @classmethod
    def from_table(
        cls,
        table: NDArray[np.floating],
        n_classes: int,
        novelty: NoveltyWeights,
        places: ClassPlaces | None = None,
    ) -> HeldOutScores:
        """The scores from their `table`; rows with a negative class are padding."""
        k = min(KEPT, n_classes)
        if table.ndim != 2 or table.shape[1] != n_columns(n_classes):
            raise ValueError(
                f"stored held-out scores must have {n_columns(n_classes)} columns, got {table.shape}."
            )
        rows = table[table[:, 0] >= 0].astype(np.float64)
        scores = cls(
            rows[:, 0].astype(np.int64),
            rows[:, 1],
            rows[:, 2],
            rows[:, 3],
            rows[:, 4].astype(np.int64),
            rows[:, 5 : 5 + k].astype(np.int64),
            rows[:, 5 + k : 5 + 2 * k],
            np.where(rows[:, 5 + 2 * k] == _NOT_JUDGED, np.nan, rows[:, 5 + 2 * k]),
            novelty,
            places,
        )
        if len(rows) and not (
            (scores.classes < n_classes).all() and 0 <= scores.listed.min() <= scores.listed.max() < n_classes
        ):
            raise ValueError("stored held-out scores must be of classes of the model.")
        return scores

    def weight_of_class(self, n_classes: int) -> NDArray[np.float64]:
        """(N,) the weight of a sample of each class; for a class without samples, the largest weight."""
        weights = np.full(n_classes, self.weight.max(initial=1.0))
        counts = np.bincount(self.classes, minlength=n_classes)
        sums = np.bincount(self.classes, self.weight, n_classes)
        weights[counts > 0] = (sums / np.maximum(counts, 1))[counts > 0]
        return weights


def _scored(p: NDArray[np.floating], classes: NDArray[np.integer]) -> tuple[NDArray[Any], ...]:
    """The fields from `p` to `listed_p`, for samples with these probabilities (R, N)."""
    exact = p.astype(np.float64)
    listed = likeliest(exact, KEPT)
    return *true_class_ranks(exact, classes), listed, np.take_along_axis(exact, listed, axis=1)


def n_columns(n_classes: int) -> int:
    """The number of columns of `HeldOutScores.table`."""
    return 6 + 2 * min(KEPT, n_classes)


def score_held_out(
    held_out: HeldOutSamples,
    coupler: Coupler,
    coupling: str,
    coupled: CoupledCalibration,
    shortlist: int | None,
    n_jobs: int | None = None,
    *,
    distances: Distances | None = None,
    places: ClassPlaces | None = None,
) -> HeldOutScores:
    """Score the held-out samples by the calibrated model; ``distances`` to the classes are an optional signal.

    At level "edges", the slopes and shifts of the edges were fitted on these samples, so the scores are slightly
    optimistic. At level "scale", only one number was.
    """
    samples, scale = held_out.samples, coupled.scale
    if coupled.level == "edges":
        assert held_out.edge_logits is not None
        calibrated = held_out.edge_logits * coupled.slope[:, None] + coupled.shift[:, None]
        samples, scale = coupler.scored(np.ascontiguousarray(calibrated, np.float32), shortlist), 1.0
    p = with_mass(samples, coupled.mass).couple(coupling, scale, n_jobs)
    y, weight = held_out.classes, held_out.weight
    if held_out.totals is not None:
        weight = samples_stood_for(y, held_out.totals, weight)
    weight = np.ones(len(y)) if weight is None else weight
    strangeness, novelty = _strangeness(samples, p, y, weight, coupler, scale, distances)
    return HeldOutScores.of(p, y, weight, strangeness, novelty, places)


def _strangeness(
    samples: ScoredSamples,
    p: NDArray[np.floating],
    y: NDArray[np.integer],
    weight: NDArray[np.float64],
    coupler: Coupler,
    scale: float,
    distances: Distances | None,
) -> tuple[NDArray[np.float64], NoveltyWeights]:
    """(R,) the strangeness of held-out samples, and the weights of signals learned from them."""
    known, novel = fit_signals(samples, p, scale), without_own_class(samples, p, y, coupler, scale)
    judged = np.ones(len(y), bool)
    if distances is not None:
        judged = np.isfinite(distances.known)
        known = np.column_stack([known, distances.known])
        novel = None if novel is None else np.column_stack([novel, distances.without_own])
    strangeness = np.full(len(y), np.nan)
    novelty = learned_weights(known[judged], None if novel is None else novel[judged], weight[judged])
    strangeness[judged] = novelty(known[judged])
    return strangeness, novelty


def likeliest(p: NDArray[np.floating], k: int) -> NDArray[np.int64]:
    """(R, k) the classes of the largest probabilities (R, N), the largest first; of equal ones the first class.

    Examples
    --------
    >>> likeliest(np.array([[0.1, 0.5, 0.4]]), 2)
    array([[1, 2]])
    """
    return np.argsort(-p, axis=1, kind="stable")[:, :k]


def true_class_ranks(
    p: NDArray[np.floating], y: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """(R,) the probability of class y, the sum of the larger ones, and its place, counted from 1.

    Examples
    --------
    >>> [value.tolist() for value in true_class_ranks(np.array([[0.25, 0.75], [0.25, 0.75]]), np.array([0, 1]))]
    [[0.25, 0.75], [0.75, 0.0], [2, 1]]
    """
    true = p[np.arange(len(y)), y].astype(np.float64)
    before = (p > true[:, None]) | ((p == true[:, None]) & (np.arange(p.shape[1]) < y[:, None]))
    return true, np.where(before, p, 0.0).sum(axis=1), before.sum(axis=1) + 1


def weighted_quantiles(
    scores: NDArray[np.floating],
    weight: NDArray[np.float64],
    share: float,
    extra: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The conformal quantile of weighted scores, for each weight ``extra`` of a new sample.

    It is the least score up to which a ``share`` of all weights lies, where the new sample counts with an infinite
    score. It is infinite if there are too few samples. With equal weights it is the ceil((n + 1) share)-th of n scores.

    Examples
    --------
    >>> weighted_quantiles(np.arange(1.0, 20.0), np.ones(19), 0.9, np.array([1.0, 3.0]))
    array([18., inf])
    """
    order = np.argsort(scores, kind="stable")
    ordered, reached = np.append(scores[order], np.inf), np.cumsum(weight[order])
    # Tolerate the rounding of summed weights.
    needed = share * (weight.sum() + extra) * (1 - 1e-12)
    return np.asarray(ordered[np.searchsorted(reached, needed)])
