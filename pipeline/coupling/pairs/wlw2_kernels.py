"""The second coupling problem of Wu, Lin and Weng, sample by sample."""

import numpy as np

from pairloom.pipeline.accelerate import simd_kernel
from pairloom.pipeline.coupling.vector_kernels import (
    BLOCK,
    GROUP,
    error_left,
    exp32_within,
    gather_upper,
    rate_of,
    row_product,
)

_ZERO, _ONE = np.float32(0), np.float32(1)
#: [LW]: LIBSVM clips r_ij to [1e-7, 1 - 1e-7], which is a logit of 16.
CLIP = np.float32(16)


@simd_kernel()
def quadratic_form(matrix, Q, diagonal):
    """diagonal_i = sum_s r_si^2 and Q_ij = r_ij r_ji off the diagonal (minus the Q of [LW], so none is negative)."""
    n = diagonal.shape[0]
    for i in range(n):
        diagonal[i] = _ZERO
    for i in range(n):
        logits, products, others = matrix[i, i + 1 : n], Q[i, i + 1 : n], diagonal[i + 1 :]
        own = _ZERO
        for j in range(logits.shape[0]):
            odds = exp32_within(min(max(logits[j], -CLIP), CLIP))
            r_ji = _ONE / (_ONE + odds)
            r_ij = odds * r_ji
            products[j] = r_ij * r_ji
            own += r_ji * r_ji
            others[j] += r_ij * r_ij
        diagonal[i] += own
        Q[i, i] = _ZERO
    for j in range(n):
        for i in range(j):
            Q[j, i] = Q[i, j]


@simd_kernel()
def fixed_point(Q, diagonal, p, tol, limit):
    """[LW] p_t <- (sum_{j != t} Q_tj p_j + p'Qp) / Q_tt, normalised: a sum of non-negative terms stays positive.

    Within a sweep p is not normalised: with mass = sum p the last term is p'Qp / mass. p'Qp is updated with each change
    instead of being computed again: a step of (f - g) / Q_tt, where g = (Qp)_t, adds (f^2 - g^2) / Q_tt to it.

    Returns the number of sweeps and the estimated error.
    """
    n = diagonal.shape[0]
    products, steps, before = np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    inverse = np.empty(n)
    mass, form = 0.0, 0.0
    for t in range(n):
        inverse[t] = 1 / np.float64(diagonal[t])
        mass += p[t]
        form += p[t] * (diagonal[t] * p[t] - row_product(Q, t, p))
    form = max(form, 0.0)
    previous, rate, left = 1.0, 0.0, 1.0
    for sweep in range(limit):
        for t in range(n):
            before[t] = p[t]
        for low in range(0, n, GROUP):
            high = min(low + GROUP, n)
            for t in range(low, high):
                products[t] = row_product(Q, t, p)
            for t in range(low, high):
                for s in range(low, t):
                    products[t] += Q[t, s] * steps[s]
                f = form / mass
                g = np.float64(diagonal[t]) * p[t] - products[t]
                step = (f - g) * inverse[t]
                form = max(form + (f * f - g * g) * inverse[t], 0.0)
                mass += step
                steps[t] = step
            for t in range(low, high):
                p[t] += steps[t]
        # Normalise before comparing: if a class wins every pair by the clip, its Q_tt is 1e-14, and rounding can change
        # its entry, hence the mass, by any factor without changing the normalised p.
        change = 0.0
        for t in range(n):
            p[t] = max(p[t] * np.float32(1 / mass), _ZERO)
            change = max(change, abs(p[t] - before[t]))
        form, mass = form / (mass * mass), 1.0
        rate = rate_of(change, previous, rate)
        left = error_left(change, rate)
        previous = change
        if left <= tol:
            return sweep + 1, left
    return limit, left


@simd_kernel()
def couple_wlw2(L, start, stop, guess, width, tol, limit, p, iterations, residual):
    """Write p[r], iterations[r] and residual[r] of the samples in [start, stop), from guess[r]; rows are padded."""
    n = L.shape[0]
    matrices = np.zeros((BLOCK, n, width), np.float32)
    Q, x = np.zeros((n, width), np.float32), np.zeros(width, np.float32)
    diagonal = np.empty(n, np.float32)
    for low in range(start, stop, BLOCK):
        gather_upper(L, low, stop, matrices)
        for r in range(low, min(low + BLOCK, stop)):
            quadratic_form(matrices[r - low], Q, diagonal)
            for i in range(n):
                x[i] = guess[r, i]
            iterations[r], residual[r] = fixed_point(Q, diagonal, x, tol, limit)
            for i in range(n):
                p[r, i] = x[i]
