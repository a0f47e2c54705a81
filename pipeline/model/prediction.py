"""Probabilities of samples from a fitted model: the same for an estimator, a saved model and a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.text import plain_line
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.coupling.model_coupling import SIGN_VOTE, normalised
from pairloom.pipeline.display.printed_tables import Table, html_of, text_of
from pairloom.pipeline.display.top_probabilities import TopProbabilities
from pairloom.pipeline.machines.linear_machines import AffineLogits
from pairloom.pipeline.machines.normalisation import dense
from pairloom.pipeline.machines.sparse_machines import SparseLogits
from pairloom.pipeline.model.fitted_model import PREDICTION_BATCH, FittedModel
from pairloom.pipeline.model.memory import check_memory, likeliest_bytes, prediction_bytes
from pairloom.pipeline.threads import in_threads, one_blas_thread, pieces, thread_count

__all__ = [
    "PairMachine",
    "PairMachines",
    "odds_of_possible",
    "pair_machines",
    "possible_classes",
    "predict_likeliest",
    "predict_probabilities",
]


def predict_probabilities(
    model: FittedModel,
    X: Any,
    coupling: str,
    *,
    shortlist: int | Literal["auto", "none"] = "auto",
    priors: Any = None,
    possible: NDArray[np.bool_] | None = None,
    memory_limit: int = DEFAULT_MEMORY,
    n_jobs: int | None = None,
) -> NDArray[np.floating]:
    """(R, N) probabilities of samples X, in the precision of X.

    Parameters
    ----------
    model : FittedModel
    X : (R, D) float array, CSR matrix, or kernel matrix against the training samples: checked by the caller
    coupling : str
        One of `model_coupling.COUPLINGS`.
    shortlist : int, "auto" or "none"
        Ignored for machines on sets of classes, which have no lists.
    priors : (N,) array, optional
        The shares of the classes in the data to be predicted.
    possible : (N,) or (R, N) bool array, optional
        The classes that are possible, for all samples or for each: see `possible_classes`.
    memory_limit, n_jobs
        See `PairwiseSVC`.
    """
    n_classes = len(model.classes.labels)
    check_memory(
        prediction_bytes(X.shape[0], n_classes, X.dtype.itemsize),
        f"predict_proba for {X.shape[0]:,} samples of {n_classes:,} classes",
        "predict the samples in several parts, or with top_k",
    )
    p = np.empty((X.shape[0], n_classes), X.dtype)

    def keep(batch: slice, of_batch: NDArray[np.floating]) -> None:
        p[batch] = of_batch

    _predict(model, X, keep, coupling, shortlist, priors, possible, memory_limit, n_jobs)
    return p


def predict_likeliest(
    model: FittedModel,
    X: Any,
    k: int,
    coupling: str,
    *,
    shortlist: int | Literal["auto", "none"] = "auto",
    priors: Any = None,
    possible: NDArray[np.bool_] | None = None,
    memory_limit: int = DEFAULT_MEMORY,
    n_jobs: int | None = None,
) -> TopProbabilities:
    """The k likeliest classes of samples X, with their probabilities by `predict_probabilities`. The probabilities of
    all classes are in memory for one batch of samples only. Parameters are those of `predict_probabilities`.
    """
    k = min(k, len(model.classes.labels))
    check_memory(
        2 * likeliest_bytes(X.shape[0], k, X.dtype.itemsize),  # the batches, and all of them joined
        f"predict_proba for the {k:,} likeliest classes of {X.shape[0]:,} samples",
        "predict the samples in several parts, or with a smaller top_k",
    )
    parts: dict[int, TopProbabilities] = {}

    def keep(batch: slice, of_batch: NDArray[np.floating]) -> None:
        parts[batch.start] = TopProbabilities.of(of_batch.astype(X.dtype, copy=False), k)

    _predict(model, X, keep, coupling, shortlist, priors, possible, memory_limit, n_jobs)
    return TopProbabilities.joined([parts[first] for first in sorted(parts)])


def _predict(
    model: FittedModel,
    X: Any,
    keep: Callable[[slice, NDArray[np.floating]], None],
    coupling: str,
    shortlist: int | Literal["auto", "none"],
    priors: Any,
    possible: NDArray[np.bool_] | None,
    memory_limit: int,
    n_jobs: int | None,
) -> None:
    """Call ``keep(batch, p)`` with the probabilities (r, N) of each batch of samples X, in threads."""
    method = model.method_named(coupling, "PairwiseSVC: coupling")
    if coupling == SIGN_VOTE:
        model = model.by_decision_value
    odds = model.classes.odds(priors)
    size = model.list_size(shortlist)

    def predict(batch: slice) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            prepared = model.prepared(X[batch])
            if possible is None:
                samples = model.predictor.samples(prepared, size, memory_limit, batch.start)
                keep(batch, normalised(samples.couple(method), odds))
                return
            among = possible[batch] if possible.ndim == 2 else np.tile(possible, (prepared.shape[0], 1))
            sizes = model.list_sizes_among(shortlist, among.sum(axis=1))
            coupled = model.predictor.couple_among(prepared, among, sizes, method, batch.start)
        keep(batch, normalised(np.where(among, normalised(coupled, odds), 0.0), None))

    with one_blas_thread():
        in_threads(predict, pieces(X.shape[0], PREDICTION_BATCH), thread_count(n_jobs, "PairwiseSVC"))


def possible_classes(
    model: FittedModel, classes: Any, n_samples: int, owner: str
) -> NDArray[np.bool_] | None:
    """(N,) or (R, N) which classes are possible; None if all are. Raise for labels that are not classes.

    ``classes`` are labels, or a boolean mask with a row per sample and a column per class.
    """
    if classes is None:
        return None
    if model.code is not None:
        raise ValueError(
            f"{owner}: classes is for machines on pairs of classes, got a model of machines on sets of classes: fit one"
            " on pairs, such as graph='hub_neighbours'."
        )
    given, labels = np.asarray(classes), model.classes.labels
    if given.ndim == 2 and given.dtype.kind == "b":
        if given.shape != (n_samples, len(labels)):
            raise ValueError(
                f"{owner}: classes must have a row per sample and a column per class, ({n_samples}, {len(labels)}), got"
                f" a mask of shape {given.shape}."
            )
        if len(none := np.flatnonzero(~given.any(axis=1))):
            raise ValueError(f"{owner}: classes must leave each sample a class, got none for row {none[0]}.")
        return given
    if given.ndim != 1:
        raise ValueError(
            f"{owner}: classes must be a list of labels, or a boolean mask (samples, classes), got an array of"
            f" {given.dtype} of shape {given.shape}."
        )
    possible = np.zeros(len(labels), bool)
    # Use the given labels, because an array turns a list of labels of several types into text.
    possible[[model.classes.index_of(label, f"{owner}: classes") for label in classes]] = True
    if possible.sum() < 2:
        raise ValueError(f"{owner}: classes must name at least 2 classes, got {int(possible.sum())}.")
    return possible


def odds_of_possible(model: FittedModel, priors: Any, classes: Any, owner: str) -> NDArray[np.float64] | None:
    """(N,) the factors of the classes by new priors, zero for those that are not possible; None if all are one.
    ``classes`` are labels. Possible classes per sample are refused, because there are no held-out samples with these.
    """
    odds = model.classes.odds(priors)
    if classes is None:
        return odds
    if np.ndim(classes) != 1:
        raise ValueError(
            f"{owner}: classes must be a list of labels, the same for all samples, got an array of shape"
            f" {np.shape(classes)}."
        )
    possible = possible_classes(model, classes, 0, owner)
    assert possible is not None, "classes are given"
    odds = np.where(possible, 1.0 if odds is None else odds, 0.0)
    if not odds.any():
        raise ValueError(f"{owner}: classes must have a class whose share in priors is not zero, got none.")
    return odds


#: Number of pairs that are printed from either end.
_SHOWN = 5


class PairMachine(NamedTuple):
    """The logit of one class against another is ``weights @ x + bias``."""

    weights: NDArray[np.float32]
    bias: float
    dprime: float


class PairMachines(Mapping[tuple[Any, Any], PairMachine]):
    """Mapping of pairs of class labels, in either order, to their machines. It prints the first and last pairs."""

    def __init__(
        self,
        labels: list[Any],
        edges: NDArray[np.int64],
        weights: Any,
        bias: NDArray[np.float64],
        dprime: NDArray[np.float64],
    ) -> None:
        self._weights, self._bias, self._dprime = weights, bias, dprime
        self._edge = {(labels[i], labels[j]): e for e, (i, j) in enumerate(edges.tolist())}

    def __getitem__(self, pair: tuple[Any, Any]) -> PairMachine:
        if not (isinstance(pair, tuple) and len(pair) == 2 and {pair, pair[::-1]} & self._edge.keys()):
            raise KeyError(pair)
        a, b = pair
        e, sign = (self._edge[a, b], 1) if (a, b) in self._edge else (self._edge[b, a], -1)
        return PairMachine(sign * self._of_edge(e), float(sign * self._bias[e]), float(self._dprime[e]))

    def _of_edge(self, e: int) -> NDArray[np.float32]:
        """(D,) the weights of an edge; those of sparse features are made dense one by one."""
        return np.asarray(dense(self._weights[[e]])[0])

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._edge)

    def __len__(self) -> int:
        return len(self._edge)

    def __repr__(self) -> str:
        return text_of(self._heading, [], [self._table()])

    def _repr_html_(self) -> str:
        return html_of(self._heading, [], [self._table()])

    @property
    def _heading(self) -> str:
        return f"{len(self)} pairs: the logit of a against b is weights @ x + bias"

    def _table(self) -> Table:
        """The first and the last pairs."""
        pairs, rows = list(self), []
        cut = len(pairs) > 2 * _SHOWN
        for e in [*range(_SHOWN), *range(len(pairs) - _SHOWN, len(pairs))] if cut else range(len(pairs)):
            a, b = (plain_line(label, 40) for label in pairs[e])
            norm = float(np.linalg.norm(self._of_edge(e)))
            rows.append([f"{a} / {b}", f"{norm:.4g}", f"{self._bias[e]:.4g}", f"{self._dprime[e]:.3g}"])
        if cut:
            rows.insert(_SHOWN, ["…"] * 4)
        return Table("", ["a / b", "|weights|", "bias", "d'"], rows)


def pair_machines(model: FittedModel) -> PairMachines:
    """The calibrated machines of a model, for raw features."""
    logits = model.predictor.logits
    if not isinstance(logits, (AffineLogits, SparseLogits)):
        raise AttributeError("PairwiseSVC: pairs_ is for linear machines.")
    weights, bias = model.normalisation.fold_back(logits.weights, logits.bias)
    labels = model.classes.labels.tolist()
    return PairMachines(labels, model.edges, weights, bias, model.trained.machines.dprime)
