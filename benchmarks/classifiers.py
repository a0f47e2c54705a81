"""The classifiers of the comparisons. Each is made from the total variance of the training features."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.svm import SVC, LinearSVC

from pairloom import PairwiseSVC
from pairloom.pipeline.calibration.held_out import log_losses

THREADS = 2
#: Maximum number of classes for all pairs: 300 classes have 44,850.
MOST_COMPLETE = 300
#: Maximum number of classes for classifiers that suit tables with few columns.
MOST_OF_A_TABLE = 30
FOLDS = 4


class Tempered:
    """The best of some classifiers, with its decision values divided by one temperature.

    Both are chosen by the log loss of held-out rows, as a careful user would. Rows of classes with fewer rows than
    folds are always used for training and never held out, so that no fold lacks a class in training.
    """

    def __init__(self, *candidates: Any) -> None:
        self.candidates = candidates

    def fit(self, X: NDArray[np.floating], y: NDArray[np.integer]) -> Self:
        """Choose by cross-validation, then fit the choice on all rows."""
        folds = list(held_out(y))
        y_held = np.concatenate([y[rows] for rows in folds])
        tempered = [temperature(held_out_values(model, X, y, folds), y_held) for model in self.candidates]
        best = min(range(len(tempered)), key=lambda k: tempered[k][1])
        self.temperature_ = tempered[best][0]
        self.model_ = clone(self.candidates[best]).fit(X, y)
        return self

    def predict_proba(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Softmax of the tempered decision values."""
        return np.asarray(softmax(self.model_.decision_function(X) / self.temperature_, axis=1))


def held_out(y: NDArray[np.integer]) -> Iterator[NDArray[np.intp]]:
    """The rows of each fold."""
    rows = np.flatnonzero(np.bincount(y)[y] >= FOLDS)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return (rows[held] for _, held in folds.split(rows, y[rows]))


def held_out_values(
    model: Any, X: NDArray[np.floating], y: NDArray[np.integer], folds: Iterable[NDArray[np.intp]]
) -> NDArray[np.floating]:
    """Decision values of the rows of every fold, by a model that was trained on all other rows."""
    values = []
    for rows in folds:
        rest = np.delete(np.arange(len(y)), rows)
        values.append(clone(model).fit(X[rest], y[rest]).decision_function(X[rows]))
    return np.concatenate(values)


def temperature(values: NDArray[np.floating], y: NDArray[np.integer]) -> tuple[float, float]:
    """The divisor of decision values with the least log loss, and that loss."""

    def loss(log_temperature: float) -> float:
        log_p = log_softmax(values / values.dtype.type(math.exp(log_temperature)), axis=1)
        return -float(log_p[np.arange(len(y)), y].mean())

    best = minimize_scalar(loss, bounds=(-5, 5), method="bounded")
    return math.exp(best.x), float(best.fun)


class Tuned:
    """A classifier whose parameters are chosen, one after the other, by the log loss of held-out rows."""

    def __init__(self, model: Any, grid: dict[str, list[Any]], folds: int = FOLDS) -> None:
        self.model, self.grid, self.folds = model, grid, folds

    def fit(self, X: NDArray[np.floating], y: NDArray[np.integer]) -> Self:
        """Choose each parameter, given those before it, then fit on all rows."""
        folds = list(held_out(y))[: self.folds]
        chosen: dict[str, Any] = {}
        for name, values in self.grid.items():
            trials = [chosen | {name: value} for value in values]
            chosen = min(trials, key=lambda trial: self._held_out_loss(trial, X, y, folds))
        self.model_ = clone(self.model).set_params(**chosen).fit(X, y)
        return self

    def _held_out_loss(
        self,
        parameters: dict[str, Any],
        X: NDArray[np.floating],
        y: NDArray[np.integer],
        folds: Iterable[NDArray[np.intp]],
    ) -> float:
        losses = []
        for rows in folds:
            rest = np.delete(np.arange(len(y)), rows)
            model = clone(self.model).set_params(**parameters).fit(X[rest], y[rest])
            losses.append(log_losses(model.predict_proba(X[rows]), y[rows]))
        return float(np.concatenate(losses).mean())

    def predict_proba(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Probabilities of the model with the chosen parameters."""
        return np.asarray(self.model_.predict_proba(X))


def pairwise_default(variance: float) -> PairwiseSVC:
    return PairwiseSVC(random_state=0, n_jobs=THREADS)


def pairwise_complete(variance: float) -> PairwiseSVC:
    return PairwiseSVC("complete", random_state=0, n_jobs=THREADS)


def pairwise_learned(variance: float) -> PairwiseSVC:
    return PairwiseSVC(learn="coupled", random_state=0, n_jobs=THREADS)


def pairwise_radial(variance: float) -> PairwiseSVC:
    return PairwiseSVC("complete", kernel="rbf", random_state=0, n_jobs=THREADS)


def logistic(variance: float, C: float = 10) -> LogisticRegression:
    return LogisticRegression(C=C / variance, max_iter=1000)


def logistic_tuned(variance: float) -> Tempered:
    return Tempered(*(logistic(variance, C) for C in (1, 10, 100)))


def logistic_strong(variance: float) -> LogisticRegression:
    """The C with the least test log loss on ICD-10-CM, where `logistic_tuned` would take a quarter of an hour."""
    return logistic(variance, C=300)


def linear_svc_temperature(variance: float) -> CalibratedClassifierCV:
    return CalibratedClassifierCV(LinearSVC(C=10 / variance, random_state=0), method="temperature", cv=FOLDS)


def linear_svc_sigmoid(variance: float) -> CalibratedClassifierCV:
    return CalibratedClassifierCV(LinearSVC(C=10 / variance, random_state=0), method="sigmoid", cv=FOLDS)


def discriminant_temperature(variance: float) -> Tempered:
    """LDA. Its decision values are its log probabilities up to a constant per row, which softmax removes."""
    return Tempered(LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"))


def nearest_centroid(variance: float) -> NearestCentroid:
    return NearestCentroid()


def svc_probability(variance: float) -> SVC:
    return SVC(kernel="linear", C=10 / variance, probability=True, random_state=0)


def svc_calibrated(variance: float) -> CalibratedClassifierCV:
    return CalibratedClassifierCV(SVC(kernel="linear", C=10 / variance), ensemble=False, cv=FOLDS)


def svc_radial_tuned(variance: float) -> Tuned:
    """`SVC` as a careful user would tune it: gamma and C by held-out log loss, with its own probabilities."""
    scale = 1 / variance
    grid: dict[str, list[Any]] = {"gamma": [scale, scale / 4, 4 * scale], "C": [10, 1, 100]}
    return Tuned(SVC(probability=True, C=10, random_state=0), grid)


def forest(variance: float) -> RandomForestClassifier:
    return RandomForestClassifier(300, random_state=0, n_jobs=THREADS)


def extra_trees(variance: float) -> ExtraTreesClassifier:
    return ExtraTreesClassifier(300, random_state=0, n_jobs=THREADS)


def boosting(variance: float) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(random_state=0)


def boosting_tuned(variance: float) -> Tuned:
    """Rounds by early stopping, rate and leaves by a quarter of the rows: four folds would take it an hour."""
    model = HistGradientBoostingClassifier(max_iter=500, early_stopping=True, random_state=0)
    return Tuned(model, {"learning_rate": [0.1, 0.05, 0.2], "max_leaf_nodes": [31, 15, 7]}, folds=1)


def neighbours_tuned(variance: float) -> Tuned:
    grid: dict[str, list[Any]] = {"n_neighbors": [10, 5, 20, 40], "weights": ["distance", "uniform"]}
    return Tuned(KNeighborsClassifier(weights="distance"), grid)


class Peer(NamedTuple):
    """A function that makes a classifier, the data that it accepts, and whether it has threads other than BLAS's."""

    make: Callable[[float], Any]
    fewest_rows: int = 1
    most_classes: float = math.inf
    own_threads: bool = False

    def refusal(self, y: NDArray[np.integer]) -> str:
        """The reason why the classifier cannot use these training rows; empty if it can."""
        counts = np.bincount(y)
        if len(counts) > self.most_classes:
            return f"skipped above {self.most_classes:g} classes"
        if counts.min() < self.fewest_rows:
            return f"needs {self.fewest_rows} rows per class"
        return ""


OURS, LOGISTIC = "PairwiseSVC", "LogisticRegression"
PEERS = {
    OURS: Peer(pairwise_default, own_threads=True),
    "PairwiseSVC(complete)": Peer(pairwise_complete, most_classes=MOST_COMPLETE, own_threads=True),
    "PairwiseSVC(learned)": Peer(pairwise_learned, most_classes=MOST_OF_A_TABLE, own_threads=True),
    "PairwiseSVC(rbf)": Peer(pairwise_radial, most_classes=MOST_OF_A_TABLE, own_threads=True),
    LOGISTIC: Peer(logistic),
    "LogisticRegression(tuned)": Peer(logistic_tuned),
    "LogisticRegression(C=300)": Peer(logistic_strong),
    "LinearSVC(temperature)": Peer(linear_svc_temperature, fewest_rows=FOLDS),
    "LinearSVC(sigmoid)": Peer(linear_svc_sigmoid, fewest_rows=FOLDS),
    "LDA(temperature)": Peer(discriminant_temperature),
    "NearestCentroid": Peer(nearest_centroid),
    "SVC(probability)": Peer(svc_probability),
    "SVC(calibrated)": Peer(svc_calibrated, fewest_rows=FOLDS),
    "SVC(rbf tuned)": Peer(svc_radial_tuned, fewest_rows=5, most_classes=MOST_OF_A_TABLE),
    "RandomForest": Peer(forest, most_classes=MOST_OF_A_TABLE, own_threads=True),
    "ExtraTrees": Peer(extra_trees, most_classes=MOST_OF_A_TABLE, own_threads=True),
    "HistGradientBoosting": Peer(boosting, most_classes=MOST_OF_A_TABLE),
    "HistGradientBoosting(tuned)": Peer(boosting_tuned, fewest_rows=5, most_classes=MOST_OF_A_TABLE),
    "kNN(tuned)": Peer(neighbours_tuned, most_classes=MOST_OF_A_TABLE),
}
