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
def held_by(on_folds, fold):
    """Whether a machine that has these folds has a sample of this one. Each has those that are never held out."""
    return fold < 0 or on_folds[fold]


@kernel
def both_sides(y):
    """Whether there are samples of both classes."""
    return (y > 0).any() and (y < 0).any()


@kernel
def calibrate(f, y, weight, folds, parts, calibrated_on, pooled, platt, crossfit):
    """Platt's parameters of every machine from its decision values f (M, n) on the folds that calibrate it.

    Writes platt (M, 2), and the same without the samples of each part into crossfit (M, PARTS, 2): zeros, which say
    nothing, where only one of the classes is left. A sample that is never held out is always among those that
    calibrate, with the value that it was fitted to. There are so few of it that Platt's targets believe them little.
    """
    n_machines, n = f.shape
    values = f
    if pooled:  # the value of every sample by the machine that was not fitted on it
        values = np.empty((1, n))
        for i in range(n):
            for m in range(n_machines):
                if held_by(calibrated_on[m], folds[i]):
                    values[0, i] = f[m, i]
    for m in range(len(values)):
        chosen = np.empty(n, np.bool_)
        for i in range(n):
            chosen[i] = pooled or held_by(calibrated_on[m], folds[i])
        rows = np.flatnonzero(chosen)
        platt[m, 0], platt[m, 1], _, _ = fit(
            values[m][rows], y[rows], weight[rows], TOLERANCE, MAX_ITERATIONS
        )
        for part in range(crossfit.shape[1]):
            others = np.flatnonzero(chosen & (parts != part))
            if len(others) == len(rows):
                crossfit[m, part] = platt[m]
            elif both_sides(y[others]):
                # From the start: the parameters of all samples would leave a trace of this part in the last digits.
                crossfit[m, part, 0], crossfit[m, part, 1], _, _ = fit(
                    values[m][others], y[others], weight[others], TOLERANCE, MAX_ITERATIONS
                )
            else:
                crossfit[m, part] = 0
    for m in range(len(values), n_machines):
        platt[m], crossfit[m] = platt[0], crossfit[0]


@kernel
def measure_distances(norms, platt, crossfit):
    """Parameters that make the logit of machine m its signed distance f / |w|: no sample has a part in them."""
    for m in range(len(norms)):
        platt[m, 0] = -1 / norms[m] if norms[m] > 0 else 0.0
        platt[m, 1] = 0
        crossfit[m, :, 0], crossfit[m, :, 1] = platt[m, 0], 0


@kernel
def out_of_fold_logits(f, crossfit, folds, parts, out_of_fold):
    """The logit of every sample of the pair by machines that were not fitted on it, with the parameters of its part.

    A sample that is never held out has the mean of all machines.
    """
    n_machines, n = f.shape
    n_parts = crossfit.shape[1]
    logits = np.zeros(n)
    for i in range(n):
        for m in range(n_machines):
            share = out_of_fold[folds[i], m] if folds[i] >= 0 else 1 / n_machines
            part = max(parts[i], 0) % n_parts
            logits[i] -= share * (crossfit[m, part, 0] * f[m, i] + crossfit[m, part, 1])
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
def thresholds_of(f, y, weight, folds, parts, out_of_fold, platt, crossfit):
    """[HT 3] The shift of the pair. Each part gets the shift found without it, as a change of its B in crossfit."""
    n_machines = len(f)
    for part in range(crossfit.shape[1]):
        own = crossfit[:, part].copy().reshape(n_machines, 1, 2)
        logits = out_of_fold_logits(f, own, folds, parts, out_of_fold)
        others = np.flatnonzero(parts != part)
        crossfit[:, part, 1] += fewest_errors(logits[others], y[others], weight[others])
    logits = out_of_fold_logits(f, platt.reshape(n_machines, 1, 2), folds, parts, out_of_fold)
    return fewest_errors(logits, y, weight)


@kernel
def train_linear_pair(
    a, b, cost_a, cost_b, weight, folds, parts, fitted_on, calibrated_on, pooled, out_of_fold, by_distance,
    shift, tol, max_iterations, capacity, coef, intercept, platt, crossfit, gap, iterations,
):  # fmt: skip
    """Fit and calibrate the machines of one pair.

    a, b are the rows of the two classes, cost the C of every row, weight its weight in the calibration, folds its fold.
    Writes coef (M, D), intercept, gap, iterations (M,), platt (M, 2) and crossfit (M, parts, 2); returns d' and the
    threshold.
    """
    X = stack(a, b)
    n, n_machines = len(X), len(fitted_on)
    y = np.empty(n, X.dtype)
    y[: len(a)], y[len(a) :] = 1, -1
    lower, upper = np.zeros((n_machines, n)), np.zeros((n_machines, n))
    for m in range(n_machines):
        for i in range(n):
            if held_by(fitted_on[m], folds[i]):
                if i < len(a):
                    upper[m, i] = cost_a[i]
                else:
                    lower[m, i] = -cost_b[i - len(a)]
    beta = np.zeros((n_machines, n))
    coef[:] = 0
    b_m, gap_m, dual, steps = solve_rows(X, y, beta, lower, upper, coef, tol, max_iterations, capacity)
    f, norms = np.empty((n_machines, n)), np.empty(n_machines)
    for m in range(n_machines):
        intercept[m], iterations[m] = b_m[m], steps[m]
        gap[m] = gap_m[m] / max(dual[m] + gap_m[m], 1e-300)
        norms[m] = np.sqrt(dot(coef[m], coef[m]))
        for i in range(n):
            f[m, i] = dot(X[i], coef[m]) + b_m[m]
    labels = y.astype(np.float64)
    if by_distance:
        measure_distances(norms, platt, crossfit)
    else:
        calibrate(f, labels, weight, folds, parts, calibrated_on, pooled, platt, crossfit)
    logits = out_of_fold_logits(f, platt.reshape(n_machines, 1, 2), folds, parts, out_of_fold)
    threshold = 0.0
    if shift:
        threshold = thresholds_of(f, labels, weight, folds, parts, out_of_fold, platt, crossfit)
    return dprime(logits, len(a)), threshold
