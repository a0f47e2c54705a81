"""Machines that are scikit-learn classifiers, with the same folds, calibration and averaging as linear machines.

Probabilities of classifiers may be used without calibration, as [HT] use linear discriminants and nearest neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from pairloom.graphs import Decomposition
from pairloom.graphs.text import plain_line
from pairloom.pipeline.machines.contributions import PlainEvidence
from pairloom.pipeline.machines.folds import NEVER_HELD_OUT, PARTS, FoldScheme
from pairloom.pipeline.machines.linear_machines import Advance, train_in_threads
from pairloom.pipeline.machines.pair_calibration import calibrate_machines
from pairloom.pipeline.machines.pair_kernels import measure_distances
from pairloom.pipeline.machines.settings import ClassRows, MachineSettings, split_class, stacked

__all__ = [
    "EstimatorLogits",
    "EstimatorModel",
    "PairEstimators",
    "decision_values",
    "feature_norm",
    "has_feature_norm",
    "own_log_odds",
    "train_estimator_model",
    "train_pair",
]


#: Probabilities of a classifier are kept this far from 0 and 1 before their logit is taken. Shares of neighbours are
#: often 0 or 1; all of these then have logits of the same size, so `bradley_terry` is max-wins, as in [HT 4].
_CERTAIN = 1e-6


class PairEstimators(NamedTuple):
    """The fitted classifiers of one edge, and their calibration.

    `norms` (M,) are |w| in feature space, NaN if unknown. `platt`, `crossfit`, `threshold` and `dprime` are as in
    `linear_machines.Machines`. With `own_odds`, decision values are the log odds of the classifiers' own probabilities.
    """

    estimators: list[Any]
    norms: NDArray[np.float64]
    platt: NDArray[np.float64]
    crossfit: NDArray[np.float64]
    threshold: float
    dprime: float
    profile: NDArray[np.float32]
    own_odds: bool = False

    def logits(self, shares: NDArray[np.float64], X: Any) -> NDArray[np.float64]:
        """(R,) logits of samples X with these shares of the classifiers."""
        total = np.full(X.shape[0], -self.threshold)
        for m in np.flatnonzero(shares).tolist():
            A, B = self.platt[m]
            total -= shares[m] * (A * self._values(m, X) + B)
        return total

    def held_out_logits(
        self, shares: NDArray[np.float64], X: Any, parts: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """(R,) logits of training samples X with these shares, each with the parameters of its part."""
        total = np.zeros(X.shape[0])
        for m in np.flatnonzero(shares).tolist():
            A, B = self.crossfit[m, parts].T
            total -= shares[m] * (A * self._values(m, X) + B)
        return total

    def by_distance(self, scheme: FoldScheme) -> PairEstimators:
        """The same classifiers with distances as logits."""
        return self._in_units_of(scheme.distance_units(self.norms))

    def by_decision_value(self) -> PairEstimators:
        """The same classifiers with decision values as logits, without a threshold: LIBSVM's votes."""
        return self._in_units_of(np.ones_like(self.norms))._replace(threshold=0.0)

    def _in_units_of(self, norms: NDArray[np.float64]) -> PairEstimators:
        platt, crossfit = np.empty_like(self.platt), np.empty_like(self.crossfit)
        measure_distances(norms, platt, crossfit)
        return self._replace(platt=platt, crossfit=crossfit)

    def _values(self, m: int, X: Any) -> NDArray[np.float64]:
        values = own_log_odds if self.own_odds else decision_values
        return values(self.estimators[m], X)


class EstimatorLogits(NamedTuple):
    """The logits of all edges: the classifiers' weighted by ``shares``, times a slope, plus a shift per edge."""

    machines: list[PairEstimators]
    shares: NDArray[np.float64]
    slope: NDArray[np.float64]
    shift: NDArray[np.float64]

    def __call__(self, X: Any) -> NDArray[np.float32]:
        """(E, R) float32 logits of raw samples."""
        logits: NDArray[np.float64] = self._of_classifiers(X) * self.slope[:, None] + self.shift[:, None]
        return logits.astype(np.float32)

    def _of_classifiers(self, X: Any) -> NDArray[np.float32]:
        return np.array([pair.logits(self.shares, X) for pair in self.machines], dtype=np.float32)

    def calibrated(self, slope: NDArray[np.float64], shift: NDArray[np.float64]) -> EstimatorLogits:
        """The map with logits ``slope[e] * l + shift[e]``, where l are the logits of this one."""
        return self._replace(slope=self.slope * slope, shift=self.shift * slope + shift)

    def ranking(self, potentials: object) -> None:
        """None: the ranking of the classes needs the logits of all edges."""

    def evidence(self, X: Any, normalisation: object, names: object) -> PlainEvidence:
        """The logits of one sample X (1, D); their contributions are not known."""
        return PlainEvidence(self._of_classifiers(X)[:, 0].astype(np.float64) * self.slope + self.shift)


class EstimatorModel(NamedTuple):
    """The classifiers of all edges."""

    machines: list[PairEstimators]

    @property
    def n_edges(self) -> int:
        """E, the number of trained pairs."""
        return len(self.machines)

    @property
    def kernel(self) -> None:
        """None: classifiers have kernels of their own, if any."""

    def by_distance(self, scheme: FoldScheme) -> EstimatorModel:
        """The same classifiers with distances as logits."""
        return EstimatorModel([pair.by_distance(scheme) for pair in self.machines])

    def unprofiled(self) -> EstimatorModel:
        """The same classifiers without their profiles, which only calibration needs."""
        return EstimatorModel([pair._replace(profile=pair.profile[:, :0]) for pair in self.machines])

    @property
    def profile(self) -> NDArray[np.float32]:
        """(E, PARTS, PROFILE_SIZE) the profiles of the pairs."""
        return np.array([pair.profile for pair in self.machines])

    def by_decision_value(self) -> EstimatorModel:
        """The same classifiers with decision values as logits."""
        return EstimatorModel([pair.by_decision_value() for pair in self.machines])

    def collapsed(self, shares: NDArray[np.float64]) -> EstimatorLogits:
        """The mean of each edge's classifiers, weighted by `shares` (M,), as one map."""
        return EstimatorLogits(self.machines, shares, np.ones(self.n_edges), np.zeros(self.n_edges))

    def prepared(self, X: Any, normalisation: object) -> Any:
        """Samples in the form that the classifiers take: unchanged."""
        return X

    def held_out_logits(
        self, shares: NDArray[np.float64], X: Any, parts: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        """(E, R) float32 logits of training samples with these shares, each with the parameters of its part."""
        return np.array([pair.held_out_logits(shares, X, parts) for pair in self.machines], dtype=np.float32)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Raises: classifiers cannot be saved as arrays."""
        raise ValueError(
            "PairwiseSVC.save: machines that are classifiers of scikit-learn cannot be saved without pickle, got"
            f" estimator={clone(self.machines[0].estimators[0])!r}."
        )

    def described(self, C: float) -> tuple[str, str]:
        """The name of the classifiers, and the note that C is theirs, for a summary."""
        return plain_line(type(self.machines[0].estimators[0]).__name__, 40), "the estimator's own"

    def names_of_inputs(
        self, names: object, edges: object, labels: object, ids: object = ()
    ) -> NDArray[np.object_]:
        """Empty: the logits are not known as sums."""
        return np.empty(0, object)


def decision_values(estimator: Any, X: Any) -> NDArray[np.float64]:
    """One real number per sample, positive for the second of the estimator's two classes."""
    if hasattr(estimator, "decision_function"):
        return np.asarray(estimator.decision_function(X), np.float64).ravel()
    return own_log_odds(estimator, X)


def own_log_odds(estimator: Any, X: Any) -> NDArray[np.float64]:
    """The log odds of the second of the estimator's two classes, by its own probabilities."""
    if _decides_by_log_odds(estimator):
        return np.asarray(estimator.decision_function(X), np.float64).ravel()
    p = np.clip(np.asarray(estimator.predict_proba(X), np.float64)[:, 1], _CERTAIN, 1 - _CERTAIN)
    return np.asarray(np.log(p / (1 - p)))


# The classifiers are imported inside the functions that ask for their types: most users of PairwiseSVC need none, and
# the modules would add 60 ms to its import.
def _decides_by_log_odds(estimator: Any) -> bool:
    """Whether the decision function is the log odds of the probabilities, exact even where they round to 0 or 1."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline

    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    return isinstance(last, LinearDiscriminantAnalysis | QuadraticDiscriminantAnalysis | LogisticRegression)


def train_estimator_model(
    estimator: Any,
    X: Any,
    members: Sequence[NDArray[np.int64]],
    decomposition: Decomposition,
    settings: MachineSettings,
    *,
    n_threads: int = 1,
    advance: Advance | None = None,
) -> EstimatorModel:
    """Train a clone of the estimator for every machine of every pair, or of every column of a code.

    Parameters
    ----------
    estimator : scikit-learn classifier with decision_function or predict_proba
        With predict_proba for ``settings.calibration == "none"``.
    X : the training samples
    members : list of int arrays, the rows of each class
    decomposition, settings : as for `linear_machines.train_linear_model`; C is a parameter of the estimator itself
    """
    classes = [split_class(rows, c, settings) for c, rows in enumerate(members)]

    def train(tile: Decomposition) -> list[PairEstimators]:
        both = ([stacked([classes[c] for c in side.tolist()]) for side in sides] for sides in tile.sides())
        return [train_pair(estimator, X, first, second, settings) for first, second in both]

    parts = train_in_threads(decomposition, train, n_threads, advance)
    return EstimatorModel([pair for part in parts for pair in part])


def train_pair(
    estimator: Any,
    X: Any,
    first: ClassRows,
    second: ClassRows,
    settings: MachineSettings,
) -> PairEstimators:
    """Fit and calibrate the machines of one edge: class 1 is the first of the pair, class 0 the second.

    For a machine on sets, each is the stacked rows of the classes on one side.
    """
    scheme = settings.scheme
    rows, _, weight, folds, parts = stacked([first, second])
    y = np.r_[np.ones(len(first.rows), dtype=int), np.zeros(len(second.rows), dtype=int)]
    samples, estimators = X[rows], []
    f, norms = np.empty((scheme.n_machines, len(rows))), np.empty(scheme.n_machines)
    measurable, own_odds = has_feature_norm(estimator), settings.calibration == "none"
    values = own_log_odds if own_odds else decision_values
    for m, seen in enumerate(scheme.fitted_on):
        chosen = np.flatnonzero(seen[folds] | (folds == NEVER_HELD_OUT))
        fitted = clone(estimator).fit(samples[chosen], y[chosen])
        f[m] = values(fitted, samples)
        norms[m] = feature_norm(fitted) if measurable else np.nan
        estimators.append(fitted)
    platt, signs = np.empty((scheme.n_machines, 2)), 2.0 * y - 1
    crossfit = np.empty((scheme.n_machines, PARTS, 2))
    # The classifiers' own log odds are logits already, so their unit is 1.
    units, profile = np.ones_like(norms) if own_odds else norms, np.empty((PARTS, settings.profile_size))
    by_distance, thresholds = own_odds or settings.by_distance, settings.thresholds
    separation, threshold = calibrate_machines(
        f, signs, weight, folds, parts, scheme, units, by_distance, thresholds, platt, crossfit, profile
    )
    return PairEstimators(
        estimators, norms, platt, crossfit, threshold, separation, profile.astype(np.float32), own_odds
    )


#: SVC's kernels that are inner products, so that w has a norm. The sigmoid is not one.
_INNER_PRODUCTS = ("linear", "poly", "rbf")


def has_feature_norm(estimator: Any) -> bool:
    """Whether |w| of a classifier can be computed once it is fitted, and so distances to its hyperplane."""
    from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
    from sklearn.svm import SVC, LinearSVC, NuSVC

    if isinstance(estimator, SVC | NuSVC):
        return estimator.kernel in _INNER_PRODUCTS
    return isinstance(estimator, LinearSVC | LogisticRegression | RidgeClassifier | SGDClassifier)


def feature_norm(fitted: Any) -> float:
    """|w| of a fitted two-class classifier."""
    from sklearn.metrics.pairwise import pairwise_kernels
    from sklearn.svm import SVC, NuSVC

    if not isinstance(fitted, SVC | NuSVC):
        return float(np.linalg.norm(fitted.coef_))
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
