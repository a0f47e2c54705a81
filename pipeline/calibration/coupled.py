"""Calibrating the coupled model: the machines' parameters that make the coupled probabilities likeliest [I 4].

Each machine was calibrated alone, on two classes. With many classes the coupled probabilities are badly scaled (far too
even, as a rule), and no machine can know. The likelihood of the coupled model on samples that the machines have not
seen says by how much.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from pairloom.pipeline.calibration.coupling_gradient import gradient_of_log_probability
from pairloom.pipeline.calibration.log_loss import log_losses, mean_log_loss
from pairloom.pipeline.completion.slab import couple_slab

#: exp of these bounds the scale: beyond, logits carry no information or are certain.
_LOG_SCALES = (-2.5, 3.5)
#: The search begins on every so-manieth sample, and goes on with all of them this near to what it found.
_COARSE, _NEAR = 4, 0.25


class ScaleChoice(NamedTuple):
    """The scale b of L -> b L, what was tried: rows (scale, log loss), and the loss of every sample at b."""

    scale: float
    log_loss: float
    tried: np.ndarray
    losses: np.ndarray


def choose_scale(edge_logits, y, completion, method, *, weight=None, n_jobs=None, memory_limit=None):
    """The scale that makes the coupled model likeliest on samples which the machines have not seen.

    Parameters
    ----------
    edge_logits : (E, R) float32 array, out of fold
    y : (R,) int array of classes
    completion : Completion
    method : str, the coupling
    weight : (R,) array of the samples' weights, optional

    Returns
    -------
    ScaleChoice
    """
    room = {} if memory_limit is None else {"memory_limit": memory_limit}
    tried, losses = {}, {}

    def loss(log_scale, every=1):
        scaled = edge_logits[:, ::every] * np.float32(np.exp(log_scale))
        p = couple_slab(scaled, completion, [method], n_jobs=n_jobs, **room)[method]
        value = mean_log_loss(p, y[::every], None if weight is None else weight[::every])
        if every == 1:
            tried[float(np.exp(log_scale))] = value
            losses[float(np.exp(log_scale))] = log_losses(p, y)
        return value

    if method == "vote":  # counts wins: no scale changes it
        loss(0.0)
    else:
        low, high = _LOG_SCALES
        if len(y) >= 100 * _COARSE:
            rough = _least(lambda log_scale: loss(log_scale, _COARSE), low, high, 0.15)
            low, high = rough - _NEAR, rough + _NEAR
        _least(loss, low, high, 0.04)
    value, scale = min((value, scale) for scale, value in tried.items())
    return ScaleChoice(scale, value, np.array(sorted(tried.items())), losses[scale])


def nearby_scale(edge_logits, y, completion, method, near, *, n_jobs=None):
    """The likeliest scale of a model that was changed a little, from the scale it had before.

    Near its lowest point the log loss is close to a parabola in the logarithm of the scale: three places tell where
    that is, for a third of what `choose_scale` costs. A scale that has moved much further away is followed twice as
    far as they lie apart, and found the next time.
    """
    if method == "vote":
        return 1.0
    losses = []
    for step in (-_NEAR, 0.0, _NEAR):
        p = couple_slab(edge_logits * np.float32(near * np.exp(step)), completion, [method], n_jobs=n_jobs)[
            method
        ]
        losses.append(mean_log_loss(p, y))
    left, middle, right = losses
    bend = left - 2 * middle + right
    towards = np.sign(left - right) if bend <= 0 else (left - right) / (2 * bend)
    return float(near * np.exp(_NEAR * np.clip(towards, -2, 2)))


def _least(function, low, high, precision):
    """Where a function of one variable is least between two bounds."""
    return minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": precision}).x


class PlattChoice(NamedTuple):
    """Edge e's logit l becomes ``slope[e] * l + shift[e]``."""

    slope: np.ndarray
    shift: np.ndarray
    log_loss: float


def choose_platt(
    edge_logits, y, completion, method, scale, *, weight=None, shrinkage=10.0, max_iterations=30
):
    """Every edge's slope and shift by the gradient of the coupled likelihood, shrunk to one scale for all.

    Minimises  -mean_t log p_{y_t}(x_t) + (shrinkage / R) sum_e [log(slope_e / scale)^2 + shift_e^2]  from slope =
    scale, shift = 0 [I 4]: the penalty of a prior, one nat for an edge whose odds change by e, so that edges
    without evidence stay where they are.
    """
    n_edges, n_samples = edge_logits.shape
    penalty = shrinkage / n_samples

    def loss(parameters):
        log_slope, shift = parameters[:n_edges], parameters[n_edges:]
        slope = scale * np.exp(log_slope)
        adjusted = (slope[:, None] * edge_logits + shift[:, None]).astype(np.float32)
        value, gradient = gradient_of_log_probability(adjusted, y, completion, method, weight)
        value = -value + penalty * (log_slope @ log_slope + shift @ shift)
        by_slope = -(gradient * edge_logits).sum(axis=1) * slope + 2 * penalty * log_slope
        by_shift = -gradient.sum(axis=1) + 2 * penalty * shift
        return value, np.concatenate([by_slope, by_shift])

    found = minimize(
        loss, np.zeros(2 * n_edges), jac=True, method="L-BFGS-B", options={"maxiter": max_iterations}
    )
    slope, shift = scale * np.exp(found.x[:n_edges]), found.x[n_edges:]
    adjusted = (slope[:, None] * edge_logits + shift[:, None]).astype(np.float32)
    p = couple_slab(adjusted, completion, [method])[method]
    return PlattChoice(slope, shift, mean_log_loss(p, y, weight))
