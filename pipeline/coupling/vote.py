"""Voting: the class that wins most of its pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.coupling.tensor_kernels import count_wins


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
    r"""Write the share of pairs that each class wins, for the samples in [start, stop).

    .. math:: p_i = \frac{2}{N (N - 1)} \#\{j : L_{ij} > 0\}

    where L_ij is the log-odds of class i against j; a pair at exactly zero counts half for each class. The largest
    share is the max-wins rule of [HT] and of LIBSVM's `predict`. Of equal shares, argmax takes the first class.

    Choose it as a baseline: it uses only the signs, and its shares are not probabilities of the classes.

    References
    ----------
    .. [HT] T. Hastie and R. Tibshirani (1998). "Classification by pairwise coupling". The Annals of Statistics 26,
       451-471. doi:10.1214/aos/1028144844
    """
    n = len(L)
    wins = np.empty((n, stop), np.float32)
    count_wins(L, start, stop, wins)
    p[start:stop] = wins[:, start:].T * (2 / (n * (n - 1)))
    iterations[start:stop], residual[start:stop] = 1, 0.0
