"""One class against the rest: the generalised Bradley-Terry model by the root of one equation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.coupling.code_kernels import CLIP
from pairloom.pipeline.coupling.stored_code import StoredCode

#: Bisections alone would need about 60; with Newton's steps 25 are enough.
LIMIT = 100


def solve(
    logits: NDArray[np.floating],
    code: StoredCode,
    weights: NDArray[np.float64],
    barrier: float,
    tol: float,
    start: int,
    stop: int,
    p: NDArray[np.floating],
    iterations: NDArray[np.int64],
    residual: NDArray[np.float64],
) -> None:
    r"""Write the `closed_form` probabilities of the samples in [start, stop), for a code of one class against the rest.

    It is the minimum of `bradley_terry` with equal weights and no barrier [HLW Theorem 3]_:

    .. math:: p_s = \frac{(1 + d) - \sqrt{(1 + d)^2 - 4 r_s d}}{2 d}

    where d is the root of sum p_s = 1. With machines that agree (sum r = 1), d = 0 and p = r. A class is more probable
    than another if its machine says so.

    Choose it for one class against the rest: it is the same and faster.

    References
    ----------
    .. [HLW] T.-K. Huang, R. C. Weng and C.-J. Lin (2006). "Generalized Bradley-Terry models and multi-class
       probability estimates". Journal of Machine Learning Research 7, 85-115.
       https://www.jmlr.org/papers/v7/huang06a.html
    """
    machine, sign = machine_of_class(code.matrix)
    L = sign * logits[machine, start:stop].T.astype(np.float64)
    x, done = probabilities_against_rest(1 / (1 + np.exp(-np.clip(L, -CLIP, CLIP))))
    p[start:stop] = x
    iterations[start:stop], residual[start:stop] = done, np.abs(x.sum(axis=1) - 1)


def is_one_vs_rest(matrix: NDArray[np.int8]) -> bool:
    """Whether every class has one machine against all others, in any order and with either sign."""
    n, m = matrix.shape
    alone = _alone(matrix)
    return (m == n or (n == 2 and m == 1)) and bool(matrix.all()) and bool((alone.sum(axis=0) > 0).all())


def machine_of_class(matrix: NDArray[np.int8]) -> tuple[NDArray[np.intp], NDArray[np.int8]]:
    """(N,) the machine that has each class alone on a side, and the sign of that side."""
    machine = _alone(matrix).argmax(axis=1)
    return machine, matrix[np.arange(len(matrix)), machine]


def _alone(matrix: NDArray[np.int8]) -> NDArray[np.bool_]:
    """(N, m) whether a class is alone on its side of a machine."""
    positive, negative = matrix == 1, matrix == -1
    alone: NDArray[np.bool_] = (positive & (positive.sum(axis=0) == 1)) | (
        negative & (negative.sum(axis=0) == 1)
    )
    return alone


def probabilities_against_rest(r: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """p (R, N) with sum p = 1 from r (R, N), and the number of Newton steps or bisections (R,).

    sum p falls from N to 0 as d grows, and the root lies in [-N / (N - 1), N]: if d > 0, the largest p is at least 1/N
    and d = (r - p) / (p (1 - p)) <= 1 / p; if d < 0, the smallest is at most 1/N and -d <= 1 / (1 - p).
    """
    n = r.shape[1]
    low, high = np.full(len(r), -n / (n - 1)), np.full(len(r), float(n))
    d, done = np.zeros(len(r)), np.zeros(len(r), np.int64)
    moved = high - low
    active = np.arange(len(r))
    p = r.copy()
    for _ in range(LIMIT):
        p[active], slope = _p_and_slope(r[active], d[active, None])
        excess = p[active].sum(axis=1) - 1
        low[active] = np.where(excess >= 0, d[active], low[active])
        high[active] = np.where(excess <= 0, d[active], high[active])
        step = d[active] + excess / slope.sum(axis=1)
        # Where p is near 0 or 1, sum p has bends so sharp that Newton's steps creep: then bisect.
        good = (step > low[active]) & (step < high[active]) & (np.abs(step - d[active]) < moved[active] / 2)
        new = np.where(good, step, (low[active] + high[active]) / 2)
        moved[active] = np.abs(new - d[active])
        done[active] += 1
        moving = (np.abs(excess) > 4e-16 * n) & (new != d[active])
        d[active[moving]] = new[moving]
        active = active[moving]
        if not len(active):
            break
    return p, done


def _p_and_slope(
    r: NDArray[np.float64], d: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """p(d), the root of d p^2 - (1 + d) p + r = 0 in [0, 1], and -dp/dd = p (1 - p) / root.

    Each form is without cancellation where it is used; at d = 0 the first is p = r.
    """
    root = np.sqrt(np.where(d < 0, (1 + d) ** 2 - 4 * r * d, (1 - d) ** 2 + 4 * (1 - r) * d))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(d > -1, 2 * r / (1 + d + root), (1 + d - root) / (2 * d))
    return p, p * (1 - p) / root
