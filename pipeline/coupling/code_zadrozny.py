"""Zadrozny's rule, to be compared with: it need not converge."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.coupling.code_kernels import couple_zadrozny
from pairloom.pipeline.coupling.stored_code import StoredCode

#: Sweeps over the classes.
LIMIT = 1000


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
    r"""Write the probabilities of the samples in [start, stop) by [HLW eq. 9]_, for each class s in turn:

    .. math:: p_s \leftarrow p_s
              \frac{\sum_{q: s \in I^+} n_q r_q + \sum_{q: s \in I^-} n_q (1 - r_q)}
                   {\sum_{q: s \in I^+} n_q q^+_q / q_q + \sum_{q: s \in I^-} n_q q^-_q / q_q}, \quad
              \text{normalised}

    Machines on pairs make it the rule of Hastie and Tibshirani, which converges to `bradley_terry`. In general, a limit
    would have to satisfy one equation per class, one more than p has degrees of freedom, and there may be none. For
    one class against the rest the equations are 2 (r_s - p_s) = sum r - 1. Their sum is 2 (sum r - 1) = N (sum r - 1):
    with three classes or more there is no solution unless sum r = 1. The updates then go round in a circle, and a
    ConvergenceWarning says so.

    Choose it to compare with the literature only.

    References
    ----------
    .. [HLW] T.-K. Huang, R. C. Weng and C.-J. Lin (2006). "Generalized Bradley-Terry models and multi-class
       probability estimates". Journal of Machine Learning Research 7, 85-115.
       https://www.jmlr.org/papers/v7/huang06a.html
    """
    couple_zadrozny(
        logits, weights, code.by_machine, code.by_class, start, stop, tol, LIMIT, p, iterations, residual
    )
