"""A block of samples while a model grows: its completed logits, and the predictions of three couplings per added pair.

The LANES samples of a block are the lanes of vector instructions, and a block of fifty classes stays in the cache of a
core.

A pair changes O(N) logits of a sample, and the probabilities only a little. So each coupling that iterates keeps the
residuals of its equations up to date and relaxes the classes whose probability would move, and no others
(Gauss-Southwell): O(N) for each of them, where a sweep over all classes would take O(N^2).

Only the correctness of predictions is needed. The lead of a sample is the probability of its true class minus the
highest other one. A class is relaxed if its probability would move by more than a small share of the lead: a clear
sample takes no time, and a close one is computed to the tolerance.

Arrays are flat: class i has the entries from i * LANES on, and a matrix over classes is (N, N * LANES). So loops over
all classes are long, and LLVM vectorises them; the overhead of a call per class would exceed its work.
"""

import numpy as np

from pairloom.pipeline.accelerate import inline_kernel, simd_kernel
from pairloom.pipeline.coupling.vector_kernels import exp32_within

#: Samples per block.
LANES = 16
#: Sums and residuals are updated by adding changes. They are computed afresh after this many pairs.
REFRESH = 64
#: A class is relaxed if its probability would move by more than this share of the lead, and more than the tolerance.
#: Of 17.7 million predictions on tinyimagenet50 (2500 samples, two curves), two differ from those with a share of zero.
SHARE, TOLERANCE = np.float32(1 / 16), np.float32(1e-6)
#: Most passes over the classes of a block.
MOST_PASSES = 1000
#: Logits are clipped to this: larger odds than exp(30) change no prediction, and their products stay within float32.
CLIP = np.float32(30)
#: [LW]: LIBSVM clips r_ij to [1e-7, 1 - 1e-7], which is a logit of 16.
HIGHEST, LOWEST = np.float32(np.exp(16)), np.float32(np.exp(-16))

_ZERO, _ONE = np.float32(0), np.float32(1)


# The kernels share two tuples of arrays.
#
# wlw2: products, diagonal, p, gradient. The problem is min p'Qp with Q_ii = diagonal_i and Q_ij = -products_ij; the
# gradient is Qp.
#
# stratified: odds, sums, x, flow. The chain is in balance if sums_i x_i = sum_{j != i} odds_ji x_j, with p_i =
# (1 + sums_i) x_i: odds[j, i] = exp(L_ij) flow from j to i, sums_j = sum_{i != j} exp(L_ij) leave j, and flow_i is the
# net inflow of i.


@simd_kernel()
def gather_block(logits, samples, block):
    """block[i, j, r] = logits[i, j, samples[r]]."""
    n = logits.shape[0]
    for i in range(n):
        for j in range(n):
            source, target = logits[i, j], block[i, j]
            for r in range(LANES):
                target[r] = source[samples[r]]


@inline_kernel()
def complete_block(logits, trained, offsets, neighbours, L):
    """L = logits of trained pairs, completed as in `completion_kernels.fill_missing`. The diameter is at most two."""
    L[:] = logits
    n = L.shape[0]
    for i in range(n):
        for j in range(n):
            if i == j or trained[i, j]:
                continue
            mean = L[i, j * LANES : (j + 1) * LANES]
            mean[:] = _ZERO
            common = 0
            for at in range(offsets[i], offsets[i + 1]):
                m = neighbours[at]
                if trained[j, m]:
                    common += 1
                    for r in range(LANES):
                        mean[r] += logits[i, m * LANES + r] + logits[m, j * LANES + r]
            for r in range(LANES):
                mean[r] /= np.float32(common)


@inline_kernel()
def set_up(L, wlw2, stratified):
    """odds_ji = exp(L_ij) and products_ij = r_ij r_ji of all pairs; zero for a class and itself."""
    n = L.shape[0]
    for j in range(n):
        logits, odds, products = L[j], stratified[0][j], wlw2[0][j]
        for m in range(logits.shape[0]):
            odds[m] = exp32_within(min(max(-logits[m], -CLIP), CLIP))
        for m in range(logits.shape[0]):
            r_ij = probability(odds[m])
            products[m] = r_ij * (_ONE - r_ij)
        odds[j * LANES : (j + 1) * LANES] = _ZERO
        products[j * LANES : (j + 1) * LANES] = _ZERO


@inline_kernel()
def probability(odds):
    """odds / (1 + odds), clipped as in LIBSVM."""
    held = min(max(odds, LOWEST), HIGHEST)
    return held / (_ONE + held)


@simd_kernel()
def sum_up(L, row_sums, wlw2, stratified, scratch):
    """The sums over pairs: row_sums_i = sum_j L_ij for `normal`, diagonal_i = sum_s r_si^2, and sums of the chain."""
    diagonal, odds, sums = wlw2[1], stratified[0], stratified[1]
    n = L.shape[0]
    for i in range(n):
        own = slice(i * LANES, (i + 1) * LANES)
        scratch[:] = L[i]
        fold_sum(scratch, row_sums[own])
        of_i = odds[i]
        scratch[:] = of_i
        fold_sum(scratch, sums[own])
        for m in range(of_i.shape[0]):
            r_ji = probability(of_i[m])
            scratch[m] = r_ji * r_ji
        scratch[own] = _ZERO
        fold_sum(scratch, diagonal[own])


@simd_kernel()
def fold_sum(terms, sums):
    """sums_r = the sum of terms_ir over the classes i; the terms are overwritten."""
    left = terms.shape[0] // LANES
    while left > 1:
        kept = (left + 1) // 2
        beyond = terms[kept * LANES : left * LANES]
        for m in range(beyond.shape[0]):
            terms[m] += beyond[m]
        left = kept
    for r in range(LANES):
        sums[r] = terms[r]


@simd_kernel()
def repeat(steps):
    """Repeat the first LANES entries up to the end."""
    done = LANES
    while done < steps.shape[0]:
        target = steps[done : 2 * done]
        for m in range(target.shape[0]):
            target[m] = steps[m]
        done *= 2


@simd_kernel()
def push(residuals, row, steps):
    """residuals_k += row_k step for all classes k. The step is in the first LANES entries of `steps`."""
    repeat(steps)
    for m in range(residuals.shape[0]):
        residuals[m] += row[m] * steps[m]


@simd_kernel()
def form_residuals(wlw2, stratified, steps):
    """The gradient of `wlw2` and the flow of `stratified` at their present p and x."""
    products, diagonal, p, gradient = wlw2
    odds, sums, x, flow = stratified
    for m in range(p.shape[0]):
        gradient[m] = diagonal[m] * p[m]
    for m in range(p.shape[0]):
        flow[m] = -sums[m] * x[m]
    for j in range(products.shape[0]):
        for r in range(LANES):
            steps[r] = -p[j * LANES + r]
        push(gradient, products[j], steps)
        for r in range(LANES):
            steps[r] = x[j * LANES + r]
        push(flow, odds[j], steps)


@inline_kernel()
def start_from_normal(row_sums, wlw2, stratified):
    """p = softmax(row_sums / N), the probabilities of `normal`, for both."""
    p, sums, x = wlw2[2], stratified[1], stratified[2]
    n = row_sums.shape[0] // LANES
    for r in range(LANES):
        highest, mass = row_sums[r], _ZERO
        for i in range(n):
            highest = max(highest, row_sums[i * LANES + r])
        for i in range(n):
            p[i * LANES + r] = exp32_within(max((row_sums[i * LANES + r] - highest) / np.float32(n), -CLIP))
            mass += p[i * LANES + r]
        for i in range(n):
            p[i * LANES + r] /= mass
    for m in range(p.shape[0]):
        x[m] = p[m] / (_ONE + sums[m])


@simd_kernel()
def find_leads(scores, labels, others, leads):
    """leads_r = score of the true class minus the highest other score; -inf without a true class."""
    for m in range(scores.shape[0]):
        others[m] = scores[m]
    for r in range(LANES):
        others[max(labels[r], 0) * LANES + r] = -np.float32(np.inf)
    left = scores.shape[0] // LANES
    while left > 1:
        kept = (left + 1) // 2
        beyond = others[kept * LANES : left * LANES]
        for m in range(beyond.shape[0]):
            others[m] = max(others[m], beyond[m])
        left = kept
    for r in range(LANES):
        own = scores[max(labels[r], 0) * LANES + r]
        leads[r] = own - others[r] if labels[r] >= 0 else -np.float32(np.inf)


@simd_kernel()
def change_pair(L, row_sums, wlw2, stratified, i, j, s):
    """Set the logits of a pair to the first LANES entries of the scratch s, and update all sums and residuals.

    The other rows of s are at constant distances, so that LLVM can tell them apart: the change of the odds of i against
    j (1) and of j against i (2); r_ij r_ji (3); the changes of r_ij r_ji (4), Q_ii (5), the logits (6) and Q_jj (13);
    x of i and j (7, 8) and p of i and j (9, 10); the odds (11, 12); the changes of the flow to i (14) and of the
    gradients of i (15) and j (16).
    """
    products, diagonal, p, gradient = wlw2
    odds, sums, x, flow = stratified
    a, b = i * LANES, j * LANES
    to_i, to_j = odds[j, a : a + LANES], odds[i, b : b + LANES]
    for r in range(LANES):
        s[6 * LANES + r] = s[r] - L[i, b + r]
    for r in range(LANES):
        s[5 * LANES + r] = to_i[r]
    for r in range(LANES):
        s[2 * LANES + r] = to_j[r]
    for r in range(LANES):
        s[7 * LANES + r] = x[a + r]
        s[8 * LANES + r] = x[b + r]
    for r in range(LANES):
        s[9 * LANES + r] = p[a + r]
        s[10 * LANES + r] = p[b + r]
    for r in range(LANES):
        ratio, before = exp32_within(min(max(s[r], -CLIP), CLIP)), s[5 * LANES + r]
        inverse = _ONE / ratio
        s[11 * LANES + r] = ratio
        s[12 * LANES + r] = inverse
        s[LANES + r] = ratio - before
        s[2 * LANES + r] = inverse - s[2 * LANES + r]
        new, old = probability(ratio), probability(before)
        s[3 * LANES + r] = new * (_ONE - new)
        # The changes of r_ij r_ji, of r_ji^2 in Q_ii and of r_ij^2 in Q_jj.
        s[4 * LANES + r] = (new - old) * (_ONE - new - old)
        s[5 * LANES + r] = (old - new) * (_ONE - new + _ONE - old)
        s[13 * LANES + r] = (new - old) * (new + old)
    for r in range(LANES):
        s[14 * LANES + r] = s[LANES + r] * s[8 * LANES + r] - s[2 * LANES + r] * s[7 * LANES + r]
        s[15 * LANES + r] = s[5 * LANES + r] * s[9 * LANES + r] - s[4 * LANES + r] * s[10 * LANES + r]
        s[16 * LANES + r] = s[13 * LANES + r] * s[10 * LANES + r] - s[4 * LANES + r] * s[9 * LANES + r]
    for r in range(LANES):
        L[i, b + r] = s[r]
    for r in range(LANES):
        L[j, a + r] = -s[r]
    for r in range(LANES):
        row_sums[a + r] += s[6 * LANES + r]
    for r in range(LANES):
        row_sums[b + r] -= s[6 * LANES + r]
    for r in range(LANES):
        to_i[r] = s[11 * LANES + r]
    for r in range(LANES):
        to_j[r] = s[12 * LANES + r]
    for r in range(LANES):
        sums[b + r] += s[LANES + r]
    for r in range(LANES):
        sums[a + r] += s[2 * LANES + r]
    for r in range(LANES):
        flow[a + r] += s[14 * LANES + r]
    for r in range(LANES):
        flow[b + r] -= s[14 * LANES + r]
    for r in range(LANES):
        products[i, b + r] = s[3 * LANES + r]
    for r in range(LANES):
        products[j, a + r] = s[3 * LANES + r]
    for r in range(LANES):
        diagonal[a + r] += s[5 * LANES + r]
    for r in range(LANES):
        diagonal[b + r] += s[13 * LANES + r]
    for r in range(LANES):
        gradient[a + r] += s[15 * LANES + r]
    for r in range(LANES):
        gradient[b + r] += s[16 * LANES + r]


@simd_kernel()
def would_move(moves, t, limits):
    """Whether a class would move by more than the limit in at least one sample."""
    beyond = _ZERO
    for r in range(LANES):
        beyond += np.float32(abs(moves[t * LANES + r]) > limits[r])
    return beyond > 0


@inline_kernel()
def settle_wlw2(wlw2, limits, steps, moves, s):
    """Relax p_t <- (sum_{j != t} r_tj r_jt p_j + p'Qp) / Q_tt [LW] until no p_t moves. False if it takes too long.

    As in `wlw2_kernels.fixed_point`, p is normalised after a pass over the classes, not within it.
    """
    products, diagonal, p, gradient = wlw2
    n = products.shape[0]
    form, mass = s[:LANES], s[LANES : 2 * LANES]
    for _ in range(MOST_PASSES):
        for m in range(p.shape[0]):
            moves[m] = p[m] * gradient[m]
        fold_sum(moves, form)
        moves[:] = p
        fold_sum(moves, mass)
        for r in range(LANES):
            steps[r] = s[r] / s[LANES + r]
        repeat(steps)
        for m in range(p.shape[0]):
            moves[m] = (steps[m] - gradient[m]) / diagonal[m]
        moved = False
        for t in range(n):
            if would_move(moves, t, limits):
                moved = True
                relax_wlw2(wlw2, t, steps, s)
        if not moved:
            return True
        for r in range(LANES):
            steps[r] = _ONE / s[LANES + r]
        normalise(p, gradient, steps)
    return False


@inline_kernel()
def relax_wlw2(wlw2, t, steps, s):
    """Relax one class. The scratch s has p'Qp, then the mass of p."""
    products, diagonal, p, gradient = wlw2
    a = t * LANES
    for r in range(LANES):
        s[2 * LANES + r] = gradient[a + r]
    for r in range(LANES):
        s[3 * LANES + r] = diagonal[a + r]
    for r in range(LANES):
        slope, curvature = s[2 * LANES + r], s[3 * LANES + r]
        step = (s[r] / s[LANES + r] - slope) / curvature
        s[r] = max(s[r] + step * (2 * slope + curvature * step), _ZERO)
        s[LANES + r] += step
        s[4 * LANES + r] = step
        s[2 * LANES + r] = slope + curvature * step
    for r in range(LANES):
        p[a + r] += s[4 * LANES + r]
    for r in range(LANES):
        gradient[a + r] = s[2 * LANES + r]
    for r in range(LANES):
        steps[r] = -s[4 * LANES + r]
    push(gradient, products[t], steps)


@simd_kernel()
def normalise(p, residuals, steps):
    """Multiply both by the factors in the first LANES entries of `steps`, and clip p at zero."""
    repeat(steps)
    for m in range(p.shape[0]):
        p[m] = max(p[m] * steps[m], _ZERO)
    for m in range(p.shape[0]):
        residuals[m] *= steps[m]


@inline_kernel()
def settle_stratified(stratified, limits, steps, moves, s):
    """Relax x_i <- sum_{j != i} odds_ji x_j / sums_i until no p_i moves. False if it takes too long."""
    odds, sums, x, flow = stratified
    mass = s[:LANES]
    for _ in range(MOST_PASSES):
        for m in range(x.shape[0]):
            moves[m] = flow[m] / sums[m] * (_ONE + sums[m])
        moved = False
        for i in range(odds.shape[0]):
            if would_move(moves, i, limits):
                moved = True
                for r in range(LANES):
                    steps[r] = flow[i * LANES + r] / sums[i * LANES + r]
                for r in range(LANES):
                    x[i * LANES + r] += steps[r]
                for r in range(LANES):
                    flow[i * LANES + r] = _ZERO
                push(flow, odds[i], steps)
        if not moved:
            return True
        find_probabilities(stratified, moves)
        fold_sum(moves, mass)
        for r in range(LANES):
            steps[r] = _ONE / s[r]
        normalise(x, flow, steps)
    return False


@simd_kernel()
def find_probabilities(stratified, p):
    """p_i = (1 + sums_i) x_i."""
    sums, x = stratified[1], stratified[2]
    for m in range(p.shape[0]):
        p[m] = (_ONE + sums[m]) * x[m]


@simd_kernel()
def tighten(leads, limits):
    """Set the limits up to which probabilities may move, by the leads. Returns whether a limit was more than halved."""
    tighter = False
    for r in range(LANES):
        limit = max(min(abs(leads[r]), _ONE) * SHARE, TOLERANCE)
        tighter |= limit < limits[r] / 2
        limits[r] = limit
    return tighter


@inline_kernel()
def predict_wlw2(wlw2, labels, limits, steps, moves, leads, s):
    """The leads of `wlw2`. If new leads tighten the limits, it settles again. False if it did not converge."""
    p = wlw2[2]
    while True:
        settled = settle_wlw2(wlw2, limits, steps, moves, s)
        find_leads(p, labels, moves, leads)
        if not tighten(leads, limits):
            return settled


@inline_kernel()
def predict_stratified(stratified, labels, limits, steps, moves, leads, s):
    """The leads of `stratified`, in the same way."""
    while True:
        settled = settle_stratified(stratified, limits, steps, moves, s)
        find_probabilities(stratified, steps)
        find_leads(steps, labels, moves, leads)
        if not tighten(leads, limits):
            return settled


@inline_kernel()
def add_pair(L, logits, row_sums, wlw2, stratified, trained, common, i, j, s):
    """Train pair (i, j): it gets its own logits, and pairs that it completes get one more path."""
    for r in range(LANES):
        s[r] = logits[i, j * LANES + r]
    change_pair(L, row_sums, wlw2, stratified, i, j, s)
    trained[i, j] = trained[j, i] = True
    for middle, end in ((i, j), (j, i)):
        for k in range(trained.shape[0]):
            if k != end and trained[k, middle]:
                common[k, end] += 1
                common[end, k] += 1
                if not trained[k, end]:
                    share = _ONE / np.float32(common[k, end])
                    for r in range(LANES):
                        path = L[k, middle * LANES + r] + L[middle, end * LANES + r]
                        s[r] = L[k, end * LANES + r] + (path - L[k, end * LANES + r]) * share
                    change_pair(L, row_sums, wlw2, stratified, k, end, s)


@simd_kernel()
def grow_block(logits, labels, trained, common, offsets, neighbours, order, sizes, right):
    """Grow the model of one block by the pairs of `order`, and write right[coupling, s] after sizes[s] of them.

    `trained` and `common` are changed. Returns the number of couplings that did not converge.
    """
    n, width = logits.shape
    L, products, odds = np.empty((3, n, width), np.float32)
    row_sums, p, diagonal, gradient, x, sums, flow, steps, moves = np.empty((9, width), np.float32)
    scratch, leads = np.empty(17 * LANES, np.float32), np.empty(LANES, np.float32)
    limits = np.ones((2, LANES), np.float32)
    wlw2, stratified = (products, diagonal, p, gradient), (odds, sums, x, flow)
    complete_block(logits, trained, offsets, neighbours, L)
    set_up(L, wlw2, stratified)
    sum_up(L, row_sums, wlw2, stratified, moves)
    start_from_normal(row_sums, wlw2, stratified)
    form_residuals(wlw2, stratified, steps)
    find_leads(p, labels, moves, leads)
    for of_coupling in limits:
        tighten(leads, of_coupling)
    unsettled, added = 0, 0
    for size in range(sizes.shape[0]):
        while added < sizes[size]:
            i, j = order[added]
            add_pair(L, logits, row_sums, wlw2, stratified, trained, common, i, j, scratch)
            added += 1
            if added % REFRESH == 0:
                sum_up(L, row_sums, wlw2, stratified, moves)
                form_residuals(wlw2, stratified, steps)
        unsettled += not predict_wlw2(wlw2, labels, limits[0], steps, moves, leads, scratch)
        right[0, size] = leads > 0
        unsettled += not predict_stratified(stratified, labels, limits[1], steps, moves, leads, scratch)
        right[1, size] = leads > 0
        find_leads(row_sums, labels, moves, leads)
        right[2, size] = leads > 0
    return unsettled
