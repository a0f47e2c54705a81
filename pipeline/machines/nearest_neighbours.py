"""J nearest neighbours with J by cross-validation: the two-class learner of [HT 3] that is not linear."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from pairloom.pipeline.threads import pieces

__all__ = ["NearestNeighboursCV", "leave_one_out_errors"]

#: The largest candidate of J by default.
MOST_NEIGHBOURS = 30
#: Distances in memory at once: 32 MB.
_DISTANCES = 2**22


class NearestNeighboursCV(ClassifierMixin, BaseEstimator):
    """J nearest neighbours, where J is chosen by leave-one-out cross-validation.

    As the `estimator` of a `PairwiseSVC`, it chooses J for every pair [1]_. With ``calibration="none"`` the shares of
    the neighbours are coupled without calibration.

    Parameters
    ----------
    neighbours : iterable of int, default=None
        The candidates of J, each at least 1. None tries 1 to 30. Candidates that are not below the number of samples
        are replaced by the largest J that is, since a sample is left out.
    biases : iterable of float, default=None
        For two classes: the candidates of the factor by which distances to samples of the second class are multiplied,
        each above 0. J and the factor are chosen together. A factor above 1 favours the first class. This is how [1]_
        moves the boundary of a pair: the shares of J neighbours are too coarse for a threshold. None does not bias
        distances.

    Attributes
    ----------
    classes_ : (N,) array
        The class labels, sorted.
    neighbours_ : int
        J: the candidate with the fewest leave-one-out errors; among equals the largest, whose shares are the finest.
    errors_ : dict of int -> float
        The share of leave-one-out errors of each candidate, with the best factor. If k classes tie, the true one among
        them counts 1 / k.
    bias_ : float
        The chosen factor; 1.0 without `biases`. Among equals the one nearest to 1, in ratio.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    sklearn.neighbors.KNeighborsClassifier : the same with J given.

    Notes
    -----
    Distances are Euclidean. As in [1]_, `predict_proba` is the share of the J neighbours, without smoothing, so it may
    be 0 or 1. `PairwiseSVC` clips such probabilities to [1e-6, 1 - 1e-6].

    References
    ----------
    .. [1] T. Hastie and R. Tibshirani (1998). "Classification by pairwise coupling". Advances in Neural Information
       Processing Systems 10, 507-513, section 3 [HT].

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> NearestNeighboursCV([1, 3, 5]).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    def __init__(
        self, neighbours: Iterable[int] | None = None, biases: Iterable[float] | None = None
    ) -> None:
        self.neighbours = neighbours
        self.biases = biases

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Keep the samples and choose J.

        Parameters
        ----------
        X : (n, D) array-like or CSR matrix
        y : (n,) array-like

        Returns
        -------
        self : NearestNeighboursCV
        """
        X, labels = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(labels)
        self.classes_, self._of_sample = np.unique(labels, return_inverse=True)
        self._samples = X
        biases = _biases(self.biases, len(self.classes_))
        candidates = _candidates(self.neighbours, len(labels))
        if len(candidates) == 0:  # a single sample, which cannot be left out
            self.errors_, self.neighbours_, self.bias_ = {1: 0.0}, 1, 1.0
            return self
        errors = {
            bias: leave_one_out_errors(
                self._of_sample[nearest_samples(None, X, candidates[-1], self._factors(bias))],
                self._of_sample,
                len(self.classes_),
                candidates,
            )
            for bias in biases
        }
        self.errors_ = dict(zip(candidates, np.min(list(errors.values()), axis=0).tolist(), strict=True))
        self.neighbours_ = min(self.errors_, key=lambda J: (self.errors_[J], -J))
        at = candidates.index(self.neighbours_)
        self.bias_ = min(biases, key=lambda bias: (errors[bias][at], abs(math.log(bias))))
        return self

    def _factors(self, bias: float) -> NDArray[np.float64] | None:
        """(n,) factors of the distances to the samples; None if all are one."""
        return None if bias == 1.0 else np.where(self._of_sample == 1, bias, 1.0)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(R, N) shares of the classes among the J nearest neighbours."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        nearest = nearest_samples(X, self._samples, self.neighbours_, self._factors(self.bias_))
        counts = np.zeros((len(nearest), len(self.classes_)))
        for classes in self._of_sample[nearest].T:
            counts[np.arange(len(counts)), classes] += 1
        return counts / self.neighbours_

    def predict(self, X: Any) -> NDArray[Any]:
        """The most frequent class among the J nearest neighbours; the first one if several tie."""
        shares = self.predict_proba(X)
        return np.asarray(self.classes_[shares.argmax(axis=1)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _candidates(neighbours: Iterable[int] | None, n_samples: int) -> list[int]:
    """The candidates of J, ascending, each below the number of samples."""
    asked = range(1, MOST_NEIGHBOURS + 1) if neighbours is None else neighbours
    values = list(asked) if isinstance(asked, Iterable) else []
    if not values or not all(isinstance(J, Integral) and not isinstance(J, bool) and J >= 1 for J in values):
        raise ValueError(
            "NearestNeighboursCV: neighbours must be integers of at least 1, the candidates of J, or None,"
            f" got {neighbours!r}."
        )
    return sorted({min(int(J), n_samples - 1) for J in values} - {0})


def _biases(biases: Iterable[float] | None, n_classes: int) -> list[float]:
    """The candidates of the factor."""
    if biases is None:
        return [1.0]
    values = [float(bias) for bias in biases]
    if not values or not all(0 < bias < math.inf for bias in values):
        raise ValueError(f"NearestNeighboursCV: biases must be factors above 0, or None, got {biases!r}.")
    if n_classes != 2:
        raise ValueError(f"NearestNeighboursCV: biases are for two classes, got {n_classes}.")
    return values


def nearest_samples(
    X: Any, samples: Any, n_neighbours: int, factors: NDArray[np.float64] | None = None
) -> NDArray[np.int64]:
    """(R, neighbours) indices of the samples nearest to each row of X, the nearest first.

    The distances to each sample are multiplied by its factor. If X is None, the rows are the samples themselves, and no
    sample is its own neighbour. All distances are computed: a pair has few samples and, as a rule, many features.
    scikit-learn's search starts threads of its own, which compete with the threads that train and apply pairs (on two
    busy cores it took twelve times as long).
    """
    n_rows = samples.shape[0] if X is None else X.shape[0]
    nearest = np.empty((n_rows, n_neighbours), np.int64)
    for rows in pieces(n_rows, max(1, _DISTANCES // samples.shape[0])):
        squares = euclidean_distances((samples if X is None else X)[rows], samples, squared=True)
        if factors is not None:
            squares = squares * factors**2
        if X is None:
            squares[np.arange(len(squares)), np.arange(rows.start, rows.stop)] = np.inf
        some = np.sort(np.argpartition(squares, n_neighbours - 1, axis=1)[:, :n_neighbours], axis=1)
        order = np.argsort(np.take_along_axis(squares, some, axis=1), axis=1, kind="stable")
        nearest[rows] = np.take_along_axis(some, order, axis=1)
    return nearest


def leave_one_out_errors(
    nearest: NDArray[np.integer], y: NDArray[np.integer], n_classes: int, candidates: Sequence[int]
) -> NDArray[np.float64]:
    """The share of errors for each candidate J, ascending.

    Parameters
    ----------
    nearest : (n, J) int array
        The classes of each sample's nearest neighbours except itself, the nearest first.
    y : (n,) int array
        The classes of the samples.
    n_classes : int
    candidates : sequence of int, ascending
    """
    rows, counts, errors, counted = np.arange(len(y)), np.zeros((len(y), n_classes), np.int64), [], 0
    for J in candidates:
        for column in range(counted, J):
            counts[rows, nearest[:, column]] += 1
        counted = J
        most = counts == counts.max(axis=1, keepdims=True)
        errors.append(1 - (most[rows, y] / most.sum(axis=1)).mean())
    return np.array(errors)
