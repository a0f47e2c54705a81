"""Machines that are scikit-learn classifiers: the same folds, Platt's parameters and averaging as for linear ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pairloom.pipeline.machines.folds import class_folds
from pairloom.pipeline.machines.linear_model import Advance, train_in_threads
from pairloom.pipeline.machines.pair_kernels import calibrate, dprime, fewest_errors, out_of_fold_logits
from pairloom.pipeline.machines.settings import MachineSettings

__all__ = ["EstimatorModel", "PairEstimators", "decision_values", "train_estimator_model", "train_pair"]

#: Probabilities of a classifier without a decision_function are held this far from 0 and 1 before their logit is taken.
_CERTAIN = 1e-6


class PairEstimators(NamedTuple):
    """The fitted classifiers of one edge, the training rows each was fitted on, and their calibration."""

    estimators: list[Any]
    fitted_on: list[NDArray[np.int64]]
    platt: NDArray[np.float64]
    threshold: float
    dprime: float

    def logits(self, shares: NDArray[np.float64], X: Any, precomputed: bool) -> NDArray[np.float64]:
        """(R,) logits of samples X with these shares of the classifiers."""
        total = np.full(X.shape[0], -self.threshold)
        for share, estimator, rows, (A, B) in zip(
            shares, self.estimators, self.fitted_on, self.platt, strict=True
        ):
            if share:
                total -= share * (A * decision_values(estimator, X[:, rows] if precomputed else X) + B)
        return total


class EstimatorModel(NamedTuple):
    """The classifiers of all edges. `precomputed` says that X is a kernel matrix against the training samples."""

    pairs: list[PairEstimators]
    precomputed: bool

    def logits(self, shares: NDArray[np.float64], X: Any) -> NDArray[np.float32]:
        """(E, R) float32 logits with these shares of each edge's machines."""
        return np.array([pair.logits(shares, X, self.precomputed) for pair in self.pairs], dtype=np.float32)


def decision_values(estimator: Any, X: Any) -> NDArray[np.float64]:
    """One real number per sample, positive for the second of the estimator's two classes."""
    if hasattr(estimator, "decision_function"):
        return np.asarray(estimator.decision_function(X), np.float64).ravel()
    p = np.clip(np.asarray(estimator.predict_proba(X), np.float64)[:, 1], _CERTAIN, 1 - _CERTAIN)
    return np.asarray(np.log(p / (1 - p)))


def train_estimator_model(
    estimator: Any,
    X: Any,
    members: Sequence[NDArray[np.int64]],
    edges: NDArray[np.integer],
    settings: MachineSettings,
    *,
    precomputed: bool = False,
    n_threads: int = 1,
    advance: Advance | None = None,
) -> EstimatorModel:
    """Train a clone of the estimator for every machine of every edge.

    Parameters
    ----------
    estimator : scikit-learn classifier with decision_function or predict_proba
    X : the training samples, or their kernel matrix if `precomputed`
    members : list of int arrays, the rows of each class
    edges, settings : as for `linear_machines.train_edges`; C is a parameter of the estimator itself
    """
    folds = [class_folds(len(rows), settings.folds, settings.seed, c) for c, rows in enumerate(members)]

    def train(tile: NDArray[np.integer]) -> list[PairEstimators]:
        return [
            train_pair(estimator, X, members[i], members[j], folds[i], folds[j], settings, precomputed)
            for i, j in tile
        ]

    parts = train_in_threads(train, edges, n_threads, advance)
    return EstimatorModel([pair for part in parts for pair in part], precomputed)


def train_pair(
    estimator: Any,
    X: Any,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    folds_first: NDArray[np.int64],
    folds_second: NDArray[np.int64],
    settings: MachineSettings,
    precomputed: bool,
) -> PairEstimators:
    """Fit and calibrate the machines of one edge: class 1 is the first of the pair, class 0 the second."""
    scheme = settings.scheme
    rows, folds = np.concatenate([first, second]), np.concatenate([folds_first, folds_second])
    y = np.r_[np.ones(len(first), dtype=int), np.zeros(len(second), dtype=int)]
    samples = X[np.ix_(rows, rows)] if precomputed else X[rows]
    estimators, fitted_on = [], []
    f = np.empty((scheme.n_machines, len(rows)))
    for m, seen in enumerate(scheme.fitted_on):
        chosen = np.flatnonzero(seen[folds])
        fitted = clone(estimator).fit(
            samples[np.ix_(chosen, chosen)] if precomputed else samples[chosen], y[chosen]
        )
        f[m] = decision_values(fitted, samples[:, chosen] if precomputed else samples)
        estimators.append(fitted)
        fitted_on.append(rows[chosen])
    platt, signs, ones = np.empty((scheme.n_machines, 2)), 2.0 * y - 1, np.ones(len(y))
    calibrate(f, signs, ones, folds, scheme.calibrated_on, scheme.pooled, platt)
    logits = out_of_fold_logits(f, platt, folds, scheme.out_of_fold)
    threshold = fewest_errors(logits, signs, ones) if settings.thresholds else 0.0
    return PairEstimators(estimators, fitted_on, platt, threshold, dprime(logits, len(first)))
