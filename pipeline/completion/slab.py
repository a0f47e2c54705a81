"""A slab of samples: from the logits of the edges to probabilities, under a memory limit."""

import numpy as np

from pairloom.pipeline.completion.complete import Completion, complete_slab
from pairloom.pipeline.completion.normal_from_edges import normal_from_edges, operator_bytes
from pairloom.pipeline.coupling import couple
from pairloom.pipeline.coupling.couple import method_named
from pairloom.pipeline.coupling.tensor_kernels import BLOCK

DEFAULT_MEMORY = 512 * 2**20


def slab_width(n_classes, memory_limit=DEFAULT_MEMORY):
    """How many samples a slab may hold: a (N, N, samples) tensor in float32, and a block of the coupling's matrices."""
    bytes_a_sample = 4 * n_classes**2
    width = memory_limit // bytes_a_sample - BLOCK
    if width < 1:
        raise ValueError(
            f"couple_slab: memory_limit must be at least {(BLOCK + 1) * bytes_a_sample:,} bytes"
            f" for {n_classes} classes, got {memory_limit:,}."
        )
    return min(int(width), 1024) if width < BLOCK else min(int(width) // BLOCK * BLOCK, 1024)


def couple_slab(
    edge_logits, completion: Completion, methods, *, tensor=None, memory_limit=DEFAULT_MEMORY, n_jobs=None
):
    """Complete and couple the edge logits of some samples by each of the methods.

    The (N, N, samples) tensor exists once, for as many samples at a time as the memory limit allows, completed in
    place; where only `normal` is asked for and nobody wants the tensor it does not exist at all, unless the graph has
    so many edges that the matrix which takes its place is beyond the limit.

    Parameters
    ----------
    edge_logits : (E, R) float32 array
        What the machines of the edges say, in the order of ``completion.edges``.
    completion : Completion
        From `plan_completion(graph)`.
    methods : sequence of str
    tensor : (N, N, R) float32 array, optional
        Where to write the completed logits, if they are wanted.
    memory_limit : int
        Bytes for the tensor and the scratch of one thread.
    n_jobs : int, optional
        Threads of the coupling.

    Returns
    -------
    dict of method -> (R, N) float32 array
    """
    for method in methods:
        method_named(method)
    _check_edge_logits(edge_logits, completion)
    if tensor is None and list(methods) == ["normal"] and operator_bytes(completion) <= memory_limit:
        return {"normal": normal_from_edges(edge_logits, completion)}
    n, n_samples = completion.n_classes, edge_logits.shape[1]
    coupled = {method: np.empty((n_samples, n), np.float32) for method in methods}
    width = min(slab_width(n, memory_limit), max(n_samples, 1))
    for low in range(0, n_samples, width):
        samples = slice(low, min(low + width, n_samples))
        part = np.ascontiguousarray(edge_logits[:, samples])
        slab = complete_slab(part, completion, np.empty((n, n, part.shape[1]), np.float32))
        for method in methods:
            coupled[method][samples] = couple(slab, method, n_jobs=n_jobs)
        if tensor is not None:
            tensor[:, :, samples] = slab
    return coupled


def _check_edge_logits(edge_logits, completion):
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
