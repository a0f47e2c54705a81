"""Stratified coupling: for each class, only the machines that were trained on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.coupling.stratified_kernels import couple_stratified
from pairloom.pipeline.coupling.sweeps import padded


def solve(
    L: NDArray[np.floating],
    start: int,
    stop: int,
    potentials: NDArray[np.floating],
    weights: NDArray[np.float64] | None,
    tol: float,
    p: NDArray[np.floating],
    iterations: NDArray[np.int64],
    residual: NDArray[np.float64],
) -> None:
    r"""Write the `stratified` probabilities of the samples in [start, stop).

    If the true class is j, only the machines of j were trained on samples of the true class, and they estimate
    softmax_i(L_ij). So, by the law of total probability over j,

    .. math:: p = M p, \qquad M_{ij} = e^{L_{ij}} / \sum_k e^{L_{kj}}, \qquad \sum_i p_i = 1

    where L_ij is the log-odds of class i against j, L_jj = 0. M is positive and its columns sum to one, so p is unique
    and positive: the stationary vector of a Markov chain. It is computed by Gauss-Seidel sweeps. Where these converge
    slowly (machines that contradict each other in cycles), it is computed by elimination, so it always converges.

    Choose it by default: machines that were not trained on the true class do not vote on it, which matters more with
    more classes.
    """
    n = len(L)
    # An elimination costs about as much as n sweeps.
    couple_stratified(L, start, stop, potentials, padded(n), np.float32(tol), n, p, iterations, residual)
