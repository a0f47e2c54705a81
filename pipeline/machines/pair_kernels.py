"""One pair of classes, from rows to calibrated machines, without the GIL."""

import numpy as np

from pairloom.pipeline.accelerate import kernel
from pairloom.pipeline.machines.platt_kernels import MAX_ITERATIONS, TOLERANCE, fit
from pairloom.pipeline.machines.svm_kernels import dot, solve_rows


@kernel
def stack(a, b):
    """The rows of both classes, one below the other."""
    rows = np.empty((len(a) + len(b), a.shape[1]), a.dtype)
    rows[: len(a)] = a
    rows[len(a) :] = b
    return rows


@kernel
def calibrate(f, y, weight, folds, calibrated_on, pooled, platt):
    """Platt's parameters of every machine from its decision values f (M, n) on the folds that calibrate it."""
    n_machines, n = f.shape
    if pooled:
        union = np.empty(n)
        for i in range(n):
            for m in range(n_machines):
                if calibrated_on[m, folds[i]]:
                    union[i] = f[m, i]
        platt[:, 0], platt[:, 1], _, _ = fit(union, y, weight, TOLERANCE, MAX_ITERATIONS)
        return
    for m in range(n_machines):
        chosen = np.flatnonzero(calibrated_on[m][folds])
        platt[m, 0], platt[m, 1], _, _ = fit(
            f[m][chosen], y[chosen], weight[chosen], TOLERANCE, MAX_ITERATIONS
        )


@kernel
def out_of_fold_logits(f, platt, folds, out_of_fold):
    """The logit of every sample of the pair by machines that were not fitted on it."""
    n_machines, n = f.shape
    logits = np.zeros(n)
    for i in range(n):
        for m in range(n_machines):
            logits[i] -= out_of_fold[folds[i], m] * (platt[m, 0] * f[m, i] + platt[m, 1])
    return logits


@kernel
def dprime(logits, n_first):
    """[S 3] |m_i - m_j| / sqrt((v_i + v_j) / 2) of the pair's own logits on samples of its two classes."""
    first, second = logits[:n_first], logits[n_first:]
    spread = np.sqrt((first.var() + second.var()) / 2)
    return abs(first.mean() - second.mean()) / max(spread, 1e-12)


@kernel
def fewest_errors(logits, y, weight):
    """[HT 3] The shift t with the least weight of y (logit - t) <= 0; among equals the one nearest to zero."""
    order = np.argsort(logits)
    errors = 0.0  # with t below everything each sample is called first
    for i in range(len(y)):
        if y[i] < 0:
            errors += weight[i]
    fewest, best = np.inf, 0.0
    for at in range(len(order) + 1):
        low = logits[order[at - 1]] if at > 0 else -np.inf
        high = logits[order[at]] if at < len(order) else np.inf
        if low < high and errors <= fewest:
            # Any t between the two makes the same errors; keep away from both unless zero is there.
            t = 0.0 if low < 0.0 < high else (low + high) / 2
            if at == 0:
                t = min(0.0, high - 1)
            elif at == len(order):
                t = max(0.0, low + 1)
            if errors < fewest or abs(t) < abs(best):
                fewest, best = errors, t
        if at < len(order):
            errors += weight[order[at]] if y[order[at]] > 0 else -weight[order[at]]
    return best


@kernel
def train_linear_pair(
    a, b, cost_a, cost_b, weight, folds, fitted_on, calibrated_on, pooled, out_of_fold, shift, tol,
    max_iterations, capacity, coef, intercept, platt, gap, iterations,
):  # fmt: skip
    """Fit and calibrate the machines of one pair.

    a, b are the rows of the two classes, cost the C of every row, weight its weight in the calibration, folds its fold.
    Writes coef (M, D), intercept, gap, iterations (M,) and platt (M, 2); returns d' and the threshold.
    """
    X = stack(a, b)
    n, n_machines = len(X), len(fitted_on)
    y = np.empty(n, X.dtype)
    y[: len(a)], y[len(a) :] = 1, -1
    lower, upper = np.zeros((n_machines, n)), np.zeros((n_machines, n))
    for m in range(n_machines):
        for i in range(n):
            if fitted_on[m, folds[i]]:
                if i < len(a):
                    upper[m, i] = cost_a[i]
                else:
                    lower[m, i] = -cost_b[i - len(a)]
    beta = np.zeros((n_machines, n))
    coef[:] = 0
    b_m, gap_m, dual, steps = solve_rows(X, y, beta, lower, upper, coef, tol, max_iterations, capacity)
    f = np.empty((n_machines, n))
    for m in range(n_machines):
        intercept[m], iterations[m] = b_m[m], steps[m]
        gap[m] = gap_m[m] / max(dual[m] + gap_m[m], 1e-300)
        for i in range(n):
            f[m, i] = dot(X[i], coef[m]) + b_m[m]
    labels = y.astype(np.float64)
    calibrate(f, labels, weight, folds, calibrated_on, pooled, platt)
    logits = out_of_fold_logits(f, platt, folds, out_of_fold)
    threshold = fewest_errors(logits, labels, weight) if shift else 0.0
    return dprime(logits, len(a)), threshold
