"""Machines that see one fold only: the protocol of [S], which is `e1071::svm(x, y, probability = TRUE)` on each fold.

Machine k of a pair gets the samples of fold k. It standardises the columns by them, fits the SVM on them, and fits
Platt's sigmoid to decision values of a five-fold cross-validation among them, as LIBSVM does. Samples of the other
folds have no part in it, so they are scored honestly without any cross-fit of the sigmoid.

Two things differ from e1071. LIBSVM draws the five folds without regard to the classes; here each class is split
evenly. And a column that is constant in a fold is only centred, whereas e1071 then scales no column at all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.machines.folds import INNER_FOLDS, NEVER_HELD_OUT
from pairloom.pipeline.machines.pair_calibration import fit_platt
from pairloom.pipeline.machines.pair_kernels import decision_values
from pairloom.pipeline.machines.svm import solve_rows

__all__ = ["FoldMachine", "FoldSamples", "fit_alone", "standardisation"]


class FoldSamples(NamedTuple):
    """The samples of one fold of a pair.

    Attributes
    ----------
    rows : (n, D) float32
    y : (n,)
        Labels, -1 or +1.
    C, weight : (n,)
        Penalty, and weight in the fit of the sigmoid.
    inner : (n,) int
        The fold of the inner cross-validation, negative for samples that are never left out.
    """

    rows: NDArray[np.float32]
    y: NDArray[np.float64]
    C: NDArray[np.float64]
    weight: NDArray[np.float64]
    inner: NDArray[np.int64]


class FoldMachine(NamedTuple):
    """A machine for rows that are not standardised, its sigmoid, and the gap and iterations of its training."""

    coef: NDArray[np.float32]
    intercept: float
    platt: tuple[float, float]
    gap: float
    iterations: int


def standardisation(rows: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of the columns as R's `scale` has them, with n - 1; 1 for a constant column."""
    mean = rows.mean(axis=0, dtype=np.float64)
    deviation = rows.std(axis=0, dtype=np.float64, ddof=1) if len(rows) > 1 else np.zeros_like(mean)
    return mean, np.where(deviation > 0, deviation, 1.0)


def fit_alone(samples: FoldSamples, tol: float, max_iterations: int) -> FoldMachine:
    """Fit and calibrate the machine of one fold."""
    mean, deviation = standardisation(samples.rows)
    rows = np.ascontiguousarray((samples.rows - mean) / deviation, np.float32)
    left_out = samples.inner == np.arange(INNER_FOLDS)[:, None]
    upper = np.where(np.vstack([left_out, np.zeros(len(rows), bool)]), 0.0, samples.C)
    solution, coef = solve_rows(rows, samples.y, upper, tol, max_iterations)
    f, _ = decision_values(rows, coef, solution.intercept)
    # Samples that are never left out get their decision values from the last machine, which was fitted on all samples.
    by = np.where(samples.inner == NEVER_HELD_OUT, INNER_FOLDS, samples.inner)
    sigmoid = fit_platt(f[by, np.arange(len(rows))], samples.y, samples.weight)
    weights = coef[-1] / deviation
    return FoldMachine(
        weights.astype(np.float32),
        float(solution.intercept[-1] - weights @ mean),
        (sigmoid.A, sigmoid.B),
        float(solution.gap[-1]),
        int(solution.iterations[-1]),
    )
