"""Kernels of one pair of classes: from the decision values of its machines to calibrated logits.

Platt scaling is fitted by Newton's method as in Lin, Lin and Weng (2007).
"""

from math import exp, log, log1p

import numpy as np

from pairloom.pipeline.accelerate import kernel
from pairloom.pipeline.machines.svm_kernels import dot

SIGMA = 1e-12  # added to the diagonal of H, so that it is regular even if all decision values are equal
SUFFICIENT_DECREASE = 1e-4
SMALLEST_STEP = 1e-10
TOLERANCE, MAX_ITERATIONS = 1e-5, np.int64(100)
#: Points of a profile per octave of s. With whole octaves, the kernel squares exponentials instead of computing them.
POINTS_PER_OCTAVE = 2


@kernel
def log_loss(f, t, weight, A, B):
    """-sum weight (t log p + (1 - t) log(1 - p)) with p = 1 / (1 + exp(A f + B))."""
    total = 0.0
    for i in range(len(f)):
        z = A * f[i] + B
        # The same number in two forms, so that exp does not overflow.
        total += weight[i] * (t[i] * z + log1p(exp(-z)) if z >= 0 else (t[i] - 1) * z + log1p(exp(z)))
    return total


@kernel
def gradient_and_hessian(f, t, weight, A, B):
    g1, g2, h11, h21, h22 = 0.0, 0.0, SIGMA, 0.0, SIGMA
    for i in range(len(f)):
        z = A * f[i] + B
        e = exp(-abs(z))
        p, q = (e / (1 + e), 1 / (1 + e)) if z >= 0 else (1 / (1 + e), e / (1 + e))
        d1, d2 = weight[i] * (t[i] - p), weight[i] * p * q
        g1 += f[i] * d1
        g2 += d1
        h11 += f[i] * f[i] * d2
        h21 += f[i] * d2
        h22 += d2
    return g1, g2, h11, h21, h22


@kernel
def newton(f, t, weight, A, B, tol, max_iterations):
    """Minimise `log_loss` from (A, B). Returns A, B, the iterations used, and whether that is a minimum."""
    value = log_loss(f, t, weight, A, B)
    for iteration in range(max_iterations):
        g1, g2, h11, h21, h22 = gradient_and_hessian(f, t, weight, A, B)
        if abs(g1) < tol and abs(g2) < tol:
            return A, B, iteration, True
        determinant = h11 * h22 - h21 * h21
        dA, dB = -(h22 * g1 - h21 * g2) / determinant, -(h11 * g2 - h21 * g1) / determinant
        slope = g1 * dA + g2 * dB
        step = 1.0
        while step >= SMALLEST_STEP:
            new = log_loss(f, t, weight, A + step * dA, B + step * dB)
            if new < value + SUFFICIENT_DECREASE * step * slope:
                break
            step /= 2
        else:
            # No step lowers the loss: this is a minimum if the expected decrease is small.
            return A, B, iteration, -slope <= 1e-8 * (1 + value)
        A, B, value = A + step * dA, B + step * dB, new
    return A, B, max_iterations, False


@kernel
def fit_sigmoid(f, y, weight, tol, max_iterations):
    """`pair_calibration.fit_platt` for float64 arrays. Returns A, B, the iterations used, and whether it converged."""
    n_plus, n_minus = 0.0, 0.0
    scale = 0.0
    for i in range(len(f)):
        scale = max(scale, abs(f[i]))
        if y[i] > 0:
            n_plus += weight[i]
        else:
            n_minus += weight[i]
    if scale == 0.0:
        scale = 1.0
    scaled, t = np.empty(len(f)), np.empty(len(f))
    for i in range(len(f)):
        scaled[i] = f[i] / scale
        t[i] = (n_plus + 1) / (n_plus + 2) if y[i] > 0 else 1 / (n_minus + 2)
    # Newton does not see the scale of f, but sigma and the tolerance do.
    start = log((n_minus + 1) / (n_plus + 1))
    A, B, iterations, converged = newton(
        scaled, t, weight, 0.0, start, tol * (n_plus + n_minus), max_iterations
    )
    return A / scale, B, iterations, converged


@kernel
def decision_values(X, coef, intercept):
    """f (M, n) of machines coef (M, D) on rows X (n, D), and |w| of each."""
    f, norms = np.empty((len(coef), len(X))), np.empty(len(coef))
    for m in range(len(coef)):
        w = coef[m]
        norms[m] = np.sqrt(dot(w, w))
        for i in range(len(X)):
            f[m, i] = dot(X[i], w) + intercept[m]
    return f, norms


@kernel
def contains_fold(on_folds, fold):
    """Whether a machine with these folds has the samples of this one. All machines have samples never held out."""
    return fold < 0 or on_folds[fold]


@kernel
def fit_chosen(f, y, weight, chosen):
    """Platt's parameters from the chosen samples."""
    count = 0
    for i in range(len(f)):
        count += chosen[i]
    values, labels, weights, at = np.empty(count), np.empty(count), np.empty(count), 0
    for i in range(len(f)):
        if chosen[i]:
            values[at], labels[at], weights[at] = f[i], y[i], weight[i]
            at += 1
    A, B, _, _ = fit_sigmoid(values, labels, weights, TOLERANCE, MAX_ITERATIONS)
    return A, B


@kernel
def calibrate(f, y, weight, folds, parts, calibrated_on, pooled, platt, crossfit):
    """Platt's parameters of every machine from its decision values f (M, n) on the folds that calibrate it.

    Writes platt (M, 2), and crossfit (M, PARTS, 2), the same without the samples of each part: zeros, for logits of 0,
    if only one of the classes is left. Samples that are never held out always take part, with in-sample decision
    values; they are so few that Platt's targets give them little weight.
    """
    n_machines, n = f.shape
    n_parts = crossfit.shape[1]
    n_values = 1 if pooled else n_machines
    values, chosen, others = np.empty(n), np.empty(n, np.bool_), np.empty(n, np.bool_)
    for m in range(n_values):
        for i in range(n):
            values[i], chosen[i] = f[m, i], pooled or contains_fold(calibrated_on[m], folds[i])
            if pooled:  # each sample has the decision value of the machine that was not fitted on it
                for by in range(n_machines):
                    if contains_fold(calibrated_on[by], folds[i]):
                        values[i] = f[by, i]
        platt[m, 0], platt[m, 1] = fit_chosen(values, y, weight, chosen)
        for part in range(n_parts):
            left_out, first, second = 0, 0, 0
            for i in range(n):
                others[i] = chosen[i] and parts[i] != part
                left_out += chosen[i] and not others[i]
                first += others[i] and y[i] > 0
                second += others[i] and y[i] < 0
            if left_out == 0:
                A, B = platt[m, 0], platt[m, 1]
            elif first and second:
                # Not started from the parameters of all samples: the last digits would depend on this part.
                A, B = fit_chosen(values, y, weight, others)
            else:
                A, B = 0.0, 0.0
            crossfit[m, part, 0], crossfit[m, part, 1] = A, B
    for m in range(n_values, n_machines):
        platt[m, 0], platt[m, 1] = platt[0, 0], platt[0, 1]
        for part in range(n_parts):
            crossfit[m, part, 0], crossfit[m, part, 1] = crossfit[0, part, 0], crossfit[0, part, 1]


@kernel
def measure_distances(norms, platt, crossfit):
    """Parameters that make the logit of machine m its signed distance f / |w|. They do not depend on samples."""
    for m in range(len(norms)):
        platt[m, 0] = -1 / norms[m] if norms[m] > 0 else 0.0
        platt[m, 1] = 0
        for part in range(crossfit.shape[1]):
            crossfit[m, part, 0], crossfit[m, part, 1] = platt[m, 0], 0


@kernel
def out_of_fold_logits(f, crossfit, folds, parts, out_of_fold):
    """The logit of every sample of the pair by machines that were not fitted on it, with the parameters of its part.

    Samples that are never held out get the mean of all machines.
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
def loss_profile(f, norms, y, weight, folds, parts, out_of_fold, profile):
    """The log loss of the pair's own held-out samples for logits of s times the distance: see `pair_calibration`.

    Writes profile (PARTS, 1 + points): the number of its first point, then the losses of each part at the points
    s = 2 ** (number / POINTS_PER_OCTAVE). Samples that are never held out do not count.
    """
    per_octave, n_points = POINTS_PER_OCTAVE, profile.shape[1] - 1
    n_machines, n = f.shape
    d, total, mass = np.zeros(n), 0.0, 0.0
    for i in range(n):
        if folds[i] >= 0:
            for m in range(n_machines):
                if norms[m] > 0:
                    d[i] += out_of_fold[folds[i], m] * f[m, i] / norms[m]
            total += weight[i] * abs(d[i])
            mass += weight[i]
    middle = np.log2(mass / total) * per_octave if total > 0 else 0.0
    start = np.floor(middle) - n_points // 2
    profile[:] = 0
    profile[:, 0] = start
    for i in range(n):
        if folds[i] >= 0:
            wrong = y[i] * d[i] < 0
            for first in range(per_octave):
                s = 2.0 ** ((start + first) / per_octave)
                e = np.exp(-s * abs(d[i]))
                for point in range(first, n_points, per_octave):
                    loss = np.log1p(e)
                    if wrong:
                        loss += s * abs(d[i])
                    profile[parts[i], 1 + point] += weight[i] * loss
                    s, e = 2 * s, e * e


@kernel
def mean_and_variance(values, start, stop):
    """Mean and variance of values[start:stop]."""
    total, squares = 0.0, 0.0
    for i in range(start, stop):
        total += values[i]
    mean = total / (stop - start)
    for i in range(start, stop):
        squares += (values[i] - mean) * (values[i] - mean)
    return mean, squares / (stop - start)


@kernel
def dprime(logits, n_first):
    """[S 3] |m_i - m_j| / sqrt((v_i + v_j) / 2) of the pair's own logits on samples of its two classes."""
    mean_i, variance_i = mean_and_variance(logits, np.int64(0), n_first)
    mean_j, variance_j = mean_and_variance(logits, n_first, len(logits))
    spread = np.sqrt((variance_i + variance_j) / 2)
    return abs(mean_i - mean_j) / max(spread, 1e-12)


@kernel
def fewest_errors(logits, y, weight):
    """[HT 3] The shift t with the least weight of y (logit - t) <= 0; among equals the one nearest to zero."""
    order = np.argsort(logits)
    errors = 0.0  # with t below all logits, every sample is assigned to the first class
    for i in range(len(y)):
        if y[i] < 0:
            errors += weight[i]
    fewest, best = np.inf, 0.0
    for at in range(len(order) + 1):
        low = logits[order[at - 1]] if at > 0 else -np.inf
        high = logits[order[at]] if at < len(order) else np.inf
        if low < high and errors <= fewest:
            # Every t between the two makes the same errors: take zero if it is between them, else the middle.
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
    """[HT 3] The shift of the pair. The shift found without each part is added to the part's B in crossfit."""
    n_machines = len(f)
    for part in range(crossfit.shape[1]):
        own = crossfit[:, part].copy().reshape(n_machines, 1, 2)
        logits = out_of_fold_logits(f, own, folds, parts, out_of_fold)
        others = np.flatnonzero(parts != part)
        crossfit[:, part, 1] += fewest_errors(logits[others], y[others], weight[others])
    logits = out_of_fold_logits(f, platt.reshape(n_machines, 1, 2), folds, parts, out_of_fold)
    return fewest_errors(logits, y, weight)
