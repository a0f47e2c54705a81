"""A code that couples many batches of samples: checked and stored once, with the weights of its machines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs import ModelCode
from pairloom.pipeline.coupling.couple_code import (
    Logits,
    check_machine_logits,
    check_machine_weights,
    resolved_barrier,
    solve_code,
)
from pairloom.pipeline.coupling.stored_code import StoredCode

__all__ = ["CodeCoupling", "neutral_shift"]


def neutral_shift(
    matrix: NDArray[np.int8], scale: float, calibration: str, method: str = "bradley_terry"
) -> NDArray[np.float64]:
    """(m,) what is added to the logits of machines that were multiplied by the scale of the coupled model.

    A machine that knows nothing has the logit u = log(classes at +1 / classes at -1): with it, and not with zero, all
    classes are equally likely. So a scale below one must move a calibrated logit l to u, b (l - u) + u, and not to
    zero. A distance is zero where the machine knows nothing: b l + u. For pairs of classes u is zero, and "linear"
    decoding has equal classes at zero.

    Examples
    --------
    >>> neutral_shift(np.array([[1], [-1], [-1]], np.int8), 0.5, "platt").round(3)
    array([-0.347])
    """
    if method == "linear":
        return np.zeros(matrix.shape[1])
    u = np.log((matrix == 1).sum(axis=0) / (matrix == -1).sum(axis=0))
    return np.asarray(u if calibration == "distance" else (1 - scale) * u)


@dataclass(frozen=True, eq=False)
class CodeCoupling:
    """How the logits of machines on sets of classes become probabilities.

    Attributes
    ----------
    code : ModelCode
    counts : (N,) float64 array, optional
        Training samples of each class, where every machine weighs as many as it has [HLW eq. 8]; None where all
        machines weigh alike.
    """

    code: ModelCode
    counts: NDArray[np.float64] | None = None

    @property
    def n_classes(self) -> int:
        """N, how many classes there are."""
        return self.code.n_classes

    @property
    def n_machines(self) -> int:
        """m, how many machines there are."""
        return self.code.n_machines

    @cached_property
    def weights(self) -> NDArray[np.float64] | None:
        """(m,) weights of the machines, with mean one; None where all are alike."""
        if self.counts is None:
            return None
        samples = self.code.samples_by_machine(self.counts)
        return np.asarray(samples / samples.mean())

    def shift(self, scale: float, calibration: str, method: str) -> NDArray[np.float64]:
        """(m,) what is added to logits that were multiplied by the scale; see `neutral_shift`."""
        return neutral_shift(self.code.matrix, scale, calibration, method)

    @cached_property
    def stored(self) -> StoredCode:
        """The code as the kernels read it."""
        return StoredCode.of(self.code.matrix)

    @cached_property
    def barrier(self) -> float:
        """The barrier of `bradley_terry`."""
        return resolved_barrier(None, "bradley_terry", self.code.matrix)

    def couple(
        self, logits: NDArray[np.floating], method: str, *, tol: float = 1e-6, n_jobs: int | None = None
    ) -> Logits:
        """(R, N) probabilities from logits (m, R), as `couple_code` has them."""
        L = check_machine_logits(logits, self.n_machines, "couple_code")
        n_q = check_machine_weights(self.weights, method, L.shape)
        barrier = self.barrier if method == "bradley_terry" else 0.0
        return solve_code(L, self.stored, method, n_q, barrier, tol, n_jobs)[0]
