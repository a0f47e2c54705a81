"""A slab of samples: from the logits of the edges to probabilities under a memory limit, and their gradient.

`couple_slab` completes and couples the (N, N, samples) tensor in place, as many samples at a time as the limit allows.
Completion followed by `normal` coupling is one linear map of the edge logits, so `normal` alone needs no tensor.
Completion is linear, so gradients pass through it by its transpose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.completion.complete import Completion, complete_slab
from pairloom.pipeline.completion.completion_kernels import mean_operator
from pairloom.pipeline.coupling.pairs.couple import couple, method_named, normalise, softmax
from pairloom.pipeline.coupling.pairs.gradient import GRADIENTS, SMALLEST, gradient_of_true_class
from pairloom.pipeline.coupling.vector_kernels import BLOCK
from pairloom.pipeline.threads import pieces

__all__ = ["DEFAULT_MEMORY", "couple_slab", "slab_width"]


DEFAULT_MEMORY = 512 * 2**20


def slab_width(n_classes: int, memory_limit: int = DEFAULT_MEMORY) -> int:
    """The number of samples for which the (N, N, samples) float32 tensor and the coupling's block of matrices fit."""
    bytes_per_sample = 4 * n_classes**2
    width = memory_limit // bytes_per_sample - BLOCK
    if width < 1:
        raise ValueError(
            f"couple_slab: memory_limit must be at least {(BLOCK + 1) * bytes_per_sample:,} bytes"
            f" for {n_classes} classes, got {memory_limit:,}."
        )
    return min(int(width), 1024) if width < BLOCK else min(int(width) // BLOCK * BLOCK, 1024)


def couple_slab(
    edge_logits: NDArray[np.float32],
    completion: Completion,
    methods: Sequence[str],
    *,
    scales: Mapping[str, float] | None = None,
    memory_limit: int = DEFAULT_MEMORY,
    n_jobs: int | None = None,
) -> dict[str, NDArray[np.float32]]:
    """Complete and couple the edge logits of some samples by each of the methods.

    The (N, N, samples) tensor exists once, for as many samples at a time as the memory limit allows, and is completed
    in place. For `normal` alone there is no tensor but an (N, E) matrix, unless that matrix is beyond the limit.

    Parameters
    ----------
    edge_logits : (E, R) float32 array
        The logits of the edges, in the order of ``completion.edges``.
    completion : Completion
        From `plan_completion(graph)`.
    methods : sequence of str
    scales : mapping of method -> float, optional
        Factor of the logits before coupling; by default one.
    memory_limit : int
        Maximum memory, in bytes per thread, for the tensor and its scratch.
    n_jobs : int, optional
        Threads of the coupling.

    Returns
    -------
    dict of method -> (R, N) float32 array
    """
    for method in methods:
        method_named(method)
    _check_edge_logits(edge_logits, completion)
    factors = {method: np.float32(1 if scales is None else scales[method]) for method in methods}
    by_edges = list(methods) == ["normal"] and completion.counts is None
    if by_edges and operator_bytes(completion) <= memory_limit:
        return {"normal": normal_from_edges(_scaled(edge_logits, factors["normal"]), completion)}
    n, n_samples = completion.n_classes, edge_logits.shape[1]
    coupled = {method: np.empty((n_samples, n), np.float32) for method in methods}
    for samples in pieces(n_samples, slab_width(n, memory_limit)):
        part = np.ascontiguousarray(edge_logits[:, samples])
        slab = complete_slab(part, completion, np.empty((n, n, part.shape[1]), np.float32))
        for method, factor in factors.items():
            # Completion is linear, so its result is scaled instead of its input, and serves all methods.
            coupled[method][samples] = couple(
                _scaled(slab, factor), method, completion.weights, n_jobs=n_jobs
            )
    return coupled


def _scaled(logits: NDArray[np.float32], factor: np.float32) -> NDArray[np.float32]:
    return logits if factor == 1 else factor * logits


def _check_edge_logits(edge_logits: NDArray[np.float32], completion: Completion) -> None:
    if edge_logits.ndim != 2 or len(edge_logits) != len(completion.edges):
        raise ValueError(
            f"couple_slab: edge_logits must have shape ({len(completion.edges)}, R),"
            f" one row for each edge of the graph, got {edge_logits.shape}."
        )
    if not np.isfinite(edge_logits).all():
        e, r = np.argwhere(~np.isfinite(edge_logits))[0]
        i, j = completion.edges[e]
        raise ValueError(
            f"couple_slab: edge_logits must be finite, got {edge_logits[e, r]} for edge ({i}, {j}), sample {r}."
        )


def gradient_of_log_probability(
    edge_logits: NDArray[np.floating],
    y: NDArray[np.integer],
    completion: Completion,
    method: str,
    weight: NDArray[np.floating] | None = None,
    memory_limit: int = 2**29,
) -> tuple[float, NDArray[np.float64]]:
    """Mean of log p_y over samples, and its gradient with respect to the edge logits.

    Shapes: see `pairloom.pipeline`.

    Parameters
    ----------
    edge_logits : (E, R) float array
        Logits of the trained pairs, in the order of ``completion.edges``.
    y : (R,) int array
        True classes.
    completion : Completion
        From `plan_completion`.
    method : {"normal", "stratified", "wlw2", "bradley_terry"}
        The coupling.
    weight : (R,) array, default=None
        Weight per sample in the mean. By default, all weights are equal.
    memory_limit : int, default=2**29
        Maximum memory, in bytes, for the completed logits of a slab of samples, in double precision.

    Returns
    -------
    mean : float
    gradient : (E, R) float64 array
    """
    if method not in GRADIENTS:
        raise ValueError(
            "coupled_calibration='edges' needs a coupling with a gradient, one of"
            f" {', '.join(GRADIENTS)}, got {method!r}."
        )
    n, n_samples = completion.n_classes, edge_logits.shape[1]
    gradient = np.empty((len(completion.edges), n_samples))
    share = np.full(n_samples, 1 / n_samples) if weight is None else weight / np.sum(weight)
    mean = 0.0
    width = min(slab_width(n, memory_limit // 2), n_samples)
    for samples in pieces(n_samples, width):
        part = np.ascontiguousarray(edge_logits[:, samples])
        tensor = complete_slab(part, completion, np.empty((n, n, part.shape[1])))
        p = couple(tensor, method).astype(np.float64, copy=False)
        mean += float(share[samples] @ np.log(np.maximum(p[np.arange(len(p)), y[samples]], SMALLEST)))
        G = gradient_of_true_class(tensor.transpose(2, 0, 1), p, y[samples], method)
        gradient[:, samples] = completion_transpose(G, completion)
    return mean, gradient * share


def completion_transpose(G: NDArray[np.float64], completion: Completion) -> NDArray[np.float64]:
    """The gradient with respect to the edges (E, R), from that with respect to all pairs, G (R, N, N) antisymmetric.

    A missing pair is the mean of (L_im + L_mj) over m, so each of these logits gets 1 / |O_ij| of its gradient. The
    gradient of a pair without common neighbours passes through the potentials.
    """
    trained = completion.trained.astype(np.float64)
    common = trained @ trained
    missing = ~completion.trained & ~np.eye(completion.n_classes, dtype=bool)
    near, distant = missing & (common > 0), missing & (common == 0)
    i, j = completion.edges.T
    handed = G * np.where(near, 1 / np.maximum(common, 1), 0)
    # L_im gets handed_ij for every j joined to m.
    through = handed @ trained
    total = G[:, i, j] + through[:, i, j] - through[:, j, i]
    if distant.any():
        divergence = (G * distant).sum(axis=2) @ completion.to_potentials.T
        total += divergence[:, i] - divergence[:, j]
    return total.T


#: Samples at a time: the potentials of 1000 classes then take 8 MB.
_SAMPLES = 2048

#: From edge logits (E, samples) to potentials (N, samples).
Potentials: TypeAlias = Callable[[NDArray[np.float32]], NDArray[np.float64]]


def normal_from_edges(edge_logits: NDArray[np.float32], completion: Completion) -> NDArray[np.float32]:
    """Compute the `normal` probabilities (R, N) from the logits of the edges (E, R).

    u_i = (1/N) sum_j L_ij over the completed pairs is linear in the trained logits: a matrix (N, E). For a complete
    bipartite graph (a star, hubs) it is two row means, and no matrix is needed.
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
    other side. So N u_i = (size of the other side) a_i + sum over i's side of (a_i - a_j) = N a_i - sum a_j.
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
    """For any model graph: the matrix of the map, for pairs with common neighbours plus distant pairs."""
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
