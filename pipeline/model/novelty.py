"""None of these: how unlike the classes of a model a sample is, and which samples are rejected for it.

Every signal of `novelty_signals` is measured in standard deviations of the held-out samples, and the novelty is the
mean of the signals. Which samples are strange enough is decided by the held-out samples too: as many of them, and so of
new samples of the known classes, are rejected as was asked for. No sample of an unknown class is needed.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.text import quoted
from pairloom.pipeline.calibration.held_out_scores import HeldOutScores, novelty_signals
from pairloom.pipeline.coupling.model_coupling import prior_odds
from pairloom.pipeline.model.fitted_model import PREDICTION_BATCH, FittedModel
from pairloom.pipeline.model.prediction_sets import SetBy, thresholds_of
from pairloom.pipeline.model.settings import is_share
from pairloom.pipeline.threads import in_threads, one_blas_thread, pieces, thread_count

__all__ = ["check_reject", "novelty_limits", "novelty_of", "reject_label_of", "with_rejected"]

#: The label of rejected samples, unless a user says otherwise, by the kind of the labels.
_REJECTED: dict[str, Any] = {"i": -1, "u": -1, "f": -1.0, "U": "none of these", "O": "none of these"}


def check_reject(reject: Any, by: Any, owner: str) -> float:
    """The share of known samples to reject, or an error unless it is a number between 0 and 1."""
    if not is_share(reject) or not 0 < reject < 1:
        raise ValueError(f"{owner}: reject must be a number above 0 and below 1, got {reject!r}.")
    if by not in get_args(SetBy):
        raise ValueError(f"{owner}: reject_by must be one of 'all', 'class', got {by!r}.")
    return float(reject)


def novelty_of(
    model: FittedModel,
    scores: HeldOutScores,
    X: Any,
    coupling: str,
    *,
    shortlist: int | Literal["auto", "none"],
    memory_limit: int,
    n_jobs: int | None = None,
) -> NDArray[np.float64]:
    """(R,) the novelty of samples X, which the caller has checked."""
    method = model.coupler.method_named(coupling, model.machine_weight, "PairwiseSVC: coupling")
    size, found = model.coupler.shortlist_size(shortlist), np.empty(X.shape[0])

    def judge(batch: slice) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            samples = model.predictor.samples(model.prepared(X[batch]), size, memory_limit, batch.start)
        found[batch] = _combined(scores, novelty_signals(samples.couple(method), samples.class_scores()))

    with one_blas_thread():
        in_threads(judge, pieces(len(found), PREDICTION_BATCH), thread_count(n_jobs, "PairwiseSVC"))
    return found


def _combined(scores: HeldOutScores, signals: NDArray[np.float64]) -> NDArray[np.float64]:
    """(R,) the mean of signals (R, S), in standard deviations of those of the held-out samples."""
    held_out, weight = scores.strangeness, scores.weight
    centre = np.average(held_out, axis=0, weights=weight)
    deviation = np.sqrt(np.average(np.square(held_out - centre), axis=0, weights=weight))
    return np.asarray(((signals - centre) / np.maximum(deviation, np.finfo(float).tiny)).mean(axis=1))


def novelty_limits(
    model: FittedModel, scores: HeldOutScores, reject: float, by: SetBy, priors: Any = None
) -> NDArray[np.float64]:
    """(N,) the novelty above which a sample is rejected, by the class that is predicted for it."""
    classes = model.classes
    odds = None if priors is None else prior_odds(priors, classes.labels.tolist(), classes.shares)
    return thresholds_of(model, scores, _combined(scores, scores.strangeness), 1 - reject, by, odds)


def reject_label_of(labels: NDArray[Any], label: Any, owner: str) -> Any:
    """The label of rejected samples, or an error if it is that of a class."""
    label = _REJECTED.get(labels.dtype.kind) if label is None else label
    if label is None or (labels.dtype.kind == "O" and not isinstance(label, type(labels[0]))):
        raise ValueError(
            f"{owner}: reject_label must be given for labels such as {quoted(labels[0])}, of their type."
        )
    if (labels == label).any():
        raise ValueError(f"{owner}: reject_label must not be a class, got {quoted(label)}, which is one.")
    return label


def with_rejected(labels: NDArray[Any], rejected: NDArray[np.bool_], label: Any) -> NDArray[Any]:
    """Labels with that of rejected samples in place of theirs, of a type that holds both."""
    if labels.dtype.kind == "O":
        return np.where(rejected, np.array(label, dtype=object), labels)
    return np.where(rejected, np.array(label), labels)
