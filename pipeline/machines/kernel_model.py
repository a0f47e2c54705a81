"""The kernel machines of a whole model graph: trained by tiles in threads, applied to blocks of kernel values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom.graphs import ModelCode, Sides
from pairloom.pipeline.machines.dealt_class import dealt_class
from pairloom.pipeline.machines.gram_blocks import GramBlocks
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kernel_machines import (
    KernelMachines,
    machines_followed_by,
    train_kernel_columns,
    train_kernel_edges,
)
from pairloom.pipeline.machines.linear_model import Advance, train_columns_in_threads, train_in_threads
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.pieces import pieces

__all__ = ["VECTORS_AT_ONCE", "KernelLogits", "KernelModel", "train_kernel_model"]

#: Support vectors whose kernel values are held at once: 8 MiB for a batch of 256 samples.
VECTORS_AT_ONCE = 4096


class KernelLogits(NamedTuple):
    """The logit of edge e for a sample x is the sum over support vectors s of weights[e, s] k(x, s), plus bias[e].

    Attributes
    ----------
    kernel : KernelFunction
    vectors : (S, D) support vectors; for a precomputed kernel (S,) int64, their columns of a kernel matrix
    weights : (E, S) sparse float64
    bias : (E,) float64
    """

    kernel: KernelFunction
    vectors: NDArray[Any]
    weights: sparse.csc_array
    bias: NDArray[np.float64]

    def __call__(self, X: NDArray[np.floating]) -> NDArray[np.float32]:
        """(E, R) float32 logits of normalised samples X (R, D), or of rows of a kernel matrix."""
        logits = np.repeat(self.bias[:, None], len(X), axis=1)
        for piece in pieces(len(self.vectors), VECTORS_AT_ONCE):
            logits += self.weights[:, piece] @ self.kernel_values(self.vectors[piece], X)
        with np.errstate(over="ignore"):
            return logits.astype(np.float32)

    def kernel_values(self, vectors: NDArray[Any], X: NDArray[np.floating]) -> NDArray[np.float64]:
        """(S, R) kernel values of some support vectors and samples."""
        if self.kernel.precomputed:
            return np.ascontiguousarray(X[:, vectors].T, np.float64)
        return self.kernel(vectors, X)

    def calibrated(self, slope: NDArray[np.float64], shift: NDArray[np.float64]) -> KernelLogits:
        """The map whose logits are ``slope[e] * l + shift[e]`` where those of this one are l."""
        weights = sparse.csc_array(sparse.diags_array(slope) @ self.weights)
        return self._replace(weights=weights, bias=self.bias * slope + shift)


class KernelModel(NamedTuple):
    """Machines, their kernel, and all their support vectors, each once.

    Attributes
    ----------
    kernel : KernelFunction
    machines : KernelMachines
    vectors : (S, D) array
        The support vectors, normalised, in the order of their training rows. For a precomputed kernel (S,) int64:
        their columns of the kernel matrix against the training samples.
    """

    kernel: KernelFunction
    machines: KernelMachines
    vectors: NDArray[Any]

    @property
    def n_edges(self) -> int:
        """E, how many pairs are trained."""
        return self.machines.n_edges

    def by_distance(self) -> KernelModel:
        """The same machines with their distances for logits."""
        return self._replace(machines=self.machines.by_distance())

    def by_decision_value(self) -> KernelModel:
        """The same machines with their decision values for logits."""
        return self._replace(machines=self.machines.by_decision_value())

    def collapsed(self, shares: NDArray[np.float64]) -> KernelLogits:
        """The mean of each edge's machines, weighted by `shares` (M,), as one map: its dual coefficients are theirs."""
        machines = self.machines
        return self._weighted(machines.platt, shares, -machines.threshold)

    def logits(self, shares: NDArray[np.float64], X: NDArray[np.floating]) -> NDArray[np.float32]:
        """(E, R) logits of normalised samples with these shares of each edge's machines."""
        return self.collapsed(shares)(X)

    def held_out_logits(
        self, shares: NDArray[np.float64], X: NDArray[np.floating], parts: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        """(E, R) logits of normalised training samples with these shares, each with the parameters of its part."""
        logits = np.empty((len(X), self.n_edges), np.float32)
        for part in np.unique(parts):
            own = np.flatnonzero(parts == part)
            crossfit = self.machines.crossfit[:, :, part]
            logits[own] = self._weighted(crossfit, shares, np.zeros(self.n_edges))(X[own]).T
        return logits.T

    def _weighted(
        self, platt: NDArray[np.float64], shares: NDArray[np.float64], bias: NDArray[np.float64]
    ) -> KernelLogits:
        """l(x) = -sum over m of shares_m (A_m f_m(x) + B_m), and f_m is linear in the kernel values."""
        machines = self.machines
        A, B = platt[..., 0] * shares, platt[..., 1] * shares
        edge = np.repeat(np.arange(self.n_edges), np.diff(machines.start))
        values = -(machines.beta * A[edge]).sum(axis=1)
        place = np.searchsorted(np.unique(machines.row), machines.row)
        weights = sparse.csc_array((values, (edge, place)), shape=(self.n_edges, len(self.vectors)))
        bias = bias - (A * machines.intercept + B).sum(axis=1)
        return KernelLogits(self.kernel, self.vectors, weights, bias)


def train_kernel_model(
    kernel: KernelFunction,
    X: NDArray[np.floating],
    members: Sequence[NDArray[np.int64]],
    sides: Sides,
    settings: MachineSettings,
    *,
    weight: NDArray[np.float64] | None = None,
    n_threads: int = 1,
    advance: Advance | None = None,
) -> KernelModel:
    """Train all pairs, or all columns of a code.

    Parameters
    ----------
    kernel : KernelFunction
    X : (n, D) normalised training rows, or their (n, n) kernel matrix if it is precomputed
    members : list of int arrays, the rows of each class
    sides : the pairs, or the code
    settings : as for `linear_machines.train_edges`
    weight : (n,) array, optional
        Per-sample multiplier of C, also used in calibration.
    """
    if kernel.precomputed:
        grams = GramBlocks.of_matrix(X, members, settings.tol)
    else:
        grams = GramBlocks.of_rows(kernel, {c: X[rows] for c, rows in enumerate(members)}, settings.tol)
    starts = np.cumsum([0, *map(len, members)]).tolist()
    classes = {
        c: dealt_class(
            np.arange(starts[c], starts[c + 1]), c, settings, None if weight is None else weight[rows]
        )
        for c, rows in enumerate(members)
    }
    if isinstance(sides, ModelCode):
        parts = train_columns_in_threads(
            lambda columns: train_kernel_columns(grams, columns, classes, settings), sides, n_threads, advance
        )
    else:
        parts = train_in_threads(
            lambda tile: train_kernel_edges(grams, tile, classes, settings), sides, n_threads, advance
        )
    machines = machines_followed_by(parts)
    support = np.concatenate(members)[np.unique(machines.row)]
    return KernelModel(kernel, machines, support if kernel.precomputed else X[support])
