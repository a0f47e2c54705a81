"""The samples that a PairwiseSVC is given to fit: checked, weighted, and without those that do not count."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from pairloom.pipeline.model.class_weights import class_weights
from pairloom.pipeline.model.named_errors import named_errors

__all__ = ["TrainingSamples", "training_samples"]


class TrainingSamples(NamedTuple):
    """Samples X, their labels, their weights or None, and the parameter that the weights are from, or ""."""

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    weighted: str


def training_samples(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, own: bool, precomputed: bool
) -> TrainingSamples:
    """The samples that count: one of weight zero is left out, from the folds and the means too.

    Parameters
    ----------
    estimator : PairwiseSVC
        It is not changed.
    X, y, sample_weight : as given to its fit
    own, precomputed : bool
        Whether its machines are Pairloom's own, and whether X is a kernel matrix.
    """
    X, y = _checked(estimator, X, y, precomputed)
    if not own and (sample_weight is not None or estimator.class_weight is not None):
        raise ValueError(
            "PairwiseSVC: sample_weight and class_weight are for machines without an estimator,"
            f" got estimator={estimator.estimator!r}."
        )
    weight, weighted = None, ""
    if sample_weight is not None:
        with named_errors("PairwiseSVC: sample_weight must be a non-negative number for each row of X"):
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        weighted, kept = "sample_weight", np.flatnonzero(weight)
        if not len(kept):  # scikit-learn says so itself from 1.9 on
            raise ValueError(
                "PairwiseSVC: sample_weight must be positive for at least one row of X, got zeros only."
            )
        if len(kept) < len(weight) and precomputed:
            raise ValueError(
                "PairwiseSVC: sample_weight must be positive for kernel='precomputed', got"
                f" {len(weight) - len(kept)} zeros: leave these samples out, rows and columns."
            )
        if len(kept) < len(weight):
            X, y, weight = X[kept], y[kept], weight[kept]
    if estimator.class_weight is not None:
        of_sample = _class_weight_of_samples(estimator.class_weight, y)
        weight, weighted = of_sample if weight is None else of_sample * weight, "class_weight"
    if sparse.issparse(X) and own:
        X = X.toarray()  # the machines are dense in every feature
    return TrainingSamples(X, y, weight, weighted)


def _checked(estimator: Any, X: Any, y: Any, precomputed: bool) -> tuple[Any, NDArray[Any]]:
    with named_errors("PairwiseSVC: X must be a matrix of finite numbers, and y a label for each row"):
        # On a copy, as it stores the number and the names of the features.
        accept_sparse = False if precomputed else "csr"
        X, y = validate_data(
            copy(estimator), X, y, accept_sparse=accept_sparse, dtype=[np.float64, np.float32]
        )
        check_classification_targets(y)
        if y.dtype.kind in "mM" and np.isnat(y).any():
            raise ValueError("Input y contains NaT.")
    if precomputed and X.shape[0] != X.shape[1]:
        raise ValueError(
            f"PairwiseSVC: X must be a square kernel matrix for kernel='precomputed', got {X.shape}."
        )
    return X, y


def _class_weight_of_samples(class_weight: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    labels, classes = np.unique(y, return_inverse=True)
    of_class = class_weights(class_weight, labels.tolist(), classes, "PairwiseSVC: class_weight", "y")
    return np.asarray(of_class[classes])
