"""The generalised Bradley-Terry model of Huang, Weng and Lin: teams of classes against each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.coupling.code_kernels import couple_bradley_terry_code
from pairloom.pipeline.coupling.stored_code import StoredCode

#: Sweeps and Newton steps together. A few sweeps and about five steps are usual.
LIMIT = 2000


def solve(
    logits: NDArray[np.floating],
    code: StoredCode,
    weights: NDArray[np.float64],
    barrier: float,
    tol: float,
    start: int,
    stop: int,
    p: NDArray[np.floating],
    iterations: NDArray[np.int64],
    residual: NDArray[np.float64],
) -> None:
    r"""Write the `bradley_terry` probabilities of the samples in [start, stop).

    Minimise over p, for the machines' probabilities r_q = 1 / (1 + exp(-L_q)) held to [1e-7, 1 - 1e-7]:

    .. math:: -\sum_q n_q \left[ r_q \log\frac{q^+_q}{q_q} + (1 - r_q) \log\frac{q^-_q}{q_q} \right]
              - \mu \sum_s \log p_s, \qquad \sum_s p_s = 1

    where q+ and q- are the sums of p over the two sides of machine q and q their sum, n_q is the weight of the machine
    (1 unless given; [HLW eq. 8]_ take its number of training samples), and mu the barrier [HLW eq. 7]_.

    Each p_s in turn is updated by [HLW eq. 5]_ which never raises the loss; from equal shares, so that the result is
    the same wherever the loss has several minima. These sweeps converge linearly. Newton's method in log p takes over
    where its steps descend too.

    The loss is convex in log p if all machines are on pairs, and in p if all are on all classes. For other codes it may
    have several local minima.

    References
    ----------
    .. [HLW] T.-K. Huang, R. C. Weng and C.-J. Lin (2006). "Generalized Bradley-Terry models and multi-class
       probability estimates". Journal of Machine Learning Research 7, 85-115.
       https://www.jmlr.org/papers/v7/huang06a.html
    """
    couple_bradley_terry_code(
        logits,
        weights,
        code.by_machine,
        code.by_class,
        barrier,
        start,
        stop,
        tol,
        LIMIT,
        p,
        iterations,
        residual,
    )
