"""Coupling by a code: from the logits of machines on sets of classes to the probabilities of the classes.

Each method has a solver, which states its problem and when to choose it. All of them write the solution of the samples
in [start, stop).

References
----------
.. [HLW] T.-K. Huang, C.-J. Lin and R. C. Weng (2005). "A generalized Bradley-Terry model: from group competition to
   individual skill". Advances in Neural Information Processing Systems 17, 601-608.
.. [I] S. Ikeda (2010). "Combining binary machines for multi-class: statistical model and parameter estimation" (in
   Japanese). Proceedings of the Institute of Statistical Mathematics 58, 157-166.
   https://www.ism.ac.jp/editsec/toukei/abstract/58-2j.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.graphs import check_code, closed_classes
from pairloom.graphs.text import listed
from pairloom.pipeline.coupling.arguments import (
    Diagnostics,
    Solution,
    not_negative,
    real_logits,
    real_numbers,
    solver_named,
)
from pairloom.pipeline.coupling.codes.code_kernels import CLIP, couple_bradley_terry_code, couple_zadrozny
from pairloom.pipeline.coupling.pairs.couple import normalise, softmax
from pairloom.pipeline.coupling.vector_kernels import product_by_sample
from pairloom.pipeline.threads import in_threads, pieces, thread_count

Logits: TypeAlias = NDArray[np.floating]
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


CodeSolver: TypeAlias = Callable[[CodeProblem, int, int, Solution], None]

CODE_METHODS: dict[str, CodeSolver] = {
    "bradley_terry": solve_bradley_terry,
    "linear": solve_linear,
    "zadrozny": solve_zadrozny,
    "closed_form": solve_closed_form,
}
#: The methods whose problem has a weight per machine.
WEIGHTED = ("bradley_terry", "zadrozny")
#: The barrier of a code that is not connected, unless another is given.
BARRIER = 1e-6
#: Samples per piece of work. It does not depend on the number of threads, and no result depends on the pieces.
SLAB = 64


@overload
def couple_code(
    logits: ArrayLike,
    code: ArrayLike,
    method: str = ...,
    weights: ArrayLike | None = ...,
    barrier: float | None = ...,
    *,
    tol: float = ...,
    n_jobs: int | None = ...,
    return_diagnostics: Literal[False] = ...,
) -> NDArray[np.floating]: ...
@overload
def couple_code(
    logits: ArrayLike,
    code: ArrayLike,
    method: str = ...,
    weights: ArrayLike | None = ...,
    barrier: float | None = ...,
    *,
    tol: float = ...,
    n_jobs: int | None = ...,
    return_diagnostics: Literal[True],
) -> tuple[NDArray[np.floating], Diagnostics]: ...


def couple_code(
    logits: ArrayLike,
    code: ArrayLike,
    method: str = "bradley_terry",
    weights: ArrayLike | None = None,
    barrier: float | None = None,
    *,
    tol: float = 1e-6,
    n_jobs: int | None = None,
    return_diagnostics: bool = False,
) -> NDArray[np.floating] | tuple[NDArray[np.floating], Diagnostics]:
    """Probabilities of the classes from the log-odds of machines on sets of classes.

    Parameters
    ----------
    logits : array-like of shape (m, R)
        ``logits[q, r]`` is the log-odds of the positive side of machine q against its negative side, for sample r.
        Dtypes other than float32 and float64 are converted to float64.
    code : array-like of shape (N, m)
        The sides: +1, -1, or 0 for a class that the machine leaves out. See `pairloom.graphs.check_code`, and
        `one_vs_rest`, `one_vs_one`, `dense_code` and `sparse_code` there.
    method : {"bradley_terry", "linear", "zadrozny", "closed_form"}, default="bradley_terry"
        The problem that is solved:

        - "bradley_terry": maximum likelihood of the generalised Bradley-Terry model [HLW]_;
        - "linear": the softmax of linear decoding, in log odds (in [I]_, of probabilities), without iteration;
        - "zadrozny": a rule that need not converge [HLW eq. 9]_, for comparisons;
        - "closed_form": "bradley_terry" for one class against the rest, by one equation [HLW Theorem 3]_.

        The solvers in `pairloom.pipeline.coupling.codes.couple_code` state the problem and when to choose it.
    weights : array-like of shape (m,) or (m, R), default=None
        Positive weight per machine, such as its number of training samples, or per machine and sample. For
        "bradley_terry" and "zadrozny" only. By default, all machines have equal weights.
    barrier : float, default=None
        The strength mu of the barrier -mu sum log p_s, for "bradley_terry" only. It keeps all probabilities positive
        if the code does not. By default 0 if the code is connected (`pairloom.graphs.code_is_connected`), and 1e-6
        otherwise.
    tol : float, default=1e-6
        Largest estimated distance of the probabilities from the limit of the iteration.
    n_jobs : int, default=None
        Number of threads. None means 1, and -1 means one per core. The result does not depend on it.
    return_diagnostics : bool, default=False
        Whether to return the convergence of each sample too.

    Returns
    -------
    p : (R, N) array
        Probabilities, in the dtype of the logits. Every row sums to one.
    diagnostics : Diagnostics
        Iterations, residual and convergence per sample. Only if `return_diagnostics` is True.

    Raises
    ------
    ValueError
        If the logits are not finite, a shape is wrong, the code cannot be used, it is not connected and `barrier` is 0,
        or another parameter is not allowed.
    TypeError
        If the logits or the code are not real numbers.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a sample did not reach `tol`.

    See Also
    --------
    couple : for machines on all pairs.
    pairloom.pipeline.coupling.codes.standard_errors : of probabilities from given numbers of samples.

    References
    ----------
    .. [HLW] T.-K. Huang, C.-J. Lin and R. C. Weng (2005). "A generalized Bradley-Terry model: from group competition
       to individual skill". Advances in Neural Information Processing Systems 17, 601-608.
    .. [I] S. Ikeda (2010). "Combining binary machines for multi-class: statistical model and parameter estimation"
       (in Japanese). Proceedings of the Institute of Statistical Mathematics 58, 157-166.
       https://www.ism.ac.jp/editsec/toukei/abstract/58-2j.html

    Examples
    --------
    Three machines, each on one class against the rest, which agree:

    >>> import numpy as np
    >>> from pairloom.graphs import one_vs_rest
    >>> r = np.array([[0.7], [0.2], [0.1]])
    >>> couple_code(np.log(r / (1 - r)), one_vs_rest(3)).round(3)
    array([[0.7, 0.2, 0.1]])
    """
    solver_named("couple_code", method, CODE_METHODS)
    stored = StoredCode.of(check_code(code, owner="couple_code"))
    L = check_machine_logits(logits, stored.matrix.shape[1], "couple_code")
    tol = not_negative("couple_code", "tol", tol)
    n_q = check_machine_weights(weights, method, L.shape)
    mu = resolved_barrier(barrier, method, stored.matrix)
    p, diagnostics = solve_code(L, stored, method, n_q, mu, tol, n_jobs)
    return (p, diagnostics) if return_diagnostics else p


def solve_code(
    L: Logits,
    stored: StoredCode,
    method: str,
    n_q: NDArray[np.float64],
    mu: float,
    tol: float = 1e-6,
    n_jobs: int | None = None,
) -> tuple[Logits, Diagnostics]:
    """Couple checked logits (m, R) with checked weights (m, 1) or (m, R) and the barrier mu."""
    solve = solver_named("couple_code", method, CODE_METHODS)
    n_threads = thread_count(n_jobs, "couple_code")
    problem = CodeProblem(L, stored, n_q, mu, tol)
    solution = Solution.empty(L.shape[1], len(stored.matrix), L.dtype)
    if len(stored.matrix) == 2 and not mu:
        solution.p[:] = softmax(stored.matrix[:, 0] * L[0, :, None] / 2)  # (r, 1 - r), whatever the method
    else:
        _check_one_vs_rest(method, stored.matrix)

        def work(samples: slice) -> None:
            solve(problem, samples.start, samples.stop, solution)

        in_threads(work, pieces(L.shape[1], SLAB), n_threads)
    normalise(solution.p)
    return solution.p, solution.diagnostics("couple_code", method, tol)


def check_machine_logits(logits: ArrayLike, n_machines: int, owner: str) -> Logits:
    """Logits as a contiguous, finite (m, R) float array."""
    condition = f"with m = {n_machines}, the columns of code"
    L = real_logits(owner, logits, ("m", "R"), condition)
    if len(L) != n_machines:
        raise ValueError(f"{owner}: logits must be (m, R) {condition}, got shape {L.shape}.")
    if not np.isfinite(L).all():
        q, r = np.argwhere(~np.isfinite(L))[0]
        raise ValueError(f"{owner}: logits must be finite, got logits[{q}, {r}] = {L[q, r]}.")
    return np.ascontiguousarray(L)


def check_machine_weights(
    weights: ArrayLike | None, method: str, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Weights as a float64 (m, 1) or (m, R) array; ones by default."""
    if weights is None:
        return np.ones((shape[0], 1))
    if method not in WEIGHTED:
        raise ValueError(
            f"couple_code: weights must be None unless method is {' or '.join(WEIGHTED)},"
            f" got weights for method {method!r}."
        )
    return positive_per_machine("couple_code", "weights", weights, shape)


def positive_per_machine(
    owner: str, name: str, values: ArrayLike, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Positive numbers per machine, (m,), or per machine and sample, (m, R), as (m, 1) or (m, R)."""
    n_q = real_numbers(owner, name, values)
    if n_q.shape not in (shape[:1], shape):
        raise ValueError(f"{owner}: {name} must have shape {shape[:1]} or {shape}, got {n_q.shape}.")
    if (wrong := ~(np.isfinite(n_q) & (n_q > 0))).any():
        where = np.argwhere(wrong)[0]
        raise ValueError(
            f"{owner}: {name} must be positive and finite,"
            f" got {name}[{', '.join(map(str, where))}] = {n_q[tuple(where)]}."
            f" Leave a machine that saw no samples out of the code."
        )
    return np.ascontiguousarray(n_q.reshape(shape[0], -1))


def resolved_barrier(barrier: float | None, method: str, matrix: NDArray[np.int8]) -> float:
    """The strength of the barrier, which a code that is not connected needs [HLW Assumption 1]."""
    if method != "bradley_terry":
        if barrier is not None:
            raise ValueError(
                f"couple_code: barrier must be None unless method is bradley_terry, got {barrier!r}"
                f" for method {method!r}."
            )
        return 0.0
    mu = None if barrier is None else not_negative("couple_code", "barrier", barrier)
    if mu:
        return mu
    closed = closed_classes(matrix)
    if closed and mu == 0:
        raise ValueError(
            "couple_code: barrier must be positive for a code that is not connected, got 0. No machine has exactly one"
            f" of its sides among the classes {listed(closed)}, so their probabilities may vanish. Leave barrier at"
            f" None for {BARRIER}, or add such a machine."
        )
    return BARRIER if closed else 0.0


def _check_one_vs_rest(method: str, matrix: NDArray[np.int8]) -> None:
    if method == "closed_form" and not is_one_vs_rest(matrix):
        raise ValueError(
            "couple_code: code must be one class against the rest, for each class, if method is closed_form; got"
            f" another code, of shape {matrix.shape}. Use method='bradley_terry'."
        )
