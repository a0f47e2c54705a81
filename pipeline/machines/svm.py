"""The two-class linear SVM whose intercept is not penalised: LIBSVM's problem, for one pair of classes.

    min over w, b of 1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (w.x_i + b))

One inner solver, SMO on a Gram matrix, reached from two sides:

- `solve_rows` is given the rows, and builds the Gram matrix of a working set that grows by the rows which
  violate most. A separable pair of 800 rows has 80 support vectors: the Gram matrix of 110 rows is enough,
  at 1/50 of the cost of the whole. The side to choose unless a Gram matrix is there already.
- `solve_gram` is given the Gram matrix of all rows: SMO is all that is left, 0.1 to 0.3 ms for 400 rows.

Both take any number of fits on the same rows, one row of `upper` each: upper[f, i] is the C_i of fit f, and
zero leaves row i out. `solve_rows` hands the working set on from fit to fit: the folds of a pair share most
support vectors, and four folds of a separable pair cost about as much as two single fits.

Both stop at a duality gap, at the best intercept for the weights reached, of `tol` times the primal
objective, which is then within that fraction of the optimum. Nothing is random, and no BLAS is called:
equal inputs give equal bits, whatever the number of threads.
"""

from typing import NamedTuple

import numpy as np

from pairloom.pipeline.machines import svm_kernels

WORKING_SET = 1024  # rows at most: 4 MB of Gram, more than a pair of 1000 features has free support vectors
MAX_ITERATIONS = 10_000_000


class DualSolution(NamedTuple):
    """One entry per fit. A fit that has not converged reports the gap that it reached."""

    alpha: np.ndarray  # (fits, rows), 0 <= alpha <= upper; w = X' (alpha y)
    intercept: np.ndarray
    primal: np.ndarray
    dual: np.ndarray
    gap: np.ndarray  # (primal - dual) / primal
    iterations: np.ndarray  # steps of SMO
    converged: np.ndarray


class LinearSVM(NamedTuple):
    """The decision value of x is x . coef + intercept. `gap` is (primal - dual) / primal."""

    coef: np.ndarray
    intercept: float
    alpha: np.ndarray
    primal: float
    gap: float
    iterations: int
    converged: bool


def fit_linear_svm(X, y, C=1.0, sample_weight=None, tol=1e-3, max_iterations=MAX_ITERATIONS):
    """Fit one machine.

    Parameters
    ----------
    X : (n, D). Anything but float64 is used as float32.
    y : (n,) of -1 and +1.
    C, sample_weight : C_i = C * sample_weight_i; a weight of zero leaves the row out.
    """
    X = np.asarray(X)
    X = np.ascontiguousarray(X, X.dtype if X.dtype == np.float64 else np.float32)
    upper = C * (np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, np.float64))
    solution, coef = solve_rows(X, y, upper, tol, max_iterations)
    alpha, intercept, primal, _, gap, iterations, converged = (values[0] for values in solution)
    return LinearSVM(
        coef[0], float(intercept), alpha, float(primal), float(gap), int(iterations), bool(converged)
    )


def solve_rows(X, y, upper, tol=1e-3, max_iterations=MAX_ITERATIONS, capacity=WORKING_SET):
    """Solve fits on the rows X. Returns a DualSolution and coef (fits, D).

    Parameters
    ----------
    X : (n, D) float32 or float64, C-contiguous. Need not be centred.
    y : (n,) of -1 and +1.
    upper : (n,) or (fits, n). The C of every row, zero for a row that is not in the fit.
    capacity : largest number of rows in the working set.
    """
    y, lower, upper = signed_box(y, upper, X.dtype)
    beta, coef = np.zeros_like(upper), np.zeros((len(upper), X.shape[1]), X.dtype)
    capacity = max(capacity, 4 * svm_kernels.FIRST_ROWS)
    certificate = svm_kernels.solve_rows(X, y, beta, lower, upper, coef, tol, max_iterations, capacity)
    return dual_solution(y, beta, tol, *certificate), coef


def solve_gram(gram, y, upper, tol=1e-3, max_iterations=MAX_ITERATIONS):
    """Solve fits on the rows whose Gram matrix (n, n) is given, float32 or float64. Returns a DualSolution.

    Centre the rows before a float32 product: the solution does not change, its rounding error does.
    A fit that leaves out half of the rows or more is solved faster on a Gram matrix without them.
    """
    gram = np.ascontiguousarray(gram)
    y, lower, upper = signed_box(y, upper, gram.dtype)
    beta = np.zeros_like(upper)
    certificates = [
        svm_kernels.solve_gram(gram, y, *box, tol, max_iterations)
        for box in zip(beta, lower, upper, strict=True)
    ]
    return dual_solution(y, beta, tol, *(np.array(values) for values in zip(*certificates, strict=True)))


def signed_box(y, upper, dtype):
    """Labels, and the bounds of y * alpha for every fit and row."""
    y, C = np.asarray(y, dtype), np.atleast_2d(np.asarray(upper, np.float64))
    return y, np.where(y < 0, -C, 0.0), np.where(y > 0, C, 0.0)


def dual_solution(y, beta, tol, intercept, gap, dual, iterations):
    primal = dual + gap
    relative_gap = np.divide(gap, primal, out=np.zeros_like(gap), where=primal != 0)
    converged = gap <= tol * primal
    return DualSolution(beta * y, intercept, primal, dual, relative_gap, iterations, converged)
