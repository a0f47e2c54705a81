"""Platt scaling: from a machine's decision value f to P(y = +1 | f) = 1 / (1 + exp(A f + B))."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.pipeline.machines.folds import FoldScheme
from pairloom.pipeline.machines.pair_kernels import (
    calibrate,
    dprime,
    loss_profile,
    measure_distances,
    out_of_fold_logits,
    thresholds_of,
)
from pairloom.pipeline.machines.platt_kernels import MAX_ITERATIONS, TOLERANCE, fit

__all__ = ["Platt", "calibrate_machines", "fit_platt", "separation"]


class Platt(NamedTuple):
    """The pairwise logit of decision value f is -(A f + B)."""

    A: float
    B: float
    iterations: int
    converged: bool


def fit_platt(
    decision_values: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    tol: float = TOLERANCE,
    max_iterations: int = int(MAX_ITERATIONS),
) -> Platt:
    """Fit (A, B) by maximum likelihood, with Platt's targets, which a prior keeps away from 0 and 1.

    Parameters
    ----------
    decision_values : array-like of shape (n,)
        Decision values of held-out samples.
    y : array-like of shape (n,)
        Labels, -1 or +1.
    sample_weight : array-like of shape (n,), default=None
        Weight per sample. With weights, n+ and n- below are sums of weights.
    tol : float, default=1e-5
        Largest component of the gradient, per unit of weight and of the decision values' scale.
    max_iterations : int, default=100
        Largest number of Newton steps.

    Returns
    -------
    Platt

    Notes
    -----
    t+ = (n+ + 1) / (n+ + 2), t- = 1 / (n- + 2), and the start is A = 0, B = log((n- + 1) / (n+ + 1)) [LW 8].

    References
    ----------
    .. [LW] H.-T. Lin, C.-J. Lin and R. C. Weng (2007). "A note on Platt's probabilistic outputs for support vector
       machines". Machine Learning 68, 267-276. doi:10.1007/s10994-007-5018-6
    """
    f = np.ascontiguousarray(decision_values, np.float64)
    weight = np.ones(len(f)) if sample_weight is None else np.ascontiguousarray(sample_weight, np.float64)
    return Platt(*fit(f, np.ascontiguousarray(y, np.float64), weight, tol, max_iterations))


def calibrate_machines(
    f: NDArray[np.float64],
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    folds: NDArray[np.int64],
    parts: NDArray[np.int64],
    scheme: FoldScheme,
    norms: NDArray[np.float64],
    by_distance: bool,
    thresholds: bool,
    platt: NDArray[np.float64],
    crossfit: NDArray[np.float64],
    profile: NDArray[np.float64],
) -> tuple[float, float]:
    """Calibrate the M machines of one problem from their decision values on its n samples.

    Parameters
    ----------
    f : (M, n)
    y : (n,)
        Labels: all +1 come first, then all -1.
    weight, folds, parts : (n,)
    scheme : FoldScheme
    norms : (M,)
        |w| of each machine, where it is known.
    by_distance : bool
        Whether the logit of a machine is f divided by its norm. If not, it is found by Platt scaling.
    thresholds : bool
        Shift the logit to where it makes fewest errors on held-out samples [HT 3].
    platt, crossfit : (M, 2) and (M, PARTS, 2)
        Written. The threshold of the problem is in `crossfit`.
    profile : (PARTS, PROFILE_SIZE) or (PARTS, 0)
        Written, if it has room for the profile of the problem: see `slopes`.

    Returns
    -------
    d' of the held-out logits, and the threshold.
    """
    if by_distance:
        measure_distances(scheme.distance_units(norms), platt, crossfit)
    else:
        calibrate(f, y, weight, folds, parts, scheme.calibrated_on, scheme.pooled, platt, crossfit)
    if profile.shape[1]:
        loss_profile(f, norms, y, weight, folds, parts, scheme.out_of_fold, profile)
    apart = separation(f, y, folds, parts, scheme, platt)
    if not thresholds:
        return apart, 0.0
    return apart, float(thresholds_of(f, y, weight, folds, parts, scheme.out_of_fold, platt, crossfit))


def separation(
    f: NDArray[np.float64],
    y: NDArray[np.float64],
    folds: NDArray[np.int64],
    parts: NDArray[np.int64],
    scheme: FoldScheme,
    platt: NDArray[np.float64],
) -> float:
    """d' of the held-out logits of a problem; arguments as of `calibrate_machines`."""
    logits = out_of_fold_logits(f, platt.reshape(-1, 1, 2), folds, parts, scheme.out_of_fold)
    return float(dprime(logits, int((y > 0).sum())))
