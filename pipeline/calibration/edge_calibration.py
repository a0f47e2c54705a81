"""The second level of coupled calibration: every edge's slope and shift, learned through the coupling [I 4]."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from pairloom.pipeline.calibration.code_gradient import gradient_of_code_log_probability
from pairloom.pipeline.calibration.coupling_gradient import gradient_of_log_probability
from pairloom.pipeline.calibration.log_loss import mean_log_loss
from pairloom.pipeline.completion.slab import couple_slab
from pairloom.pipeline.completion.uncoupled import Wiring
from pairloom.pipeline.coupling.code_coupling import CodeCoupling

__all__ = ["EdgeCalibration", "calibrate_edges"]


class EdgeCalibration(NamedTuple):
    """Edge e's logit l becomes ``slope[e] * l + shift[e]``."""

    slope: NDArray[np.float64]
    shift: NDArray[np.float64]
    log_loss: float


def calibrate_edges(
    edge_logits: NDArray[np.float32],
    y: NDArray[np.integer],
    wiring: Wiring,
    method: str,
    scale: float,
    *,
    start: NDArray[np.float64] | None = None,
    weight: NDArray[np.float64] | None = None,
    shrinkage: float = 10.0,
    max_iterations: int = 30,
) -> EdgeCalibration:
    """Every machine's slope and shift by the gradient of the coupled likelihood, shrunk to one scale for all.

    ``start`` are shifts that these are added to, such as those of `code_coupling.neutral_shift`.

    Minimises  -mean_t log p_{y_t}(x_t) + (shrinkage / R) sum_e [log(slope_e / scale)^2 + shift_e^2]  from slope =
    scale, shift = 0 [I 4]. The penalty is a prior, one nat for an edge whose odds change by e, so edges without
    evidence stay where they are.
    """
    n_edges, n_samples = edge_logits.shape
    penalty, first = shrinkage / n_samples, 0.0 if start is None else start

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        log_slope, shift = parameters[:n_edges], parameters[n_edges:]
        slope = scale * np.exp(log_slope)
        adjusted = (slope[:, None] * edge_logits + (first + shift)[:, None]).astype(np.float32)
        value, gradient = _gradient(adjusted, y, wiring, method, weight)
        value = -value + penalty * (log_slope @ log_slope + shift @ shift)
        by_slope = -(gradient * edge_logits).sum(axis=1) * slope + 2 * penalty * log_slope
        by_shift = -gradient.sum(axis=1) + 2 * penalty * shift
        return value, np.concatenate([by_slope, by_shift])

    found = minimize(
        loss, np.zeros(2 * n_edges), jac=True, method="L-BFGS-B", options={"maxiter": max_iterations}
    )
    slope, shift = scale * np.exp(found.x[:n_edges]), first + found.x[n_edges:]
    adjusted = (slope[:, None] * edge_logits + shift[:, None]).astype(np.float32)
    return EdgeCalibration(slope, shift, mean_log_loss(_coupled(adjusted, wiring, method), y, weight))


def _gradient(
    logits: NDArray[np.float32],
    y: NDArray[np.integer],
    wiring: Wiring,
    method: str,
    weight: NDArray[np.float64] | None,
) -> tuple[float, NDArray[np.float64]]:
    """The mean of log p_y, and its gradient with respect to the logits of the machines."""
    if isinstance(wiring, CodeCoupling):
        return gradient_of_code_log_probability(
            logits, y, wiring.code.matrix, method, wiring.weights, sample_weight=weight
        )
    return gradient_of_log_probability(logits, y, wiring, method, weight)


def _coupled(logits: NDArray[np.float32], wiring: Wiring, method: str) -> NDArray[np.floating]:
    if isinstance(wiring, CodeCoupling):
        return wiring.couple(logits, method)
    return couple_slab(logits, wiring, [method])[method]
