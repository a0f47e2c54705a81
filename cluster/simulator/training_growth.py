"""How the time to train a pair grows with its rows, measured on a few pairs of the data.

It is not proportional to them: rows of a few hundred samples stay in the cache, those of ten thousand do not, and more
rows also take more passes.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np

from pairloom.cluster.tiles import crude_training_seconds, numbers_per_row
from pairloom.pipeline.blas import one_blas_thread
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.features.moments import moments_of
from pairloom.pipeline.machines.kernel_model import train_kernel_model
from pairloom.pipeline.machines.linear_model import train_machines, whitened_rows
from pairloom.pipeline.machines.normalisation import normalised_moments
from pairloom.pipeline.model.training_set import TrainingSet

if TYPE_CHECKING:
    from pairloom.cluster.plan import Plan

__all__ = ["row_exponent"]

_CLASSES = 3
# By the crude estimate of `tiles`; the true time may be several times longer.
_SECONDS = 1.5
# Of fewer times as many rows nothing is learned that the noise of the measurement would not hide.
_LEAST_RATIO = 2.0
# Beyond these the measurement was disturbed. With a kernel, time grows as the square of the rows.
_EXPONENTS = (-0.3, 1.2)


def row_exponent(plan: Plan, data: OpenFeatures, rows: int) -> float:
    """The power of its rows that the time per row of a pair grows with: 0 if time is proportional to rows.

    Parameters
    ----------
    plan, data
        A planned run and its features.
    rows
        The rows per class of pairs whose time is known; those of the plan, or as many as are quickly trained, are
        compared with them.
    """
    more = _affordable_rows(plan)
    if plan.config.has_code or more < _LEAST_RATIO * rows:
        return 0.0
    with one_blas_thread():
        _seconds(plan, data, rows)  # loads the kernels
        growth = _seconds(plan, data, more) / _seconds(plan, data, rows)
    exponent = math.log(growth) / math.log(more / rows) - 1
    return min(max(exponent, _EXPONENTS[0]), _EXPONENTS[1])


def _affordable_rows(plan: Plan) -> int:
    """As many rows per class as the plan has, if training a few such pairs takes seconds; else fewer."""
    rows = int(np.mean(plan.shape.rows))
    pairs = math.comb(min(_CLASSES, len(plan.shape.classes)), 2)
    width = numbers_per_row(plan.shape.features, 2 * rows, plan.kernel is not None)
    crude = crude_training_seconds(pairs, 2 * rows, width, plan.settings.folds)
    return int(rows * min(1.0, _SECONDS / crude))


def _seconds(plan: Plan, data: OpenFeatures, rows: int) -> float:
    """The time to train the pairs of a few classes on up to so many rows of each."""
    n = min(_CLASSES, len(data.classes))
    members = [np.flatnonzero(data.y_train == c)[:rows] for c in range(n)]
    X, classes = (
        data.X_train.read(np.concatenate(members)),
        np.repeat(np.arange(n), [len(m) for m in members]),
    )
    moments = normalised_moments(moments_of(X, classes, n), "data.features")
    training = TrainingSet(moments.normalisation(X), classes, n, None, moments=moments)
    settings, candidate = plan.settings, plan.candidates[0]
    machines = settings.machines(candidate.C, candidate.calibration)
    sides = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
    if plan.kernel is not None:
        began = time.perf_counter()
        train_kernel_model(plan.kernel, training.X, training.members, sides, machines)
        return time.perf_counter() - began
    # A worker whitens a class once, and trains many pairs with it.
    whitened = whitened_rows(training.by_class(training.X), training.whitening(candidate.whiten, settings))
    began = time.perf_counter()
    train_machines(whitened, sides, machines)
    return time.perf_counter() - began
