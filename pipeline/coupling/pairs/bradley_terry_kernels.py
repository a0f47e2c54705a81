"""Bradley-Terry coupling, sample by sample: Newton's method, with conjugate gradients for its linear systems."""

import numpy as np

from pairloom.pipeline.accelerate import inline_kernel, simd_kernel
from pairloom.pipeline.coupling.pairs.wlw2_kernels import CLIP
from pairloom.pipeline.coupling.vector_kernels import BLOCK, exp32_within, gather_upper

_ZERO, _ONE = np.float32(0), np.float32(1)
#: No p is smaller than exp of this.
_LOWEST = -700.0
#: If potentials differ by more than this, another start is considered too: curvatures leave float32 at 87.
_FAR = 48.0
#: Bounds of the tolerance of a Newton step, as a share of its gradient: far from the solution, a tighter tolerance
#: costs more products than it saves steps.
_LOOSE, _TIGHT = 0.1, 0.001


@simd_kernel()
def expected_wins(matrix, weights, wins):
    """wins_i = sum_j n_ij r_ij, the right-hand side of the score equations [HT eq. 5]."""
    n = wins.shape[0]
    for i in range(n):
        wins[i] = 0.0
    losses = np.empty(n, np.float32)
    for i in range(n):
        logits, n_i, others = matrix[i, i + 1 : n], weights[i, i + 1 : n], wins[i + 1 :]
        loss = losses[: n - i - 1]
        for j in range(logits.shape[0]):
            odds = exp32_within(-min(abs(logits[j]), CLIP))
            loss[j] = odds / (_ONE + odds)
        # The smaller of r_ij and r_ji keeps its digits and the other is exactly one minus it. The scores then sum to
        # zero, which the singular Newton system needs to have a solution.
        own = 0.0
        for j in range(logits.shape[0]):
            smaller = np.float64(loss[j])
            r_ij = 1 - smaller if logits[j] > 0 else smaller
            own += n_i[j] * r_ij
            others[j] += n_i[j] * (smaller if logits[j] > 0 else 1 - smaller)
        wins[i] += own


@inline_kernel()
def clipped_means(matrix, u):
    """u_i = the mean of L_ij over j, with L_ij clipped: the potentials of `normal` for the clipped logits."""
    n = u.shape[0]
    for i in range(n):
        u[i] = 0.0
    for i in range(n):
        logits, others = matrix[i, i + 1 : n], u[i + 1 :]
        own = _ZERO
        for j in range(logits.shape[0]):
            logit = min(max(logits[j], -CLIP), CLIP)
            own += logit
            others[j] -= logit
        u[i] += own
    for i in range(n):
        u[i] /= n


@simd_kernel()
def descending(u):
    """The indices of u from its largest entry to its smallest: Shell's sort, since np.argsort takes long to compile."""
    n = u.shape[0]
    order = np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
    gap = n // 2
    while gap > 0:
        for i in range(gap, n):
            t, at = order[i], i
            while at >= gap and u[order[at - gap]] < u[t]:
                order[at] = order[at - gap]
                at -= gap
            order[at] = t
        gap //= 2
    return order


@inline_kernel()
def close_gaps(u):
    """Move the classes together until neighbours differ by at most the clip, since r is clipped there."""
    order = descending(u)
    previous, below = u[order[0]], 0.0
    for t in order:
        below -= min(previous - u[t], np.float64(CLIP))
        previous = u[t]
        u[t] = below


@simd_kernel()
def mismatch(weights, wins, u):
    """Sum of the absolute errors of the score equations [HT eq. 5] at u."""
    n = u.shape[0]
    total = 0.0
    for t in range(n):
        expected = 0.0
        for j in range(n):
            expected += weights[t, j] / (1 + np.exp(u[j] - u[t]))
        total += abs(wins[t] - expected)
    return total


@inline_kernel()
def first_guess(matrix, potentials, weights, wins, u):
    """Write the initial u: the potentials of `normal`, unless they are too far apart for the clipped r.

    If they are, there are two candidates, and the one with the smaller mismatch is taken. For consistent logits, the
    classes are in the right order, so closing the gaps is a good start. Otherwise the clipped means are better. In
    either, every class has a neighbour whose curvature float32 can represent.
    """
    n = u.shape[0]
    lowest, highest = np.inf, -np.inf
    for i in range(n):
        u[i] = potentials[i]
        lowest, highest = min(lowest, u[i]), max(highest, u[i])
    if highest - lowest <= _FAR:
        return
    close_gaps(u)
    means = np.empty_like(u)
    clipped_means(matrix, means)
    if mismatch(weights, wins, means) < mismatch(weights, wins, u):
        for i in range(n):
            u[i] = means[i]


@simd_kernel()
def score_and_curvature(wins, weights, p, score, H, diagonal):
    """score_t = wins_t - sum_j n_tj mu_tj, H_tj = n_tj mu_tj mu_jt (minus the Hessian's), and the row sums of H."""
    n = wins.shape[0]
    expected = np.zeros(n)
    for t in range(n):
        # Above the diagonal only: divisions take most of the time.
        n_t, row, others, p_t = weights[t, t + 1 : n], H[t, t + 1 : n], p[t + 1 :], p[t]
        means = expected[t + 1 :]
        own = 0.0
        for j in range(row.shape[0]):
            inverse = 1 / (p_t + others[j])
            mean = n_t[j] * (p_t * inverse)
            own += mean
            means[j] += n_t[j] - mean
            row[j] = mean * (others[j] * inverse)
        expected[t] += own
    for t in range(n):
        for j in range(t):
            H[t, j] = H[j, t]
    for t in range(n):
        curvature = _ZERO
        for j in range(H.shape[1]):
            curvature += H[t, j]
        score[t] = wins[t] - expected[t]
        diagonal[t] = curvature


@simd_kernel()
def laplacian_product(H, t, x):
    """sum_j H_tj (x_t - x_j), from differences, so that weak links between a winner and the rest survive rounding."""
    row, x_t = H[t], x[t]
    product = _ZERO
    for j in range(x.shape[0]):
        product += row[j] * (x_t - x[j])
    return product


@simd_kernel()
def newton_step(H, diagonal, score, forcing, step, residue, direction, image):
    """Solve sum_j H_tj (step_t - step_j) = score_t by conjugate gradients with the diagonal as preconditioner.

    It stops at `forcing` times the score, in the preconditioned norm. The null space of the Laplacian are the constant
    vectors; the score is orthogonal to them, so the iterates are too.
    """
    n = diagonal.shape[0]
    slope = _ZERO
    for t in range(n):
        step[t] = _ZERO
        residue[t] = score[t]
        direction[t] = residue[t] / diagonal[t]
        slope += residue[t] * direction[t]
    enough = np.float32(forcing * forcing) * slope
    for _ in range(n + 1):
        if slope <= enough:
            break
        bend = _ZERO
        for t in range(n):
            image[t] = laplacian_product(H, t, direction)
            bend += direction[t] * image[t]
        if bend <= 0:  # the rest of the residue is rounding
            break
        length, before = slope / bend, slope
        slope = _ZERO
        for t in range(n):
            step[t] += length * direction[t]
            residue[t] -= length * image[t]
            slope += residue[t] * residue[t] / diagonal[t]
        for t in range(n):
            direction[t] = residue[t] / diagonal[t] + slope / before * direction[t]


@simd_kernel()
def take_step(step, u, p, odds):
    """Move u = log p along the step, p = softmax(u). Returns the largest change of p and the share of the step taken.

    The loss is logistic in the differences of u, so the step shortened by log(1 + d) / d, d its spread, always
    descends (Sun and Tran-Dinh 2019, generalised self-concordance with nu = 2, doi:10.1007/s10107-018-1282-4). Near
    the solution it is the full Newton step.
    """
    n = u.shape[0]
    low, high = step[0], step[0]
    for t in range(n):
        low, high = min(low, step[t]), max(high, step[t])
    spread = high - low
    share = np.log1p(spread) / spread if spread > 1e-8 else 1.0
    highest = -np.inf
    for t in range(n):
        u[t] += share * step[t]
        highest = max(highest, u[t])
    change, mass = 0.0, 0.0
    for t in range(n):
        u[t] = max(u[t] - highest, _LOWEST)
        odds[t] = np.exp(u[t])
        mass += odds[t]
    for t in range(n):
        new = odds[t] / mass
        if not abs(new - p[t]) <= change:  # NaN counts as a change
            change = abs(new - p[t])
        p[t] = new
    return change, share


@simd_kernel()
def rest_of_step(step, share, p, odds):
    """Largest change of p if the rest of the step were taken too.

    A class far below its solution climbs by shortened steps for a while before its p changes noticeably.
    """
    n = p.shape[0]
    highest = (1 - share) * step[0]
    for t in range(n):
        highest = max(highest, (1 - share) * step[t])
    mass, change = 0.0, 0.0
    for t in range(n):
        odds[t] = p[t] * np.exp((1 - share) * step[t] - highest)
        mass += odds[t]
    for t in range(n):
        change = max(change, abs(odds[t] / mass - p[t]))
    return change


@simd_kernel()
def couple_bradley_terry(L, start, stop, weights, potentials, width, tol, limit, p, iterations, residual):
    """Write p[r], iterations[r] and residual[r] of the samples in [start, stop), from potentials[r].

    Rows are padded to width; `weights` is float64 with a zero diagonal.
    """
    n = L.shape[0]
    matrices = np.zeros((BLOCK, n, width), np.float32)
    H, direction = np.zeros((n, width), np.float32), np.zeros(width, np.float32)
    # Separate arrays: LLVM takes rows of one array as strided, and compiles their loops twice.
    diagonal, score, step = np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    residue, image = np.empty(n, np.float32), np.empty(n, np.float32)
    wins, u, x, odds = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    for low in range(start, stop, BLOCK):
        gather_upper(L, low, stop, matrices)
        for r in range(low, min(low + BLOCK, stop)):
            expected_wins(matrices[r - low], weights, wins)
            first_guess(matrices[r - low], potentials[r], weights, wins, u)
            for i in range(n):
                step[i] = _ZERO
            take_step(step, u, x, odds)
            change, left, newton = 1.0, 1.0, 0
            while left > tol and newton < limit:
                newton += 1
                forcing = min(max(change, _TIGHT), _LOOSE)
                score_and_curvature(wins, weights, x, score, H, diagonal)
                newton_step(H, diagonal, score, forcing, step, residue, direction, image)
                change, share = take_step(step, u, x, odds)
                # The remaining error: the rest of the step, its linear residual, and its second-order term.
                left = change * ((1 - share) / share + forcing + change)
                if left <= tol:
                    left = max(left, rest_of_step(step, share, x, odds))
            iterations[r], residual[r] = newton, left
            for i in range(n):
                p[r, i] = x[i]
