"""Probabilities of samples from a fitted model: the same for an estimator, a saved model and a run."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom.pipeline.blas import one_blas_thread
from pairloom.pipeline.completion.shortlist import shortlist_size
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY
from pairloom.pipeline.completion.uncoupled import Uncoupled, uncoupled
from pairloom.pipeline.coupling.model_coupling import (
    SIGN_VOTE,
    check_code_suits,
    check_weighted,
    model_coupling,
)
from pairloom.pipeline.coupling.priors import normalised, prior_odds
from pairloom.pipeline.machines.kernel_model import KernelModel
from pairloom.pipeline.machines.linear_model import LinearModel
from pairloom.pipeline.model.affine_model import PREDICTION_BATCH, check_held
from pairloom.pipeline.model.fitted_model import FittedModel
from pairloom.pipeline.pieces import in_threads, pieces, thread_count

__all__ = ["normalised_rows", "predict_probabilities"]


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
    n, code = len(model.classes.labels), model.code
    if coupling == SIGN_VOTE and code is None:
        model = model.by_decision_value
    coupling = model_coupling(coupling, code is not None, "PairwiseSVC: coupling")
    check_weighted(coupling, model.machine_weight, code is not None, "PairwiseSVC: coupling")
    if code is not None:
        check_code_suits(coupling, code, "PairwiseSVC: coupling")
    odds = None if priors is None else prior_odds(priors, model.classes.shares)
    size = None if code is not None else shortlist_size(shortlist, n)
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
    if isinstance(model.trained, LinearModel):
        return model.affine.samples(normalised_rows(model, X), size, memory_limit, first)
    if isinstance(model.trained, KernelModel):
        return model.curved.samples(normalised_rows(model, X), size, memory_limit, first)
    logits = model.trained.logits(model.settings.scheme.shares, X)
    slope, shift = model.coupled.slope[:, None], model.coupled.shift[:, None]
    logits = (logits * slope + shift).astype(np.float32)
    check_held(logits.T, first)
    return uncoupled(logits, model.wiring, size, memory_limit)


def normalised_rows(model: FittedModel, X: Any) -> NDArray[np.floating]:
    """Dense samples as the machines are given them."""
    return model.normalisation(X.toarray() if sparse.issparse(X) else X)
