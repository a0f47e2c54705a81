"""The solvers of `couple_code`, one per method. Each states the problem that it solves and when to choose it.

All of them write the solution of the samples in [start, stop).

References
----------
.. [HLW] T.-K. Huang, C.-J. Lin and R. C. Weng (2005). "A generalized Bradley-Terry model: from group competition to
   individual skill". Advances in Neural Information Processing Systems 17, 601-608.
.. [I] S. Ikeda (2010). "Combining binary machines for multi-class: statistical model and parameter estimation" (in
   Japanese). Proceedings of the Institute of Statistical Mathematics 58, 157-166.
   https://www.ism.ac.jp/editsec/toukei/abstract/58-2j.html
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.coupling.arguments import Solution
from pairloom.pipeline.coupling.codes.code_kernels import CLIP, couple_bradley_terry_code, couple_zadrozny
from pairloom.pipeline.coupling.pairs.couple import softmax
from pairloom.pipeline.coupling.vector_kernels import product_by_sample

#: Lists of entries: the bounds of each list, the entries of all lists, and the sign of each entry.
Lists: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


class StoredCode(NamedTuple):
    """A checked code matrix and its entries, by machine and by class."""

    matrix: NDArray[np.int8]
    by_machine: Lists
    by_class: Lists

    @classmethod
    def of(cls, matrix: NDArray[np.int8]) -> StoredCode:
        """The stored form of a matrix that `check_code` returned."""
        return cls(matrix, _lists(matrix.T), _lists(matrix))


def _lists(signs: NDArray[np.int8]) -> Lists:
    """The entries of each row that are not zero, in ascending order."""
    row, column = np.nonzero(signs)
    bounds = np.searchsorted(row, np.arange(len(signs) + 1))
    return bounds.astype(np.int64), column.astype(np.int64), signs[row, column].astype(np.float64)


class CodeProblem(NamedTuple):
    """A checked problem: logits (m, R), the code, weights (m, 1) or (m, R), the barrier and the tolerance."""

    logits: NDArray[np.floating]
    code: StoredCode
    weights: NDArray[np.float64]
    barrier: float
    tol: float


#: Sweeps and Newton steps together. A few sweeps and about five steps are usual.
BRADLEY_TERRY_LIMIT = 2000


def solve_bradley_terry(problem: CodeProblem, start: int, stop: int, solution: Solution) -> None:
    r"""Write the `bradley_terry` probabilities of the samples in [start, stop).

    Minimise over p, for the machines' probabilities r_q = 1 / (1 + exp(-L_q)) held to [1e-7, 1 - 1e-7]:

    .. math:: -\sum_q n_q \left[ r_q \log\frac{q^+_q}{q_q} + (1 - r_q) \log\frac{q^-_q}{q_q} \right]
              - \mu \sum_s \log p_s, \qquad \sum_s p_s = 1

    where q+ and q- are the sums of p over the two sides of machine q and q their sum, n_q is the weight of the machine
    (1 unless given; [HLW eq. 8] take its number of training samples), and mu the barrier [HLW eq. 7].

    Each p_s in turn is updated by [HLW eq. 5], which never raises the loss, starting from equal shares, so the result
    is well defined even if the loss has several minima. These sweeps converge linearly. Newton's method in log p takes
    over once its steps descend too.

    The loss is convex in log p if all machines are on pairs, and in p if all are on all classes. For other codes it may
    have several local minima.
    """
    logits, code, weights, barrier, tol = problem
    couple_bradley_terry_code(
        logits,
        weights,
        code.by_machine,
        code.by_class,
        barrier,
        start,
        stop,
        tol,
        BRADLEY_TERRY_LIMIT,
        *solution,
    )


#: Sweeps over the classes.
ZADROZNY_LIMIT = 1000


def solve_zadrozny(problem: CodeProblem, start: int, stop: int, solution: Solution) -> None:
    r"""Write the probabilities of the samples in [start, stop) by [HLW eq. 9], for each class s in turn:

    .. math:: p_s \leftarrow p_s
              \frac{\sum_{q: s \in I^+} n_q r_q + \sum_{q: s \in I^-} n_q (1 - r_q)}
                   {\sum_{q: s \in I^+} n_q q^+_q / q_q + \sum_{q: s \in I^-} n_q q^-_q / q_q}, \quad
              \text{normalised}

    For machines on pairs it is the rule of Hastie and Tibshirani, which converges to `bradley_terry`. In general, a
    limit would have to satisfy one equation per class, one more than p has degrees of freedom, and there may be none.
    For one class against the rest the equations are 2 (r_s - p_s) = sum r - 1. Their sum is
    2 (sum r - 1) = N (sum r - 1): with three classes or more there is no solution unless sum r = 1. The updates then
    cycle, and a ConvergenceWarning says so.

    Choose it to compare with the literature only.
    """
    logits, code, weights, _, tol = problem
    couple_zadrozny(
        logits, weights, code.by_machine, code.by_class, start, stop, tol, ZADROZNY_LIMIT, *solution
    )


def solve_linear(problem: CodeProblem, start: int, stop: int, solution: Solution) -> None:
    r"""Write the `linear` probabilities of the samples in [start, stop):

    .. math:: u_k = \tfrac12 \sum_q M_{kq} L_q, \qquad p_k = e^{u_k} / \sum_j e^{u_j}

    The factor 1/2 makes p_k proportional to the product, over the machines, of the probability of the side of class k
    (the geometric mean of both sides if the machine leaves k out), as if the machines erred independently. They do not,
    so the probabilities are overconfident, and more so with more machines.

    [I 2.2, 2.3] sums probabilities instead of log odds.

    Choose it for speed, when the order of the classes is enough, or with logits scaled on held-out samples. For one
    machine per pair, ``2 / N`` times the logits makes it `normal`.
    """
    matrix = problem.code.matrix
    u = np.empty((len(matrix), stop - start))
    product_by_sample(matrix / 2, problem.logits[:, start:stop], u)
    solution.write(start, stop, softmax(u.T))


#: Bisections alone would need about 60; with Newton's steps 25 are enough.
CLOSED_FORM_LIMIT = 100


def solve_closed_form(problem: CodeProblem, start: int, stop: int, solution: Solution) -> None:
    r"""Write the `closed_form` probabilities of the samples in [start, stop), for a code of one class against the rest.

    It is the minimum of `bradley_terry` with equal weights and no barrier [HLW Theorem 3]:

    .. math:: p_s = \frac{(1 + d) - \sqrt{(1 + d)^2 - 4 r_s d}}{2 d}

    where d is the root of sum p_s = 1. If the machines agree (sum r = 1), d = 0 and p = r. The order of p is the order
    of r.

    Choose it for one class against the rest: it gives the same result, faster.
    """
    machine, sign = machine_of_class(problem.code.matrix)
    L = sign * problem.logits[machine, start:stop].T.astype(np.float64)
    x, done = probabilities_against_rest(1 / (1 + np.exp(-np.clip(L, -CLIP, CLIP))))
    solution.p[start:stop], solution.iterations[start:stop] = x, done
    solution.residual[start:stop] = np.abs(x.sum(axis=1) - 1)


def is_one_vs_rest(matrix: NDArray[np.int8]) -> bool:
    """Whether every class has one machine against all others, in any order and with either sign."""
    n, m = matrix.shape
    alone = _alone(matrix)
    return (m == n or (n == 2 and m == 1)) and bool(matrix.all()) and bool((alone.sum(axis=0) > 0).all())


def machine_of_class(matrix: NDArray[np.int8]) -> tuple[NDArray[np.intp], NDArray[np.int8]]:
    """(N,) the machine in which each class is alone on its side, and the sign of that side."""
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
    for _ in range(CLOSED_FORM_LIMIT):
        p[active], slope = _p_and_slope(r[active], d[active, None])
        excess = p[active].sum(axis=1) - 1
        low[active] = np.where(excess >= 0, d[active], low[active])
        high[active] = np.where(excess <= 0, d[active], high[active])
        step = d[active] + excess / slope.sum(axis=1)
        # If some p is near 0 or 1, sum p has sharp bends and Newton's steps become tiny: then bisect.
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

    Both forms are used where nothing cancels; at d = 0 the first is p = r.
    """
    root = np.sqrt(np.where(d < 0, (1 + d) ** 2 - 4 * r * d, (1 - d) ** 2 + 4 * (1 - r) * d))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(d > -1, 2 * r / (1 + d + root), (1 + d - root) / (2 * d))
    return p, p * (1 - p) / root
