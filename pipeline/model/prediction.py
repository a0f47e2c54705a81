"""Probabilities of samples from a fitted model: the same for an estimator, a saved model and a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.text import plain_line
from pairloom.pipeline.blas import one_blas_thread
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.coupling.model_coupling import SIGN_VOTE, normalised, prior_odds
from pairloom.pipeline.display.tables import Table, html_of, text_of
from pairloom.pipeline.machines.linear_machines import AffineLogits
from pairloom.pipeline.model.fitted_model import FittedModel
from pairloom.pipeline.model.predictor import PREDICTION_BATCH
from pairloom.pipeline.pieces import in_threads, pieces, thread_count

__all__ = [
    "PairMachine",
    "PairMachines",
    "pair_machines",
    "predict_probabilities",
]


def predict_probabilities(
    model: FittedModel,
    X: Any,
    coupling: str,
    *,
    shortlist: int | Literal["auto", "none"] = "auto",
    priors: Any = None,
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
        Ignored where machines are on sets of classes: there are no lists of these.
    priors : (N,) array, optional
        The shares of the classes where predictions are made.
    memory_limit, n_jobs
        See `PairwiseSVC`.
    """
    method = model.coupler.method_named(coupling, model.machine_weight, "PairwiseSVC: coupling")
    if coupling == SIGN_VOTE:
        model = model.by_decision_value
    odds = None if priors is None else prior_odds(priors, model.classes.shares)
    size = model.coupler.shortlist_size(shortlist)
    p = np.empty((X.shape[0], len(model.classes.labels)), X.dtype)

    def predict(batch: slice) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            samples = model.predictor.samples(model.prepared(X[batch]), size, memory_limit, batch.start)
        p[batch] = normalised(samples.couple(method), odds)

    with one_blas_thread():
        in_threads(predict, pieces(len(p), PREDICTION_BATCH), thread_count(n_jobs, "PairwiseSVC"))
    return p


#: Pairs that are printed from either end.
_SHOWN = 5


class PairMachine(NamedTuple):
    """The logit of one class against another is ``weights @ x + bias``."""

    weights: NDArray[np.float32]
    bias: float
    dprime: float


class PairMachines(Mapping[tuple[Any, Any], PairMachine]):
    """Pairs of class labels, either way round, and their machines. It prints the first and the last of them."""

    def __init__(
        self,
        labels: list[Any],
        edges: NDArray[np.int64],
        weights: NDArray[np.float32],
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
        return PairMachine(sign * self._weights[e], float(sign * self._bias[e]), float(self._dprime[e]))

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
            norm = float(np.linalg.norm(self._weights[e]))
            rows.append([f"{a} / {b}", f"{norm:.4g}", f"{self._bias[e]:.4g}", f"{self._dprime[e]:.3g}"])
        if cut:
            rows.insert(_SHOWN, ["…"] * 4)
        return Table("", ["a / b", "|weights|", "bias", "d'"], rows)


def pair_machines(model: FittedModel) -> PairMachines:
    """The calibrated machines of a model, on features as they come."""
    logits = model.predictor.logits
    if not isinstance(logits, AffineLogits):
        raise AttributeError("PairwiseSVC: pairs_ is for linear machines.")
    weights, bias = model.normalisation.fold_back(logits.weights, logits.bias)
    labels = model.classes.labels.tolist()
    return PairMachines(labels, model.edges, weights, bias, model.trained.machines.dprime)
