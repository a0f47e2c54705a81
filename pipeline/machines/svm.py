"""The two-class linear SVM whose intercept is not penalised: LIBSVM's problem, for one pair of classes.

    min over w, b of 1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (w.x_i + b))

One inner solver, SMO on a Gram matrix, reached from two sides:

- `solve_rows` takes the rows, and builds the Gram matrix of a working set to which the rows with the largest
  violations are added. A separable pair of 800 rows has 80 support vectors: the Gram matrix of 110 rows is
  enough, at 1/50 of the cost of the whole. Choose it unless the Gram matrix is already available.
- `solve_gram` takes the Gram matrix of all rows. Only SMO remains, which takes 0.1 to 0.3 ms for 400 rows.

Both solve any number of fits on the same rows, with one row of `upper` per fit: upper[f, i] is the C_i of
fit f, and zero excludes row i. `solve_rows` passes the working set on from fit to fit: the folds of a pair
share most support vectors, and four folds of a separable pair cost about as much as two single fits.

Both stop when the duality gap, at the best intercept for the current weights, is at most `tol` times the
primal objective, which is then within that fraction of the optimum. Nothing is random, and no BLAS is
called: equal inputs give equal bits for any number of threads.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pairloom.pipeline.machines import svm_kernels

# Maximum number of rows in the working set: a Gram matrix of 4 MB, and more rows than a pair with 1000 features has
# free support vectors.
WORKING_SET = 1024
MAX_ITERATIONS = 10_000_000


#: Significant bits of the weights of trained machines at a tolerance of 0.001, of 24. The other bits, which are noise,
#: would take a third of a saved model. Rounding raises the objective by less than half of the tolerance.
SIGNIFICANT_BITS = 14


class DualSolution(NamedTuple):
    """One entry per fit. A fit that has not converged reports the gap that it reached."""

    alpha: NDArray[np.float64]  # (fits, rows), 0 <= alpha <= upper; w = X' (alpha y)
    intercept: NDArray[np.float64]
    primal: NDArray[np.float64]
    dual: NDArray[np.float64]
    gap: NDArray[np.float64]  # (primal - dual) / primal
    iterations: NDArray[np.int64]  # steps of SMO
    converged: NDArray[np.bool_]


class LinearSVM(NamedTuple):
    """The decision value of x is x . coef + intercept. `gap` is (primal - dual) / primal."""

    coef: NDArray[np.floating]
    intercept: float
    alpha: NDArray[np.float64]
    primal: float
    gap: float
    iterations: int
    converged: bool


def fit_linear_svm(
    X: ArrayLike,
    y: ArrayLike,
    C: float = 1.0,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-3,
    max_iterations: int = MAX_ITERATIONS,
) -> LinearSVM:
    """Fit one machine.

    Parameters
    ----------
    X : array-like of shape (n, D)
        Samples. Dtypes other than float64 are converted to float32.
    y : array-like of shape (n,)
        Labels, -1 or +1.
    C : float, default=1.0
        Penalty.
    sample_weight : array-like of shape (n,), default=None
        C_i = C * sample_weight_i. Rows with zero weight are ignored.
    tol : float, default=1e-3
        Relative duality gap at which to stop.
    max_iterations : int, default=10_000_000
        Maximum number of SMO steps.

    Returns
    -------
    LinearSVM
    """
    rows = np.asarray(X)
    rows = np.ascontiguousarray(rows, rows.dtype if rows.dtype == np.float64 else np.float32)
    upper = C * (np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight, np.float64))
    solution, coef = solve_rows(rows, y, upper, tol, max_iterations)
    alpha, intercept, primal, _, gap, iterations, converged = (values[0] for values in solution)
    return LinearSVM(
        coef[0], float(intercept), alpha, float(primal), float(gap), int(iterations), bool(converged)
    )


def solve_rows(
    X: NDArray[np.floating],
    y: ArrayLike,
    upper: ArrayLike,
    tol: float = 1e-3,
    max_iterations: int = MAX_ITERATIONS,
    capacity: int = WORKING_SET,
) -> tuple[DualSolution, NDArray[np.floating]]:
    """Solve fits on the rows X.

    Parameters
    ----------
    X : (n, D) float32 or float64 array
        C-contiguous. Need not be centred.
    y : array-like of shape (n,)
        Labels, -1 or +1.
    upper : array-like of shape (n,) or (fits, n)
        C of every row, zero for a row that is not in the fit.
    tol : float, default=1e-3
        Relative duality gap at which to stop.
    max_iterations : int, default=10_000_000
        Maximum number of SMO steps per fit.
    capacity : int, default=1024
        Maximum number of rows in the working set.

    Returns
    -------
    solution : DualSolution
    coef : (fits, D) array
    """
    signs, low, high = signed_box(y, upper, X.dtype)
    beta, coef = np.zeros_like(high), np.zeros((len(high), X.shape[1]), X.dtype)
    capacity = max(capacity, 4 * int(svm_kernels.FIRST_ROWS))
    certificate = svm_kernels.solve_rows(X, signs, beta, low, high, coef, tol, max_iterations, capacity)
    return dual_solution(signs, beta, tol, *certificate), coef


def solve_gram(
    gram: ArrayLike,
    y: ArrayLike,
    upper: ArrayLike,
    tol: float = 1e-3,
    max_iterations: int = MAX_ITERATIONS,
) -> DualSolution:
    """Solve fits on the rows whose Gram matrix (n, n) is given, float32 or float64.

    Centre the rows before computing a float32 Gram matrix: this changes only the rounding error of the solution. A fit
    that excludes half of the rows or more is faster on a Gram matrix without them.
    """
    gram = np.ascontiguousarray(gram)
    signs, low, high = signed_box(y, upper, gram.dtype)
    beta = np.zeros_like(high)
    certificates = [
        svm_kernels.solve_gram(gram, signs, *box, tol, max_iterations)
        for box in zip(beta, low, high, strict=True)
    ]
    return dual_solution(signs, beta, tol, *(np.array(values) for values in zip(*certificates, strict=True)))


def signed_box(
    y: ArrayLike, upper: ArrayLike, dtype: DTypeLike
) -> tuple[NDArray[np.floating], NDArray[np.float64], NDArray[np.float64]]:
    """Labels, and the bounds of y * alpha for every fit and row."""
    signs, C = np.asarray(y, dtype), np.atleast_2d(np.ascontiguousarray(upper, np.float64))
    return signs, np.where(signs < 0, -C, 0.0), np.where(signs > 0, C, 0.0)


def dual_solution(
    y: NDArray[np.floating],
    beta: NDArray[np.float64],
    tol: float,
    intercept: NDArray[np.float64],
    gap: NDArray[np.float64],
    dual: NDArray[np.float64],
    iterations: NDArray[np.int64],
) -> DualSolution:
    """Dual solution from the kernel's certificate; y * alpha = beta."""
    primal = dual + gap
    relative_gap = np.divide(gap, primal, out=np.zeros_like(gap), where=primal != 0)
    converged = gap <= tol * primal
    return DualSolution(beta * y, intercept, primal, dual, relative_gap, iterations, converged)


def rounded_weights(coef: NDArray[np.float32], tol: float) -> NDArray[np.float32]:
    """float32 weights rounded to the bits that a solution within a tolerance determines; the others are zero.

    Examples
    --------
    >>> rounded_weights(np.array([1.0, -3.00001, 0.0], np.float32), 1e-3)
    array([ 1., -3.,  0.], dtype=float32)
    """
    dropped = 24 - significant_bits(tol)
    if dropped <= 0:
        return coef
    bits = np.ascontiguousarray(coef).view(np.uint32)
    # Half a unit is added first: a carry into the exponent is right, too.
    nearest = (bits + np.uint32(1 << (dropped - 1))) & np.uint32(2**32 - (1 << dropped))
    return np.asarray(nearest.view(np.float32))


def significant_bits(tol: float) -> int:
    """The significant bits of weights: one more for every halving of the tolerance below 0.001."""
    return min(24, SIGNIFICANT_BITS + max(0, math.ceil(math.log2(1e-3 / tol))))
