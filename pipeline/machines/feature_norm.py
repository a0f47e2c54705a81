"""The norm of a fitted classifier in its feature space, by which its decision values become distances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC, LinearSVC, NuSVC

__all__ = ["feature_norm", "has_feature_norm"]

_LINEAR = (LinearSVC, LogisticRegression, RidgeClassifier, SGDClassifier)
#: Kernels that are inner products, so that w has a norm. The sigmoid is not one.
_INNER_PRODUCTS = ("linear", "poly", "rbf", "precomputed")


def has_feature_norm(estimator: Any) -> bool:
    """Whether the distance to the hyperplane of a classifier, once fitted, can be told."""
    if isinstance(estimator, (SVC, NuSVC)):
        return estimator.kernel in _INNER_PRODUCTS
    return isinstance(estimator, _LINEAR)


def feature_norm(fitted: Any, gram: NDArray[np.floating] | None = None) -> float:
    """|w| of a fitted two-class classifier; ``gram`` is its training kernel matrix if that was precomputed."""
    if not isinstance(fitted, (SVC, NuSVC)):
        return float(np.linalg.norm(fitted.coef_))
    if gram is not None:
        between = gram[np.ix_(fitted.support_, fitted.support_)]
    else:
        between = pairwise_kernels(
            fitted.support_vectors_,
            metric=fitted.kernel,
            filter_params=True,
            gamma=fitted._gamma,
            degree=fitted.degree,
            coef0=fitted.coef0,
        )
    alpha = fitted.dual_coef_.toarray() if sparse.issparse(fitted.dual_coef_) else fitted.dual_coef_
    return float(np.sqrt(max((alpha @ between @ alpha.T).item(), 0.0)))
