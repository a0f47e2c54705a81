"""Logits: the machines of the edges applied to samples, as one affine map."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.machines.linear_machines import Machines
from pairloom.pipeline.machines.whitening import Whitening

__all__ = ["AffineLogits", "calibrated", "collapse"]


class AffineLogits(NamedTuple):
    """The logit of edge e for a sample x is ``weights[e] @ x + bias[e]``: (E, D) and (E,) float32."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]

    def __call__(self, X: NDArray[np.floating]) -> NDArray[np.float32]:
        """(E, R) float32 logits of samples X (R, D)."""
        logits: NDArray[np.float32] = self.weights @ np.ascontiguousarray(X, np.float32).T
        logits += self.bias[:, None]
        return logits

    def by_sample(self, X: NDArray[np.floating]) -> NDArray[np.float32]:
        """(R, E) float32 logits of samples X (R, D): the same numbers, laid out sample by sample."""
        logits: NDArray[np.float32] = np.ascontiguousarray(X, np.float32) @ self.weights.T
        logits += self.bias
        return logits


def collapse(
    machines: Machines, shares: NDArray[np.float64], whitening: Whitening | None = None
) -> AffineLogits:
    """The mean of an edge's linear machines, weighted by `shares` (M,), as one affine map.

    l_m(x) = -(A_m f_m(x) + B_m) and f_m is affine, so averaging costs nothing at prediction [S 2.3]. Where the machines
    were trained on whitened features the whitening goes into the map as well, and it takes raw ones.
    """
    A, B = machines.platt[..., 0] * shares, machines.platt[..., 1] * shares
    weights = -np.einsum("em,emd->ed", A.astype(np.float32), machines.coef, optimize=True)
    bias = -(A * machines.intercept + B).sum(axis=1) - machines.threshold
    if whitening is not None:
        weights, bias = whitening.fold_back(weights, bias)
    return AffineLogits(np.ascontiguousarray(weights, np.float32), bias.astype(np.float32))


def calibrated(affine: AffineLogits, slope: NDArray[np.float64], shift: NDArray[np.float64]) -> AffineLogits:
    """The affine map whose logits are ``slope[e] * l + shift[e]`` where those of `affine` are l."""
    return AffineLogits(
        (affine.weights * slope[:, None]).astype(np.float32), (affine.bias * slope + shift).astype(np.float32)
    )
