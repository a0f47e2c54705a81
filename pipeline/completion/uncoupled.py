"""Samples whose logits are at hand and that can be coupled at any scale: by all pairs, by shortlists, or by a code."""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self, TypeAlias

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom.graphs import ModelCode
from pairloom.pipeline.completion.complete import Completion, complete_slab, plan_completion
from pairloom.pipeline.completion.shortlist import shortlists
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY, couple_slab
from pairloom.pipeline.coupling import couple
from pairloom.pipeline.coupling.code_coupling import CodeCoupling

__all__ = ["AllPairs", "ByCode", "CompletedPairs", "Uncoupled", "Wiring", "uncoupled", "wiring_of"]

#: How the logits of a model's machines are joined: pairs are completed, sets of classes are coupled as they are.
Wiring: TypeAlias = Completion | CodeCoupling


def wiring_of(graph: nx.Graph | ModelCode, counts: NDArray[np.float64] | None = None) -> Wiring:
    """The wiring of a model graph or code; with counts per class, machines weigh as many samples as they have."""
    if isinstance(graph, ModelCode):
        return CodeCoupling(graph, counts)
    return plan_completion(graph).weighted_by(counts)


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
    weights: NDArray[np.float64] | None = None

    def couple(self, method: str, scale: float = 1.0, n_jobs: int | None = None) -> NDArray[np.float32]:
        """(R, N) probabilities, with the logits multiplied by the scale."""
        return couple(self.tensor * np.float32(scale), method, self.weights, n_jobs=n_jobs)

    def of_samples(self, samples: slice) -> CompletedPairs:
        """Some of the samples."""
        return self._replace(tensor=np.ascontiguousarray(self.tensor[:, :, samples]))


class ByCode(NamedTuple):
    """Samples whose logits (m, R) are those of machines on sets of classes.

    ``calibration`` says how they are calibrated before the scale of the coupled model; None if they have it already.
    """

    logits: NDArray[np.float32]
    wiring: CodeCoupling
    calibration: str | None = None

    def couple(self, method: str, scale: float = 1.0, n_jobs: int | None = None) -> NDArray[np.float32]:
        """(R, N) probabilities, with the logits multiplied by the scale, and moved by what belongs to it."""
        logits = self.logits * np.float32(scale)
        if self.calibration is not None:
            logits += self.wiring.shift(scale, self.calibration, method)[:, None].astype(np.float32)
        return self.wiring.couple(logits, method, n_jobs=n_jobs)

    def of_samples(self, samples: slice) -> ByCode:
        """Some of the samples."""
        return self._replace(logits=np.ascontiguousarray(self.logits[:, samples]))


def uncoupled(
    edge_logits: NDArray[np.float32],
    wiring: Wiring,
    shortlist: int | None = None,
    memory_limit: int = DEFAULT_MEMORY,
    calibration: str | None = None,
) -> Uncoupled:
    """Samples ready for coupling, given the logits of their machines (E, R).

    ``shortlist`` None means all pairs; machines on sets of classes have no shortlists. For these, ``calibration`` says
    how the logits are calibrated where a scale is still to be chosen.
    """
    if isinstance(wiring, CodeCoupling):
        return ByCode(np.ascontiguousarray(edge_logits), wiring, calibration)
    completion, n, n_samples = wiring, wiring.n_classes, edge_logits.shape[1]
    if shortlist is None or shortlist >= n:
        # Twice: it is multiplied by the scale before it is coupled.
        if 2 * 4 * n**2 * n_samples > memory_limit:
            return AllPairs(edge_logits, completion, memory_limit)
        tensor = np.empty((n, n, n_samples), np.float32)
        completed = complete_slab(np.ascontiguousarray(edge_logits), completion, tensor)
        return CompletedPairs(completed, completion.weights)
    logits = np.ascontiguousarray(edge_logits.T)
    return shortlists(logits, completion.ranking.of_samples(logits), completion, shortlist)
