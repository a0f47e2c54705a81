"""Voting: the class that wins most of its pairs."""

import numpy as np

from pairloom.pipeline.coupling.tensor_kernels import count_wins


def solve(L, start, stop, potentials, weights, tol, p, iterations, residual):
    r"""Write the share of pairs that each class wins, for the samples in [start, stop).

    .. math:: p_i = \frac{2}{N (N - 1)} \#\{j : L_{ij} > 0\}

    where L_ij is the log-odds of class i against j; a pair at exactly zero counts half for each. The largest share is
    the max-wins rule of [HT] and LIBSVM's `predict`; among equal shares argmax takes the first class.

    Choose it to compare with: it uses only the signs, and its shares are not probabilities of the classes.
    """
    n = len(L)
    wins = np.empty((n, stop), np.float32)
    count_wins(L, start, stop, wins)
    p[start:stop] = wins[:, start:].T * (2 / (n * (n - 1)))
    iterations[start:stop], residual[start:stop] = 1, 0.0
