"""Gradient of coupled log odds with respect to the logits of all pairs.

As `coupling_gradient`, for odds of two classes instead of the probability of the true one, in terms of log p: so it
stays exact for classes whose probability is 1e-30, and takes the weights of pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax

from pairloom.pipeline.coupling.double_precision import pair_probabilities, regular_laplacian
from pairloom.pipeline.coupling.normal import laplacian_inverse
from pairloom.pipeline.coupling.wlw2_kernels import CLIP

__all__ = ["ODDS_GRADIENTS", "gradient_of_odds"]

Floats: TypeAlias = NDArray[np.float64]


def gradient_of_odds(
    L: Floats, log_p: Floats, target: Floats, method: str, weights: Floats | None = None
) -> Floats:
    """(T, N, N) gradient of sum_c target_c log p_c with respect to all pairs, L_ij and L_ji together.

    Parameters
    ----------
    L : (T, N, N) array
        Antisymmetric logits.
    log_p : (T, N) array
        Their coupling: `double_precision.log_probabilities`.
    target : (T, N) array
        Rows that sum to zero; e_a - e_b are the log odds of a and b, and e_a - p is log p_a.
    method : {"normal", "stratified", "wlw2", "bradley_terry"}
    weights : (N, N) array, optional
        Weights of the pairs, for "normal" and "bradley_terry".
    """
    # Two classes have (r, 1 - r) of logits that are not clipped, whatever the method.
    return (_normal if L.shape[1] == 2 else ODDS_GRADIENTS[method])(L, log_p, target, weights)


def _normal(L: Floats, log_p: Floats, target: Floats, weights: Floats | None) -> Floats:
    """u = (1/N) sum_j L_ij; with weights, u is the inverse of their Laplacian times sum_j n_ij L_ij."""
    n = L.shape[1]
    if weights is None:
        return np.asarray((target[:, :, None] - target[:, None, :]) / n)
    n_ij = weights * (1 - np.eye(n))
    z = target @ laplacian_inverse(n_ij)
    return np.asarray(n_ij * (z[:, :, None] - z[:, None, :]))


def _stratified(L: Floats, log_p: Floats, target: Floats, weights: Floats | None) -> Floats:
    """The adjoint of p = M p in terms of log p.

    With W_ij = M_ij p_j / p_i, whose rows sum to one, d log p = W d log p + sum_j W_ij d log M_ij. So
    (I - W)' z = target, and the derivative by L_kj is z_k W_kj - M_kj sum_i z_i W_ij.
    """
    log_M, n = log_softmax(L, axis=1), L.shape[1]
    W = np.exp(log_M + log_p[:, None, :] - log_p[:, :, None])
    # Singular along the stationary vector of W, which does not move the derivative: the sum of z is made zero.
    system = np.eye(n) - W.transpose(0, 2, 1) + 1 / n
    z = np.linalg.solve(system, target[:, :, None])[:, :, 0]
    G: Floats = z[:, :, None] * W - np.exp(log_M) * np.einsum("ti,tij->tj", z, W)[:, None, :]
    return G - G.transpose(0, 2, 1)


def _bradley_terry(L: Floats, log_p: Floats, target: Floats, weights: Floats | None) -> Floats:
    """[I 4.2-4.7] H du = dr, with H the Laplacian of n_ij mu_ij mu_ji and dr_i = sum_j n_ij r_ij r_ji dL_ij."""
    n = L.shape[1]
    n_ij = (1 - np.eye(n)) * (1.0 if weights is None else weights)
    mu = expit(log_p[:, :, None] - log_p[:, None, :])
    system = regular_laplacian(n_ij * mu * mu.transpose(0, 2, 1))
    z = np.linalg.solve(system, target[:, :, None])[:, :, 0]
    return np.asarray(n_ij * _slope(L) * (z[:, :, None] - z[:, None, :]))


def _wlw2(L: Floats, log_p: Floats, target: Floats, weights: Floats | None) -> Floats:
    """The adjoint of Q p + b e = 0, e'p = 1, in the unit of each class's Q_ii: see `double_precision`.

    d log odds = -z' dQ p, with Q z + c e = target / p and e'z = 0; dQ_jj = 2 r_ij dr_ij over i, and dQ_ij =
    -(1 - 2 r_ij) dr_ij.
    """
    n, p, r = L.shape[1], np.exp(log_p), pair_probabilities(L)
    r[:, np.arange(n), np.arange(n)] = 0
    unit = 1 / np.sqrt((r**2).sum(axis=1))
    most = unit.max(axis=1, keepdims=True)
    system = np.zeros((len(L), n + 1, n + 1))
    system[:, :n, :n] = -(r * r.transpose(0, 2, 1)) * unit[:, :, None] * unit[:, None, :]
    system[:, np.arange(n), np.arange(n)] = 1
    system[:, :n, n] = system[:, n, :n] = unit / most
    right = np.zeros((len(L), n + 1, 1))
    right[:, :n, 0] = target * np.exp(-log_p) * unit
    z = np.linalg.solve(system, right)[:, :n, 0] * unit
    pz = p * z
    across = z[:, :, None] * p[:, None, :] + p[:, :, None] * z[:, None, :]
    by_r = -2 * r * pz[:, None, :] + 2 * (1 - r) * pz[:, :, None] + (1 - 2 * r) * across
    return np.asarray(_slope(L) * (1 - np.eye(n)) * by_r)


def _slope(L: Floats) -> Floats:
    """dr / dL = r (1 - r), and zero where the logit is clipped."""
    r = pair_probabilities(L)
    return np.asarray(r * (1 - r) * (np.abs(L) < CLIP))


ODDS_GRADIENTS: dict[str, Callable[[Floats, Floats, Floats, Floats | None], Floats]] = {
    "normal": _normal,
    "stratified": _stratified,
    "bradley_terry": _bradley_terry,
    "wlw2": _wlw2,
}
