"""A softmax layer on the features: a stand-in for the network that made them, where its own answers are not stored.

The paper's networks end in such a layer: Table 5 has their errors, and the confusion cost [S 4.3] is their confusion
matrix. Here the layer is a multinomial logistic regression on the training samples. It sees the same features as the
machines, but it was not trained together with them, as the last layer of a network is.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from pairloom.pipeline.blas import one_blas_thread
from pairloom.pipeline.experiments.network_answers import NetworkAnswers
from pairloom.pipeline.features.feature_set import FeatureSet
from pairloom.pipeline.machines.folds import class_folds
from pairloom.pipeline.pieces import in_threads, thread_count
from pairloom.pipeline.report.evaluation import confusion_counts

__all__ = ["softmax_answers"]

FOLDS = 4
#: The inverse of the penalty, for centred features of mean squared norm 1: that of the machines, C = "scale".
C = 10.0
#: The layer is trained on so many rows at most, as many of every class.
MOST_ROWS = 40_000


def softmax_answers(data: FeatureSet, seed: int = 0, n_jobs: int | None = -1) -> NetworkAnswers:
    """Train the layer on the training samples; its confusion is out of fold, as it would hardly err on its own samples.

    Parameters
    ----------
    data : FeatureSet
    seed : int
        Seed of the folds, and of the rows where there are more than `MOST_ROWS`.
    n_jobs : int, optional
        Threads. The result does not depend on them.
    """
    n = len(data.classes)
    rows, folds = _dealt_rows(data.y_train, n, seed)
    X, y = data.X_train[rows], data.y_train[rows]
    centre = X.mean(axis=0, dtype=np.float64)
    norm = float(np.sqrt(X.var(axis=0, dtype=np.float64).sum())) or 1.0

    def seen_by_layer(raw: NDArray[np.floating]) -> NDArray[np.float32]:
        return np.asarray((raw - centre) / norm, np.float32)

    X, X_test = seen_by_layer(X), seen_by_layer(data.X_test)

    def answers(fold: int) -> NDArray[np.float32]:
        """What a layer without the fold says of it; of the test samples, what the layer of all folds says."""
        tested = X_test if fold == FOLDS else X[folds == fold]
        return _probabilities(X[folds != fold], y[folds != fold], tested, n)

    with one_blas_thread():
        *held_out, test = in_threads(answers, range(FOLDS + 1), thread_count(n_jobs, "softmax_answers"))
    confusion = sum(
        (confusion_counts(p, y[folds == k]) for k, p in enumerate(held_out)), np.zeros((n, n), np.int64)
    )
    return NetworkAnswers(test, confusion, stand_in=True)


def _dealt_rows(y: NDArray[np.integer], n: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that the layer is trained on, and their folds, dealt class by class as those of the machines are."""
    rows_of, folds_of = [], []
    for c in range(n):
        own = np.flatnonzero(y == c)
        dealt = class_folds(len(own), FOLDS, seed, c)
        drawn = np.sort(np.random.default_rng([seed, c, 2]).permutation(len(own))[: MOST_ROWS // n])
        rows_of.append(own[drawn])
        folds_of.append(dealt[drawn])
    return np.concatenate(rows_of), np.concatenate(folds_of)


def _probabilities(
    X: NDArray[np.float32], y: NDArray[np.integer], X_test: NDArray[np.float32], n: int
) -> NDArray[np.float32]:
    """(R, N) probabilities of test samples by a layer that was trained on X."""
    layer = LogisticRegression(C=C, tol=1e-4, max_iter=1000).fit(X, y)
    p = np.zeros((len(X_test), n), np.float32)
    if len(X_test):
        p[:, layer.classes_] = layer.predict_proba(X_test)
    return p
