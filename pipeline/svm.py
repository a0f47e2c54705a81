"""The two-class linear SVM with an intercept that is not penalised: LIBSVM's problem, for one pair of classes.

min over w, b of 1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (w.x_i + b))
"""

from typing import NamedTuple

import numpy as np

from pairloom.pipeline import svm_kernels

WORKING_SET = 1024  # rows at most: 4 MB of Gram, and more than the free support vectors of most pairs
MAX_ITERATIONS = 10_000_000


class DualSolution(NamedTuple):
    alpha: np.ndarray
    intercept: np.ndarray
    primal: np.ndarray
    dual: np.ndarray
    gap: np.ndarray
    iterations: np.ndarray
    converged: np.ndarray


class LinearSVM(NamedTuple):
    coef: np.ndarray
    intercept: float
    alpha: np.ndarray
    primal: float
    gap: float
    iterations: int
    converged: bool


def solve_gram(gram, y, upper, tolerance=1e-3, max_iterations=MAX_ITERATIONS):
    gram = np.ascontiguousarray(gram)
    y, lower, upper = signed_box(y, upper, gram.dtype)
    beta = np.zeros_like(upper)
    fits = [
        svm_kernels.solve_gram(gram, y, beta[f], lower[f], upper[f], tolerance, max_iterations)
        for f in range(len(beta))
    ]
    return dual_solution(y, beta, tolerance, *map(np.array, zip(*fits, strict=True)))


def solve_rows(X, y, upper, tolerance=1e-3, max_iterations=MAX_ITERATIONS, capacity=WORKING_SET):
    y, lower, upper = signed_box(y, upper, X.dtype)
    beta, coef = np.zeros_like(upper), np.zeros((len(upper), X.shape[1]), X.dtype)
    certificate = svm_kernels.solve_rows(X, y, beta, lower, upper, coef, tolerance, max_iterations, capacity)
    return dual_solution(y, beta, tolerance, *certificate), coef


def signed_box(y, upper, dtype):
    """Labels, and bounds of y * alpha, for every row and fit."""
    y, C = np.asarray(y, dtype), np.atleast_2d(np.asarray(upper, np.float64))
    return y, np.where(y < 0, -C, 0.0), np.where(y > 0, C, 0.0)


def dual_solution(y, beta, tolerance, intercept, gap, dual, iterations):
    primal = dual + gap
    converged = gap <= tolerance * primal
    gap = gap / np.where(primal > 0, primal, 1)
    return DualSolution(beta * y, intercept, primal, dual, gap, iterations, converged)


def fit_linear_svm(X, y, C=1.0, sample_weight=None, tolerance=1e-3, max_iterations=MAX_ITERATIONS):
    X = np.ascontiguousarray(X, dtype=np.float64 if X.dtype == np.float64 else np.float32)
    upper = (
        np.full(len(X), C, np.float64) if sample_weight is None else C * np.asarray(sample_weight, np.float64)
    )
    solution, (coef,) = solve_rows(X, y, upper, tolerance, max_iterations)
    alpha, intercept, primal, _, gap, iterations, converged = (values[0] for values in solution)
    return LinearSVM(
        coef, float(intercept), alpha, float(primal), float(gap), int(iterations), bool(converged)
    )
