"""Kernels of the two-class linear SVM, in the signed dual.

    min 1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (w.x_i + b))                                       primal
    max y.beta - 1/2 beta.K beta,   sum_i beta_i = 0,   lower_i <= beta_i <= upper_i            dual

with beta_i = y_i alpha_i, K = X X' and w = X' beta. The box is [0, C_i] for y_i = +1 and [-C_i, 0] for y_i = -1: with
the label folded into the variable no loop below asks for a label. F_i = y_i - w.x_i is the gradient of the dual. For any
intercept b the gap between primal and dual is a sum of terms that are not negative (nothing cancels):

    gap(b) = sum_i (upper_i - beta_i) max(0, F_i - b) + (beta_i - lower_i) max(0, b - F_i)

A row with C_i = 0 cannot move and adds nothing: leaving rows out of a fold is setting their C_i to zero.
"""

import numpy as np

from pairloom.pipeline.accelerate import REORDERED, kernel, maximum

CHECK_EVERY = 32  # SMO steps between two looks at the gap, which costs about as much as one step


@kernel(fastmath=REORDERED)
def first_equal(values, value):
    """Index of the first of `values` that equals `value` (else the last): an integer minimum is SIMD, a search is not."""
    last = np.int32(len(values) - 1)
    at = last
    for k in range(len(values)):
        at = min(at, np.int32(k) if values[k] == value else last)
    return at


@kernel(fastmath=REORDERED)
def best_partner(i, F, low, K_i, diagonal, score):
    """Second-order choice of j [LW, WSS 2]: the largest (F_i - F_j)^2 / (K_ii + K_jj - 2 K_ij) where beta_j may fall."""
    real = F.dtype.type
    nothing, two, tiny = real(0), real(2), real(1e-12)
    F_i, K_ii = F[i], diagonal[i]
    best = nothing
    for k in range(len(F)):
        violation = maximum(F_i - (F[k] + low[k]), nothing)
        curvature = maximum(K_ii + diagonal[k] - two * K_i[k], tiny)
        score[k] = violation * violation / curvature
        best = maximum(best, score[k])
    return first_equal(score, best), best


@kernel(fastmath=REORDERED)
def move(step, F, up, K_i, K_j, score):
    """F after beta_i += step and beta_j -= step. Returns the next i: the largest F_i where beta_i may rise."""
    best = -F.dtype.type(np.inf)
    for k in range(len(F)):
        F[k] -= step * (K_i[k] - K_j[k])
        score[k] = F[k] + up[k]
        best = maximum(best, score[k])
    return first_equal(score, best)


@kernel(fastmath=REORDERED)
def gap_at(b, F, beta, lower, upper):
    """Duality gap at the intercept b."""
    gap = 0.0
    for k in range(len(F)):
        f = np.float64(F[k] - b)
        gap += (upper[k] - beta[k]) * maximum(f, 0.0) + (beta[k] - lower[k]) * maximum(-f, 0.0)
    return gap


@kernel(fastmath=REORDERED)
def hard_margin(F, lower, upper):
    """The intercept b, and the factor s >= 1 by which w and b must grow, for which no row is inside the margin.

    y_i (w.x_i + b) = 1 - y_i (F_i - b), so the worst row has margin 1 - shortfall. Infinite where s would be above 1.1.
    """
    infinity = F.dtype.type(np.inf)
    above, below = -infinity, -infinity
    for k in range(len(F)):
        above = maximum(above, F[k] if upper[k] > 0 else -infinity)
        below = maximum(below, -F[k] if lower[k] < 0 else -infinity)
    b, shortfall = (above - below) / 2, (above + below) / 2
    return b, 1 / (1 - shortfall) if 0 < shortfall < 0.1 else np.inf


@kernel(fastmath=REORDERED)
def scaled_gap(s, b, F, beta, lower, upper):
    """Duality gap after beta, w and b are multiplied by s; infinite where that leaves the box.

    With C so large that no beta is at its bound, the primal counts the least shortfall C times, and the gap is closed by
    making all margins a little larger much earlier than by further steps: dual feasible, and second order in s - 1.
    """
    gap, outside = 0.0, 0
    for k in range(len(F)):
        y = 1.0 if upper[k] > 0 else -1.0
        f = s * (F[k] - b) - (s - 1) * y
        rise, fall = upper[k] - s * beta[k], s * beta[k] - lower[k]
        outside += (rise < 0) | (fall < 0)
        gap += rise * maximum(f, 0.0) + fall * maximum(-f, 0.0)
    return np.inf if outside else gap


@kernel(fastmath=REORDERED)
def share_gap(b, F, beta, lower, upper, scale, share):
    """Adds every row's part of the gap at b, times `scale`, to `share`."""
    for k in range(len(F)):
        f = np.float64(F[k] - b)
        share[k] += scale * ((upper[k] - beta[k]) * maximum(f, 0.0) + (beta[k] - lower[k]) * maximum(-f, 0.0))


@kernel
def small_gap(b, F, beta, lower, upper, dual, tolerance):
    """Whether gap <= tolerance * primal at the intercept b, or would be after the scaling of `scaled_gap`."""
    gap = gap_at(b, F, beta, lower, upper)
    if gap > tolerance * (dual + gap):
        b, s = hard_margin(F, lower, upper)
        if s - 1 < tolerance:
            gap = scaled_gap(s, b, F, beta, lower, upper)
    return not gap > tolerance * (dual + gap)


@kernel
def smo(K, diagonal, beta, lower, upper, F, dual, tolerance, max_iterations):
    """Sequential minimal optimisation of beta and F in place, until gap <= tolerance * primal.

    K may have more rows and columns than F. `dual` is the dual objective at the start, which may include rows that
    are not here. Returns the number of steps and the dual objective at the end.
    """
    real = F.dtype.type
    n = len(F)
    # 0 where beta may rise (fall), else an infinity that keeps the row from being chosen.
    up, low, score = np.empty_like(F), np.empty_like(F), np.empty_like(F)
    for k in range(n):
        up[k] = 0 if beta[k] < upper[k] else -np.inf
        low[k] = 0 if beta[k] > lower[k] else np.inf
    i = move(real(0), F, up, K[0], K[0], score)
    for iteration in range(max_iterations):
        if iteration % CHECK_EVERY == 0:
            b = (F[i] + (F + low).min()) / real(2)
            if small_gap(b, F, beta, lower, upper, dual, tolerance):
                return iteration, dual
        j, best = best_partner(i, F, low, K[i], diagonal, score)
        if best == 0 or up[i] != 0:
            return iteration, dual
        slope = np.float64(F[i] - F[j])
        curvature = max(np.float64(diagonal[i] + diagonal[j] - real(2) * K[i, j]), 1e-12)
        room_i, room_j = upper[i] - beta[i], beta[j] - lower[j]
        step = min(slope / curvature, room_i, room_j)
        # Assigned, not added: a bound must be met exactly, or the row would stay free by a rounding error.
        beta[i] = upper[i] if step == room_i else beta[i] + step
        beta[j] = lower[j] if step == room_j else beta[j] - step
        up[i], low[i] = 0 if step < room_i else -np.inf, 0
        low[j], up[j] = 0 if step < room_j else np.inf, 0
        dual += step * (slope - 0.5 * step * curvature)
        i = move(real(step), F, up, K[i], K[j], score)
    return max_iterations, dual


@kernel(fastmath=REORDERED)
def weight_below(b, F, C):
    """Sum of C_i over F_i <= b."""
    weight = 0.0
    for k in range(len(F)):
        weight += C[k] if F[k] <= b else 0.0
    return weight


@kernel
def best_intercept(F, lower, upper):
    """The b that minimises the primal for given F.

    Every row bends the primal by C_i at b = F_i, and its slope far to the left is minus the C of the positive rows: b is
    where the cumulated C reaches that sum, a weighted quantile. Found by bisection, each step one SIMD pass. Where a whole
    interval is optimal its midpoint is taken, so that exchanging the classes changes the sign and nothing else.
    """
    C = upper - lower
    level = upper.sum()
    slack = 1e-9 * C.sum()
    left, right = F.min(), F.max()
    if weight_below(left, F, C) < level - slack:
        while True:
            middle = (left + right) / F.dtype.type(2)
            if not left < middle < right:
                break
            if weight_below(middle, F, C) < level - slack:
                left = middle
            else:
                right = middle
    else:
        right = left
    if weight_below(right, F, C) > level + slack:
        return right
    after = np.inf
    for k in range(len(F)):
        if C[k] > 0 and right < F[k] < after:
            after = F[k]
    return F.dtype.type((right + after) / 2) if after < np.inf else right


@kernel(fastmath=REORDERED)
def sweep_pairs(X, positive, negative, lower, upper, w):
    """One pass of exact steps along (positive row, negative row), from beta = 0: a first w, added to w in place.

    A step along a pair keeps sum beta = 0, so neither an intercept nor centred rows are needed.
    """
    real = X.dtype.type
    beta = np.zeros(len(upper))
    for k in range(max(len(positive), len(negative))):
        i, j = positive[k % len(positive)], negative[k % len(negative)]
        x_i, x_j = X[i], X[j]
        projection, curvature = real(0), real(1e-12)
        for d in range(len(w)):
            difference = x_i[d] - x_j[d]
            projection += w[d] * difference
            curvature += difference * difference
        step = np.float64(real(2) - projection) / curvature
        step = max(min(step, upper[i] - beta[i], beta[j] - lower[j]), lower[i] - beta[i], beta[j] - upper[j])
        beta[i] += step
        beta[j] -= step
        if step != 0:
            for d in range(len(w)):
                w[d] += real(step) * (x_i[d] - x_j[d])
