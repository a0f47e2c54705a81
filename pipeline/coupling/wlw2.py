"""The second method of Wu, Lin and Weng, which LIBSVM uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.coupling.normal import softmax
from pairloom.pipeline.coupling.sweeps import padded
from pairloom.pipeline.coupling.wlw2_kernels import couple_wlw2

#: [LW]: LIBSVM stops after max(100, N) sweeps; from the normal coupling's guess, five or six are usual.
LIMIT = 200


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
    r"""Write the `wlw2` probabilities of the samples in [start, stop).

    Minimise over p, for the pairwise probabilities r_ij = 1 / (1 + exp(-L_ij)) held to [1e-7, 1 - 1e-7]:

    .. math:: \tfrac12 \sum_i \sum_{j \ne i} (r_{ji} p_i - r_{ij} p_j)^2, \qquad \sum_i p_i = 1

    a convex quadratic p'Qp with Q_ii = sum_s r_si^2 and Q_ij = -r_ji r_ij, whose minimum is positive. It is computed
    by the fixed point Q_tt p_t = -sum_{j != t} Q_tj p_j + p'Qp, sweeping over t [LW].

    Choose it to agree with LIBSVM, or as a fast and even-tempered default where the machines are noisy.

    References
    ----------
    .. [LW] T.-F. Wu, C.-J. Lin and R. C. Weng (2004). "Probability estimates for multi-class classification by
       pairwise coupling". Journal of Machine Learning Research 5, 975-1005.
       https://www.jmlr.org/papers/v5/wu04a.html
    """
    guess = softmax(potentials)
    couple_wlw2(L, start, stop, guess, padded(len(L)), tol, LIMIT, p, iterations, residual)
