"""Common to `couple` and `couple_code`: checks of their arguments, and the arrays that their solvers write.

`owner` is the name of the function in errors.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from pairloom.graphs.text import did_you_mean
from pairloom.pipeline.user_warnings import warn_user

Solver = TypeVar("Solver")


def solver_named(owner: str, method: str, methods: Mapping[str, Solver]) -> Solver:
    """Solver of a coupling method. An unknown name raises an error that suggests the nearest one."""
    if not isinstance(method, str) or method not in methods:
        raise ValueError(
            f"{owner}: method must be one of {', '.join(methods)}, got {method!r}.{did_you_mean(str(method), methods)}"
        )
    return methods[method]


def real_logits(owner: str, logits: ArrayLike, axes: tuple[str, ...], condition: str) -> NDArray[np.floating]:
    """Logits as a float32 or float64 array with these axes; the condition is for the message."""
    shape = f"({', '.join(axes)})"
    try:
        L = np.asarray(logits)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{owner}: logits must be {shape} numbers: {error}") from error
    if L.ndim != len(axes):
        raise ValueError(f"{owner}: logits must be {shape} {condition}, got shape {L.shape}.")
    if L.dtype in (np.float32, np.float64):
        return L
    if not (np.issubdtype(L.dtype, np.number) and np.isrealobj(L)):
        raise TypeError(f"{owner}: logits must be real numbers, got dtype {L.dtype}.")
    return L.astype(np.float64)


def real_numbers(owner: str, name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Values as a new float64 array, or an error that names the parameter."""
    try:
        given = np.asarray(values)
        return given.astype(np.float64, casting="same_kind" if given.dtype.kind == "c" else "unsafe")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{owner}: {name} must be real numbers, got {values!r}.") from error


def not_negative(owner: str, name: str, value: float) -> float:
    """A number of at least zero, as a float."""
    if isinstance(value, bool) or not (isinstance(value, numbers.Real) and 0 <= value < np.inf):
        raise ValueError(f"{owner}: {name} must be a number of at least 0, got {value!r}.")
    return float(value)


class Diagnostics(NamedTuple):
    """Convergence of an iterative coupling, per sample. Shapes: see `pairloom.pipeline`.

    Attributes
    ----------
    iterations : (R,) int64 array
        Sweeps or Newton steps; 0 if a sample was solved directly, 1 if the method does not iterate.
    residual : (R,) float64 array
        Estimated distance of the probabilities from the limit.
    converged : (R,) bool array
        Whether `residual` is at most `tol`.
    """

    iterations: NDArray[np.int64]
    residual: NDArray[np.float64]
    converged: NDArray[np.bool_]


class Solution(NamedTuple):
    """The arrays that a solver fills: probabilities (R, N), and the iterations and the residual of each sample."""

    p: NDArray[np.floating]
    iterations: NDArray[np.int64]
    residual: NDArray[np.float64]

    @classmethod
    def empty(cls, n_samples: int, n_classes: int, dtype: np.dtype[np.floating]) -> Solution:
        """Space for the solution, without iterations."""
        return cls(
            np.empty((n_samples, n_classes), dtype), np.zeros(n_samples, np.int64), np.zeros(n_samples)
        )

    def write(self, start: int, stop: int, p: NDArray[np.floating]) -> None:
        """Write probabilities that were computed directly: one iteration, no residual."""
        self.p[start:stop] = p
        self.iterations[start:stop], self.residual[start:stop] = 1, 0.0

    def diagnostics(self, owner: str, method: str, tol: float) -> Diagnostics:
        """The convergence of the samples; warns about the others."""
        converged = self.residual <= tol
        left = int((~converged).sum())
        if left:
            warn_user(
                f"{owner}: method {method!r} did not converge for {left} of {len(converged)} samples"
                f" (largest residual {self.residual.max():.1e} after {self.iterations.max()} iterations).",
                ConvergenceWarning,
            )
        return Diagnostics(self.iterations, self.residual, converged)
