"""A slab of samples: from the logits of the edges to probabilities, under a memory limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.completion.complete import Completion, complete_slab
from pairloom.pipeline.completion.normal_from_edges import normal_from_edges, operator_bytes
from pairloom.pipeline.coupling import couple
from pairloom.pipeline.coupling.couple import method_named
from pairloom.pipeline.coupling.tensor_kernels import BLOCK
from pairloom.pipeline.pieces import pieces

__all__ = ["DEFAULT_MEMORY", "couple_slab", "slab_width"]

DEFAULT_MEMORY = 512 * 2**20


def slab_width(n_classes: int, memory_limit: int = DEFAULT_MEMORY) -> int:
    """How many samples a slab may hold: a (N, N, samples) float32 tensor, and a block of the coupling's matrices."""
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

    The (N, N, samples) tensor exists once, for as many samples at a time as the memory limit allows, completed in
    place. Where only `normal` is asked for it does not exist at all, unless the graph has so many edges that the matrix
    which takes its place is beyond the limit.

    Parameters
    ----------
    edge_logits : (E, R) float32 array
        The logits of the edges, in the order of ``completion.edges``.
    completion : Completion
        From `plan_completion(graph)`.
    methods : sequence of str
    scales : mapping of method -> float, optional
        Logits are multiplied by this before they are coupled; by default by one.
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
    if list(methods) == ["normal"] and operator_bytes(completion) <= memory_limit:
        return {"normal": normal_from_edges(_scaled(edge_logits, factors["normal"]), completion)}
    n, n_samples = completion.n_classes, edge_logits.shape[1]
    coupled = {method: np.empty((n_samples, n), np.float32) for method in methods}
    for samples in pieces(n_samples, slab_width(n, memory_limit)):
        part = np.ascontiguousarray(edge_logits[:, samples])
        slab = complete_slab(part, completion, np.empty((n, n, part.shape[1]), np.float32))
        for method, factor in factors.items():
            # Completion is linear: scaling its result is scaling its input, once for all methods.
            coupled[method][samples] = couple(_scaled(slab, factor), method, n_jobs=n_jobs)
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
