"""Gradient of the coupled log probability of the true class with respect to the logits of the edges.

All couplings except voting are smooth in L. G[i, j, r] is d log p_y / d L_ij, where L_ji = -L_ij changes with L_ij.
Completion is linear, so its chain rule is its transpose.

References
----------
.. [I] S. Ikeda (2010). "Combining binary machines for multi-class: statistical model and parameter estimation".
   Journal of Physics: Conference Series 233, 012006. https://ikeda46.github.io/posts/2010.03.ikeda.iop/
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.completion.complete import Completion, complete_slab
from pairloom.pipeline.completion.slab import slab_width
from pairloom.pipeline.coupling import couple
from pairloom.pipeline.coupling.wlw2_kernels import CLIP
from pairloom.pipeline.pieces import pieces

Floats: TypeAlias = NDArray[np.float64]
Classes: TypeAlias = NDArray[np.integer]


def gradient_of_log_probability(
    edge_logits: NDArray[np.floating],
    y: Classes,
    completion: Completion,
    method: str,
    weight: NDArray[np.floating] | None = None,
    memory_limit: int = 2**29,
) -> tuple[float, Floats]:
    """Mean of log p_y over samples, and its gradient with respect to the edge logits.

    Shapes: see `pairloom.pipeline`.

    Parameters
    ----------
    edge_logits : (E, R) float array
        Logits of the trained pairs, in the order of ``completion.edges``.
    y : (R,) int array
        True classes.
    completion : Completion
        From `plan_completion`.
    method : {"normal", "stratified", "wlw2", "bradley_terry"}
        The coupling.
    weight : (R,) array, default=None
        Weight per sample in the mean. By default, all weights are equal.
    memory_limit : int, default=2**29
        Maximum memory, in bytes, for the completed logits of a slab of samples, in double precision.

    Returns
    -------
    mean : float
    gradient : (E, R) float64 array
    """
    if method not in GRADIENTS:
        raise ValueError(
            "coupled_calibration='edges' needs a coupling with a gradient, one of"
            f" {', '.join(GRADIENTS)}, got {method!r}."
        )
    n, n_samples = completion.n_classes, edge_logits.shape[1]
    gradient = np.empty((len(completion.edges), n_samples))
    share = np.full(n_samples, 1 / n_samples) if weight is None else weight / np.sum(weight)
    mean = 0.0
    width = min(slab_width(n, memory_limit // 2), n_samples)
    for samples in pieces(n_samples, width):
        part = np.ascontiguousarray(edge_logits[:, samples])
        tensor = complete_slab(part, completion, np.empty((n, n, part.shape[1])))
        p = couple(tensor, method).astype(np.float64, copy=False)
        mean += float(share[samples] @ np.log(np.maximum(p[np.arange(len(p)), y[samples]], 1e-12)))
        G = gradient_of_pairs(tensor.transpose(2, 0, 1), p, y[samples], method)
        gradient[:, samples] = completion_transpose(G, completion)
    return mean, gradient * share


def gradient_of_pairs(L: Floats, p: Floats, y: Classes, method: str) -> Floats:
    """(R, N, N) gradient of log p_y with respect to all pairs, L_ij and L_ji together, where p is the coupling of L."""
    # Two classes have (r, 1 - r) of logits that are not clipped, whatever the method.
    return (normal_gradient if p.shape[1] == 2 else GRADIENTS[method])(L, p, y)


def completion_transpose(G: Floats, completion: Completion) -> Floats:
    """From the gradient with respect to all pairs, G (R, N, N) antisymmetric, to that of the edges, (E, R).

    A missing pair is the mean of (L_im + L_mj), so its gradient is passed on to both, with a share of 1 / |O_ij| each.
    The gradient of a pair without common neighbours is passed on to the potentials.
    """
    trained = completion.trained.astype(np.float64)
    common = trained @ trained
    missing = ~completion.trained & ~np.eye(completion.n_classes, dtype=bool)
    near, distant = missing & (common > 0), missing & (common == 0)
    i, j = completion.edges.T
    handed = G * np.where(near, 1 / np.maximum(common, 1), 0)
    # d/dL_im of sum_{jm} handed_ij: row i passes its gradient to (i, m) for every j joined to m.
    through = handed @ trained
    total = G[:, i, j] + through[:, i, j] - through[:, j, i]
    if distant.any():
        divergence = (G * distant).sum(axis=2) @ completion.to_potentials.T
        total += divergence[:, i] - divergence[:, j]
    return total.T


def normal_gradient(L: Floats, p: Floats, y: Classes) -> Floats:
    """d log p_y / d L_ij = ((y = i) - p_i - (y = j) + p_j) / N  [I 4, closed form]."""
    surprise = -p
    surprise[np.arange(len(p)), y] += 1
    G: Floats = (surprise[:, :, None] - surprise[:, None, :]) / p.shape[1]
    return G


def stratified_gradient(L: Floats, p: Floats, y: Classes) -> Floats:
    """The adjoint of p = M p: (I - M)' z = e_y / p_y - 1, then d log p_y / d L_kj = p_j M_kj (z_k - sum_i M_ij z_i)."""
    M = np.exp(L - L.max(axis=1, keepdims=True))
    M /= M.sum(axis=1, keepdims=True)
    n = p.shape[1]
    right = -np.ones_like(p)
    right[np.arange(len(p)), y] += 1 / np.maximum(p[np.arange(len(p)), y], 1e-12)
    # (I - M)' is singular along the constants, and z is needed up to a constant only: add the rank-one p 1'.
    system = np.eye(n) - M.transpose(0, 2, 1) + np.ones((n, 1)) * p[:, None, :]
    z = np.linalg.solve(system, right[:, :, None])[:, :, 0]
    seen = np.einsum("rij,ri->rj", M, z)
    G: Floats = p[:, None, :] * M * (z[:, :, None] - seen[:, None, :])
    return G - G.transpose(0, 2, 1)


def bradley_terry_gradient(L: Floats, p: Floats, y: Classes) -> Floats:
    """[I 4.2-4.7] By the adjoint of the score equations sum_j mu_ij = sum_j r_ij.

    H du = dr, with H the Laplacian of mu_ij mu_ji and dr_i = sum_j r_ij r_ji dL_ij; log p_y = u_y - log sum exp u.
    """
    n = p.shape[1]
    mu = p[:, :, None] / (p[:, :, None] + p[:, None, :])
    weight = mu * mu.transpose(0, 2, 1) * (1 - np.eye(n))
    laplacian = -weight
    laplacian[:, np.arange(n), np.arange(n)] = weight.sum(axis=2)
    right = -p.copy()
    right[np.arange(len(p)), y] += 1
    mean = laplacian.diagonal(axis1=1, axis2=2).mean(axis=1)
    z = np.linalg.solve(laplacian + mean[:, None, None] / n, right[:, :, None])[:, :, 0]
    r = 1 / (1 + np.exp(-np.clip(L, -CLIP, CLIP)))
    slope = r * (1 - r) * (np.abs(L) < CLIP)
    G: Floats = slope * (z[:, :, None] - z[:, None, :])
    return G


def wlw2_gradient(L: Floats, p: Floats, y: Classes) -> Floats:
    """By the adjoint of Q p + b e = 0, e'p = 1, with Q_ii = sum_s r_si^2 and Q_ij = -r_ij r_ji."""
    n = p.shape[1]
    r = 1 / (1 + np.exp(-np.clip(L, -CLIP, CLIP)))
    r[:, np.arange(n), np.arange(n)] = 0
    system = np.zeros((len(p), n + 1, n + 1))
    system[:, :n, :n] = -(r * r.transpose(0, 2, 1))
    system[:, np.arange(n), np.arange(n)] = (r**2).sum(axis=1)
    system[:, :n, n] = system[:, n, :n] = 1
    right = np.zeros((len(p), n + 1, 1))
    right[np.arange(len(p)), y, 0] = 1 / np.maximum(p[np.arange(len(p)), y], 1e-12)
    z = np.linalg.solve(system, right)[:, :n, 0]
    # d log p_y = -z' dQ p; dQ_jj = 2 r_ij dr_ij over i, dQ_ij = -(1 - 2 r_ij) dr_ij, and dr_ij = r_ij r_ji dL_ij.
    pz = p * z
    across = z[:, :, None] * p[:, None, :] + p[:, :, None] * z[:, None, :]
    slope: Floats = r * (1 - r) * (np.abs(L) < CLIP) * (1 - np.eye(n))
    by_r = -2 * r * pz[:, None, :] + 2 * (1 - r) * pz[:, :, None] + (1 - 2 * r) * across
    return slope * by_r


GRADIENTS: dict[str, Callable[[Floats, Floats, Classes], Floats]] = {
    "normal": normal_gradient,
    "stratified": stratified_gradient,
    "bradley_terry": bradley_terry_gradient,
    "wlw2": wlw2_gradient,
}
