"""Completion and normal coupling as one linear map of the edge logits, without a tensor of all pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.completion_kernels import mean_operator
from pairloom.pipeline.coupling.normal import normalise, softmax
from pairloom.pipeline.pieces import pieces

#: Samples at a time: the potentials of 1000 classes then take 8 MB.
_SAMPLES = 2048

#: From edge logits (E, samples) to potentials (N, samples).
Potentials: TypeAlias = Callable[[NDArray[np.float32]], NDArray[np.float64]]


def normal_from_edges(edge_logits: NDArray[np.float32], completion: Completion) -> NDArray[np.float32]:
    """Compute the `normal` probabilities (R, N) from the logits of the edges (E, R).

    u_i = (1/N) sum_j L_ij over the completed pairs is linear in the trained logits, so it is a matrix (N, E) times
    them. For a complete bipartite graph (a star, hubs) it is two row means, and no matrix is needed.
    """
    hubs = hub_classes(completion)
    apply = _operator_potentials(completion) if hubs is None else _bipartite_potentials(completion, hubs)
    p = np.empty((edge_logits.shape[1], completion.n_classes), np.float32)
    for samples in pieces(len(p), _SAMPLES):
        p[samples] = softmax(apply(edge_logits[:, samples]).T)
    normalise(p)
    return p


def operator_bytes(completion: Completion) -> int:
    """Memory of the matrix, in bytes: zero for a complete bipartite graph."""
    return 0 if hub_classes(completion) is not None else 4 * completion.n_classes * len(completion.edges)


def hub_classes(completion: Completion) -> NDArray[np.intp] | None:
    """The smaller side of a complete bipartite graph, or None for other graphs."""
    across = completion.trained[0]
    side = ~across  # the classes on the side of class 0
    if (completion.trained != (side[:, None] ^ side[None, :])).any():
        return None
    return np.flatnonzero(side if side.sum() <= across.sum() else across)


def _bipartite_potentials(completion: Completion, hubs: NDArray[np.intp]) -> Potentials:
    """For K(d, N - d): the classes of a side differ by their mean logits against the other side.

    Two classes i, j of one side share all their neighbours, so L_ij = a_i - a_j with a_i the mean of L_im over the
    other side; then N u_i = (size of the other side) a_i + sum over the own side of (a_i - a_j) = N a_i - sum a_j.
    """
    n = completion.n_classes
    is_hub = np.zeros(n, dtype=bool)
    is_hub[hubs] = True
    i, j = completion.edges.T
    sign = np.where(is_hub[i], 1, -1).astype(np.float32)
    rows, columns = np.where(is_hub[i], i, j), np.where(is_hub[i], j, i)
    rest = np.flatnonzero(~is_hub)
    place = np.empty((len(hubs), len(rest)), dtype=np.int64)
    place[np.searchsorted(hubs, rows), np.searchsorted(rest, columns)] = np.arange(len(i))

    def apply(edge_logits: NDArray[np.float32]) -> NDArray[np.float64]:
        u = np.empty((n, edge_logits.shape[1]))
        of_rest = np.zeros((len(rest), edge_logits.shape[1]))
        for hub, edges in zip(hubs, place, strict=True):
            against_rest = edge_logits[edges] * sign[edges, None]
            u[hub] = against_rest.mean(axis=0, dtype=np.float64)
            of_rest -= against_rest
        u[rest] = of_rest / len(hubs)
        u[hubs] -= u[hubs].sum(axis=0) / n
        u[rest] -= u[rest].sum(axis=0) / n
        return u

    return apply


def _operator_potentials(completion: Completion) -> Potentials:
    """For any model graph: the matrix of the map. A kernel adds pairs with common neighbours, potentials the others."""
    n, n_edges = completion.n_classes, len(completion.edges)
    operator = np.zeros((n, n_edges), np.float32)
    mean_operator(completion.trained, completion.offsets, completion.neighbours, completion.edge_of, operator)
    if completion.to_potentials.size:
        operator += _distant_operator(completion)
    operator /= n
    return lambda edge_logits: (operator @ edge_logits).astype(np.float64)


def _distant_operator(completion: Completion) -> NDArray[np.float32]:
    """The part of sum_j L_ij that comes from pairs at distance three or more: differences of the potentials."""
    n, edges = completion.n_classes, completion.edges
    trained = completion.trained.astype(np.float32)
    distant = (trained @ trained == 0) & ~completion.trained & ~np.eye(n, dtype=bool)
    differences = np.diag(distant.sum(axis=1)) - distant
    to_potentials = differences @ completion.to_potentials
    operator: NDArray[np.float64] = to_potentials[:, edges[:, 0]] - to_potentials[:, edges[:, 1]]
    return operator.astype(np.float32)
