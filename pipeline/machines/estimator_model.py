"""Machines that are scikit-learn classifiers: the same folds, Platt's parameters and averaging as for linear ones.

Those that give probabilities may be used as they are, as [HT] use linear discriminants and nearest neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from pairloom.graphs import ModelCode, Sides
from pairloom.pipeline.machines.feature_norm import feature_norm, has_feature_norm
from pairloom.pipeline.machines.folds import NEVER_HELD_OUT, PARTS, class_folds, class_parts
from pairloom.pipeline.machines.linear_model import Advance, train_columns_in_threads, train_in_threads
from pairloom.pipeline.machines.pair_kernels import (
    calibrate,
    dprime,
    measure_distances,
    out_of_fold_logits,
    thresholds_of,
)
from pairloom.pipeline.machines.settings import MachineSettings

__all__ = [
    "EstimatorModel",
    "PairEstimators",
    "decision_values",
    "own_log_odds",
    "train_estimator_model",
    "train_pair",
]

#: Probabilities of a classifier are held this far from 0 and 1 before their logit is taken. Shares of neighbours are
#: often 0 or 1. All of them then have logits of the same size, so that `bradley_terry` is max-wins, as in [HT 4].
_CERTAIN = 1e-6
#: Classifiers whose decision function is the log odds of their probabilities: exact where these round to 0 or 1.
_LOG_ODDS = (LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, LogisticRegression)


class PairEstimators(NamedTuple):
    """The fitted classifiers of one edge, the training rows each was fitted on, and their calibration.

    `norms` (M,) are those in feature space, NaN where that is not known. `platt`, `crossfit`, `threshold` and `dprime`
    are as in `linear_machines.Machines`. With `own_odds` the decision values are the log odds of the classifiers' own
    probabilities.
    """

    estimators: list[Any]
    fitted_on: list[NDArray[np.int64]]
    norms: NDArray[np.float64]
    platt: NDArray[np.float64]
    crossfit: NDArray[np.float64]
    threshold: float
    dprime: float
    own_odds: bool = False

    def logits(self, shares: NDArray[np.float64], X: Any, precomputed: bool) -> NDArray[np.float64]:
        """(R,) logits of samples X with these shares of the classifiers."""
        total = np.full(X.shape[0], -self.threshold)
        for m in np.flatnonzero(shares).tolist():
            A, B = self.platt[m]
            total -= shares[m] * (A * self._values(m, X, precomputed) + B)
        return total

    def held_out_logits(
        self, shares: NDArray[np.float64], X: Any, parts: NDArray[np.integer], precomputed: bool
    ) -> NDArray[np.float64]:
        """(R,) logits of training samples X with these shares, each with the parameters of its part."""
        total = np.zeros(X.shape[0])
        for m in np.flatnonzero(shares).tolist():
            A, B = self.crossfit[m, parts].T
            total -= shares[m] * (A * self._values(m, X, precomputed) + B)
        return total

    def by_distance(self) -> PairEstimators:
        """The same classifiers with their distances for logits."""
        return self._in_units_of(self.norms)

    def by_decision_value(self) -> PairEstimators:
        """The same classifiers with their decision values for logits, and without a threshold: LIBSVM's votes."""
        return self._in_units_of(np.ones_like(self.norms))._replace(threshold=0.0)

    def _in_units_of(self, norms: NDArray[np.float64]) -> PairEstimators:
        platt, crossfit = np.empty_like(self.platt), np.empty_like(self.crossfit)
        measure_distances(norms, platt, crossfit)
        return self._replace(platt=platt, crossfit=crossfit)

    def _values(self, m: int, X: Any, precomputed: bool) -> NDArray[np.float64]:
        values = own_log_odds if self.own_odds else decision_values
        return values(self.estimators[m], X[:, self.fitted_on[m]] if precomputed else X)


class EstimatorModel(NamedTuple):
    """The classifiers of all edges. `precomputed` says that X is a kernel matrix against the training samples."""

    pairs: list[PairEstimators]
    precomputed: bool

    @property
    def n_edges(self) -> int:
        """E, how many pairs are trained."""
        return len(self.pairs)

    def by_distance(self) -> EstimatorModel:
        """The same classifiers with their distances for logits."""
        return self._replace(pairs=[pair.by_distance() for pair in self.pairs])

    def by_decision_value(self) -> EstimatorModel:
        """The same classifiers with their decision values for logits."""
        return self._replace(pairs=[pair.by_decision_value() for pair in self.pairs])

    def logits(self, shares: NDArray[np.float64], X: Any) -> NDArray[np.float32]:
        """(E, R) float32 logits with these shares of each edge's machines."""
        return np.array([pair.logits(shares, X, self.precomputed) for pair in self.pairs], dtype=np.float32)

    def held_out_logits(
        self, shares: NDArray[np.float64], X: Any, parts: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        """(E, R) float32 logits of training samples with these shares, each with the parameters of its part."""
        logits = [pair.held_out_logits(shares, X, parts, self.precomputed) for pair in self.pairs]
        return np.array(logits, dtype=np.float32)


def decision_values(estimator: Any, X: Any) -> NDArray[np.float64]:
    """One real number per sample, positive for the second of the estimator's two classes."""
    if hasattr(estimator, "decision_function"):
        return np.asarray(estimator.decision_function(X), np.float64).ravel()
    return own_log_odds(estimator, X)


def own_log_odds(estimator: Any, X: Any) -> NDArray[np.float64]:
    """The log odds of the second of the estimator's two classes, by its own probabilities."""
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    if isinstance(last, _LOG_ODDS):
        return np.asarray(estimator.decision_function(X), np.float64).ravel()
    p = np.clip(np.asarray(estimator.predict_proba(X), np.float64)[:, 1], _CERTAIN, 1 - _CERTAIN)
    return np.asarray(np.log(p / (1 - p)))


def train_estimator_model(
    estimator: Any,
    X: Any,
    members: Sequence[NDArray[np.int64]],
    sides: Sides,
    settings: MachineSettings,
    *,
    precomputed: bool = False,
    n_threads: int = 1,
    advance: Advance | None = None,
) -> EstimatorModel:
    """Train a clone of the estimator for every machine of every pair, or of every column of a code.

    Parameters
    ----------
    estimator : scikit-learn classifier with decision_function or predict_proba
        With predict_proba for ``settings.calibration == "none"``.
    X : the training samples, or their kernel matrix if `precomputed`
    members : list of int arrays, the rows of each class
    sides, settings : as for `linear_model.train_machines`; C is a parameter of the estimator itself
    """
    classes = [_class_rows(rows, c, settings) for c, rows in enumerate(members)]

    def train(tile: NDArray[np.integer]) -> list[PairEstimators]:
        return [train_pair(estimator, X, classes[i], classes[j], settings, precomputed) for i, j in tile]

    def train_columns(columns: NDArray[np.int8]) -> list[PairEstimators]:
        both = ((_side(classes, column == 1), _side(classes, column == -1)) for column in columns.T)
        return [train_pair(estimator, X, *sides, settings, precomputed) for sides in both]

    if isinstance(sides, ModelCode):
        parts = train_columns_in_threads(train_columns, sides, n_threads, advance)
    else:
        parts = train_in_threads(train, sides, n_threads, advance)
    return EstimatorModel([pair for part in parts for pair in part], precomputed)


class ClassRows(NamedTuple):
    """The training rows of a class, or of the classes of a side, with the fold and the part of each."""

    rows: NDArray[np.int64]
    folds: NDArray[np.int64]
    parts: NDArray[np.int64]


def _class_rows(rows: NDArray[np.int64], c: int, settings: MachineSettings) -> ClassRows:
    dealt = (len(rows), settings.folds, settings.seed, c)
    return ClassRows(rows, class_folds(*dealt), class_parts(*dealt))


def _side(classes: Sequence[ClassRows], chosen: NDArray[np.bool_]) -> ClassRows:
    """The rows of the chosen classes, one below the other."""
    of_side = [classes[c] for c in np.flatnonzero(chosen).tolist()]
    return ClassRows(*(np.concatenate(values) for values in zip(*of_side, strict=True)))


def train_pair(
    estimator: Any,
    X: Any,
    first: ClassRows,
    second: ClassRows,
    settings: MachineSettings,
    precomputed: bool,
) -> PairEstimators:
    """Fit and calibrate the machines of one edge: class 1 is the first of the pair, class 0 the second.

    Either may be the classes of one side of a machine on sets.
    """
    scheme = settings.scheme
    rows, folds, parts = (np.concatenate(both) for both in zip(first, second, strict=True))
    y = np.r_[np.ones(len(first.rows), dtype=int), np.zeros(len(second.rows), dtype=int)]
    samples = X[np.ix_(rows, rows)] if precomputed else X[rows]
    estimators, fitted_on = [], []
    f, norms = np.empty((scheme.n_machines, len(rows))), np.empty(scheme.n_machines)
    measurable, own_odds = has_feature_norm(estimator), settings.calibration == "none"
    values = own_log_odds if own_odds else decision_values
    for m, seen in enumerate(scheme.fitted_on):
        chosen = np.flatnonzero(seen[folds] | (folds == NEVER_HELD_OUT))
        known = samples[np.ix_(chosen, chosen)] if precomputed else samples[chosen]
        fitted = clone(estimator).fit(known, y[chosen])
        f[m] = values(fitted, samples[:, chosen] if precomputed else samples)
        norms[m] = feature_norm(fitted, known if precomputed else None) if measurable else np.nan
        estimators.append(fitted)
        fitted_on.append(rows[chosen])
    platt, signs, ones = np.empty((scheme.n_machines, 2)), 2.0 * y - 1, np.ones(len(y))
    crossfit = np.empty((scheme.n_machines, PARTS, 2))
    if settings.calibration == "platt":
        calibrate(f, signs, ones, folds, parts, scheme.calibrated_on, scheme.pooled, platt, crossfit)
    else:
        measure_distances(np.ones_like(norms) if own_odds else norms, platt, crossfit)
    logits = out_of_fold_logits(f, platt.reshape(-1, 1, 2), folds, parts, scheme.out_of_fold)
    threshold = 0.0
    if settings.thresholds:
        threshold = thresholds_of(f, signs, ones, folds, parts, scheme.out_of_fold, platt, crossfit)
    return PairEstimators(
        estimators, fitted_on, norms, platt, crossfit, threshold, dprime(logits, len(first.rows)), own_odds
    )
