"""Samples whose logits are at hand and that can be coupled at any scale: by all pairs, or by shortlists."""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.completion.complete import Completion, complete_slab
from pairloom.pipeline.completion.shortlist import shortlists
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY, couple_slab
from pairloom.pipeline.coupling import couple

__all__ = ["AllPairs", "CompletedPairs", "Uncoupled", "uncoupled"]


class Uncoupled(Protocol):
    """R samples before coupling."""

    def couple(self, method: str, scale: float = 1.0, n_jobs: int | None = None) -> NDArray[np.float32]:
        """(R, N) probabilities, with the logits multiplied by the scale."""

    def of_samples(self, samples: slice) -> Self:
        """Some of the samples."""


class AllPairs(NamedTuple):
    """Samples that are completed and coupled with all pairs of classes, whenever they are asked for."""

    edge_logits: NDArray[np.float32]
    completion: Completion
    memory_limit: int = DEFAULT_MEMORY

    def couple(self, method: str, scale: float = 1.0, n_jobs: int | None = None) -> NDArray[np.float32]:
        """(R, N) probabilities, with the logits multiplied by the scale."""
        return couple_slab(
            self.edge_logits,
            self.completion,
            [method],
            scales={method: scale},
            memory_limit=self.memory_limit,
            n_jobs=n_jobs,
        )[method]

    def of_samples(self, samples: slice) -> AllPairs:
        """Some of the samples."""
        return self._replace(edge_logits=np.ascontiguousarray(self.edge_logits[:, samples]))


class CompletedPairs(NamedTuple):
    """Samples whose logits (N, N, R) of all pairs are completed, once for every scale."""

    tensor: NDArray[np.float32]

    def couple(self, method: str, scale: float = 1.0, n_jobs: int | None = None) -> NDArray[np.float32]:
        """(R, N) probabilities, with the logits multiplied by the scale."""
        return couple(self.tensor * np.float32(scale), method, n_jobs=n_jobs)

    def of_samples(self, samples: slice) -> CompletedPairs:
        """Some of the samples."""
        return CompletedPairs(np.ascontiguousarray(self.tensor[:, :, samples]))


def uncoupled(
    edge_logits: NDArray[np.float32],
    completion: Completion,
    shortlist: int | None = None,
    memory_limit: int = DEFAULT_MEMORY,
) -> Uncoupled:
    """Samples ready for coupling, given the logits of their edges (E, R); ``shortlist`` None means all pairs."""
    n, n_samples = completion.n_classes, edge_logits.shape[1]
    if shortlist is None or shortlist >= n:
        # Twice: it is multiplied by the scale before it is coupled.
        if 2 * 4 * n**2 * n_samples > memory_limit:
            return AllPairs(edge_logits, completion, memory_limit)
        tensor = np.empty((n, n, n_samples), np.float32)
        return CompletedPairs(complete_slab(np.ascontiguousarray(edge_logits), completion, tensor))
    logits = np.ascontiguousarray(edge_logits.T)
    return shortlists(logits, completion.ranking.of_samples(logits), completion, shortlist)
