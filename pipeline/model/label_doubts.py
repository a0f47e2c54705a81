"""Doubtful labels: training rows that another class fits better than their label.

A row is scored by machines that were trained without it, so a wrong label cannot support itself. Rows are ranked by the
log odds of the best other class against the label. With shortlists these are differences of potentials: the shortlist
and the rest have separate models, and their probabilities do not put all classes in one order.

A class with fewer rows than folds has its rows in every machine. They are scored by class means instead, with the mean
of their own class computed without the row: in the whitened space, where all classes have the same covariance, the log
odds of two classes are half the difference of the squared distances to their means. Rows with both scores put the two
on one scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.text import listed
from pairloom.pipeline.calibration.held_out import (
    DrawnSamples,
    draw_samples,
    every_sample,
    out_of_fold_edge_logits,
)
from pairloom.pipeline.calibration.held_out_scores import HeldOutScores
from pairloom.pipeline.completion.shortlist import Shortlists, with_mass
from pairloom.pipeline.machines.linear_machines import LinearModel
from pairloom.pipeline.machines.normalisation import is_whitened
from pairloom.pipeline.model.fitted_model import FittedModel, checksum
from pairloom.pipeline.threads import in_threads, one_blas_thread, pieces, thread_count

__all__ = ["LabelDoubts", "doubts_of_held_out", "doubts_of_rows", "held_out_rows", "training_classes"]

#: Bytes of the logits, or densities, of rows that are scored at once, and number of rows that are read at once.
_LOGIT_BYTES, _READ_ROWS = 2**26, 2**13
#: Number of rows that put the two scores on one scale.
_COMPARED = 2000
#: Smaller probabilities count as this one.
_SMALLEST = 1e-30


class LabelDoubts(NamedTuple):
    """Training rows, those with the most doubtful labels first.

    Attributes
    ----------
    row : (n,) int64
        The rows of the training set, counted from 0. Rows that cannot be scored come last.
    label, better : (n,) arrays of labels
        The label of the row, and the class that fits best among the others.
    p_label, p_better : (n,) float64
        Their out-of-fold probabilities; NaN for rows of classes with fewer rows than folds.
    doubt : (n,) float64
        The log odds of the better class against the label, by which rows are ranked. NaN for the only row of a class.
    """

    row: NDArray[np.int64]
    label: NDArray[Any]
    better: NDArray[Any]
    p_label: NDArray[np.float64]
    p_better: NDArray[np.float64]
    doubt: NDArray[np.float64]

    @property
    def doubted(self) -> NDArray[np.bool_]:
        """(n,) the rows that another class fits better than their label."""
        return np.where(np.isnan(self.p_label), self.doubt > 0, self.p_better > self.p_label)

    def of_rows(self, chosen: NDArray[np.bool_] | slice) -> LabelDoubts:
        """Some of the rows."""
        row, label, better, p_label, p_better, doubt = self
        return LabelDoubts(
            row[chosen], label[chosen], better[chosen], p_label[chosen], p_better[chosen], doubt[chosen]
        )

    def by_class(self) -> dict[Any, tuple[int, int]]:
        """For each class, the number of scored rows, and of those that another class fits better."""
        labels, classes = np.unique(self.label, return_inverse=True)
        judged = np.bincount(classes[~np.isnan(self.doubt)], minlength=len(labels))
        doubted = np.bincount(classes[self.doubted], minlength=len(labels))
        counts = zip(judged.tolist(), doubted.tolist(), strict=True)
        return dict(zip(labels.tolist(), counts, strict=True))

    def __repr__(self) -> str:
        doubted = int(self.doubted.sum())
        return f"LabelDoubts({len(self.row)} rows, {doubted} of which another class fits better)"


class _Judged(NamedTuple):
    """The scores of rows, in their order; ``better`` are indices of classes."""

    better: NDArray[np.int64]
    p_label: NDArray[np.float64]
    p_better: NDArray[np.float64]
    doubt: NDArray[np.float64]

    @classmethod
    def of_nothing(cls, n_rows: int) -> _Judged:
        unknown = (np.full(n_rows, np.nan) for _ in range(3))
        return cls(np.zeros(n_rows, np.int64), *unknown)

    def ranked(
        self, labels: NDArray[Any], classes: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> LabelDoubts:
        order = np.argsort(-self.doubt, kind="stable")  # NaN last
        return LabelDoubts(
            rows[order],
            labels[classes[order]],
            labels[self.better[order]],
            self.p_label[order],
            self.p_better[order],
            self.doubt[order],
        )


def training_classes(model: FittedModel, y: Any, owner: str) -> NDArray[np.int64]:
    """(n,) the class of every training row, or an error unless y are the labels of the fit."""
    if model.weighted == "sample_weight":
        raise ValueError(f"{owner}: sample_weight is not stored with the model; refit without it.")
    y, labels = np.asarray(y), model.classes.labels
    if y.ndim != 1:
        raise ValueError(f"{owner}: y must be one label per training row, got an array of shape {y.shape}.")
    places = np.searchsorted(labels, y) if y.dtype.kind == labels.dtype.kind else np.zeros(len(y), np.int64)
    classes = np.minimum(places, len(labels) - 1)
    if (other := np.flatnonzero(labels[classes] != y)).size:
        raise ValueError(
            f"{owner}: y must hold the labels of the fit, got others: {listed(np.unique(y[other]))}."
        )
    counts = np.bincount(classes, minlength=len(labels))
    if not model.weighted and (counts != model.classes.totals).any():
        c = int(np.argmax(counts != model.classes.totals))
        raise ValueError(
            f"{owner}: y must be the labels of the fit, row by row, got {counts[c]} rows of {labels[c]!r}, of which the"
            f" fit had {model.classes.totals[c]:g}."
        )
    return np.asarray(classes, np.int64)


def doubts_of_held_out(scores: HeldOutScores, rows: NDArray[np.int64], labels: NDArray[Any]) -> LabelDoubts:
    """The doubts about rows that were held out in the fit, from their stored scores.

    These are probabilities. The potentials by which `doubts_of_rows` ranks models with shortlists are not stored, so a
    row whose label is not listed may rank higher or lower here.
    """
    first_is_label = scores.listed[:, 0] == scores.classes
    better = np.where(first_is_label, scores.listed[:, 1], scores.listed[:, 0])
    p_better = np.where(first_is_label, scores.listed_p[:, 1], scores.listed_p[:, 0])
    doubt = np.log(np.maximum(p_better, _SMALLEST)) - np.log(np.maximum(scores.p, _SMALLEST))
    return _Judged(better, scores.p, p_better, doubt).ranked(labels, scores.classes, rows)


def held_out_rows(model: FittedModel, classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """(R,) the training rows that were held out to calibrate a model, in the order of its held-out scores."""
    most, settings, whitened = model.calibration_samples, model.settings, is_whitened(model.whiten)
    return draw_samples(classes, most, settings.folds, settings.seed, whitened, model.classes.keys).rows


def doubts_of_rows(
    model: FittedModel,
    read: Callable[[slice], Any],
    classes: NDArray[np.int64],
    coupling: str,
    *,
    n_jobs: int | None = None,
    owner: str = "label_doubts",
) -> LabelDoubts:
    """The doubts about all training rows.

    Memory is bounded: some thousand rows are read at a time, and the logits of the rows that are scored at once take
    some tens of megabytes per thread.

    Parameters
    ----------
    model : FittedModel
    read : callable
        ``read(rows)`` returns consecutive rows of the training samples, without normalisation.
    classes : (n,) int64
        From `training_classes`.
    coupling : str
        The coupling that gives the probabilities.
    """
    _check_held_out(model, owner)
    settings, n = model.settings, len(classes)
    sample = every_sample(classes, settings.folds, settings.seed, model.classes.keys)
    method = model.method_named(coupling, f"{owner}: coupling")
    judged, sums = _Judged.of_nothing(n), [0] * len(model.classes.labels)
    means = _ClassMeans.of(model, read, classes) if (sample.folds < 0).any() else None
    with one_blas_thread():
        for block in pieces(n, _READ_ROWS):
            rows = read(block)
            _add_checksums(model, rows, classes[block], sums)
            _judge_block(model, rows, block, sample, method, judged, n_jobs)
    _check_rows(model, sums, owner)
    if means is not None:
        _judge_small_classes(means, read, sample, judged)
    return judged.ranked(model.classes.labels, classes, np.arange(n))


def _check_held_out(model: FittedModel, owner: str) -> None:
    """Raise if all machines were trained on all rows, so that none can score a row."""
    if model.is_compact:
        raise ValueError(
            f"{owner}: the model is compact: only what prediction needs of its machines is left, so no row can be"
            " judged by those that were not fitted on it. Load a model that was saved, or read it from a run, with"
            " compact=False."
        )
    scheme = model.settings.scheme
    if (scheme.fitted_on & (scheme.out_of_fold.T > 0)).any():
        raise ValueError(
            f"{owner}: no training row was held out from the machines: fit with calibration='auto', or with"
            " coupled_calibration='scale'."
        )


def _judge_block(
    model: FittedModel,
    rows: Any,
    block: slice,
    sample: DrawnSamples,
    method: str,
    judged: _Judged,
    n_jobs: int | None,
) -> None:
    """Score the rows of a block, fold by fold, by the machines that were trained without the fold."""
    folds, parts, classes = sample.folds[block], sample.parts[block], sample.classes[block]
    order = np.argsort(folds, kind="stable")
    order = order[folds[order] >= 0]
    size = max(16, _LOGIT_BYTES // (4 * model.coupler.n_machines))

    def judge(piece: slice) -> None:
        rows_of_piece = order[piece]
        X = model.prepared(rows[rows_of_piece])
        logits = out_of_fold_edge_logits(
            model.trained, model.settings.scheme, X, folds[rows_of_piece], parts[rows_of_piece]
        )
        calibrated = np.ascontiguousarray(model.coupled.held_out(logits, parts[rows_of_piece]))
        for values, found in zip(
            judged, _judged_logits(model, calibrated, classes[rows_of_piece], method), strict=True
        ):
            values[block.start + rows_of_piece] = found

    in_threads(judge, pieces(len(order), size), thread_count(n_jobs, "PairwiseSVC"))


def _judged_logits(
    model: FittedModel, logits: NDArray[np.float32], classes: NDArray[np.int64], method: str
) -> _Judged:
    """The scores of rows, given their calibrated out-of-fold logits (E, R)."""
    size = model.coupler.shortlist_size(model.shortlist)
    samples = with_mass(model.coupler.scored(logits, size), model.coupled.mass)
    p = samples.couple(method).astype(np.float64)
    log_odds = samples.potentials if isinstance(samples, Shortlists) else np.log(np.maximum(p, _SMALLEST))
    p_label = _own(p, classes)
    p[np.arange(len(classes)), classes] = -1.0
    better = p.argmax(axis=1)
    return _Judged(better, p_label, _own(p, better), _own(log_odds, better) - _own(log_odds, classes))


def _own(values: NDArray[np.floating], classes: NDArray[np.int64]) -> NDArray[np.float64]:
    return values[np.arange(len(classes)), classes].astype(np.float64)


def _add_checksums(model: FittedModel, rows: Any, classes: NDArray[np.int64], sums: list[int]) -> None:
    """Continue the checksums of the classes with these rows, if the model has checksums."""
    if len(model.classes.checksums):
        for c in np.unique(classes).tolist():
            sums[c] = checksum(rows[np.flatnonzero(classes == c)], sums[c])


def _check_rows(model: FittedModel, sums: list[int], owner: str) -> None:
    # Folds are assigned to rows in their order: reordered rows would be scored by machines that were trained on them.
    if len(model.classes.checksums) and (other := np.flatnonzero(model.classes.checksums != sums)).size:
        raise ValueError(
            f"{owner}: X must hold the samples that every class of the model was fitted on, in the same order, got"
            f" others of {listed(model.classes.labels[other])}."
        )


class _ClassMeans(NamedTuple):
    """The means (N, K) of the classes in the space of the machines, and their numbers of rows (N,)."""

    model: FittedModel
    means: NDArray[np.float64]
    counts: NDArray[np.int64]

    @classmethod
    def of(
        cls, model: FittedModel, read: Callable[[slice], Any], classes: NDArray[np.int64]
    ) -> _ClassMeans | None:
        """The means of all classes; None if machines are not linear or features are sparse."""
        if not isinstance(model.trained, LinearModel) or model.trained.is_sparse:
            return None
        counts, sums = np.bincount(classes, minlength=len(model.classes.labels)), None
        for block in pieces(len(classes), _READ_ROWS):
            rows = cls._whitened(model, read(block))
            sums = np.zeros((len(counts), rows.shape[1])) if sums is None else sums
            np.add.at(sums, classes[block], rows)
        assert sums is not None, "a model has rows"
        return cls(model, sums / counts[:, None], counts)

    @staticmethod
    def _whitened(model: FittedModel, rows: Any) -> NDArray[np.float64]:
        assert isinstance(model.trained, LinearModel)
        return np.asarray(model.trained.whitening(model.prepared(rows)), np.float64)

    def log_odds(
        self, rows: Any, classes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The best other class per row, and its log odds against the row's class, whose mean leaves the row out."""
        size = max(16, _LOGIT_BYTES // (8 * len(self.means)))
        parts = [self._log_odds(rows[some], classes[some]) for some in pieces(len(classes), size)]
        better, odds = zip(*parts, strict=True)
        return np.concatenate(better), np.concatenate(odds)

    def _log_odds(
        self, rows: Any, classes: NDArray[np.int64]
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        X, counts = self._whitened(self.model, rows), self.counts[classes]
        density = X @ self.means.T
        density -= np.square(self.means).sum(axis=1) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            without_row = (counts[:, None] * self.means[classes] - X) / (counts - 1)[:, None]
            own_density = (X * without_row).sum(axis=1) - np.square(without_row).sum(axis=1) / 2
        density[np.arange(len(X)), classes] = -np.inf
        better = density.argmax(axis=1)
        return better, np.where(counts > 1, _own(density, better) - own_density, np.nan)


def _judge_small_classes(
    means: _ClassMeans, read: Callable[[slice], Any], sample: DrawnSamples, judged: _Judged
) -> None:
    """Score rows that were never held out by class means, rescaled to match the scores of the other rows."""
    never, held_out = sample.folds < 0, np.flatnonzero(sample.folds >= 0)
    compared = np.zeros(len(never), bool)
    compared[held_out[:: max(1, len(held_out) // _COMPARED)]] = True
    by_means, better = np.full(len(never), np.nan), np.zeros(len(never), np.int64)
    for block in pieces(len(never), _READ_ROWS):
        wanted = np.flatnonzero((never | compared)[block])
        if len(wanted):
            places = block.start + wanted
            better[places], by_means[places] = means.log_odds(read(block)[wanted], sample.classes[places])
    known = compared & ~np.isnan(by_means)
    unit = (judged.doubt[known] @ by_means[known]) / max(_SMALLEST, np.square(by_means[known]).sum())
    judged.doubt[never] = unit * by_means[never] if unit > 0 else np.nan
    judged.better[never] = better[never]
