"""Probabilities of samples from a fitted model: the same for an estimator, a saved model and a run."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom.pipeline.blas import one_blas_thread
from pairloom.pipeline.completion.shortlist import Shortlists, affine_shortlists, shortlist_size, shortlists
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.completion.uncoupled import Uncoupled, uncoupled
from pairloom.pipeline.coupling.priors import normalised, prior_odds
from pairloom.pipeline.machines.linear_model import LinearModel
from pairloom.pipeline.model.fitted_model import FittedModel
from pairloom.pipeline.pieces import in_threads, pieces, thread_count

__all__ = ["predict_probabilities"]

#: Samples per batch of a prediction, whatever the number of threads: the products keep their shape, and so their bits.
PREDICTION_BATCH = 256
#: To apply an edge to a sample of its own takes so many times as long as in a product with a batch of samples.
_COST_OF_ONE = 6


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
    shortlist : int, "auto" or "none"
    priors : (N,) array, optional
        The shares of the classes where predictions are made.
    memory_limit, n_jobs
        See `PairwiseSVC`.
    """
    n = len(model.classes.labels)
    odds = None if priors is None else prior_odds(priors, model.classes.shares)
    size = shortlist_size(shortlist, n)
    p = np.empty((X.shape[0], n), X.dtype)

    def predict(batch: slice) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            samples = _samples(model, X[batch], size, memory_limit, batch.start)
        p[batch] = normalised(samples.couple(coupling), odds)

    with one_blas_thread():
        in_threads(predict, pieces(len(p), PREDICTION_BATCH), thread_count(n_jobs, "PairwiseSVC"))
    return p


def _samples(model: FittedModel, X: Any, size: int | None, memory_limit: int, first: int) -> Uncoupled:
    """Samples ready for coupling. ``first`` is the number of the first, for an error."""
    if size is None or not isinstance(model.trained, LinearModel):
        logits = _edge_logits(model, X)
        _check_held(logits.T, first)
        return uncoupled(logits, model.completion, size, memory_limit)
    return _shortlists_of_linear_machines(model, _normalised(model, X), size, first)


def _shortlists_of_linear_machines(
    model: FittedModel, X: NDArray[np.floating], size: int, first: int
) -> Shortlists:
    """The ranking of the classes first, as an affine map; then the pairs of the lists only, if that is cheaper."""
    rows = np.ascontiguousarray(X, np.float32)
    potentials = model.affine_ranking.by_sample(rows)
    _check_held(potentials, first)
    completion = model.completion
    degree = 2 * len(completion.edges) / completion.n_classes
    needed = min(size * degree, size * (size - 1) / 2 + size * degree / 2)
    if _COST_OF_ONE * needed < len(completion.edges) or len(rows) == 1:
        return affine_shortlists(rows, *model.affine, potentials, completion, size)
    return shortlists(model.affine.by_sample(rows), potentials, completion, size)


def _check_held(values: NDArray[np.float32], first: int) -> None:
    """Raise unless the values (R, ...) of all samples are finite."""
    if not (held := np.isfinite(values).all(axis=1)).all():
        row = first + int(np.argmin(held))
        raise ValueError(
            f"PairwiseSVC: X must have features of the size of the fit's, got larger ones in row {row}."
        )


def _normalised(model: FittedModel, X: Any) -> NDArray[np.floating]:
    return model.normalisation(X.toarray() if sparse.issparse(X) else X)


def _edge_logits(model: FittedModel, X: Any) -> NDArray[np.float32]:
    """(E, R) calibrated logits of the edges."""
    if isinstance(model.trained, LinearModel):
        return model.affine(_normalised(model, X))
    logits = model.trained.logits(model.settings.scheme.shares, X)
    slope, shift = model.coupled.slope[:, None], model.coupled.shift[:, None]
    return (logits * slope + shift).astype(np.float32)
