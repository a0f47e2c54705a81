"""Platt scaling: from a machine's decision value f to P(y = +1 | f) = 1 / (1 + exp(A f + B))."""

from typing import NamedTuple

import numpy as np

from pairloom.pipeline.calibration.platt_kernels import MAX_ITERATIONS, TOLERANCE, fit


class Platt(NamedTuple):
    """The pairwise logit of decision value f is -(A f + B)."""

    A: float
    B: float
    iterations: int
    converged: bool


def fit_platt(decision_values, y, sample_weight=None, tol=TOLERANCE, max_iterations=MAX_ITERATIONS):
    """Maximum likelihood of (A, B) against Platt's targets, which a prior keeps away from 0 and 1.

    Parameters
    ----------
    decision_values : (n,) of samples that the machine was not fitted on.
    y : (n,) of -1 and +1.
    sample_weight : (n,), optional. n+ and n- below are then sums of weights.
    tol : largest component of the gradient, per unit of weight and of the decision values' scale.

    Notes
    -----
    t+ = (n+ + 1) / (n+ + 2), t- = 1 / (n- + 2), and the start is A = 0, B = log((n- + 1) / (n+ + 1)) [LW 8].
    """
    f = np.ascontiguousarray(decision_values, np.float64)
    weight = np.ones(len(f)) if sample_weight is None else np.ascontiguousarray(sample_weight, np.float64)
    return Platt(*fit(f, np.ascontiguousarray(y, np.float64), weight, tol, max_iterations))
