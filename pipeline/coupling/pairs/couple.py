"""Coupling: from the logits of all pairs of classes to the probabilities of the classes.

Each method has a solver here, which states the problem that it solves and when to choose it. A solver writes the
solution of the samples in [start, stop). L_ij is the log-odds of class i against j.

References
----------
.. [HT] T. Hastie and R. Tibshirani (1998). "Classification by pairwise coupling". Advances in Neural Information
   Processing Systems 10, 507-513.
.. [LW] T.-F. Wu, C.-J. Lin and R. C. Weng (2004). "Probability estimates for multi-class classification by
   pairwise coupling". Journal of Machine Learning Research 5, 975-1005. https://www.jmlr.org/papers/v5/wu04a.html
.. [SB] O. Šuch and S. Barreda (2016). "Bayes covariant multi-class classification". Pattern Recognition
   Letters 84, 99-106.
.. [SBT] O. Šuch, Š. Beňuš and A. Tinajová (2015). "A new method to combine probability estimates from pairwise
   binary classifiers". Proceedings of ITAT 2015, CEUR Workshop Proceedings 1422. https://ceur-ws.org/Vol-1422/
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from pairloom.pipeline.coupling.arguments import (
    Diagnostics,
    Solution,
    not_negative,
    real_logits,
    real_numbers,
    solver_named,
)
from pairloom.pipeline.coupling.pairs.bradley_terry_kernels import couple_bradley_terry
from pairloom.pipeline.coupling.pairs.stratified_kernels import SMALL, couple_by_elimination, couple_by_sweeps
from pairloom.pipeline.coupling.pairs.wlw2_kernels import CLIP, couple_wlw2
from pairloom.pipeline.coupling.vector_kernels import (
    BLOCK,
    count_wins,
    padded,
    product_by_sample,
    row_sums,
    weighted_row_sums,
)
from pairloom.pipeline.threads import in_threads, thread_count

Float = TypeVar("Float", bound=np.floating)


class PairProblem(NamedTuple):
    """A checked problem. Shapes: see `pairloom.pipeline`.

    Attributes
    ----------
    L : (N, N, R) array
        Logits of all pairs.
    potentials : (R, N) array
        The start of iterative methods: the solution of `normal`, unless another start is given.
    weights : (N, N) array, optional
        Weight per pair, with a zero diagonal.
    tol : float
        Largest estimated distance of the probabilities from the limit of the iteration.
    """

    L: NDArray[np.floating]
    potentials: NDArray[np.floating]
    weights: NDArray[np.float64] | None
    tol: float


def softmax(u: NDArray[Float]) -> NDArray[Float]:
    """exp(u) / sum exp(u) along the last axis."""
    odds = np.exp(u - u.max(axis=-1, keepdims=True))
    p: NDArray[Float] = odds / odds.sum(axis=-1, keepdims=True)
    return p


def normalise(p: NDArray[np.floating]) -> None:
    """Make the rows of p sum to one, in place. Every entry becomes positive, so that its logarithm is finite."""
    np.maximum(p, np.finfo(p.dtype).tiny, out=p)
    p /= p.sum(axis=1, keepdims=True)


def laplacian_inverse(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pseudo-inverse of the Laplacian diag(sum_j w_ij) - w: from a divergence to the potentials that cause it."""
    constants = np.full_like(weights, 1 / len(weights))
    # The projector onto the constants makes the Laplacian regular and does not affect vectors that sum to zero.
    return np.linalg.inv(np.diag(weights.sum(axis=1)) - weights + constants) - constants


def solve_normal(problem: PairProblem, start: int, stop: int, solution: Solution) -> None:
    r"""Write the `normal` (Bayes covariant [SB]) probabilities of the samples in [start, stop).

    Minimise over u, then normalise:

    .. math:: \sum_{i<j} n_{ij} (u_i - u_j - L_{ij})^2, \qquad p_i = e^{u_i} / \sum_j e^{u_j}

    where n_ij is the weight of a pair (1 unless given). With equal weights the minimum is u_i = (1/N) sum_j L_ij: one
    pass over memory, no iteration. Adding c_i - c_j to every L_ij multiplies p_i by exp(c_i), so new priors can be
    applied before or after coupling, with the same result.

    Choose it when speed matters, when priors change after training, or when a gradient through the coupling is needed.
    """
    L, weights = problem.L, problem.weights
    # Exponentials in the dtype of the logits: in float64 they took a third of the time.
    u = problem.potentials[start:stop]
    if weights is not None:
        sums = np.empty((len(L), stop))
        weighted_row_sums(L, weights, start, stop, sums)
        by_class = np.empty((len(L), stop - start))
        product_by_sample(laplacian_inverse(weights), sums[:, start:], by_class)
        u = by_class.T
    solution.write(start, stop, softmax(u))


def solve_stratified(problem: PairProblem, start: int, stop: int, solution: Solution) -> None:
    r"""Write the `stratified` probabilities [SBT] of the samples in [start, stop).

    If the true class is j, only the machines of j were trained on samples of the true class, and they estimate
    softmax_i(L_ij). So, by the law of total probability over j,

    .. math:: p = M p, \qquad M_{ij} = e^{L_{ij}} / \sum_k e^{L_{kj}}, \qquad \sum_i p_i = 1

    with L_jj = 0. M is positive and its columns sum to one, so p is unique and positive: the stationary vector of a
    Markov chain. It is computed by Gauss-Seidel sweeps. If they converge slowly (machines that contradict each other in
    cycles), it is computed by elimination, so the method always converges.

    Choose it by default: machines that were not trained on the true class do not vote on it, which matters more with
    more classes.
    """
    L, potentials, tol = problem.L, problem.potentials, np.float32(problem.tol)
    n, width = len(L), padded(len(L))
    solution.residual[start:stop] = np.inf
    if n > SMALL:
        # An elimination costs about as much as n sweeps.
        couple_by_sweeps(L, start, stop, potentials, width, tol, n, *solution)
    if not (solution.residual[start:stop] <= problem.tol).all():
        couple_by_elimination(L, start, stop, tol, *solution)


#: [LW]: LIBSVM stops after max(100, N) sweeps; from the normal coupling's guess, five or six are usual.
WLW2_LIMIT = 200


def solve_wlw2(problem: PairProblem, start: int, stop: int, solution: Solution) -> None:
    r"""Write the `wlw2` probabilities of the samples in [start, stop).

    Minimise over p, for the pairwise probabilities r_ij = 1 / (1 + exp(-L_ij)) held to [1e-7, 1 - 1e-7]:

    .. math:: \tfrac12 \sum_i \sum_{j \ne i} (r_{ji} p_i - r_{ij} p_j)^2, \qquad \sum_i p_i = 1

    a convex quadratic p'Qp with Q_ii = sum_s r_si^2 and Q_ij = -r_ji r_ij, whose minimum is positive. It is computed
    by the fixed point Q_tt p_t = -sum_{j != t} Q_tj p_j + p'Qp, sweeping over t [LW]. If that converges slowly (classes
    that only win against each other), the linear system is solved directly, so the method always converges.

    Choose it to agree with LIBSVM, or as a fast and robust default for noisy machines.
    """
    L, guess = problem.L, softmax(problem.potentials)
    couple_wlw2(L, start, stop, guess, padded(len(L)), problem.tol, WLW2_LIMIT, *solution)
    for r in start + np.flatnonzero(solution.residual[start:stop] > problem.tol):
        solution.p[r] = wlw2_directly(L[None, :, :, r].astype(np.float64))[0]
        solution.iterations[r], solution.residual[r] = 0, 0.0


def pair_probabilities(L: NDArray[np.float64]) -> NDArray[np.float64]:
    """r_ij of logits that are clipped as in all methods that work on probabilities [LW]."""
    return np.asarray(expit(np.clip(L, -CLIP, CLIP)), np.float64)


def wlw2_directly(L: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T, N) `wlw2` probabilities of matrices L (T, N, N), from Q p + b e = 0, e'p = 1.

    Q is scaled to a unit diagonal first: the entry of a class that wins all its pairs may be 1e-14.
    """
    n, r = L.shape[1], pair_probabilities(L)
    r[:, np.arange(n), np.arange(n)] = 0
    diagonal = (r**2).sum(axis=1)
    unit = 1 / np.sqrt(diagonal)
    system = np.zeros((len(L), n + 1, n + 1))
    system[:, :n, :n] = -(r * r.transpose(0, 2, 1)) * unit[:, :, None] * unit[:, None, :]
    system[:, np.arange(n), np.arange(n)] = 1
    system[:, :n, n] = system[:, n, :n] = unit / unit.max(axis=1, keepdims=True)
    right = np.zeros((len(L), n + 1, 1))
    right[:, n] = 1
    p = np.maximum(np.linalg.solve(system, right)[:, :n, 0] * unit, np.finfo(np.float64).tiny)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


#: Newton steps.
BRADLEY_TERRY_LIMIT = 100


def solve_bradley_terry(problem: PairProblem, start: int, stop: int, solution: Solution) -> None:
    r"""Write the `bradley_terry` probabilities of the samples in [start, stop).

    Minimise over p, for the pairwise probabilities r_ij = 1 / (1 + exp(-L_ij)) held to [1e-7, 1 - 1e-7]:

    .. math:: \sum_{i<j} n_{ij} \left[ r_{ij} \log\frac{r_{ij}}{\mu_{ij}} + r_{ji} \log\frac{r_{ji}}{\mu_{ji}} \right],
              \qquad \mu_{ij} = \frac{p_i}{p_i + p_j}, \qquad \sum_i p_i = 1

    where n_ij is the weight of a pair (1 unless given; [HT] take the number of its training samples). The loss is
    convex in log p and its score equations are sum_j n_ij mu_ij = sum_j n_ij r_ij [HT eq. 5].

    Choose it when pairs were trained on very different numbers of samples, or to agree with the literature on paired
    comparisons.
    """
    L, potentials, weights, tol = problem
    n = len(L)
    n_ij = np.ones((n, n)) if weights is None else weights.copy()
    np.fill_diagonal(n_ij, 0)
    couple_bradley_terry(L, start, stop, n_ij, potentials, padded(n), tol, BRADLEY_TERRY_LIMIT, *solution)


def solve_vote(problem: PairProblem, start: int, stop: int, solution: Solution) -> None:
    r"""Write the share of pairs that each class wins, for the samples in [start, stop).

    .. math:: p_i = \frac{2}{N (N - 1)} \#\{j : L_{ij} > 0\}

    where a pair at exactly zero counts half for each class. The largest share is the max-wins rule of [HT] and of
    LIBSVM's `predict`. Of equal shares, argmax takes the first class.

    Choose it as a baseline: it uses only the signs, and its shares are not probabilities of the classes.
    """
    n = len(problem.L)
    wins = np.empty((n, stop), np.float32)
    count_wins(problem.L, start, stop, wins)
    solution.write(start, stop, wins[:, start:].T * (2 / (n * (n - 1))))


Logits: TypeAlias = NDArray[np.floating]
Weights: TypeAlias = NDArray[np.float64]
Solver: TypeAlias = Callable[[PairProblem, int, int, Solution], None]

METHODS: dict[str, Solver] = {
    "normal": solve_normal,
    "wlw2": solve_wlw2,
    "stratified": solve_stratified,
    "bradley_terry": solve_bradley_terry,
    "vote": solve_vote,
}
#: The methods whose problem has a weight per pair.
WEIGHTED = ("normal", "bradley_terry")
#: Largest |L_ij + L_ji| / (1 + |L_ij|): the rounding of float32 logits that were computed separately.
ANTISYMMETRY = 1e-4


@overload
def couple(
    logits: ArrayLike,
    method: str = ...,
    weights: ArrayLike | None = ...,
    *,
    start: ArrayLike | None = ...,
    tol: float = ...,
    n_jobs: int | None = ...,
    return_diagnostics: Literal[False] = ...,
) -> NDArray[np.floating]: ...
@overload
def couple(
    logits: ArrayLike,
    method: str = ...,
    weights: ArrayLike | None = ...,
    *,
    start: ArrayLike | None = ...,
    tol: float = ...,
    n_jobs: int | None = ...,
    return_diagnostics: Literal[True],
) -> tuple[NDArray[np.floating], Diagnostics]: ...


def couple(
    logits: ArrayLike,
    method: str = "stratified",
    weights: ArrayLike | None = None,
    *,
    start: ArrayLike | None = None,
    tol: float = 1e-6,
    n_jobs: int | None = None,
    return_diagnostics: bool = False,
) -> NDArray[np.floating] | tuple[NDArray[np.floating], Diagnostics]:
    """Probabilities of the classes from the log-odds of all their pairs.

    Shapes: see `pairloom.pipeline`.

    Parameters
    ----------
    logits : array-like of shape (N, N, R)
        ``logits[i, j, r]`` is log(p_i / p_j) for sample r: antisymmetric, finite, every pair present
        (`complete_logits` fills missing ones). Dtypes other than float32 and float64 are converted to float64.
    method : {"stratified", "wlw2", "normal", "bradley_terry", "vote"}, default="stratified"
        The problem that is solved:

        - "stratified": p is the stationary vector of the Markov chain whose column j is softmax_i(L_ij) [SBT]_;
        - "wlw2": the second method of Wu, Lin and Weng [LW]_, used by LIBSVM;
        - "normal": least squares in the log-odds, without iteration: Bayes covariant [SB]_;
        - "bradley_terry": maximum likelihood of the Bradley-Terry model [HT]_, [HLW]_;
        - "vote": the share of pairs that a class wins, which is not a probability.

        The solvers in `pairloom.pipeline.coupling.pairs.couple` state the problem and when to choose it.
    weights : array-like of shape (N, N), default=None
        Positive symmetric weight per pair, for "normal" and "bradley_terry" only. The diagonal is not read. By
        default, all pairs have equal weights.
    start : array-like of shape (R, N), default=None
        Initial probabilities for the methods that iterate, such as those of a similar model. By default, the
        iteration starts from "normal".
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
        If the logits are not finite and antisymmetric or have the wrong shape, or if another parameter is not allowed.
    TypeError
        If the logits are not real numbers.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a sample did not reach `tol`.

    See Also
    --------
    complete_logits : fills the logits of the pairs that were not trained.

    References
    ----------
    .. [HT] T. Hastie and R. Tibshirani (1998). "Classification by pairwise coupling". Advances in Neural Information
       Processing Systems 10, 507-513.
    .. [HLW] T.-K. Huang, C.-J. Lin and R. C. Weng (2005). "A generalized Bradley-Terry model: from group competition
       to individual skill". Advances in Neural Information Processing Systems 17, 601-608.
    .. [LW] T.-F. Wu, C.-J. Lin and R. C. Weng (2004). "Probability estimates for multi-class classification by
       pairwise coupling". Journal of Machine Learning Research 5, 975-1005.
       https://www.jmlr.org/papers/v5/wu04a.html
    .. [SB] O. Šuch and S. Barreda (2016). "Bayes covariant multi-class classification". Pattern Recognition
       Letters 84, 99-106.
    .. [SBT] O. Šuch, Š. Beňuš and A. Tinajová (2015). "A new method to combine probability estimates from pairwise
       binary classifiers". Proceedings of ITAT 2015, CEUR Workshop Proceedings 1422. https://ceur-ws.org/Vol-1422/

    Examples
    --------
    >>> import numpy as np
    >>> u = np.log([[0.7], [0.2], [0.1]])
    >>> couple(u[:, None] - u[None, :], "normal").round(3)
    array([[0.7, 0.2, 0.1]])
    """
    solve = method_named(method)
    L = check_tensor(logits)
    tol = not_negative("couple", "tol", tol)
    n_threads = thread_count(n_jobs, "couple")
    pair_weights = check_weights(weights, method, len(L))
    n_classes, _, n_samples = L.shape
    solution = Solution.empty(n_samples, n_classes, L.dtype)
    p, potentials = solution.p, _checked_potentials(L, n_threads)
    if n_classes == 2 and method != "vote":
        p[:] = softmax(potentials)  # (r, 1 - r), whatever the method
    else:
        guess = potentials if start is None or method == "normal" else _log_odds(start, p)
        problem = PairProblem(L, guess, pair_weights, tol)

        def work(samples: tuple[int, int]) -> None:
            solve(problem, *samples, solution)

        # More stretches than threads, because some samples take longer than others.
        in_threads(work, _stretches(n_samples, 4 * n_threads), n_threads)
    if method != "vote":
        normalise(p)
    diagnostics = solution.diagnostics("couple", method, tol)
    return (p, diagnostics) if return_diagnostics else p


def method_named(method: str) -> Solver:
    """Solver of a coupling method."""
    return solver_named("couple", method, METHODS)


def check_tensor(logits: ArrayLike, owner: str = "couple") -> Logits:
    """Logits as a contiguous (N, N, R) float array. Its entries are checked by the first pass that reads them."""
    condition = "with N at least 2 classes"
    L = real_logits(owner, logits, ("N", "N", "R"), condition)
    if L.shape[0] != L.shape[1] or len(L) < 2:
        raise ValueError(f"{owner}: logits must be (N, N, R) {condition}, got shape {L.shape}.")
    return np.ascontiguousarray(L)


def pair_weights(counts: NDArray[np.floating]) -> Weights:
    """(N, N) weight per pair, its number of training samples n_i + n_j [HT 2], with mean one.

    Examples
    --------
    >>> pair_weights(np.array([10.0, 20.0, 30.0]))[0]
    array([0.5 , 0.75, 1.  ])
    """
    of_class = np.asarray(counts, np.float64) / (2 * np.mean(counts))
    return np.asarray(of_class[:, None] + of_class[None, :])


def check_weights(weights: ArrayLike | None, method: str, n_classes: int) -> Weights | None:
    """Weights as a float64 (N, N) array with a zero diagonal, or None."""
    if weights is None:
        return None
    if method not in WEIGHTED:
        raise ValueError(
            f"couple: weights must be None unless method is {' or '.join(WEIGHTED)},"
            f" got weights for method {method!r}."
        )
    w = real_numbers("couple", "weights", weights)
    if w.shape != (n_classes, n_classes):
        raise ValueError(f"couple: weights must have shape {(n_classes, n_classes)}, got {w.shape}.")
    np.fill_diagonal(w, 0)
    wrong = ~(np.isfinite(w) & (w > 0) & (w == w.T)) & ~np.eye(n_classes, dtype=bool)
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise ValueError(
            "couple: weights must be positive, finite and symmetric,"
            f" got weights[{i}, {j}] = {w[i, j]} and weights[{j}, {i}] = {w[j, i]}."
        )
    return w


def _stretches(n_samples: int, pieces: int) -> list[tuple[int, int]]:
    """Cut the samples into about `pieces` ranges of whole blocks."""
    length = -(-n_samples // (pieces * BLOCK)) * BLOCK or BLOCK
    return [(low, min(low + length, n_samples)) for low in range(0, n_samples, length)]


def _bands(n_classes: int) -> list[tuple[int, int]]:
    """Cut the classes into bands with equal numbers of pairs.

    The cut depends on the number of classes only, so that the sums do not depend on the number of threads.
    """
    pieces = 4 if n_classes >= 64 else 1
    # The pairs of the first k classes with later ones are k n - k^2 / 2.
    share = np.arange(pieces + 1) / pieces
    ends = np.round(n_classes * (1 - np.sqrt(1 - share))).astype(int).tolist()
    return list(pairwise(ends))


def _checked_potentials(L: Logits, n_threads: int) -> Logits:
    """Compute (1/N) sum_j L_ij, shape (R, N). Raises if L is not antisymmetric and finite."""
    bands = _bands(len(L))
    parts = np.zeros((len(bands), *L.shape[1:]), L.dtype)
    tol = L.dtype.type(ANTISYMMETRY)
    offences = in_threads(
        lambda band: row_sums(L, *bands[band], tol, parts[band]), range(len(bands)), n_threads
    )
    if sum(offences) > 0:
        raise ValueError(_first_offence(L))
    sums = parts.sum(axis=0)
    if not np.isfinite(sums).all():
        i, r = np.argwhere(~np.isfinite(sums))[0]
        raise ValueError(
            f"couple: logits must have row sums within the range of {L.dtype}, got {sums[i, r]} for L[{i}, :, {r}]."
        )
    return np.ascontiguousarray(sums.T) / L.dtype.type(len(L))


def _log_odds(start: ArrayLike, p: NDArray[np.floating]) -> Logits:
    """Potentials of the initial probabilities, which are raised to 1e-6 so that no class is excluded."""
    initial = real_numbers("couple", "start", start).astype(p.dtype)
    if initial.shape != p.shape:
        raise ValueError(
            f"couple: start must be {p.shape} probabilities, got an array of shape {initial.shape}."
        )
    if not ((initial >= 0) & np.isfinite(initial)).all():
        r, c = np.argwhere(~((initial >= 0) & np.isfinite(initial)))[0]
        raise ValueError(f"couple: start must be probabilities, got start[{r}, {c}] = {initial[r, c]}.")
    return np.log(np.maximum(initial, 1e-6))


def _first_offence(L: Logits) -> str:
    """Message that names the first entry, in the order (i, j, r), which is not finite or not antisymmetric."""
    for i in range(len(L)):
        for j in range(i, len(L)):
            finite = np.isfinite(L[i, j]) & np.isfinite(L[j, i])
            with np.errstate(invalid="ignore", over="ignore"):
                symmetric = np.abs(L[i, j] + L[j, i]) <= ANTISYMMETRY * (1 + np.abs(L[i, j]) * (i != j))
            if not (finite & symmetric).all():
                r = np.argmin(finite & symmetric)
                must = "antisymmetric (L[i, j] = -L[j, i], zero where i = j)" if finite[r] else "finite"
                return (
                    f"couple: logits must be {must}, got"
                    f" L[{i}, {j}, {r}] = {L[i, j, r]} and L[{j}, {i}, {r}] = {L[j, i, r]}."
                )
    raise AssertionError("the kernel counted an offence that cannot be found")


def compile_couplings(*methods: str) -> None:
    """Couple one sample by each method, so that its kernels are compiled."""
    L = np.zeros((3, 3, 1), np.float32)
    for method in methods:
        couple(L, method)
