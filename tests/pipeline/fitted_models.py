"""Small problems, and models fitted to them."""

import numpy as np
from sklearn.datasets import make_blobs

from pairloom import PairwiseSVC

COUPLINGS = ["stratified", "wlw2", "normal", "bradley_terry", "vote"]


def blobs(n_classes=5, n_features=4, per_class=24, spread=2.0, seed=0):
    X, y = make_blobs([per_class] * n_classes, n_features, cluster_std=spread, random_state=seed)
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], y[order]


def fitted(data, **parameters):
    return PairwiseSVC(**({"random_state": 0} | parameters)).fit(data[0], data[1])
