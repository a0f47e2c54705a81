"""How far a coupling came: for each sample, and a warning where that is not far enough."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

__all__ = ["Diagnostics", "warn_unconverged"]


class Diagnostics(NamedTuple):
    """Convergence of an iterative coupling, per sample. Shapes: see `pairloom.pipeline`.

    Attributes
    ----------
    iterations : (R,) int64 array
        Sweeps or Newton steps; 0 where a sample was solved directly, 1 where the method does not iterate.
    residual : (R,) float64 array
        Estimated distance of the probabilities from the limit.
    converged : (R,) bool array
        Whether `residual` is at most `tol`.
    """

    iterations: NDArray[np.int64]
    residual: NDArray[np.float64]
    converged: NDArray[np.bool_]


def warn_unconverged(owner: str, method: str, diagnostics: Diagnostics, stacklevel: int) -> None:
    """Warn of the samples that did not converge, as if from `stacklevel` calls above."""
    left = int((~diagnostics.converged).sum())
    if left:
        warnings.warn(
            f"{owner}: method {method!r} did not converge for {left} of {len(diagnostics.converged)} samples"
            f" (largest residual {diagnostics.residual.max():.1e} after {diagnostics.iterations.max()} iterations).",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )
