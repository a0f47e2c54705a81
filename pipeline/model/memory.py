"""Memory of fits and predictions in one process: estimated, and compared with the available memory beforehand."""

from __future__ import annotations

from typing import Any

import psutil
from scipy import sparse

from pairloom.pipeline.machines.folds import PARTS
from pairloom.pipeline.machines.pair_calibration import PROFILE_SIZE

__all__ = ["available_bytes", "check_memory", "fit_bytes", "machine_bytes", "prediction_bytes"]

_FLOAT, _DOUBLE = 4, 8


def available_bytes() -> int:
    """Bytes that this process may still take before the system ends it or swaps."""
    return int(psutil.virtual_memory().available)


def check_memory(needed: float, what: str, advice: str) -> None:
    """Raise a MemoryError if ``what`` needs more bytes than are available; ``advice`` says what to do."""
    available = available_bytes()
    if needed > available:
        raise MemoryError(
            f"PairwiseSVC: {what} needs about {needed / 2**30:.1f} GiB, and {available / 2**30:.1f} GiB are available:"
            f" {advice}."
        )


def machine_bytes(n_edges: int, n_machines: int, weights_per_edge: float, *, is_sparse: bool) -> float:
    """Bytes of trained machines: their weights, with the columns for sparse features, and their calibration."""
    weights = weights_per_edge * (_FLOAT * n_machines + (_FLOAT if is_sparse else 0))
    others = n_machines * _DOUBLE * (6 + 2 * PARTS) + _FLOAT * PARTS * PROFILE_SIZE
    return n_edges * (weights + others)


def fit_bytes(X: Any, n_edges: int, n_machines: int, columns_of_class: float) -> float:
    """Bytes that a fit takes besides its samples X: normalised and whitened copies, machines twice, their mean.

    Machines count twice because their tiles are copied into one array. ``columns_of_class`` is the mean number of
    columns that the rows of a class touch; a pair touches at most twice as many.
    """
    if sparse.issparse(X):
        copies, weights = 3 * 16 * X.nnz, min(2 * columns_of_class, X.shape[1])
    else:
        copies, weights = X.shape[0] * X.shape[1] * (X.dtype.itemsize + _FLOAT), X.shape[1]
    machines = machine_bytes(n_edges, n_machines, weights, is_sparse=sparse.issparse(X))
    return float(copies + 2 * machines + 2 * _FLOAT * n_edges * weights)


def prediction_bytes(n_rows: int, n_classes: int, itemsize: int) -> float:
    """Bytes of the probabilities of ``n_rows`` samples."""
    return float(n_rows) * n_classes * itemsize
