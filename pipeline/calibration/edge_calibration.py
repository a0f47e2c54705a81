"""The second level of coupled calibration: every edge's slope and shift, learned through the coupling [I 4]."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from pairloom.pipeline.calibration.coupling_gradient import gradient_of_log_probability
from pairloom.pipeline.calibration.log_loss import mean_log_loss
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.slab import couple_slab

__all__ = ["EdgeCalibration", "calibrate_edges"]


class EdgeCalibration(NamedTuple):
    """Edge e's logit l becomes ``slope[e] * l + shift[e]``."""

    slope: NDArray[np.float64]
    shift: NDArray[np.float64]
    log_loss: float


def calibrate_edges(
    edge_logits: NDArray[np.float32],
    y: NDArray[np.integer],
    completion: Completion,
    method: str,
    scale: float,
    *,
    weight: NDArray[np.float64] | None = None,
    shrinkage: float = 10.0,
    max_iterations: int = 30,
) -> EdgeCalibration:
    """Every edge's slope and shift by the gradient of the coupled likelihood, shrunk to one scale for all.

    Minimises  -mean_t log p_{y_t}(x_t) + (shrinkage / R) sum_e [log(slope_e / scale)^2 + shift_e^2]  from slope =
    scale, shift = 0 [I 4]. The penalty is a prior, one nat for an edge whose odds change by e, so edges without
    evidence stay where they are.
    """
    n_edges, n_samples = edge_logits.shape
    penalty = shrinkage / n_samples

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
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
    return EdgeCalibration(slope, shift, mean_log_loss(p, y, weight))
