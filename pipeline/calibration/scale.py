"""The scale of the coupled model: the b of L -> b L that makes the coupled probabilities likeliest [I 4].

Each machine was calibrated alone, on two classes. With many classes the coupled probabilities are badly scaled (far too
even, as a rule), and no machine can know. The likelihood of the coupled model on held-out samples says by how much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from pairloom.pipeline.calibration.log_loss import log_losses, mean_log_loss
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY, couple_slab

__all__ = ["ScaleChoice", "choose_scale", "nearby_scale"]

#: exp of these bounds the scale: beyond, logits carry no information or are certain.
_LOG_SCALES = (-2.5, 3.5)
#: The search starts on every 4th sample, then refines on all of them within this distance of what it found.
_COARSE, _NEAR = 4, 0.25


class ScaleChoice(NamedTuple):
    """The scale b of L -> b L, its log loss, rows (scale, log loss) of all that were tried, the loss per sample."""

    scale: float
    log_loss: float
    tried: NDArray[np.float64]
    losses: NDArray[np.float64]


def choose_scale(
    edge_logits: NDArray[np.float32],
    y: NDArray[np.integer],
    completion: Completion,
    method: str,
    *,
    weight: NDArray[np.float64] | None = None,
    n_jobs: int | None = None,
    memory_limit: int = DEFAULT_MEMORY,
) -> ScaleChoice:
    """The scale that makes the coupled model likeliest on held-out samples.

    Parameters
    ----------
    edge_logits : (E, R) float32 array, out of fold
    y : (R,) int array of classes
    completion : Completion
    method : str, the coupling
    weight : (R,) array of sample weights, optional
    """
    tried: dict[float, float] = {}
    losses: dict[float, NDArray[np.float64]] = {}

    def loss(log_scale: float, every: int = 1) -> float:
        scaled = edge_logits[:, ::every] * np.float32(np.exp(log_scale))
        p = couple_slab(scaled, completion, [method], n_jobs=n_jobs, memory_limit=memory_limit)[method]
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


def nearby_scale(
    edge_logits: NDArray[np.float32],
    y: NDArray[np.integer],
    completion: Completion,
    method: str,
    near: float,
    *,
    n_jobs: int | None = None,
) -> float:
    """The likeliest scale of a model that was changed a little, from the scale it had before.

    Near its minimum the log loss is close to a parabola in the logarithm of the scale: three points locate it, at a
    third of the cost of `choose_scale`. A scale that has moved much further is followed by at most twice the distance
    of the points, and found the next time.
    """
    if method == "vote":
        return 1.0
    losses = []
    for step in (-_NEAR, 0.0, _NEAR):
        scaled = edge_logits * np.float32(near * np.exp(step))
        losses.append(mean_log_loss(couple_slab(scaled, completion, [method], n_jobs=n_jobs)[method], y))
    left, middle, right = losses
    bend = left - 2 * middle + right
    towards = np.sign(left - right) if bend <= 0 else (left - right) / (2 * bend)
    return float(near * np.exp(_NEAR * np.clip(towards, -2, 2)))


def _least(function: Callable[[float], float], low: float, high: float, precision: float) -> float:
    """Where a function of one variable is least between two bounds."""
    found = minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": precision})
    return float(found.x)
