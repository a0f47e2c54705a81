"""The second method of Wu, Lin and Weng, which LIBSVM uses."""

from pairloom.pipeline.coupling.normal import softmax
from pairloom.pipeline.coupling.sweeps import padded
from pairloom.pipeline.coupling.wlw2_kernels import couple_wlw2

#: [LW]: LIBSVM gives up after max(100, N) sweeps; five or six are usual from the normal coupling's guess.
LIMIT = 200


def solve(L, start, stop, potentials, weights, tol, p, iterations, residual):
    r"""Write the `wlw2` probabilities of the samples in [start, stop).

    Minimise over p, for the pairwise probabilities r_ij = 1 / (1 + exp(-L_ij)) held to [1e-7, 1 - 1e-7]:

    .. math:: \tfrac12 \sum_i \sum_{j \ne i} (r_{ji} p_i - r_{ij} p_j)^2, \qquad \sum_i p_i = 1

    a convex quadratic p'Qp with Q_ii = sum_s r_si^2 and Q_ij = -r_ji r_ij, whose minimum is positive. It is found by
    the fixed point Q_tt p_t = -sum_{j != t} Q_tj p_j + p'Qp, sweeping over t [LW].

    Choose it to agree with LIBSVM, or as a fast and even-tempered default where the machines are noisy.
    """
    guess = softmax(potentials)
    couple_wlw2(L, start, stop, guess, padded(len(L)), tol, LIMIT, p, iterations, residual)
