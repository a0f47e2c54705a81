"""Stratified coupling: for each class, only the machines that were trained on it."""

import numpy as np

from pairloom.pipeline.coupling.stratified_kernels import couple_stratified
from pairloom.pipeline.coupling.sweeps import padded


def solve(L, start, stop, potentials, weights, tol, p, iterations, residual):
    r"""Write the `stratified` probabilities of the samples in [start, stop).

    If the true class were j, only the machines of j would have seen its like: they say softmax_i(L_ij). So, by the law
    of total probability over j,

    .. math:: p = M p, \qquad M_{ij} = e^{L_{ij}} / \sum_k e^{L_{kj}}, \qquad \sum_i p_i = 1

    where L_ij is the log-odds of class i against j, L_jj = 0. M is positive and its columns sum to one, so p is unique
    and positive: the stationary vector of a Markov chain. It is found by Gauss-Seidel sweeps, or where those are slow
    (machines that contradict each other in cycles) by elimination, so it always converges.

    Choose it by default: machines that never saw the true class do not vote on it, which matters more the more classes
    there are.
    """
    n = len(L)
    # An elimination costs about as much as n sweeps.
    couple_stratified(L, start, stop, potentials, padded(n), np.float32(tol), n, p, iterations, residual)
