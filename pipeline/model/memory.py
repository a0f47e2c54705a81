"""Memory of fits and predictions in one process: estimated, and compared with the available memory beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairloom.graphs import Decomposition, Pairs, asks_for_code
from pairloom.graphs.hubs import USUAL_NEIGHBOURS
from pairloom.pipeline.machines.folds import PARTS
from pairloom.pipeline.machines.kernel_function import KEPT_BYTES, gram_type
from pairloom.pipeline.machines.kinds import KernelKind, LinearKind, MachineKind
from pairloom.pipeline.machines.pair_calibration import PROFILE_SIZE
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.process_memory import available_bytes

__all__ = [
    "check_memory",
    "fit_bytes",
    "least_rows",
    "likeliest_bytes",
    "machine_bytes",
    "prediction_bytes",
    "rows_of_machines",
]

_FLOAT, _DOUBLE = 4, 8
#: Smaller sizes are not checked: asking for the available memory takes longer than predicting a row.
_SMALL = 2**20


def check_memory(needed: float, what: str, advice: str) -> None:
    """Raise a MemoryError if ``what`` needs more bytes than are available; ``advice`` says what to do."""
    if needed <= _SMALL:
        return
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


def fit_bytes(
    kind: MachineKind,
    X: Any,
    rows: NDArray[np.integer],
    settings: MachineSettings,
    *,
    columns: float = 0.0,
    held_out: int = 0,
    n_threads: int = 1,
) -> float:
    """Bytes that a fit needs besides its samples.

    Parameters
    ----------
    kind : MachineKind
    X : (n, D) samples, dense or CSR
    rows : (E,) int array
        The training rows of each pair of classes, or of sets of these.
    settings : MachineSettings
    columns : float
        The mean number of columns with entries in the rows of a class, if X is sparse; a pair has at most twice as
        many.
    held_out : int
        Number of held-out samples that calibrate the model; their logits are kept for up to three calibrations.
    n_threads : int
    """
    n_edges, largest = len(rows), int(rows.max(initial=0))
    logits = 3.0 * _FLOAT * n_edges * held_out
    if isinstance(kind, KernelKind):
        stored = int(np.dtype(gram_type(settings.tol)).itemsize)
        grams = n_threads * (stored + _FLOAT) * largest**2 + min(KEPT_BYTES, stored * X.shape[0] ** 2)
        # Assume that half of the rows of a pair are support vectors. While parts are joined, there are two copies.
        support = float(rows.sum()) * _DOUBLE * (settings.scheme.n_machines + 1)
        copies = 0.0 if kind.kernel.precomputed else 3.0 * _bytes_of(X)
        return float(logits + copies + grams + support)
    if not isinstance(kind, LinearKind):
        rows_given = n_threads * largest * _bytes_of(X) / X.shape[0]
        return float(logits + rows_given)
    if sparse.issparse(X):
        copies, weights = 3.0 * 16 * X.nnz, min(2 * columns, X.shape[1])
    else:
        copies, weights = 2.0 * _bytes_of(X) + _FLOAT * X.shape[0] * X.shape[1], X.shape[1]
    machines = machine_bytes(n_edges, settings.scheme.n_machines, weights, is_sparse=sparse.issparse(X))
    # While tiles of machines are joined into one array, there are two copies; and their means.
    return float(logits + copies + 2 * machines + 2 * _FLOAT * n_edges * weights)


def _bytes_of(X: Any) -> float:
    return float(X.data.nbytes + X.indices.nbytes) if sparse.issparse(X) else float(X.nbytes)


def rows_of_machines(sides: Decomposition, counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """(E,) the training rows of each pair of classes, or of sets of these."""
    if isinstance(sides, Pairs):
        return np.asarray(counts[sides.edges].sum(axis=1), np.int64)
    return np.array([counts[classes].sum() for classes in sides.members()], np.int64)


def least_rows(asked: Any, counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """(E,) the training rows of the minimum number of pairs of a requested graph, before the graph is known. The
    largest class is in one of them.
    """
    smallest, *_, largest = np.sort(counts).tolist()
    rows = np.full(_least_pairs(asked, len(counts)), 2 * smallest, np.int64)
    rows[0] = smallest + largest
    return rows


def _least_pairs(asked: Any, n: int) -> int:
    if isinstance(asked, nx.Graph) and not asks_for_code(asked):
        return int(asked.number_of_edges())
    if asks_for_code(asked):
        return 1
    family = asked.get("family") if isinstance(asked, Mapping) else asked
    if family == "complete":
        return n * (n - 1) // 2
    neighbours = 1
    if family == "hub_neighbours":
        given = asked.get("neighbours") if isinstance(asked, Mapping) else None
        neighbours = min(USUAL_NEIGHBOURS if given is None else int(given), n - 1)
    return max(n - 1, n * neighbours // 2)


def prediction_bytes(n_rows: int, n_classes: int, itemsize: int) -> float:
    """Bytes of the probabilities of ``n_rows`` samples."""
    return float(n_rows) * n_classes * itemsize


def likeliest_bytes(n_rows: int, k: int, itemsize: int) -> float:
    """Bytes of the k likeliest classes of ``n_rows`` samples, and of their probabilities."""
    return float(n_rows) * k * (itemsize + _DOUBLE)
