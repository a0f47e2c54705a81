"""Novelty: how little a sample resembles the classes of a model, and which samples are rejected as unknown.

The novelty of a sample is a weighted sum of the signals of `calibration.novelty_signals`. The limit is calibrated on
the held-out samples, so that the requested share of these, and so of new samples of the known classes, is rejected. No
sample of an unknown class is needed.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.text import quoted
from pairloom.pipeline.calibration.held_out import DrawnSamples
from pairloom.pipeline.calibration.held_out_scores import HeldOutScores
from pairloom.pipeline.calibration.novelty_signals import (
    ClassPlaces,
    Distances,
    fit_signals,
    nearest_distances,
)
from pairloom.pipeline.features.moments import class_means
from pairloom.pipeline.machines.kernel_machines import KernelLogits, KernelModel
from pairloom.pipeline.machines.kinds import TrainedMachines
from pairloom.pipeline.machines.linear_machines import LinearModel
from pairloom.pipeline.model.fitted_model import PREDICTION_BATCH, FittedModel
from pairloom.pipeline.model.memory import check_memory
from pairloom.pipeline.model.prediction_sets import SetBy, thresholds_of
from pairloom.pipeline.model.settings import ModelSettings, is_share
from pairloom.pipeline.model.training_set import TrainingSet
from pairloom.pipeline.threads import in_threads, one_blas_thread, pieces, thread_count

__all__ = [
    "check_reject",
    "held_out_distances",
    "novelty_limits",
    "novelty_of",
    "reject_label_of",
    "with_rejected",
]

#: The default label of rejected samples, by the kind of the labels.
_REJECTED: dict[str, Any] = {"i": -1, "u": -1, "f": -1.0, "U": "none of these", "O": "none of these"}


def check_reject(reject: Any, by: Any, owner: str) -> float:
    """The checked share of known samples to reject, a number between 0 and 1."""
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
    """(R,) the novelty of checked samples X."""
    check_memory(8.0 * X.shape[0], f"novelty of {X.shape[0]:,} samples", "judge the samples in several parts")
    size, novelty = model.list_size(shortlist), np.empty(X.shape[0])
    method = model.method_named(coupling, "PairwiseSVC: coupling")

    def judge(batch: slice) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            prepared = model.prepared(X[batch])
            samples = model.predictor.samples(prepared, size, memory_limit, batch.start)
            signals = fit_signals(samples, samples.couple(method))
        if len(scores.novelty.weight) > signals.shape[1]:
            signals = np.column_stack([signals, _distances(model, scores, prepared)])
        novelty[batch] = scores.novelty(signals)

    with one_blas_thread():
        in_threads(judge, pieces(len(novelty), PREDICTION_BATCH), thread_count(n_jobs, "PairwiseSVC"))
    return novelty


def _distances(model: FittedModel, scores: HeldOutScores, prepared: Any) -> NDArray[np.float64]:
    """(R,) the distances of prepared samples to the classes, or to the support vectors if the model has any."""
    if scores.places is not None:
        return scores.places.distances(prepared)
    logits = model.predictor.logits
    assert isinstance(logits, KernelLogits), "others have no support vectors"
    return nearest_distances(logits.vectors, prepared)


def held_out_distances(
    training: TrainingSet, trained: TrainedMachines, settings: ModelSettings, drawn: DrawnSamples
) -> tuple[Distances | None, ClassPlaces | None]:
    """The distances of drawn samples to the classes, and the places of the classes; None if these are unknown. The
    places, like a whitening, are computed without some of the drawn samples; all others contribute to them.
    """
    if isinstance(trained, KernelModel) and not trained.kernel.precomputed:
        return _distances_to_support(training, trained, drawn), None
    if not isinstance(trained, LinearModel) or trained.is_sparse or not settings.may_whiten:
        return None, None
    left_out = training.drawn(settings, settings.calibration_samples, whitened=True).rows
    kept = np.ones(len(training.classes), bool)
    kept[left_out] = False
    counts = np.bincount(training.classes[kept], minlength=len(training.members))
    means = class_means(training.X[kept], training.classes[kept], len(counts))
    places = ClassPlaces.of(training.within(settings), means, counts)
    if places is None:
        return None, None
    judged = np.isin(drawn.rows, left_out)
    return Distances.to_places(places, training.X[drawn.rows], drawn.classes, judged), places


def _distances_to_support(training: TrainingSet, trained: KernelModel, drawn: DrawnSamples) -> Distances:
    """The distances of drawn samples to the other support vectors, and to those of other classes."""
    support = np.concatenate(training.members)[np.unique(trained.machines.row)]
    X = np.asarray(training.X[drawn.rows])
    return Distances.to_support(
        trained.vectors, support, training.classes[support], X, drawn.rows, drawn.classes
    )


def novelty_limits(
    model: FittedModel, scores: HeldOutScores, reject: float, by: SetBy, priors: Any = None
) -> NDArray[np.float64]:
    """(N,) the novelty above which a sample is rejected, by its predicted class. With a limit per class, held-out
    samples therefore count for their predicted class.
    """
    odds = model.classes.odds(priors)
    judged = scores.of_samples(np.isfinite(scores.strangeness))
    predicted = judged.predicted(odds) if by == "class" else None
    return thresholds_of(model, judged, judged.strangeness, 1 - reject, predicted, odds)


def reject_label_of(labels: NDArray[Any], label: Any, owner: str) -> Any:
    """The label of rejected samples. Raise if it is that of a class."""
    label = _REJECTED.get(labels.dtype.kind) if label is None else label
    if label is None or (labels.dtype.kind == "O" and not isinstance(label, type(labels[0]))):
        raise ValueError(
            f"{owner}: reject_label must be given for labels such as {quoted(labels[0])}, of their type."
        )
    if (labels == label).any():
        raise ValueError(f"{owner}: reject_label must not be a class, got {quoted(label)}, which is one.")
    return label


def with_rejected(labels: NDArray[Any], rejected: NDArray[np.bool_], label: Any) -> NDArray[Any]:
    """The labels, with those of rejected samples replaced, in a type that holds both."""
    if labels.dtype.kind == "O":
        return np.where(rejected, np.array(label, dtype=object), labels)
    return np.where(rejected, np.array(label), labels)
