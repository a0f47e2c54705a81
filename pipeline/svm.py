"""The two-class linear SVM with an intercept that is not penalised: LIBSVM's problem, for one pair of classes.

    min over w, b of 1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (w.x_i + b))

Two sides, one inner solver (SMO on a Gram matrix, `svm_kernels.smo`):

- `solve_gram` is given the Gram matrix of all rows. For few rows, or where one Gram serves many fits.
- `solve_rows` is given the rows, and builds the Gram matrix of a working set that grows by the rows which violate most. For
  many rows: a separable pair of 800 rows has 80 support vectors, and a Gram matrix of 100 rows costs 1/64 of the whole.

Both solve any number of fits on the same rows at once, one row of `upper` each: upper[f, i] is the C_i of fit f, and zero
leaves row i out of it. The four folds of a pair cost little more than one, as they share nearly all support vectors.

Both stop when the duality gap, at the best intercept for the weights reached, is at most `tolerance` of the primal
objective, which is then within that fraction of the optimum. Neither draws a random number.
"""

from typing import NamedTuple

import numpy as np

from pairloom.pipeline.svm_kernels import (
    best_intercept,
    gap_at,
    hard_margin,
    scaled_gap,
    share_gap,
    smo,
    sweep_pairs,
)

FIRST_ROWS = (
    32  # of each class, in the first working set: fewer cost another pass over the rows, more a larger Gram
)
WORKING_SET = 1024  # rows at most: 4 MB of Gram, and more than the free support vectors of most pairs
GRAM_ROWS = 256  # up to here the whole Gram matrix is cheaper than choosing rows
INNER = 0.3  # share of the tolerance that is left to the rows of the working set
STALLED = 3  # rounds without progress after which the rounding error of the rows' type is all that is left


class DualSolution(NamedTuple):
    """One entry per fit. `alpha` is (fits, rows). Not converged: the gap is honest, and above the tolerance."""

    alpha: np.ndarray
    intercept: np.ndarray
    primal: np.ndarray
    dual: np.ndarray
    gap: np.ndarray
    iterations: np.ndarray
    converged: np.ndarray


class LinearSVM(NamedTuple):
    """Decision value: x . coef + intercept. `gap` is relative to the primal objective."""

    coef: np.ndarray
    intercept: float
    alpha: np.ndarray
    primal: float
    gap: float
    iterations: int
    converged: bool


class Fits:
    """The state of all fits on the same rows: beta, F = y - w.x, and the certificate of each (see `svm_kernels`)."""

    def __init__(self, y, upper, tolerance, max_iterations):
        C = np.atleast_2d(np.asarray(upper, np.float64))
        self.y = y
        self.lower, self.upper = np.where(y < 0, -C, 0.0), np.where(y > 0, C, 0.0)
        self.beta = np.zeros_like(C)
        self.F = np.tile(y, (len(C), 1))
        # w = 0 and b = 0 to begin with, where every row pays its C.
        self.dual, self.gap, self.intercept = np.zeros(len(C)), C.sum(axis=1), np.zeros(len(C))
        self.iterations = np.zeros(len(C), np.int64)
        self.factor = np.ones(len(C))
        self.stalled = np.zeros(len(C), np.int64)
        self.tolerance, self.max_iterations = tolerance, max_iterations

    @property
    def converged(self):
        return ~(self.gap > self.tolerance * (self.dual + self.gap))

    def running(self):
        """Fits that neither converged, nor ran out of iterations, nor stalled."""
        more = ~self.converged & (self.iterations < self.max_iterations) & (self.stalled < STALLED)
        return np.flatnonzero(more)

    def certify(self, f, squared_norm, F):
        """Take over an accurate F and |w|^2 of fit f: everything the fit reports comes from here."""
        self.F[f] = F
        before = self.dual[f]
        self.dual[f] = self.beta[f] @ self.y - 0.5 * squared_norm
        self.intercept[f] = best_intercept(F, self.lower[f], self.upper[f])
        self.gap[f] = gap_at(self.intercept[f], F, self.beta[f], self.lower[f], self.upper[f])
        b, s = hard_margin(F, self.lower[f], self.upper[f])
        scaled = scaled_gap(s, b, F, self.beta[f], self.lower[f], self.upper[f]) if s < 1.1 else np.inf
        if scaled < min(self.gap[f], self.tolerance * self.dual[f]):
            self.scale(f, s, b, squared_norm)
            self.gap[f] = gap_at(self.intercept[f], self.F[f], self.beta[f], self.lower[f], self.upper[f])
        progress = self.dual[f] - before > 1e-3 * self.tolerance * abs(self.dual[f])
        self.stalled[f] = 0 if progress else self.stalled[f] + 1

    def scale(self, f, s, b, squared_norm):
        self.beta[f] *= s
        self.factor[f] *= s
        self.F[f] = s * self.F[f] - (s - 1) * self.y
        self.intercept[f] = s * b
        self.dual[f] = self.beta[f] @ self.y - 0.5 * s * s * squared_norm

    def solution(self):
        primal = self.dual + self.gap
        return DualSolution(
            alpha=self.beta * self.y,
            intercept=self.intercept,
            primal=primal,
            dual=self.dual,
            gap=self.gap / np.where(primal > 0, primal, 1),
            iterations=self.iterations,
            converged=self.converged,
        )


def solve_gram(gram, y, upper, tolerance=1e-3, max_iterations=1_000_000):
    """Solve fits on the rows whose Gram matrix is given.

    Parameters: gram (n, n) float32 or float64; y (n,) of -1 and +1; upper (n,) or (fits, n), the C of every row.
    """
    gram = np.ascontiguousarray(gram)
    fits = Fits(np.asarray(y, gram.dtype), upper, tolerance, max_iterations)
    diagonal = gram.diagonal().copy()
    for f in range(len(fits.beta)):
        solve_one_gram(gram, diagonal, fits, f)
    return fits.solution()


def solve_one_gram(gram, diagonal, fits, f):
    beta, lower, upper, F = fits.beta[f], fits.lower[f], fits.upper[f], fits.F[f]
    while f in fits.running():
        budget = fits.max_iterations - fits.iterations[f]
        steps, _ = smo(gram, diagonal, beta, lower, upper, F, fits.dual[f], 0.9 * fits.tolerance, budget)
        fits.iterations[f] += steps
        support = np.flatnonzero(beta)
        # SMO adds up small steps: what it reports is recomputed from beta, and SMO goes on if that says so.
        K_beta = np.dot(beta[support].astype(gram.dtype), gram[support])
        fits.certify(f, float(np.dot(beta, K_beta)), fits.y - K_beta)


def fit_linear_svm(X, y, C=1.0, sample_weight=None, tolerance=1e-3, max_iterations=1_000_000):
    """Fit one machine on rows X (n, D), labels y of -1 and +1, and C_i = C * sample_weight_i."""
    X = np.ascontiguousarray(X, dtype=None if X.dtype == np.float64 else np.float32)
    y = np.asarray(y, X.dtype)
    upper = (
        np.full(len(y), C, np.float64) if sample_weight is None else C * np.asarray(sample_weight, np.float64)
    )
    if len(X) <= GRAM_ROWS:
        solution = solve_gram(np.dot(X, X.T), y, upper, tolerance, max_iterations)
        coef = np.dot((solution.alpha[0] * y).astype(X.dtype), X)
    else:
        solution, (coef,) = solve_rows(X, y, upper, tolerance, max_iterations)
    alpha, intercept, primal, _, gap, iterations, converged = (values[0] for values in solution)
    return LinearSVM(
        coef, float(intercept), alpha, float(primal), float(gap), int(iterations), bool(converged)
    )


class WorkingSet:
    """Some rows, in a contiguous copy, with their Gram matrix: rows are added, and leave when it is full."""

    def __init__(self, X, capacity):
        self.X = X
        self.rows = np.empty(0, np.int64)
        self.copies = np.empty((capacity, X.shape[1]), X.dtype)
        self.gram = np.empty((capacity, capacity), X.dtype)
        self.diagonal = np.empty(capacity, X.dtype)

    def add(self, rows):
        """Only the new rows of the Gram matrix are computed: all rounds together cost the final matrix once."""
        old, new = len(self.rows), len(self.rows) + len(rows)
        self.rows = np.concatenate([self.rows, rows])
        self.copies[old:new] = self.X[rows]
        block = np.dot(self.copies[:new], self.copies[old:new].T)
        self.gram[:new, old:new] = block
        self.gram[old:new, :old] = block[:old].T
        self.diagonal[old:new] = block[old:].diagonal()

    def keep(self, kept):
        """Keep the rows at these positions."""
        n = len(kept)
        self.rows = self.rows[kept]
        self.copies[:n] = self.copies[kept]
        self.gram[:n, :n] = self.gram[np.ix_(kept, kept)]
        self.diagonal[:n] = self.diagonal[kept]


def solve_rows(X, y, upper, tolerance=1e-3, max_iterations=1_000_000, capacity=WORKING_SET):
    """Solve fits on rows X (n, D), float32 or float64, contiguous. Returns a DualSolution and coef (fits, D)."""
    fits = Fits(np.asarray(y, X.dtype), upper, tolerance, max_iterations)
    coef = np.zeros((len(fits.beta), X.shape[1]), X.dtype)
    working = WorkingSet(X, min(capacity, len(X)))
    new = first_rows(X, fits)
    while len(running := fits.running()):
        working.add(new)
        for f in running:
            coef[f] += solve_working_set(working, fits, f)
            fits.certify(f, float(np.dot(coef[f], coef[f])), fits.y - np.dot(X, coef[f]))
            coef[f] *= fits.factor[f]
            fits.factor[f] = 1
        new = next_rows(working, fits)
    return fits.solution(), coef


def solve_working_set(working, fits, f):
    """SMO on the working set, all other beta held. Returns the change of w."""
    W = working.rows
    before = fits.beta[f, W]
    beta = before.copy()
    budget = fits.max_iterations - fits.iterations[f]
    steps, _ = smo(
        working.gram,
        working.diagonal,
        beta,
        fits.lower[f, W],
        fits.upper[f, W],
        fits.F[f, W],
        fits.dual[f],
        INNER * fits.tolerance,
        budget,
    )
    fits.iterations[f] += steps
    fits.beta[f, W] = beta
    return np.dot((beta - before).astype(working.X.dtype), working.copies[: len(W)])


def first_rows(X, fits):
    """The rows of each class nearest to the other class, along a direction found in one pass."""
    lower, upper = fits.lower.min(axis=0), fits.upper.max(axis=0)
    positive, negative = np.flatnonzero(upper), np.flatnonzero(lower)
    w = np.zeros(X.shape[1], X.dtype)
    sweep_pairs(X, positive, negative, lower, upper, w)
    margin = fits.y * np.dot(X, w)
    return np.concatenate([rows[np.argsort(margin[rows])[:FIRST_ROWS]] for rows in (positive, negative)])


def next_rows(working, fits):
    """Rows outside the working set with the largest parts of the gaps, each relative to its fit's primal objective."""
    share = np.zeros(len(working.X))
    for f in fits.running():
        scale = 1 / (fits.dual[f] + fits.gap[f])
        share_gap(fits.intercept[f], fits.F[f], fits.beta[f], fits.lower[f], fits.upper[f], scale, share)
    inside = share[working.rows]
    share[working.rows] = 0
    candidates = np.flatnonzero(share > 0.01 * fits.tolerance / len(share))
    wanted = max(FIRST_ROWS, len(working.rows) // 2)
    if len(candidates) > wanted:
        candidates = candidates[np.argpartition(-share[candidates], wanted)[:wanted]]
    if len(working.rows) + len(candidates) > len(working.gram):
        make_room(working, fits, inside)
        candidates = candidates[: len(working.gram) - len(working.rows)]
    return candidates


def make_room(working, fits, share):
    W = working.rows
    free = ((fits.beta[:, W] > fits.lower[:, W]) & (fits.beta[:, W] < fits.upper[:, W])).any(axis=0)
    order = np.lexsort((-share, ~free))
    working.keep(np.sort(order[: min(len(W) * 3 // 4, (free | (share > 0)).sum())]))
