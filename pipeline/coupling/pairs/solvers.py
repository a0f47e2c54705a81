"""The solvers of `couple`, one per method. Each states the problem that it solves and when to choose it.

All of them write the solution of the samples in [start, stop). L_ij is the log-odds of class i against j.

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

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from pairloom.pipeline.coupling.arguments import Solution
from pairloom.pipeline.coupling.pairs.bradley_terry_kernels import couple_bradley_terry
from pairloom.pipeline.coupling.pairs.stratified_kernels import SMALL, couple_by_elimination, couple_by_sweeps
from pairloom.pipeline.coupling.pairs.tensor_kernels import count_wins, product_by_sample, weighted_row_sums
from pairloom.pipeline.coupling.pairs.wlw2_kernels import CLIP, couple_wlw2
from pairloom.pipeline.coupling.vector_kernels import padded

Float = TypeVar("Float", bound=np.floating)


class PairProblem(NamedTuple):
    """What is coupled, checked: shapes as in `pairloom.pipeline`.

    Attributes
    ----------
    L : (N, N, R) array
        Logits of all pairs.
    potentials : (R, N) array
        Where the methods that iterate start: the solution of `normal`, unless another start is given.
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
    Markov chain. It is computed by Gauss-Seidel sweeps. Where these converge slowly (machines that contradict each
    other in cycles), it is computed by elimination, so it always converges.

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
    by the fixed point Q_tt p_t = -sum_{j != t} Q_tj p_j + p'Qp, sweeping over t [LW]. Where that converges slowly
    (classes that only win against each other), the linear system is solved directly, so it always converges.

    Choose it to agree with LIBSVM, or as a fast and even-tempered default where the machines are noisy.
    """
    L, guess = problem.L, softmax(problem.potentials)
    couple_wlw2(L, start, stop, guess, padded(len(L)), problem.tol, WLW2_LIMIT, *solution)
    for r in start + np.flatnonzero(solution.residual[start:stop] > problem.tol):
        solution.p[r] = wlw2_directly(L[None, :, :, r].astype(np.float64))[0]
        solution.iterations[r], solution.residual[r] = 0, 0.0


def pair_probabilities(L: NDArray[np.float64]) -> NDArray[np.float64]:
    """r_ij of logits held to the range of the methods that work on probabilities [LW]."""
    return np.asarray(expit(np.clip(L, -CLIP, CLIP)), np.float64)


def wlw2_directly(L: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T, N) `wlw2` probabilities of matrices L (T, N, N), from Q p + b e = 0, e'p = 1.

    Q is given a unit diagonal first: that of a class that wins all its pairs may be 1e-14.
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
