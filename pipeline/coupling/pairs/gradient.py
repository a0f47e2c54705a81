"""Couplings of pairs in double precision, and the gradient of their log odds with respect to the logits of all pairs.

`couple` works in float32 and stops at a tolerance, which suits thousands of samples. To explain a single sample, the
logarithms of small probabilities matter too: `log_probabilities` is exact for classes whose probability is 1e-30, and
so is `gradient_of_odds`, which is written in terms of log p and takes the weights of pairs.
All couplings except voting are smooth in L. A gradient G[i, j] is with respect to L_ij, where L_ji = -L_ij changes too.

References
----------
.. [I] S. Ikeda (2010). "Combining binary machines for multi-class: statistical model and parameter estimation" (in
   Japanese). Proceedings of the Institute of Statistical Mathematics 58, 157-166.
   https://www.ism.ac.jp/editsec/toukei/abstract/58-2j.html
.. [HT] T. Hastie and R. Tibshirani (1998). "Classification by pairwise coupling". Advances in Neural Information
   Processing Systems 10, 507-513.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax

from pairloom.pipeline.coupling.pairs.couple import (
    couple,
    laplacian_inverse,
    pair_probabilities,
    wlw2_directly,
)
from pairloom.pipeline.coupling.pairs.wlw2_kernels import CLIP

__all__ = [
    "GRADIENTS",
    "SMALLEST",
    "SMOOTH_METHODS",
    "gradient_of_odds",
    "gradient_of_true_class",
    "log_probabilities",
]


Floats: TypeAlias = NDArray[np.float64]
#: Smaller probabilities of the true class count as this one, so that its log loss is bounded.
SMALLEST = 1e-12
#: Newton steps from the solution of `couple`, which has six digits: two would be enough.
_NEWTON_STEPS = 6


def log_probabilities(L: Floats, method: str, weights: Floats | None = None) -> Floats:
    """(T, N) log probabilities of antisymmetric matrices L (T, N, N), coupled by one of `SMOOTH_METHODS`.

    ``weights`` (N, N) are the weights of the pairs, for "normal" and "bradley_terry".

    Examples
    --------
    >>> u = np.log([0.7, 0.2, 0.1])
    >>> np.exp(log_probabilities((u[:, None] - u)[None], "stratified")).round(3)
    array([[0.7, 0.2, 0.1]])
    """
    # With two classes every method gives (r, 1 - r), without clipping.
    return (_normal if L.shape[1] == 2 else SMOOTH_METHODS[method])(L, weights)


def _normal(L: Floats, weights: Floats | None) -> Floats:
    if weights is None:
        return np.asarray(log_softmax(L.mean(axis=2), axis=1))
    off_diagonal = weights * (1 - np.eye(len(weights)))
    return np.asarray(log_softmax((off_diagonal * L).sum(axis=2) @ laplacian_inverse(off_diagonal), axis=1))


def _stratified(L: Floats, weights: Floats | None) -> Floats:
    """The stationary vector by the elimination of Grassmann, Taksar and Heyman: no subtraction, so no cancellation."""
    chain, n = np.exp(np.maximum(log_softmax(L, axis=1), -690.0)), L.shape[1]
    for last in range(n - 1, 0, -1):
        chain[:, last, :last] /= chain[:, :last, last].sum(axis=1)[:, None]
        chain[:, :last, :last] += chain[:, :last, last, None] * chain[:, last, None, :last]
    p = np.ones(L.shape[:2])
    for i in range(1, n):
        p[:, i] = (p[:, :i] * chain[:, i, :i]).sum(axis=1)
    return np.asarray(np.log(p / p.sum(axis=1, keepdims=True)))


def _wlw2(L: Floats, weights: Floats | None) -> Floats:
    return np.asarray(np.log(wlw2_directly(L)))


def _bradley_terry(L: Floats, weights: Floats | None) -> Floats:
    """Newton's method on the score equations sum_j n_ij mu_ij = sum_j n_ij r_ij [HT eq. 5]."""
    n = L.shape[1]
    n_ij = (1 - np.eye(n)) * (1.0 if weights is None else weights)
    wins = (n_ij * pair_probabilities(L)).sum(axis=2)
    u = np.log(couple(np.ascontiguousarray(L.transpose(1, 2, 0)), "bradley_terry", weights))
    for _ in range(_NEWTON_STEPS):
        mu = expit(u[:, :, None] - u[:, None, :])
        score = wins - (n_ij * mu).sum(axis=2)
        step = np.linalg.solve(regular_laplacian(n_ij * mu * mu.transpose(0, 2, 1)), score[:, :, None])
        u += np.clip(step[:, :, 0], -1, 1)
    return np.asarray(log_softmax(u, axis=1))


def regular_laplacian(weight: Floats) -> Floats:
    """(T, N, N) the Laplacian diag(sum_j w_ij) - w of symmetric weights, made regular along the constants."""
    n = weight.shape[1]
    total = weight.sum(axis=2)
    laplacian: Floats = total.mean(axis=1)[:, None, None] / n - weight
    laplacian[:, np.arange(n), np.arange(n)] += total
    return laplacian


#: All couplings of pairs except voting: their odds are smooth in the logits.
SMOOTH_METHODS: dict[str, Callable[[Floats, Floats | None], Floats]] = {
    "normal": _normal,
    "stratified": _stratified,
    "wlw2": _wlw2,
    "bradley_terry": _bradley_terry,
}


def gradient_of_odds(
    L: Floats, log_p: Floats, target: Floats, method: str, weights: Floats | None = None
) -> Floats:
    """(T, N, N) gradient of sum_c target_c log p_c with respect to all pairs, L_ij and L_ji together.

    Parameters
    ----------
    L : (T, N, N) array
        Antisymmetric logits.
    log_p : (T, N) array
        Their coupling: `log_probabilities`.
    target : (T, N) array
        Rows that sum to zero; e_a - e_b are the log odds of a and b, and e_a - p is log p_a.
    method : {"normal", "stratified", "wlw2", "bradley_terry"}
    weights : (N, N) array, optional
        Weights of the pairs, for "normal" and "bradley_terry".
    """
    # With two classes every method gives (r, 1 - r), without clipping.
    return (_normal_gradient if L.shape[1] == 2 else GRADIENTS[method])(L, log_p, target, weights)


def gradient_of_true_class(L: Floats, p: Floats, y: NDArray[np.integer], method: str) -> Floats:
    """(T, N, N) gradient of log p_y with respect to all pairs, where p (T, N) is the result of `couple` for L.

    It is the gradient of sum_c target_c log p_c with target = e_y - p, since adding a constant to all log p changes no
    probability.
    """
    p = np.maximum(p, SMALLEST)
    target = -p
    target[np.arange(len(p)), y] += 1
    return gradient_of_odds(L, np.log(p), target, method)


def _normal_gradient(L: Floats, log_p: Floats, target: Floats, weights: Floats | None) -> Floats:
    """u = (1/N) sum_j L_ij; with weights, u is the inverse of their Laplacian times sum_j n_ij L_ij."""
    n = L.shape[1]
    if weights is None:
        return np.asarray((target[:, :, None] - target[:, None, :]) / n)
    n_ij = weights * (1 - np.eye(n))
    z = target @ laplacian_inverse(n_ij)
    return np.asarray(n_ij * (z[:, :, None] - z[:, None, :]))


def _stratified_gradient(L: Floats, log_p: Floats, target: Floats, weights: Floats | None) -> Floats:
    """The adjoint of p = M p in terms of log p.

    With W_ij = M_ij p_j / p_i, whose rows sum to one, d log p = W d log p + sum_j W_ij d log M_ij. So
    (I - W)' z = target, and the derivative by L_kj is z_k W_kj - M_kj sum_i z_i W_ij.
    """
    log_M, n = log_softmax(L, axis=1), L.shape[1]
    W = np.exp(log_M + log_p[:, None, :] - log_p[:, :, None])
    # I - W' is singular, along a vector that does not change the derivative: fix z by a zero sum.
    system = np.eye(n) - W.transpose(0, 2, 1) + 1 / n
    z = np.linalg.solve(system, target[:, :, None])[:, :, 0]
    G: Floats = z[:, :, None] * W - np.exp(log_M) * np.einsum("ti,tij->tj", z, W)[:, None, :]
    return G - G.transpose(0, 2, 1)


def _bradley_terry_gradient(L: Floats, log_p: Floats, target: Floats, weights: Floats | None) -> Floats:
    """[I 4.2-4.7] H du = dr, with H the Laplacian of n_ij mu_ij mu_ji and dr_i = sum_j n_ij r_ij r_ji dL_ij."""
    n = L.shape[1]
    n_ij = (1 - np.eye(n)) * (1.0 if weights is None else weights)
    mu = expit(log_p[:, :, None] - log_p[:, None, :])
    system = regular_laplacian(n_ij * mu * mu.transpose(0, 2, 1))
    z = np.linalg.solve(system, target[:, :, None])[:, :, 0]
    return np.asarray(n_ij * _slope(L, pair_probabilities(L)) * (z[:, :, None] - z[:, None, :]))


def _wlw2_gradient(L: Floats, log_p: Floats, target: Floats, weights: Floats | None) -> Floats:
    """The adjoint of Q p + b e = 0, e'p = 1, in the unit of each class's Q_ii, as in `_wlw2`.

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
    return np.asarray(_slope(L, r) * (1 - np.eye(n)) * by_r)


def _slope(L: Floats, r: Floats) -> Floats:
    """dr / dL = r (1 - r), and zero where the logit is clipped."""
    return np.asarray(r * (1 - r) * (np.abs(L) < CLIP))


GRADIENTS: dict[str, Callable[[Floats, Floats, Floats, Floats | None], Floats]] = {
    "normal": _normal_gradient,
    "stratified": _stratified_gradient,
    "bradley_terry": _bradley_terry_gradient,
    "wlw2": _wlw2_gradient,
}
