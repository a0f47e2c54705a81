"""Small problems, and models fitted to them."""

from typing import NamedTuple

import numpy as np
from sklearn.datasets import make_blobs
from sklearn.naive_bayes import GaussianNB

from pairloom import PairwiseSVC

COUPLINGS = ["stratified", "wlw2", "normal", "bradley_terry", "vote"]
#: Models that have no held-out samples.
UNCALIBRATED = (
    {"calibration": "platt", "coupled_calibration": "none"},
    {"calibration": "none", "coupled_calibration": "none", "estimator": GaussianNB()},
)


class Samples(NamedTuple):
    """Samples and their labels."""

    X: np.ndarray
    y: np.ndarray


class Problem(NamedTuple):
    """Training samples with their labels, and new samples with theirs."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray


def blobs(n_classes=5, n_features=4, per_class=24, spread=2.0, seed=0):
    """Gaussian classes in random order."""
    X, y = make_blobs([per_class] * n_classes, n_features, cluster_std=spread, random_state=seed)
    order = np.random.default_rng(seed).permutation(len(y))
    return Samples(X[order], y[order])


def fitted(data, **parameters):
    """PairwiseSVC with these parameters, fitted to the training samples of a problem."""
    return PairwiseSVC(**({"random_state": 0} | parameters)).fit(data.X, data.y)
