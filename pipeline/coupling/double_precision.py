"""Couplings of a few matrices in double precision, for odds that are differentiated and compared to many digits.

`couple` works in float32 and stops at a tolerance, which is right for thousands of samples. Where one sample is
explained, the logarithms of small probabilities matter too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax

from pairloom.pipeline.coupling.couple import couple
from pairloom.pipeline.coupling.normal import laplacian_inverse
from pairloom.pipeline.coupling.wlw2_kernels import CLIP

__all__ = ["SMOOTH_METHODS", "log_probabilities", "pair_probabilities"]

Floats: TypeAlias = NDArray[np.float64]
#: Newton steps from the solution of `couple`, which is right to six digits: two would do.
_NEWTON_STEPS = 6


def log_probabilities(L: Floats, method: str, weights: Floats | None = None) -> Floats:
    """(T, N) log probabilities of antisymmetric matrices L (T, N, N), coupled by one of `SMOOTH_METHODS`.

    ``weights`` (N, N) are those of the pairs, for "normal" and "bradley_terry".

    Examples
    --------
    >>> u = np.log([0.7, 0.2, 0.1])
    >>> np.exp(log_probabilities((u[:, None] - u)[None], "stratified")).round(3)
    array([[0.7, 0.2, 0.1]])
    """
    # Two classes have (r, 1 - r) of logits that are not clipped, whatever the method.
    return (_normal if L.shape[1] == 2 else SMOOTH_METHODS[method])(L, weights)


def pair_probabilities(L: Floats) -> Floats:
    """r_ij of logits held to the range of the methods that work on probabilities [LW]."""
    return np.asarray(expit(np.clip(L, -CLIP, CLIP)), np.float64)


def _normal(L: Floats, weights: Floats | None) -> Floats:
    if weights is None:
        return np.asarray(log_softmax(L.mean(axis=2), axis=1))
    off_diagonal = weights * (1 - np.eye(len(weights)))
    return np.asarray(log_softmax((off_diagonal * L).sum(axis=2) @ laplacian_inverse(off_diagonal), axis=1))


def _stratified(L: Floats, weights: Floats | None) -> Floats:
    """The stationary vector by the elimination of Grassmann, Taksar and Heyman, which has no subtraction to cancel."""
    chain, n = np.exp(np.maximum(log_softmax(L, axis=1), -690.0)), L.shape[1]
    for last in range(n - 1, 0, -1):
        chain[:, last, :last] /= chain[:, :last, last].sum(axis=1)[:, None]
        chain[:, :last, :last] += chain[:, :last, last, None] * chain[:, last, None, :last]
    p = np.ones(L.shape[:2])
    for i in range(1, n):
        p[:, i] = (p[:, :i] * chain[:, i, :i]).sum(axis=1)
    return np.asarray(np.log(p / p.sum(axis=1, keepdims=True)))


def _wlw2(L: Floats, weights: Floats | None) -> Floats:
    """Q p + b e = 0, e'p = 1, with a unit diagonal of Q: that of a class that wins all its pairs may be 1e-14."""
    n, r = L.shape[1], pair_probabilities(L)
    r[:, np.arange(n), np.arange(n)] = 0
    diagonal = (r**2).sum(axis=1)
    unit = 1 / np.sqrt(diagonal)
    system = np.zeros((len(L), n + 1, n + 1))
    system[:, :n, :n] = -(r * r.transpose(0, 2, 1)) * unit[:, :, None] * unit[:, None, :]
    system[:, np.arange(n), np.arange(n)] = 1
    system[:, :n, n] = system[:, n, :n] = unit / unit.max(axis=1, keepdims=True)
    right = np.zeros((len(L), n + 1, 1))
    right[:, n] = 1
    p = np.maximum(np.linalg.solve(system, right)[:, :n, 0] * unit, np.finfo(np.float64).tiny)
    return np.asarray(np.log(p / p.sum(axis=1, keepdims=True)))


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
    """(T, N, N) diag(sum_j w_ij) - w, made regular along the constants, of symmetric weights with a zero diagonal."""
    n = weight.shape[1]
    total = weight.sum(axis=2)
    laplacian: Floats = total.mean(axis=1)[:, None, None] / n - weight
    laplacian[:, np.arange(n), np.arange(n)] += total
    return laplacian


#: Every coupling of pairs but voting: the odds are smooth in the logits.
SMOOTH_METHODS: dict[str, Callable[[Floats, Floats | None], Floats]] = {
    "normal": _normal,
    "stratified": _stratified,
    "wlw2": _wlw2,
    "bradley_terry": _bradley_terry,
}
