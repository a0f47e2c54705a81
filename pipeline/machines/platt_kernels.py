"""Newton's method for Platt's two parameters [LW 8; Lin, Lin and Weng 2007, Algorithm 1]."""

from math import exp, log, log1p

import numpy as np

from pairloom.pipeline.accelerate import kernel

SIGMA = 1e-12  # added to the diagonal of H, so that a direction exists where all decision values are equal
SUFFICIENT_DECREASE = 1e-4
SMALLEST_STEP = 1e-10
TOLERANCE, MAX_ITERATIONS = 1e-5, np.int64(100)


@kernel
def log_loss(f, t, weight, A, B):
    """-sum weight (t log p + (1 - t) log(1 - p)) with p = 1 / (1 + exp(A f + B))."""
    total = 0.0
    for i in range(len(f)):
        z = A * f[i] + B
        # Two forms of one number: neither exp overflows.
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
            # No step lowers the loss: a minimum, if little was left to gain.
            return A, B, iteration, -slope <= 1e-8 * (1 + value)
        A, B, value = A + step * dA, B + step * dB, new
    return A, B, max_iterations, False


@kernel
def fit(f, y, weight, tol, max_iterations):
    """As `platt.fit_platt`, of float64 arrays. Returns A, B, the iterations used, and whether that is a minimum."""
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
