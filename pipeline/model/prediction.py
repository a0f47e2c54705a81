"""Probabilities of samples from a fitted model: the same for an estimator, a saved model and a run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom.pipeline.blas import one_blas_thread
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY, couple_slab
from pairloom.pipeline.coupling.priors import normalised, prior_odds
from pairloom.pipeline.machines.linear_model import LinearModel
from pairloom.pipeline.model.fitted_model import FittedModel
from pairloom.pipeline.pieces import in_threads, pieces, thread_count

__all__ = ["predict_probabilities"]

#: Samples per batch of a prediction, whatever the number of threads: the products keep their shape, and so their bits.
PREDICTION_BATCH = 256


def predict_probabilities(
    model: FittedModel,
    X: Any,
    coupling: str,
    *,
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
    priors : (N,) array, optional
        The shares of the classes where predictions are made.
    memory_limit, n_jobs
        See `PairwiseSVC`.
    """
    odds = None if priors is None else prior_odds(priors, model.classes.shares)
    p = np.empty((X.shape[0], len(model.classes.labels)), X.dtype)

    def predict(batch: slice) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            logits = _edge_logits(model, X[batch])
        if not (held := np.isfinite(logits).all(axis=0)).all():
            row = batch.start + int(np.argmin(held))
            raise ValueError(
                f"PairwiseSVC: X must have features of the size of the fit's, got larger ones in row {row}."
            )
        coupled = couple_slab(logits, model.completion, [coupling], memory_limit=memory_limit)
        p[batch] = normalised(coupled[coupling], odds)

    with one_blas_thread():
        in_threads(predict, pieces(len(p), PREDICTION_BATCH), thread_count(n_jobs, "PairwiseSVC"))
    return p


def _edge_logits(model: FittedModel, X: Any) -> NDArray[np.float32]:
    """(E, R) calibrated logits of the edges."""
    if isinstance(model.trained, LinearModel):
        return model.affine(model.normalisation(X.toarray() if sparse.issparse(X) else X))
    logits = model.trained.logits(model.settings.scheme.shares, X)
    slope, shift = model.coupled.slope[:, None], model.coupled.shift[:, None]
    return (logits * slope + shift).astype(np.float32)
