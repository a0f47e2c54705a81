"""Stationary vector of each sample's Markov chain: Gauss-Seidel in float32, or GTH in float64 if that is slow."""

import numpy as np

from pairloom.pipeline.accelerate import inline_kernel, kernel, simd_kernel
from pairloom.pipeline.coupling.vector_kernels import (
    BLOCK,
    GROUP,
    error_left,
    exp32,
    gather_upper,
    rate_of,
    row_product,
)

_ZERO, _ONE = np.float32(0), np.float32(1)
#: Products of larger residual logits leave the range of float32: such samples are solved directly.
_RANGE = np.float32(60)
#: Up to this many classes, elimination costs no more than the sweeps.
SMALL = 12
#: A chain that mixes less than this per step may have classes that hardly communicate. Sweeps then seem to converge
#: long before they do, so they are repeated from a second start, and accepted if both results agree.
_MIXING = np.float32(1e-4)


@simd_kernel()
def residual_odds(matrix, u, a, F, s):
    """Split the chain into potentials and residuals: M_ij = a_i F_ij / s_j off the diagonal, with F_ij F_ji = 1.

    L_ij = u_i - u_j + e_ij, a_i = exp(u_i), F_ij = exp(e_ij) with a zero diagonal, s_j = sum_{i != j} a_i F_ij. The
    residuals are antisymmetric, so half of the exponentials are reciprocals of the other half. They are small, so that
    float32 is enough for logits of any size.

    Returns the number of |e_ij| outside the range of float32.
    """
    n = u.shape[0]
    beyond = _ZERO
    for i in range(n):
        s[i] = _ZERO
    for i in range(n):
        logits, odds = matrix[i, i + 1 : n], F[i, i + 1 : n]
        others_u, others_a, others_s = u[i + 1 :], a[i + 1 :], s[i + 1 :]
        u_i, a_i, own = u[i], a[i], _ZERO
        # Two loops: LLVM does not vectorise one loop over five arrays that might overlap.
        for j in range(logits.shape[0]):
            e = logits[j] - (u_i - others_u[j])
            beyond += np.float32(abs(e) > _RANGE)
            odds[j] = exp32(e)
        for j in range(logits.shape[0]):
            others_s[j] += a_i * odds[j]
            own += others_a[j] / odds[j]
        s[i] += own
        F[i, i] = _ZERO
    for j in range(n):
        for i in range(j):
            F[j, i] = _ONE / F[i, j]
    return beyond


@simd_kernel()
def mixing(F, a, total, high):
    """sum_i min_j M_ij (Doeblin): a step of the chain brings any two distributions closer by at least this share."""
    n = a.shape[0]
    for i in range(n):
        high[i] = total[i]
    for j in range(n):
        # min_j F_ij / total_j is one over max_j F_ji total_j: an elementwise maximum along rows, which is vectorised.
        row, total_j = F[j, :n], total[j]
        for i in range(n):
            high[i] = max(high[i], row[i] * total_j)
    share = _ZERO
    for i in range(n):
        share += a[i] / high[i]
    return share


@simd_kernel()
def gauss_seidel(F, gain, total, x, tol, limit):
    """Sweep x_i <- gain_i sum_j F_ij x_j until p_i = x_i total_i is within the tolerance of its limit.

    Returns the number of sweeps and the estimated error.
    """
    n = gain.shape[0]
    products, steps = np.empty(n, np.float32), np.empty(n, np.float32)
    previous, rate, left = _ONE, _ZERO, _ONE
    for sweep in range(limit):
        change = _ZERO
        for low in range(0, n, GROUP):
            high = min(low + GROUP, n)
            for i in range(low, high):
                products[i] = row_product(F, i, x)
            for i in range(low, high):
                for j in range(low, i):
                    products[i] += F[i, j] * steps[j]
                steps[i] = gain[i] * products[i] - x[i]
                change = max(change, abs(steps[i]) * total[i])
            for i in range(low, high):
                x[i] = max(x[i] + steps[i], _ZERO)  # a large decrease may round below zero
        mass = _ZERO
        for i in range(n):
            mass += x[i] * total[i]
        for i in range(n):
            x[i] *= _ONE / mass
        change /= mass
        rate = np.float32(rate_of(change, previous, rate))
        left = error_left(change, rate)
        previous = change
        if left <= tol:
            return sweep + 1, left
    return limit, left


@simd_kernel()
def chain_of(L, r, chain):
    """Column j of sample r's chain is the softmax of column j of L, from its upper triangle. No entry is zero."""
    n = chain.shape[0]
    for j in range(n):
        highest = 0.0
        for i in range(n):
            logit = np.float64(L[i, j, r] if i < j else -L[j, i, r])
            chain[i, j] = logit if i != j else 0.0
            highest = max(highest, chain[i, j])
        total = 0.0
        for i in range(n):
            chain[i, j] = max(np.exp(chain[i, j] - highest), 1e-300)
            total += chain[i, j]
        for i in range(n):
            chain[i, j] /= total


@simd_kernel()
def stationary_gth(chain, p):
    """The stationary vector by the elimination of Grassmann, Taksar and Heyman: no subtraction, so no cancellation.

    The chain is overwritten.
    """
    n = chain.shape[0]
    for last in range(n - 1, 0, -1):
        leaving = 0.0
        for i in range(last):
            leaving += chain[i, last]
        arrivals = chain[last, :last]
        for j in range(last):
            arrivals[j] /= leaving
        for i in range(last):
            row, through = chain[i, :last], chain[i, last]
            for j in range(last):
                row[j] += through * arrivals[j]
    mass = 1.0
    p[0] = 1.0
    for i in range(1, n):
        p[i] = 0.0
        for j in range(i):
            p[i] += p[j] * chain[i, j]
        mass += p[i]
    for i in range(n):
        p[i] /= mass


@inline_kernel()
def sweep_sample(matrix, u, tol, limit, F, x, vectors, p):
    """Write p of one sample by sweeps from the potentials u. Returns sweeps and estimated error (inf: unknown)."""
    n = u.shape[0]
    a, s, gain, total, high = vectors
    for i in range(n):
        a[i] = exp32(u[i])
    if residual_odds(matrix, u, a, F, s) > 0:
        return 0, np.inf
    for i in range(n):
        gain[i] = a[i] / s[i]
        total[i] = s[i] + a[i]
        x[i] = a[i] / total[i]
    sweeps, left = gauss_seidel(F, gain, total, x, tol, limit)
    for i in range(n):
        p[i] = x[i] * total[i]
    if left <= tol and mixing(F, a, total, high) < _MIXING:
        for i in range(n):
            x[i] = _ONE / (n * total[i])
        more, again = gauss_seidel(F, gain, total, x, tol, limit)
        apart = _ZERO
        for i in range(n):
            apart = max(apart, abs(p[i] - x[i] * total[i]))
        if not (again <= tol and apart <= 10 * tol):
            return sweeps + more, np.inf
        return sweeps + more, left
    return sweeps, left


@simd_kernel()
def couple_by_sweeps(L, start, stop, potentials, width, tol, limit, p, iterations, residual):
    """Write p[r], iterations[r] and residual[r] of the samples in [start, stop); rows padded to width.

    A sample that does not converge within `limit` sweeps, or whose residuals leave the range of float32, is left with a
    residual above the tolerance to `couple_by_elimination`.
    """
    n = L.shape[0]
    matrices = np.zeros((BLOCK, n, width), np.float32)
    F, x = np.zeros((n, width), np.float32), np.zeros(width, np.float32)
    u, swept, vectors = np.empty(n, np.float32), np.empty(n, np.float32), np.empty((5, n), np.float32)
    for low in range(start, stop, BLOCK):
        gather_upper(L, low, stop, matrices)
        for r in range(low, min(low + BLOCK, stop)):
            highest = potentials[r, 0]
            for i in range(n):
                highest = max(highest, potentials[r, i])
            for i in range(n):
                u[i] = potentials[r, i] - highest
            iterations[r], residual[r] = sweep_sample(matrices[r - low], u, tol, limit, F, x, vectors, swept)
            for i in range(n):
                p[r, i] = swept[i]


@kernel()
def couple_by_elimination(L, start, stop, tol, p, iterations, residual):
    """Write p[r] of the samples in [start, stop) whose residual is not within the tolerance; iterations[r] = 0."""
    n = L.shape[0]
    chain, direct = np.empty((n, n)), np.empty(n)
    for r in range(start, stop):
        if not residual[r] <= tol:
            chain_of(L, r, chain)
            stationary_gth(chain, direct)
            iterations[r], residual[r] = 0, 0.0
            for i in range(n):
                p[r, i] = direct[i]
