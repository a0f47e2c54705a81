"""Gradient of the log probability of the true class with respect to the logits of machines on sets of classes.

G[r, q] is d log p_y / d L_q for sample r. `pairs.gradient` has the same for machines on pairs.

References
----------
.. [I] S. Ikeda (2010). "Combining binary machines for multi-class: statistical model and parameter estimation" (in
   Japanese). Proceedings of the Institute of Statistical Mathematics 58, 157-166.
   https://www.ism.ac.jp/editsec/toukei/abstract/58-2j.html
.. [HLW] T.-K. Huang, C.-J. Lin and R. C. Weng (2005). "A generalized Bradley-Terry model: from group competition to
   individual skill". Advances in Neural Information Processing Systems 17, 601-608.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.graphs import check_code
from pairloom.pipeline.coupling.codes.code_kernels import CLIP
from pairloom.pipeline.coupling.codes.couple_code import (
    check_machine_logits,
    check_machine_weights,
    couple_code,
    machine_of_class,
    resolved_barrier,
)
from pairloom.pipeline.threads import pieces

Floats: TypeAlias = NDArray[np.float64]
Classes: TypeAlias = NDArray[np.integer]
#: The equations are differentiated at their solution, which must be precise. Rounding errors of the iteration reach
#: 2e-12.
TOLERANCE = 1e-11
#: Samples whose (N, m) matrices are in memory at once.
SLAB = 64


def gradient_of_code_log_probability(
    logits: ArrayLike,
    y: Classes,
    code: ArrayLike,
    method: str = "bradley_terry",
    weights: ArrayLike | None = None,
    barrier: float | None = None,
    *,
    sample_weight: NDArray[np.floating] | None = None,
) -> tuple[float, Floats]:
    """Mean of log p_y over samples, and its gradient with respect to the machines' logits.

    Parameters
    ----------
    logits : array-like of shape (m, R)
        Logits of the machines.
    y : (R,) int array
        True classes.
    code : array-like of shape (N, m)
        The code.
    method : {"bradley_terry", "linear", "closed_form"}, default="bradley_terry"
        The coupling.
    weights, barrier
        As in `couple_code`.
    sample_weight : (R,) array, default=None
        Weight per sample in the mean. By default, all weights are equal.

    Returns
    -------
    mean : float
    gradient : (m, R) float64 array

    Examples
    --------
    Two classes: log p_0 has the derivative 1 - p_0.

    >>> gradient_of_code_log_probability([[0.0]], np.array([0]), [[1], [-1]])[1]
    array([[0.5]])
    """
    if method not in CODE_GRADIENTS:
        raise ValueError(
            "gradient_of_code_log_probability: method must be a coupling with a gradient, one of"
            f" {', '.join(CODE_GRADIENTS)}, got {method!r}."
        )
    matrix = check_code(code, owner="gradient_of_code_log_probability")
    L = check_machine_logits(logits, matrix.shape[1], "gradient_of_code_log_probability").astype(np.float64)
    if y.shape != L.shape[1:] or not ((y >= 0) & (y < len(matrix))).all():
        raise ValueError(
            f"gradient_of_code_log_probability: y must hold {L.shape[1]} classes, from 0 to {len(matrix) - 1},"
            f" got {y!r}."
        )
    p = couple_code(L, matrix, method, weights, barrier, tol=TOLERANCE).astype(np.float64)
    n_q = np.broadcast_to(check_machine_weights(weights, method, L.shape), L.shape).T
    mu = resolved_barrier(barrier, method, matrix)
    share = np.full(len(p), 1 / len(p)) if sample_weight is None else sample_weight / np.sum(sample_weight)
    G = np.empty(L.T.shape)
    for samples in pieces(len(p), SLAB):
        G[samples] = CODE_GRADIENTS[method](L.T[samples], p[samples], y[samples], matrix, n_q[samples], mu)
    return float(share @ np.log(p[np.arange(len(p)), y])), G.T * share


def bradley_terry_gradient(
    L: Floats, p: Floats, y: Classes, matrix: NDArray[np.int8], weights: Floats, barrier: float
) -> Floats:
    """The adjoint of the stationarity condition of the loss in u = log p [I 4.2-4.7, for machines on sets].

    H du = sum_q n_q r_q r'_q d_q dL_q, where H is the Hessian of the loss (`code_kernels.gradient_and_hessian`), and
    d_q is p / q+ on the positive side and -p / q- on the negative one; log p_y = u_y - log sum exp u. Clipped logits do
    not change r.
    """
    n = p.shape[1]
    if n == 2 and not barrier:  # the coupling is the softmax of logits that are not clipped
        return linear_gradient(L, p, y, matrix, weights, barrier)
    H, d = hessian_and_directions(L, p, matrix, weights, barrier)
    right = -p
    right[np.arange(len(p)), y] += 1
    # H is singular along the constants, and the right-hand side orthogonal to them: add their projector.
    mean = np.trace(H, axis1=1, axis2=2) / n
    z = np.linalg.solve(H + mean[:, None, None] / n, right[:, :, None])[:, :, 0]
    G: Floats = weights * _slope(L) * np.einsum("rsq,rs->rq", d, z)
    return G


def hessian_and_directions(
    L: Floats, p: Floats, matrix: NDArray[np.int8], weights: Floats, barrier: float
) -> tuple[Floats, Floats]:
    """(R, N, N) Hessian of the loss in log p, and (R, N, m) directions d_q."""
    positive, negative = p @ (matrix == 1), p @ (matrix == -1)
    rho = positive / (positive + negative)
    plus = p[:, :, None] * (matrix == 1) / positive[:, None, :]
    minus = p[:, :, None] * (matrix == -1) / negative[:, None, :]
    r = 1 / (1 + np.exp(-np.clip(L, -CLIP, CLIP)))
    excess, spread = weights * (rho - r), weights * rho * (1 - rho)
    d = plus - minus
    H = np.einsum("rq,rsq,rtq->rst", spread, d, d, optimize=True)
    H -= np.einsum("rq,rsq,rtq->rst", excess, plus, plus, optimize=True)
    H += np.einsum("rq,rsq,rtq->rst", excess, minus, minus, optimize=True)
    n = p.shape[1]
    H -= barrier * n * p[:, :, None] * p[:, None, :]
    H[:, np.arange(n), np.arange(n)] += np.einsum("rq,rsq->rs", excess, d) + barrier * n * p
    return H, d


def linear_gradient(
    L: Floats, p: Floats, y: Classes, matrix: NDArray[np.int8], weights: Floats, barrier: float
) -> Floats:
    """d log p_y / d L_q = (M_yq - sum_k p_k M_kq) / 2."""
    G: Floats = (matrix[y] - p @ matrix) / 2
    return G


def closed_form_gradient(
    L: Floats, p: Floats, y: Classes, matrix: NDArray[np.int8], weights: Floats, barrier: float
) -> Floats:
    """From d p_s^2 - (1 + d) p_s + r_s = 0 for each s, and sum p = 1 [HLW Theorem 3].

    With c_s = 1 / (1 + d - 2 d p_s) and v_s = p_s (1 - p_s): dp_s = c_s (dr_s - v_s dd), and since these sum to zero,
    dd = sum c_s dr_s / sum c_s v_s.
    """
    if p.shape[1] == 2:  # one machine, and nothing is clipped
        return linear_gradient(L, p, y, matrix, weights, barrier)
    machine, sign = machine_of_class(matrix)
    logits = sign * L[:, machine]
    r = 1 / (1 + np.exp(-np.clip(logits, -CLIP, CLIP)))
    v = p * (1 - p)
    d = (r.sum(axis=1) - 1) / v.sum(axis=1)
    c = 1 / (1 + d[:, None] - 2 * d[:, None] * p)
    rows = np.arange(len(p))
    of_y = c[rows, y] / p[rows, y]
    by_r = -(of_y * v[rows, y] / (c * v).sum(axis=1))[:, None] * c
    by_r[rows, y] += of_y
    G: Floats = np.empty_like(by_r)
    G[:, machine] = sign * by_r * _slope(logits)
    return G


def _slope(L: Floats) -> Floats:
    """dr / dL = r (1 - r), and zero where the logit is clipped."""
    r = 1 / (1 + np.exp(-np.clip(L, -CLIP, CLIP)))
    slope: Floats = r * (1 - r) * (np.abs(L) < CLIP)
    return slope


CODE_GRADIENTS: dict[str, Callable[[Floats, Floats, Classes, NDArray[np.int8], Floats, float], Floats]] = {
    "bradley_terry": bradley_terry_gradient,
    "linear": linear_gradient,
    "closed_form": closed_form_gradient,
}
