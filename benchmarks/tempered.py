"""Classifiers whose decision values are divided by a temperature, as a fair user would calibrate them."""

import math
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

FOLDS = 4


class Tempered:
    """The best of some classifiers, with its decision values divided by one temperature.

    Both are chosen by the log loss of held-out rows, as those of a fair user would be. Rows of classes with fewer rows
    than folds are always trained on and never held out, so that no class is missing from a fold's training part.
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
    """Decision values of the rows of every fold, by a model that was fitted on all others."""
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

    found = minimize_scalar(loss, bounds=(-5, 5), method="bounded")
    return math.exp(found.x), float(found.fun)
