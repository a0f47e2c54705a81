"""The classifiers that are compared: each is made from the total variance of the training features."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid
from sklearn.svm import SVC, LinearSVC

from pairloom import PairwiseSVC
from pairloom.benchmarks.tempered import FOLDS, Tempered

THREADS = 2
#: Above this many classes all pairs are too many: 300 classes have 44,850.
MOST_COMPLETE = 300
#: Classifiers for tables of few columns are compared up to so many classes.
MOST_OF_A_TABLE = 30


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


def linear_svc_temperature(variance: float) -> CalibratedClassifierCV:
    return CalibratedClassifierCV(LinearSVC(C=10 / variance, random_state=0), method="temperature", cv=FOLDS)


def linear_svc_sigmoid(variance: float) -> CalibratedClassifierCV:
    return CalibratedClassifierCV(LinearSVC(C=10 / variance, random_state=0), method="sigmoid", cv=FOLDS)


def discriminant_temperature(variance: float) -> Tempered:
    """Its decision values are its log-probabilities up to a constant of each row, which softmax removes."""
    return Tempered(LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"))


def nearest_centroid(variance: float) -> NearestCentroid:
    return NearestCentroid()


def svc_probability(variance: float) -> SVC:
    return SVC(kernel="linear", C=10 / variance, probability=True, random_state=0)


def svc_calibrated(variance: float) -> CalibratedClassifierCV:
    return CalibratedClassifierCV(SVC(kernel="linear", C=10 / variance), ensemble=False, cv=FOLDS)


def forest(variance: float) -> RandomForestClassifier:
    return RandomForestClassifier(300, random_state=0, n_jobs=THREADS)


def boosting(variance: float) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(random_state=0)


class Peer(NamedTuple):
    """How to make a classifier, which data it can be given, and whether it has threads of its own, not of BLAS."""

    make: Callable[[float], Any]
    fewest_rows: int = 1
    most_classes: float = math.inf
    own_threads: bool = False

    def refusal(self, y: NDArray[np.integer]) -> str:
        """Why the classifier cannot be given these training rows; empty if it can."""
        counts = np.bincount(y)
        if len(counts) > self.most_classes:
            return f"skipped above {self.most_classes:g} classes"
        if counts.min() < self.fewest_rows:
            return f"needs {self.fewest_rows} rows a class"
        return ""


OURS, LOGISTIC = "PairwiseSVC", "LogisticRegression"
PEERS = {
    OURS: Peer(pairwise_default, own_threads=True),
    "PairwiseSVC(complete)": Peer(pairwise_complete, most_classes=MOST_COMPLETE, own_threads=True),
    "PairwiseSVC(learned)": Peer(pairwise_learned, most_classes=MOST_OF_A_TABLE, own_threads=True),
    "PairwiseSVC(rbf)": Peer(pairwise_radial, most_classes=MOST_OF_A_TABLE, own_threads=True),
    LOGISTIC: Peer(logistic),
    "LogisticRegression(tuned)": Peer(logistic_tuned),
    "LinearSVC(temperature)": Peer(linear_svc_temperature, fewest_rows=FOLDS),
    "LinearSVC(sigmoid)": Peer(linear_svc_sigmoid, fewest_rows=FOLDS),
    "LDA(temperature)": Peer(discriminant_temperature),
    "NearestCentroid": Peer(nearest_centroid),
    "SVC(probability)": Peer(svc_probability),
    "SVC(calibrated)": Peer(svc_calibrated, fewest_rows=FOLDS),
    "RandomForest": Peer(forest, most_classes=MOST_OF_A_TABLE, own_threads=True),
    "HistGradientBoosting": Peer(boosting, most_classes=MOST_OF_A_TABLE),
}
