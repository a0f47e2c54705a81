"""The completion of a run's graph, planned once per process and not once per slab."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.completion.complete import Completion, completion_over

__all__ = ["completion_of"]


def completion_of(edges: NDArray[np.int64], n_classes: int) -> Completion:
    """The completion of a graph given by its edges, in any order."""
    return _completion_of(edges.tobytes(), n_classes)


@functools.lru_cache(maxsize=1)
def _completion_of(edges: bytes, n_classes: int) -> Completion:
    pairs = np.frombuffer(edges, np.int64).reshape(-1, 2)
    return completion_over(n_classes, pairs[graphs.edge_order(pairs)])
