"""Kernels of the two-class linear SVM, in the signed dual.

    min 1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (w.x_i + b))                                  primal
    max y.beta - 1/2 beta.K beta,   sum_i beta_i = 0,   lower_i <= beta_i <= upper_i       dual

with beta_i = y_i alpha_i, K = X X' and w = X' beta. The box is [0, C_i] for y_i = +1 and [-C_i, 0] for
y_i = -1: with the label folded into the variable, a step is beta_i += t, beta_j -= t whatever the labels.
F_i = y_i - w.x_i is the gradient of the dual. At any intercept b the gap between primal and dual is a sum of
terms of which none is negative, so that nothing cancels in float32:

    gap(b) = sum_i (upper_i - beta_i) max(0, F_i - b) + (beta_i - lower_i) max(0, b - F_i)

A row with C_i = 0 cannot move and adds nothing: rows are left out of a fit by setting their C_i to zero.

Everything is generic in the type of X and K: float32 for speed, float64 for tolerances beyond its reach.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pairloom.pipeline.accelerate import SIMD, inline_kernel, kernel

#: Maxima need these flags to be vectorised. Kernels compiled with them must never be given a NaN.
REORDERED = SIMD | {"nnan", "nsz"}
CHECK_EVERY = 32  # SMO steps between two checks of the gap
#: Rows of each class in the first working set: fewer cost another pass over X, more a larger Gram matrix.
FIRST_ROWS = np.int64(32)
INNER = 0.3  # share of the tolerance for the gap of the working set; the rest is for the rows outside
STEPS = 8  # of SMO per row of the working set, before the rows outside are checked again
PATIENCE = np.int64(5)  # rounds without progress after which a fit stops


@intrinsic
def maximum(typing_context, a, b):
    """max(a, b) of two floats of one type, not NaN, in the form that LLVM vectorises as a reduction.

    Numba's own max() does not carry the flags of REORDERED to the comparison: to choose a partner among 400
    rows (`svm_kernels.best_partner`) takes 535 ns with it and 100 ns with this.
    """
    if a != b or not isinstance(a, types.Float):
        return None

    def generate(context, builder, signature, arguments):
        real = arguments[0].type
        function = builder.module.declare_intrinsic(
            "llvm.maxnum", [real], ir.FunctionType(real, [real, real])
        )
        return builder.call(function, arguments, fastmath=("nnan", "nsz"))

    return a(a, a), generate


@kernel(fastmath=REORDERED)
def first_equal(values, value):
    """Index of the first of `values` equal to `value`, else the last. A minimum is SIMD, a search is not."""
    last = np.int32(len(values) - 1)
    at = last
    for k in range(len(values)):
        at = min(at, np.int32(k) if values[k] == value else last)
    return at


@kernel(fastmath=REORDERED)
def best_partner(i, F, low, K_i, diagonal, score):
    """Second-order choice of j [LW 4.1.1, WSS 2], among the rows where beta_j may fall.

    It has the largest (F_i - F_j)^2 / (K_ii + K_jj - 2 K_ij), twice the gain of the dual without the box.
    """
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
    """Update F for beta_i += step, beta_j -= step. Returns the next i: the largest F where beta may rise."""
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
def row_gaps(b, F, beta, lower, upper, share):
    """Every row's two parts of the gap at b: share[0] where beta should rise, share[1] where fall."""
    for k in range(len(F)):
        f = np.float64(F[k] - b)
        share[0, k] = (upper[k] - beta[k]) * maximum(f, 0.0)
        share[1, k] = (beta[k] - lower[k]) * maximum(-f, 0.0)


@kernel(fastmath=REORDERED)
def midpoint(F, beta, lower, upper):
    """Halfway between the largest F where beta may rise and the smallest where it may fall."""
    infinity = F.dtype.type(np.inf)
    above, below = -infinity, -infinity
    for k in range(len(F)):
        above = maximum(above, F[k] if beta[k] < upper[k] else -infinity)
        below = maximum(below, -F[k] if beta[k] > lower[k] else -infinity)
    return (above - below) / F.dtype.type(2)


@kernel(fastmath=REORDERED)
def hard_margin(F, lower, upper):
    """The intercept b, and the factor s by which w and b must grow, for which no row is inside the margin.

    y_i (w.x_i + b) = 1 - y_i (F_i - b): the worst row has margin 1 - shortfall. s is a little larger than
    necessary, by the rounding error of F, and infinite if it would be above 1.1.
    """
    infinity = F.dtype.type(np.inf)
    above, below = -infinity, -infinity
    for k in range(len(F)):
        above = maximum(above, F[k] if upper[k] > 0 else -infinity)
        below = maximum(below, -F[k] if lower[k] < 0 else -infinity)
    b, shortfall = (above - below) / 2, (above + below) / 2 + 32 * np.finfo(F.dtype).eps
    return b, 1 / (1 - shortfall) if 0 < shortfall < 0.1 else np.inf


@kernel(fastmath=REORDERED)
def scaled_gap(s, b, F, beta, lower, upper):
    """Duality gap after beta, w and b are multiplied by s; infinite if that leaves the box.

    With C so large that no beta is at its bound, the primal counts the least shortfall C times. Making all
    margins a little larger closes the gap much earlier than further steps do: it is dual feasible, and
    lowers the dual in second order of s - 1 only.
    """
    gap, outside = 0.0, 0
    for k in range(len(F)):
        y = 1.0 if upper[k] > 0 else -1.0
        f = s * (F[k] - b) - (s - 1) * y
        rise, fall = upper[k] - s * beta[k], s * beta[k] - lower[k]
        outside += (rise < 0) | (fall < 0)
        gap += rise * maximum(f, 0.0) + fall * maximum(-f, 0.0)
    return np.inf if outside else gap


@kernel
def small_gap(F, beta, lower, upper, dual, tol):
    """Whether gap <= tol * primal, or would be after the scaling of `scaled_gap`."""
    gap = gap_at(midpoint(F, beta, lower, upper), F, beta, lower, upper)
    if gap > tol * (dual + gap):
        b, s = hard_margin(F, lower, upper)
        if s - 1 < tol:
            gap = min(gap, scaled_gap(s, b, F, beta, lower, upper))
    return not gap > tol * (dual + gap)


@kernel
def smo(K, diagonal, beta, lower, upper, F, dual, tol, max_iterations):
    """Sequential minimal optimisation of beta and F in place, until gap <= tol * primal.

    K may have more rows and columns than F. `dual` is the dual objective at the start; it may include rows
    that are not here. Returns the number of steps, less than `max_iterations` if it converged.
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
        if iteration % CHECK_EVERY == 0 and small_gap(F, beta, lower, upper, dual, tol):
            return iteration
        j, best = best_partner(i, F, low, K[i], diagonal, score)
        if best == 0 or up[i] != 0:
            return iteration
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
    return max_iterations


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

    As a function of b the primal bends upwards by C_i at every F_i, and its slope at the far left is minus
    the C of the positive rows: b is a weighted quantile, where the cumulated C reaches that sum. Bisection
    needs some 30 SIMD passes and no sort. Where an interval is optimal its midpoint is taken, so that
    exchanging the classes changes the sign of b and nothing else.
    """
    C = np.empty(len(F))
    level, total = 0.0, 0.0
    left, right = F[0], F[0]
    for k in range(len(F)):
        C[k] = upper[k] - lower[k]
        level += upper[k]
        total += C[k]
        left, right = min(left, F[k]), max(right, F[k])
    slack = 1e-9 * total
    if weight_below(left, F, C) >= level - slack:
        right = left
    middle = (left + right) / F.dtype.type(2)
    while left < middle < right:
        if weight_below(middle, F, C) < level - slack:
            left = middle
        else:
            right = middle
        middle = (left + right) / F.dtype.type(2)
    if weight_below(right, F, C) > level + slack:
        return right
    next_bend = np.inf
    for k in range(len(F)):
        if C[k] > 0 and right < F[k] < next_bend:
            next_bend = F[k]
    return F.dtype.type((right + next_bend) / 2) if next_bend < np.inf else right


@kernel
def sum_of_products(a, b):
    """sum_i a_i b_i in float64, in the order of the rows."""
    total = 0.0
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@kernel
def certify(y, beta, lower, upper, F, squared_norm, tol):
    """The certificate of a fit, from an accurate F and |w|^2: intercept, gap, dual, and a factor for w.

    The factor is 1, unless `scaled_gap` closes the gap: then beta and F are scaled here, and w must be.
    """
    dual = sum_of_products(beta, y) - 0.5 * squared_norm
    b = best_intercept(F, lower, upper)
    gap = gap_at(b, F, beta, lower, upper)
    if gap > tol * (dual + gap):
        b_hard, s = hard_margin(F, lower, upper)
        if s - 1 < tol and scaled_gap(s, b_hard, F, beta, lower, upper) <= tol * dual:
            for k in range(len(F)):
                beta[k] *= s
                F[k] = s * F[k] - (s - 1) * y[k]
            dual = sum_of_products(beta, y) - 0.5 * s * s * squared_norm
            b = F.dtype.type(s * b_hard)
            return b, gap_at(b, F, beta, lower, upper), dual, s
    return b, gap, dual, 1.0


@kernel(fastmath=REORDERED)
def dot(a, b):
    total = a.dtype.type(0)
    for d in range(len(a)):
        total += a[d] * b[d]
    return total


@kernel(fastmath=REORDERED)
def add_multiple(scale, x, w):
    for d in range(len(w)):
        w[d] += scale * x[d]


@kernel(fastmath=REORDERED)
def extend_gram(X, rows, old, K):
    """Rows and columns `old` and later of the Gram matrix of X[rows], into K.

    Tiles of 4 by 2 products, straight from the rows: 0.35 ms for 128 rows of 1280 float32, where BLAS, which
    packs its operands first, takes 0.53 ms. If 4 or 2 do not divide the rows, the last row is computed twice.
    """
    last, zero = len(rows) - 1, X.dtype.type(0)
    for i0 in range(old, len(rows), 4):
        i1, i2, i3 = min(i0 + 1, last), min(i0 + 2, last), min(i0 + 3, last)
        a0, a1, a2, a3 = X[rows[i0]], X[rows[i1]], X[rows[i2]], X[rows[i3]]
        for j0 in range(0, i3 + 1, 2):
            j1 = min(j0 + 1, last)
            b0, b1 = X[rows[j0]], X[rows[j1]]
            s00, s10, s20, s30, s01, s11, s21, s31 = zero, zero, zero, zero, zero, zero, zero, zero
            for d in range(X.shape[1]):
                s00 += a0[d] * b0[d]
                s10 += a1[d] * b0[d]
                s20 += a2[d] * b0[d]
                s30 += a3[d] * b0[d]
                s01 += a0[d] * b1[d]
                s11 += a1[d] * b1[d]
                s21 += a2[d] * b1[d]
                s31 += a3[d] * b1[d]
            K[i0, j0], K[i1, j0], K[i2, j0], K[i3, j0] = s00, s10, s20, s30
            K[i0, j1], K[i1, j1], K[i2, j1], K[i3, j1] = s01, s11, s21, s31
            K[j0, i0], K[j0, i1], K[j0, i2], K[j0, i3] = s00, s10, s20, s30
            K[j1, i0], K[j1, i1], K[j1, i2], K[j1, i3] = s01, s11, s21, s31


@inline_kernel
def patience_left(patience, before, dual, gap, tol, exhausted):
    """The rounds without progress that are left; 0 for a fit that is done.

    Rounds without progress mean that only the rounding error of F is left.
    """
    if exhausted or not gap > tol * (dual + gap):
        return 0
    return PATIENCE if dual - before > 1e-5 * tol * abs(dual) else patience - 1


@kernel
def solve_gram(K, y, beta, lower, upper, tol, max_iterations):
    """One fit on all rows of the Gram matrix K; beta in place. Returns intercept, gap, dual, iterations."""
    F, diagonal, change = np.empty_like(y), diagonal_of(K, len(K)), np.empty_like(y)
    for k in range(len(y)):
        F[k] = y[k]
    dual, iterations, patience = 0.0, 0, PATIENCE
    while True:
        left = max_iterations - iterations
        iterations += smo(K, diagonal, beta, lower, upper, F, dual, 0.9 * tol, left)
        # SMO accumulates rounding errors in F, so the certificate is computed from beta. SMO goes on if it fails.
        for k in range(len(y)):
            F[k] = y[k]
        for i in range(len(beta)):
            if beta[i] != 0:
                add_multiple(-K.dtype.type(beta[i]), K[i], F)
        for k in range(len(y)):
            change[k] = y[k] - F[k]
        before = dual
        b, gap, dual, _ = certify(y, beta, lower, upper, F, sum_of_products(beta, change), tol)
        patience = patience_left(patience, before, dual, gap, tol, iterations >= max_iterations)
        if patience == 0:
            return b, gap, dual, iterations


@kernel
def solve_rows(X, y, beta, lower, upper, w, tol, max_iterations, capacity):
    """All fits on the rows X; beta and w in place. Returns intercept, gap, dual, iterations of each.

    A fit starts with the working set of the previous one, whose Gram matrix is mostly computed.
    """
    fits = len(upper)
    intercept, gap, dual, iterations = (
        np.zeros(fits),
        np.zeros(fits),
        np.zeros(fits),
        np.zeros(fits, np.int64),
    )
    rows, K = with_rows(X, np.empty(0, np.int64), np.empty((0, 0), X.dtype), first_rows(X, lower, upper))
    for f in range(fits):
        rows, K, intercept[f], gap[f], dual[f], iterations[f] = solve_fit(
            X, y, rows, K, beta[f], lower[f], upper[f], w[f], tol, max_iterations, capacity
        )
    return intercept, gap, dual, iterations


@inline_kernel
def solve_fit(X, y, rows, K, beta, lower, upper, w, tol, max_iterations, capacity):
    """One fit: rounds of SMO on the working set, F of all rows, and new rows where the gap is largest."""
    F, share = np.empty_like(y), np.empty((2, len(X)))
    for k in range(len(y)):
        F[k] = y[k]
    dual, iterations, patience = 0.0, 0, PATIENCE
    while True:
        before, left = dual, max_iterations - iterations
        iterations += solve_subset(rows, K, beta, lower, upper, F, w, X, y, before, tol, left)
        b, gap, dual, s = certify(y, beta, lower, upper, F, np.float64(dot(w, w)), tol)
        for d in range(len(w)):
            w[d] *= X.dtype.type(s)
        patience = patience_left(patience, before, dual, gap, tol, iterations >= max_iterations)
        if patience == 0:
            return rows, K, b, gap, dual, iterations
        # Not at the best intercept: there all violators may be of one class, which cannot move alone.
        row_gaps(midpoint(F, beta, lower, upper), F, beta, lower, upper, share)
        wanted = max(FIRST_ROWS, len(rows) // 4)
        if len(rows) + wanted > capacity:
            kept = useful_positions(rows, share, beta, lower, upper, capacity - capacity // 4)
            move_to_front(K, kept)
            rows = taken(rows, kept)
            wanted = capacity - len(rows)
        floor = 0.01 * tol * (dual + gap) / len(X)
        rows, K = with_rows(X, rows, K, worst_rows(rows, share, wanted, floor))


@inline_kernel
def solve_subset(rows, K, beta, lower, upper, F, w, X, y, dual, tol, max_iterations):
    """SMO on some rows, all other beta held; then w, and F of all rows. Returns the number of steps."""
    beta_W, F_W, diagonal = taken(beta, rows), taken(F, rows), diagonal_of(K, len(rows))
    budget = min(STEPS * len(rows), max_iterations)
    steps = smo(K, diagonal, beta_W, taken(lower, rows), taken(upper, rows), F_W, dual, INNER * tol, budget)
    for k, row in enumerate(rows):
        if beta_W[k] != beta[row]:
            add_multiple(X.dtype.type(beta_W[k] - beta[row]), X[row], w)
            beta[row] = beta_W[k]
    for row in range(len(X)):
        F[row] = y[row] - dot(X[row], w)
    return steps


@kernel
def taken(values, rows):
    """values[rows]."""
    some = np.empty(len(rows), values.dtype)
    for k in range(len(rows)):
        some[k] = values[rows[k]]
    return some


@kernel
def diagonal_of(K, n):
    """The first n diagonal entries of K."""
    diagonal = np.empty(n, K.dtype)
    for k in range(n):
        diagonal[k] = K[k, k]
    return diagonal


@kernel
def joined(first, second):
    """Both sets of rows, one after the other."""
    rows = np.empty(len(first) + len(second), np.int64)
    for k in range(len(first)):
        rows[k] = first[k]
    for k in range(len(second)):
        rows[len(first) + k] = second[k]
    return rows


@inline_kernel
def first_rows(X, lower, upper):
    """The rows of each class that are nearest to the other class, along a direction found in one pass."""
    n = len(X)
    lowest, highest = np.zeros(n), np.zeros(n)
    for f in range(len(upper)):
        for k in range(n):
            lowest[k], highest[k] = min(lowest[k], lower[f, k]), max(highest[k], upper[f, k])
    nearness = np.empty((2, n))
    for k in range(n):
        nearness[0, k], nearness[1, k] = highest[k], -lowest[k]
    positive, negative = largest(nearness[0], n, 0.0), largest(nearness[1], n, 0.0)
    w = sweep_pairs(X, positive, negative, lowest, highest)
    for k in range(n):
        nearness[0, k] = nearness[1, k] = -np.inf
    for row in positive:
        nearness[0, row] = -dot(X[row], w)
    for row in negative:
        nearness[1, row] = dot(X[row], w)
    return joined(largest(nearness[0], FIRST_ROWS, -np.inf), largest(nearness[1], FIRST_ROWS, -np.inf))


@inline_kernel
def worst_rows(rows, share, count, floor):
    """Rows outside the working set with the largest parts of the gap: half of them to rise, half to fall."""
    for row in rows:
        share[0, row] = share[1, row] = 0
    rising = largest(share[0], count // 2, floor)
    for row in rising:
        share[1, row] = 0
    return joined(rising, largest(share[1], count // 2, floor))


@kernel
def largest(score, count, floor):
    """Indices, ascending, of the `count` largest scores, or fewer if others are not above the floor."""
    chosen, found = np.empty(min(count, len(score)), np.int64), 0
    threshold = nth_largest(score, count) if count < len(score) else floor
    for k in range(len(score)):
        if found < len(chosen) and score[k] >= threshold and score[k] > floor:
            chosen[found] = k
            found += 1
    return chosen[:found]


@kernel
def nth_largest(score, n):
    """The nth largest score, by Hoare's selection. np.partition does the same, but takes seconds to compile."""
    values = np.empty(len(score))
    for k in range(len(score)):
        values[k] = score[k]
    wanted = len(values) - n
    low, high = 0, len(values) - 1
    while low < high:
        pivot, i, j = values[wanted], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if j < wanted:
            low = i
        if wanted < i:
            high = j
    return values[wanted]


@kernel
def with_rows(X, rows, K, new):
    """The working set with new rows, and its Gram matrix: only the new part of it is computed."""
    old, rows = len(rows), joined(rows, new)
    if len(rows) > len(K):
        # Twice the size needed, not the largest at once, whose page faults would cost more than its products.
        larger = np.empty((2 * len(rows), 2 * len(rows)), K.dtype)
        for i in range(old):
            for j in range(old):
                larger[i, j] = K[i, j]
        K = larger
    extend_gram(X, rows, old, K)
    return rows, K


@inline_kernel
def useful_positions(rows, share, beta, lower, upper, count):
    """Positions of the rows to keep in a full working set: free ones first, then the largest gaps."""
    use, most = np.empty(len(rows)), 0.0
    for k, row in enumerate(rows):
        use[k] = share[0, row] + share[1, row]
        most = max(most, use[k])
    for k, row in enumerate(rows):
        if lower[row] < beta[row] < upper[row]:
            use[k] += 1 + most
    return largest(use, count, 0.0)


@inline_kernel
def move_to_front(K, kept):
    """Move the kept rows and columns of K to the front: in place, as the positions ascend."""
    for a, i in enumerate(kept):
        for b, j in enumerate(kept):
            K[a, b] = K[i, j]


@kernel(fastmath=REORDERED)
def sweep_pairs(X, positive, negative, lower, upper):
    """A rough w: from beta = 0, one exact step along every pair of a positive and a negative row.

    Such a step keeps sum beta = 0, so that neither an intercept nor centred rows are needed.
    """
    real = X.dtype.type
    w, beta = np.zeros(X.shape[1], X.dtype), np.zeros(len(X))
    shorter = min(len(positive), len(negative))
    for k in range(max(len(positive), len(negative)) if shorter else 0):
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
    return w
