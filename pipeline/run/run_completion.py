"""How the machines of a run are joined, planned once per process and not once per slab."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.completion.complete import Completion, completion_over
from pairloom.pipeline.completion.uncoupled import Wiring
from pairloom.pipeline.coupling.code_coupling import CodeCoupling
from pairloom.pipeline.run.run import Run

__all__ = ["completion_of", "wiring_of_run"]


def wiring_of_run(run: Run, pairs: int | None = None) -> Wiring:
    """The wiring of a run's machines; of a graph that has grown, of its first ``pairs`` edges."""
    counts = run.settings.counts_of(run.totals)
    if run.shape.code is not None:
        shape, key = run.shape.code.shape, None if counts is None else counts.tobytes()
        return _code_of(run.shape.code.tobytes(), shape, key)
    edges = run.shape.edges if pairs is None else run.shape.edges[:pairs]
    return completion_of(edges, len(run.shape.classes), counts)


def completion_of(
    edges: NDArray[np.int64], n_classes: int, counts: NDArray[np.float64] | None = None
) -> Completion:
    """The completion of a graph given by its edges, in any order, with counts per class if pairs are weighted."""
    return _completion_of(edges.tobytes(), n_classes, None if counts is None else counts.tobytes())


@functools.lru_cache(maxsize=1)
def _completion_of(edges: bytes, n_classes: int, counts: bytes | None) -> Completion:
    pairs = np.frombuffer(edges, np.int64).reshape(-1, 2)
    return completion_over(n_classes, pairs[graphs.edge_order(pairs)]).weighted_by(_counts(counts))


@functools.lru_cache(maxsize=1)
def _code_of(matrix: bytes, shape: tuple[int, int], counts: bytes | None) -> CodeCoupling:
    code = graphs.ModelCode(np.frombuffer(matrix, np.int8).reshape(shape), {"family": "run"})
    return CodeCoupling(code, _counts(counts))


def _counts(counts: bytes | None) -> NDArray[np.float64] | None:
    return None if counts is None else np.frombuffer(counts)
