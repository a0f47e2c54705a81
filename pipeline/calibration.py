"""Calibrating the coupled model: the machines' parameters that make the coupled probabilities likeliest [I 4].

Each machine was calibrated alone, on two classes. With many classes the coupled probabilities are badly scaled (far too
even, as a rule), and no machine can know. The likelihood of the coupled model on samples that the machines have not
seen says by how much.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from pairloom.pipeline.coupling_gradient import gradient_of_log_probability
from pairloom.pipeline.slab import couple_slab

#: exp of these bounds the scale: beyond, logits carry no information or are certain.
_LOG_SCALES = (-3.0, 5.0)
#: A probability below this counts as this: one certain error must not decide the scale.
_SMALLEST = 1e-7


class ScaleChoice(NamedTuple):
    """The scale b of L -> b L, and what was tried: rows (scale, log loss)."""

    scale: float
    log_loss: float
    tried: np.ndarray


def mean_log_loss(p, y):
    """The mean of -log p[y], for probabilities (R, N) and classes (R,)."""
    truth = p[np.arange(len(y)), y].astype(np.float64)
    return float(-np.log(np.maximum(truth, _SMALLEST)).mean())


def choose_scale(edge_logits, y, completion, method, *, n_jobs=None, memory_limit=None):
    """The scale that makes the coupled model likeliest on samples which the machines have not seen.

    Parameters
    ----------
    edge_logits : (E, R) float32 array, out of fold
    y : (R,) int array of classes
    completion : Completion
    method : str, the coupling

    Returns
    -------
    ScaleChoice
    """
    room = {} if memory_limit is None else {"memory_limit": memory_limit}
    tried = []

    def loss(log_scale):
        scaled = edge_logits * np.float32(np.exp(log_scale))
        value = mean_log_loss(couple_slab(scaled, completion, [method], n_jobs=n_jobs, **room)[method], y)
        tried.append((np.exp(log_scale), value))
        return value

    if method == "vote":  # counts wins: no scale changes it
        loss(0.0)
    else:
        minimize_scalar(loss, bounds=_LOG_SCALES, method="bounded", options={"xatol": 0.02})
    tried = np.array(tried)
    scale, value = tried[tried[:, 1].argmin()]
    return ScaleChoice(float(scale), float(value), tried[tried[:, 0].argsort()])


class PlattChoice(NamedTuple):
    """Edge e's logit l becomes ``slope[e] * l + shift[e]``."""

    slope: np.ndarray
    shift: np.ndarray
    log_loss: float


def choose_platt(edge_logits, y, completion, method, scale, *, shrinkage=1.0, max_iterations=30):
    """Every edge's slope and shift by the gradient of the coupled likelihood, shrunk to one scale for all.

    Minimises  -mean_t log p_{y_t}(x_t) + (shrinkage / R) sum_e [log(slope_e / scale)^2 + shift_e^2]  from slope = scale,
    shift = 0 [I 4]: a penalty of a prior, one nat for an edge whose odds change by e, so that edges without evidence
    stay where they are.
    """
    n_edges, n_samples = edge_logits.shape
    penalty = shrinkage / n_samples

    def loss(parameters):
        log_slope, shift = parameters[:n_edges], parameters[n_edges:]
        slope = scale * np.exp(log_slope)
        adjusted = (slope[:, None] * edge_logits + shift[:, None]).astype(np.float32)
        value, gradient = gradient_of_log_probability(adjusted, y, completion, method)
        value = -value + penalty * (log_slope @ log_slope + shift @ shift)
        by_slope = -(gradient * edge_logits).sum(axis=1) * slope + 2 * penalty * log_slope
        by_shift = -gradient.sum(axis=1) + 2 * penalty * shift
        return value, np.concatenate([by_slope, by_shift])

    found = minimize(
        loss, np.zeros(2 * n_edges), jac=True, method="L-BFGS-B", options={"maxiter": max_iterations}
    )
    slope, shift = scale * np.exp(found.x[:n_edges]), found.x[n_edges:]
    adjusted = (slope[:, None] * edge_logits + shift[:, None]).astype(np.float32)
    return PlattChoice(slope, shift, mean_log_loss(couple_slab(adjusted, completion, [method])[method], y))
