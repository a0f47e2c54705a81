"""Coupling by a code, sample by sample: the updates of [HLW], and Newton's method to finish.

The notation is that of [HLW]: machine q has the classes I+ on its positive side and I- on the other; `positive` and
`negative` are the sums of p over the sides, r_q and 1 - r_q their probabilities by the machine, and n_q its weight. A
code is stored twice. `code` has the entries by machine: `classes[first[q]:first[q + 1]]` with their `signs`.
`class_entries` has them by class: `machines[begin[s]:begin[s + 1]]` with their `sides`.
"""

import numpy as np

from pairloom.pipeline.accelerate import kernel, simd_kernel
from pairloom.pipeline.coupling.vector_kernels import error_left

#: [LW]: LIBSVM clips r to [1e-7, 1 - 1e-7], which is a logit of 16.
CLIP = 16.0
#: Sweeps between two attempts of Newton's method.
SWEEPS = 5
#: No entry of log p moves further than this in a Newton step.
FARTHEST = 4.0
#: A pivot below this share of its diagonal entry is rounding.
SINGULAR = 1e-13
#: Sweeps may be slow, and their estimated error is poor: without Newton's method, they stop at this share of the
#: tolerance.
SMALLER = 1e-3
#: Steps with a matrix that is not the Hessian converge linearly: the remaining error is taken as this many times the
#: last step.
CAUTION = 10.0
#: A step may raise the loss by this share of it: rounding of the sums.
ROUNDING = 1e-14


@kernel()
def answers(logits, i, r):
    """r_q and 1 - r_q of sample i, both to full precision."""
    for q in range(logits.shape[0]):
        logit = min(max(np.float64(logits[q, i]), -CLIP), CLIP)
        r[q, 0] = 1 / (1 + np.exp(-logit))
        r[q, 1] = 1 / (1 + np.exp(logit))


@kernel()
def side_sums(code, p, positive, negative):
    """positive_q and negative_q: the sums of p over the two sides of each machine."""
    first, classes, signs = code
    for q in range(positive.shape[0]):
        plus, minus = 0.0, 0.0
        for e in range(first[q], first[q + 1]):
            if signs[e] > 0:
                plus += p[classes[e]]
            else:
                minus += p[classes[e]]
        positive[q], negative[q] = plus, minus


@kernel()
def loss_of(r, weights, barrier, p, positive, negative):
    """[HLW eq. 4, 7] -sum_q n_q (r_q log(q+ / q) + r'_q log(q- / q)) - mu sum_s log(p_s / sum p).

    r[q, 1] is the probability of the negative side: 1 - r[q, 0] would be rounded.
    """
    loss, total = 0.0, 0.0
    for q in range(positive.shape[0]):
        both = positive[q] + negative[q]
        loss -= weights[q] * (r[q, 0] * np.log(positive[q] / both) + r[q, 1] * np.log(negative[q] / both))
    for s in range(p.shape[0]):
        total += p[s]
    if barrier > 0:
        for s in range(p.shape[0]):
            loss -= barrier * np.log(p[s] / total)
    return loss


@kernel()
def sweep(class_entries, r, weights, barrier, p, positive, negative):
    """[HLW Algorithm 2, eq. 5 and 7] Update every p_s in turn. None of the updates raises the loss.

    p_s <- (p_s (sum_{q: s in I+} n_q r_q / q+ + sum_{q: s in I-} n_q r'_q / q-) + mu)
           / (sum_{q: s in I} n_q / q + mu N / sum p)

    The loss does not rise, since -log q+ <= -(p_s / q+) log p_s + const (Jensen) and log q <= q / q(old) + const, with
    equality at the old p_s; the update is the minimum of the right-hand sides. The loss does not depend on the sum of
    p, so p is normalised once per sweep. Returns the largest change of p.
    """
    begin, machines, sides = class_entries
    n = p.shape[0]
    total, change = 0.0, 0.0
    for s in range(n):
        total += p[s]
    for s in range(n):
        pull, push = 0.0, barrier * n / total
        for e in range(begin[s], begin[s + 1]):
            q = machines[e]
            if sides[e] > 0:
                pull += weights[q] * r[q, 0] / positive[q]
            else:
                pull += weights[q] * r[q, 1] / negative[q]
            push += weights[q] / (positive[q] + negative[q])
        new = (p[s] * pull + barrier) / push
        step = new - p[s]
        p[s] = new
        total += step
        change = max(change, abs(step))
        for e in range(begin[s], begin[s + 1]):
            q = machines[e]
            # The sum of a side is at least each of its classes; rounding may say otherwise.
            if sides[e] > 0:
                positive[q] = max(positive[q] + step, new)
            else:
                negative[q] = max(negative[q] + step, new)
    return change / total


@kernel()
def normalise(p):
    """Make p sum to one. No entry becomes zero, so that its logarithm is finite."""
    total = 0.0
    for s in range(p.shape[0]):
        total += p[s]
    for s in range(p.shape[0]):
        p[s] = max(p[s] / total, 1e-300)


@kernel()
def gradient_and_hessian(code, r, weights, barrier, convex, p, positive, negative, gradient, H):
    """Derivatives of the loss with respect to u = log p, where sum p = 1.

    With w+ = p / q+ on I+, w- likewise, and rho = q+ / q, machine q adds n_q times

        (rho - r) (w+ - w-) to the gradient, and
        (rho - r) (diag w+ - w+ w+') + (r - rho) (diag w- - w- w-') + rho (1 - rho) (w+ - w-)(w+ - w-)'

    to the Hessian; the barrier adds mu (N p - 1) and mu N (diag p - p p'). Only the lower triangle is written.
    One of the first two terms of the Hessian is negative. If `convex`, it is left out: H is then positive definite, and
    still gives a direction of descent.
    """
    first, classes, signs = code
    n, w = p.shape[0], np.empty(p.shape[0])
    for s in range(n):
        gradient[s] = barrier * (n * p[s] - 1)
        for t in range(s + 1):
            H[s, t] = -barrier * n * p[s] * p[t]
        H[s, s] += barrier * n * p[s]
    for q in range(positive.shape[0]):
        rho = positive[q] / (positive[q] + negative[q])
        rest = negative[q] / (positive[q] + negative[q])
        # The smaller of the two differences keeps its digits.
        excess = weights[q] * (rho - r[q, 0] if rho < 0.5 else r[q, 1] - rest)
        spread = weights[q] * rho * rest
        members, side = classes[first[q] : first[q + 1]], signs[first[q] : first[q + 1]]
        for e in range(members.shape[0]):  # w+ - w-
            w[e] = p[members[e]] * (1 / positive[q] if side[e] > 0 else -1 / negative[q])
        for e in range(members.shape[0]):
            s, sign = members[e], side[e]
            bend = 0.0 if convex and excess * sign < 0 else excess * sign
            gradient[s] += excess * w[e]
            H[s, s] += bend * sign * w[e]
            same, opposite = (spread - bend) * w[e], spread * w[e]
            row = H[s]
            for f in range(e + 1):
                row[members[f]] += (same if side[f] == sign else opposite) * w[f]


@simd_kernel()
def dot(a, b):
    """sum_k a_k b_k."""
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total


@simd_kernel()
def factorise(H, n):
    """Replace the lower triangle of the first n rows by its Cholesky factor. Returns whether H is positive definite."""
    for j in range(n):
        own = H[j, :j]
        pivot = H[j, j] - dot(own, own)
        if not pivot > SINGULAR * H[j, j]:
            return False
        H[j, j] = np.sqrt(pivot)
        for i in range(j + 1, n):
            H[i, j] = (H[i, j] - dot(H[i, :j], own)) / H[j, j]
    return True


@simd_kernel()
def back_substitute(H, n, x):
    """Solve with the Cholesky factor, in place."""
    for i in range(n):
        x[i] = (x[i] - dot(H[i, :i], x[:i])) / H[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            x[i] -= H[k, i] * x[k]
        x[i] /= H[i, i]


@kernel()
def newton_step(H, gradient, p, step):
    """Write the Newton step of u = log p that does not move the likeliest class. Returns whether there is one.

    The Hessian is singular along the constants. The likeliest class is moved to the end and left out: the step is
    determined up to a constant, and p by the step.
    """
    n = p.shape[0]
    last = np.argmax(p)
    for s in range(last):
        H[n - 1, s], H[last, s] = H[last, s], H[n - 1, s]
    for s in range(last + 1, n - 1):
        H[n - 1, s], H[s, last] = H[s, last], H[n - 1, s]
    H[n - 1, n - 1], H[last, last] = H[last, last], H[n - 1, n - 1]
    for s in range(n):
        step[s] = -gradient[s]
    step[last] = step[n - 1]
    if not factorise(H, n - 1):
        return False
    back_substitute(H, n - 1, step)
    step[n - 1] = step[last]
    step[last] = 0.0
    return True


@kernel()
def moved(p, step, share, new):
    """new_s proportional to p_s exp(share step_s). Returns the largest change of p."""
    highest = -np.inf
    for s in range(p.shape[0]):
        highest = max(highest, share * step[s])
    for s in range(p.shape[0]):
        new[s] = p[s] * np.exp(share * step[s] - highest)
    normalise(new)
    change = 0.0
    for s in range(p.shape[0]):
        change = max(change, abs(new[s] - p[s]))
    return change


@kernel()
def descend(code, r, weights, barrier, p, step, positive, negative, new):
    """Take the Newton step, halved up to four times until the loss does not rise.

    Returns the largest change of p if the whole step were taken, or infinity if no share of it descends; p, positive
    and negative are then unchanged.
    """
    farthest = 0.0
    for s in range(p.shape[0]):
        farthest = max(farthest, abs(step[s]))
    before = loss_of(r, weights, barrier, p, positive, negative)
    whole = moved(p, step, 1.0, new)
    share = min(1.0, FARTHEST / farthest) if farthest > 0 else 1.0
    for _ in range(5):
        moved(p, step, share, new)
        side_sums(code, new, positive, negative)
        after = loss_of(r, weights, barrier, new, positive, negative)
        if after <= before + ROUNDING * abs(before):
            p[:] = new
            return whole
        share /= 2
    side_sums(code, p, positive, negative)
    return np.inf


@kernel()
def newton(code, r, weights, barrier, convex, p, work):
    """One step. Returns the largest change of p if the whole step were taken, or infinity if there was none."""
    positive, negative, vectors, H = work
    gradient, step, new = vectors[0], vectors[1], vectors[2]
    gradient_and_hessian(code, r, weights, barrier, convex, p, positive, negative, gradient, H)
    if not newton_step(H, gradient, p, step):
        return np.inf
    return descend(code, r, weights, barrier, p, step, positive, negative, new)


@kernel()
def minimise(code, class_entries, r, weights, barrier, tol, limit, p, work):
    """Sweeps, then Newton's method once it descends. Returns the number of both, and the estimated error."""
    positive, negative = work[0], work[1]
    done, left, previous = 0, np.inf, 1.0
    while done < limit:
        for _ in range(min(SWEEPS, limit - done)):
            side_sums(code, p, positive, negative)
            change = sweep(class_entries, r, weights, barrier, p, positive, negative)
            normalise(p)
            done += 1
            rate = min(change / previous, 0.9999)
            left, previous = error_left(change, rate), change
        side_sums(code, p, positive, negative)
        while done < limit:
            whole = newton(code, r, weights, barrier, False, p, work)
            if whole == np.inf:
                whole = CAUTION * newton(code, r, weights, barrier, True, p, work)
            if whole == np.inf:
                break
            done += 1
            left = whole
            if left <= tol:
                return done, left
        if left <= SMALLER * tol:
            return done, left
    return done, left


@kernel()
def couple_bradley_terry_code(
    logits, weights, code, class_entries, barrier, start, stop, tol, limit, p, iterations, residual
):
    """Write p[i], iterations[i] and residual[i] of the samples in [start, stop), from equal shares.

    logits is (m, R); weights is (m, 1) or (m, R).
    """
    m, n = logits.shape[0], p.shape[1]
    r, x = np.empty((m, 2)), np.empty(n)
    work = (np.empty(m), np.empty(m), np.empty((3, n)), np.empty((n, n)))
    for i in range(start, stop):
        answers(logits, i, r)
        x[:] = 1 / n
        n_q = np.ascontiguousarray(weights[:, i if weights.shape[1] > 1 else 0])
        iterations[i], residual[i] = minimise(code, class_entries, r, n_q, barrier, tol, limit, x, work)
        p[i] = x


@kernel()
def zadrozny_sweep(code, class_entries, r, weights, p, positive, negative):
    """[HLW eq. 9] p_s <- p_s (sum_{s in I+} n_q r_q + sum_{s in I-} n_q r'_q) / (the same of q+ / q and q- / q).

    Updates each class in turn, and normalises after each. Returns the largest change of p by an update.
    """
    begin, machines, sides = class_entries
    largest = 0.0
    for s in range(p.shape[0]):
        said, fitted = 0.0, 0.0
        for e in range(begin[s], begin[s + 1]):
            q = machines[e]
            both = positive[q] + negative[q]
            if sides[e] > 0:
                said += weights[q] * r[q, 0]
                fitted += weights[q] * positive[q] / both
            else:
                said += weights[q] * r[q, 1]
                fitted += weights[q] * negative[q] / both
        before = p[s]
        p[s] *= said / fitted
        # Only p_s is multiplied: after normalisation it has changed by this much, and no other class by more.
        after = p[s] / (1 - before + p[s])
        largest = max(largest, abs(after - before))
        normalise(p)
        side_sums(code, p, positive, negative)
    return largest


@kernel()
def couple_zadrozny(logits, weights, code, class_entries, start, stop, tol, limit, p, iterations, residual):
    """Write p[i], iterations[i] and residual[i] of the samples in [start, stop)."""
    m, n = logits.shape[0], p.shape[1]
    r, x, positive, negative = np.empty((m, 2)), np.empty(n), np.empty(m), np.empty(m)
    for i in range(start, stop):
        answers(logits, i, r)
        n_q = np.ascontiguousarray(weights[:, i if weights.shape[1] > 1 else 0])
        x[:] = 1 / n
        side_sums(code, x, positive, negative)
        done, left, previous = 0, np.inf, 1.0
        while done < limit and not left <= tol:
            change = zadrozny_sweep(code, class_entries, r, n_q, x, positive, negative)
            done += 1
            left, previous = error_left(change, min(change / previous, 0.9999)), change
        iterations[i], residual[i] = done, left
        p[i] = x
