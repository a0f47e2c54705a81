"""Bradley-Terry coupling: the pairwise coupling of Hastie and Tibshirani."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.coupling.bradley_terry_kernels import couple_bradley_terry
from pairloom.pipeline.coupling.sweeps import padded

LIMIT = 100


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
    r"""Write the `bradley_terry` probabilities of the samples in [start, stop).

    Minimise over p, for the pairwise probabilities r_ij = 1 / (1 + exp(-L_ij)) held to [1e-7, 1 - 1e-7]:

    .. math:: \sum_{i<j} n_{ij} \left[ r_{ij} \log\frac{r_{ij}}{\mu_{ij}} + r_{ji} \log\frac{r_{ji}}{\mu_{ji}} \right],
              \qquad \mu_{ij} = \frac{p_i}{p_i + p_j}, \qquad \sum_i p_i = 1

    where n_ij is the weight of a pair (1 unless given; [HT] take the number of its training samples). The loss is
    convex in log p and its score equations are sum_j n_ij mu_ij = sum_j n_ij r_ij [HT eq. 5].

    Choose it when pairs were trained on very different numbers of samples, or to agree with the literature on paired
    comparisons.

    References
    ----------
    .. [HT] T. Hastie and R. Tibshirani (1998). "Classification by pairwise coupling". The Annals of Statistics 26,
       451-471. doi:10.1214/aos/1028144844
    """
    n = len(L)
    n_ij = np.ones((n, n)) if weights is None else weights.copy()
    np.fill_diagonal(n_ij, 0)
    width = padded(n)
    couple_bradley_terry(L, start, stop, n_ij, potentials, width, tol, LIMIT, p, iterations, residual)
