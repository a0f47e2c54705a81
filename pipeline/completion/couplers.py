"""Couplers: from the logits of a model's machines to probabilities, for pairs and for sets of classes.

A `Coupler` turns the logits of machines into `ScoredSamples`, which can be coupled at any scale. Pairs are completed
first, all of them or the pairs of a shortlist; machines on sets of classes need no completion.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Protocol, Self

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom.graphs import ModelCode
from pairloom.pipeline.completion.complete import Completion, complete_slab, plan_completion
from pairloom.pipeline.completion.shortlist import shortlist_size, shortlists
from pairloom.pipeline.completion.slab import DEFAULT_MEMORY, couple_slab, gradient_of_log_probability
from pairloom.pipeline.coupling.codes.couple_code import (
    StoredCode,
    check_machine_logits,
    check_machine_weights,
    resolved_barrier,
    solve_code,
)
from pairloom.pipeline.coupling.codes.gradient import gradient_of_code_log_probability
from pairloom.pipeline.coupling.model_coupling import ON_PAIRS, ON_SETS, ModelCouplings, check_code_suits
from pairloom.pipeline.coupling.pairs.couple import couple
from pairloom.pipeline.threads import pieces

__all__ = [
    "AllPairs",
    "CodeCoupler",
    "CodeSamples",
    "CompletedPairs",
    "Coupler",
    "PairCoupler",
    "ScoredSamples",
    "coupler_of",
    "neutral_shift",
]


class ScoredSamples(Protocol):
    """R samples with the logits of their machines, before coupling."""

    def couple(self, method: str, scale: float = 1.0, n_jobs: int | None = None) -> NDArray[np.float32]:
        """(R, N) probabilities, with the logits multiplied by the scale."""

    def class_scores(self) -> NDArray[np.float32]:
        """(R, N) the mean logit of each class against the others, at scale one: its fit, not normalised."""

    def of_samples(self, samples: slice) -> Self:
        """Some of the samples."""


class Coupler(ABC):
    """Turns the logits (E, R) of the machines of a model into probabilities (R, N)."""

    #: The couplings of this kind of machines.
    couplings: ModelCouplings

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """N, the number of classes."""

    @property
    @abstractmethod
    def n_machines(self) -> int:
        """E, the number of machines."""

    @property
    @abstractmethod
    def weights(self) -> NDArray[np.float64] | None:
        """Weights in the coupling with mean one, of pairs (N, N) or of machines (m,); None if all are equal."""

    @property
    def completion(self) -> Completion:
        """The completion of pairs that were not trained. Raises for machines on sets of classes."""
        raise TypeError("Machines on sets of classes have no pairs to complete.")

    def method_named(self, asked: str, machine_weight: str, owner: str) -> str:
        """The method that the parameter `coupling` stands for. Raises if it does not suit the model."""
        method = self.couplings.named(asked, owner)
        self.couplings.check_weighted(method, machine_weight, owner)
        return method

    @abstractmethod
    def shortlist_size(self, shortlist: int | Literal["auto", "none"]) -> int | None:
        """The number of classes listed per sample; None if all are coupled."""

    @abstractmethod
    def shift(self, scale: float, calibration: str, method: str) -> NDArray[np.float64]:
        """(E,) the shift to add after logits are multiplied by the scale; see `neutral_shift`."""

    @abstractmethod
    def scored(
        self,
        logits: NDArray[np.float32],
        shortlist: int | None = None,
        memory_limit: int = DEFAULT_MEMORY,
        calibration: str | None = None,
    ) -> ScoredSamples:
        """Samples ready for coupling, given the logits of their machines (E, R).

        ``shortlist`` None means all pairs; machines on sets of classes have no shortlists. They need ``calibration``,
        the calibration of the logits, if a scale is still to be chosen.
        """

    @abstractmethod
    def couple(
        self, logits: NDArray[np.floating], method: str, *, tol: float = 1e-6, n_jobs: int | None = None
    ) -> NDArray[np.floating]:
        """(R, N) probabilities from logits (E, R)."""

    @abstractmethod
    def gradient(
        self,
        logits: NDArray[np.floating],
        y: NDArray[np.integer],
        method: str,
        sample_weight: NDArray[np.float64] | None = None,
    ) -> tuple[float, NDArray[np.float64]]:
        """The mean of log p_y over samples, and its gradient (E, R) with respect to the logits of the machines."""


def coupler_of(graph: nx.Graph | ModelCode, counts: NDArray[np.float64] | None = None) -> Coupler:
    """The coupler of a model graph or code; given counts per class, machines are weighted by their training samples."""
    if isinstance(graph, ModelCode):
        return CodeCoupler(graph, counts)
    return PairCoupler(plan_completion(graph).weighted_by(counts))


class PairCoupler(Coupler):
    """Pairs are completed, then coupled."""

    couplings = ON_PAIRS

    def __init__(self, completion: Completion) -> None:
        self._completion = completion

    @property
    def n_classes(self) -> int:
        """N, the number of classes."""
        return self._completion.n_classes

    @property
    def n_machines(self) -> int:
        """E, the number of trained pairs."""
        return self._completion.n_machines

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """(N, N) weights of the pairs."""
        return self._completion.weights

    @property
    def completion(self) -> Completion:
        """The completion of pairs that were not trained."""
        return self._completion

    def shortlist_size(self, shortlist: int | Literal["auto", "none"]) -> int | None:
        """The number of classes listed per sample; None if all are coupled."""
        return shortlist_size(shortlist, self.n_classes)

    def shift(self, scale: float, calibration: str, method: str) -> NDArray[np.float64]:
        """Zeros: the uninformative logit of a pair is zero at every scale."""
        return np.zeros(self.n_machines)

    def scored(
        self,
        logits: NDArray[np.float32],
        shortlist: int | None = None,
        memory_limit: int = DEFAULT_MEMORY,
        calibration: str | None = None,
    ) -> ScoredSamples:
        """Samples with completed pairs: of their shortlists, or all; all at once if the memory limit allows."""
        completion, n, n_samples = self._completion, self.n_classes, logits.shape[1]
        if shortlist is not None and shortlist < n:
            by_sample = np.ascontiguousarray(logits.T)
            return shortlists(by_sample, completion.ranking.of_samples(by_sample), completion, shortlist)
        # Twice the tensor: `couple` multiplies a copy by the scale.
        if 2 * 4 * n**2 * n_samples > memory_limit:
            return AllPairs(logits, completion, memory_limit)
        tensor = np.empty((n, n, n_samples), np.float32)
        complete_slab(np.ascontiguousarray(logits), completion, tensor)
        return CompletedPairs(tensor, completion.weights)

    def couple(
        self, logits: NDArray[np.floating], method: str, *, tol: float = 1e-6, n_jobs: int | None = None
    ) -> NDArray[np.floating]:
        """(R, N) probabilities, by `couple_slab`."""
        return couple_slab(logits, self._completion, [method], n_jobs=n_jobs)[method]

    def gradient(
        self,
        logits: NDArray[np.floating],
        y: NDArray[np.integer],
        method: str,
        sample_weight: NDArray[np.float64] | None = None,
    ) -> tuple[float, NDArray[np.float64]]:
        """The mean of log p_y over samples, and its gradient through completion and coupling."""
        return gradient_of_log_probability(logits, y, self._completion, method, sample_weight)


@dataclass(frozen=True, eq=False)
class CodeCoupler(Coupler):
    """Machines on sets of classes are coupled without completion, by a code that is checked and stored once.

    Attributes
    ----------
    code : ModelCode
    counts : (N,) float64 array, optional
        Training samples of each class, if machines are weighted by their training samples [HLW eq. 8]; None for equal
        weights.
    """

    couplings = ON_SETS

    code: ModelCode
    counts: NDArray[np.float64] | None = None

    @property
    def n_classes(self) -> int:
        """N, the number of classes."""
        return self.code.n_classes

    @property
    def n_machines(self) -> int:
        """m, the number of machines."""
        return self.code.n_machines

    @cached_property
    def weights(self) -> NDArray[np.float64] | None:
        """(m,) weights of the machines."""
        if self.counts is None:
            return None
        samples = self.code.samples_by_machine(self.counts)
        return np.asarray(samples / samples.mean())

    @cached_property
    def stored(self) -> StoredCode:
        """The code in the form that kernels read."""
        return StoredCode.of(self.code.matrix)

    @cached_property
    def barrier(self) -> float:
        """The barrier of `bradley_terry`."""
        return resolved_barrier(None, "bradley_terry", self.code.matrix)

    def method_named(self, asked: str, machine_weight: str, owner: str) -> str:
        """The method that the parameter `coupling` stands for. Raises if it does not suit the code."""
        method = super().method_named(asked, machine_weight, owner)
        check_code_suits(method, self.code, owner)
        return method

    def shortlist_size(self, shortlist: int | Literal["auto", "none"]) -> None:
        """None: machines on sets of classes have no shortlists."""

    def shift(self, scale: float, calibration: str, method: str) -> NDArray[np.float64]:
        """(m,) the shift to add after logits are multiplied by the scale; see `neutral_shift`."""
        return neutral_shift(self.code.matrix, scale, calibration, method)

    def scored(
        self,
        logits: NDArray[np.float32],
        shortlist: int | None = None,
        memory_limit: int = DEFAULT_MEMORY,
        calibration: str | None = None,
    ) -> ScoredSamples:
        """Samples with the logits of all machines; nothing is completed or listed."""
        return CodeSamples(np.ascontiguousarray(logits), self, calibration)

    def couple(
        self, logits: NDArray[np.floating], method: str, *, tol: float = 1e-6, n_jobs: int | None = None
    ) -> NDArray[np.floating]:
        """(R, N) probabilities, by `couple_code`."""
        L = check_machine_logits(logits, self.n_machines, "couple_code")
        n_q = check_machine_weights(self.weights, method, L.shape)
        barrier = self.barrier if method == "bradley_terry" else 0.0
        return solve_code(L, self.stored, method, n_q, barrier, tol, n_jobs)[0]

    def gradient(
        self,
        logits: NDArray[np.floating],
        y: NDArray[np.integer],
        method: str,
        sample_weight: NDArray[np.float64] | None = None,
    ) -> tuple[float, NDArray[np.float64]]:
        """The mean of log p_y over samples, and its gradient through the coupling."""
        return gradient_of_code_log_probability(
            logits, y, self.code.matrix, method, self.weights, sample_weight=sample_weight
        )


def neutral_shift(
    matrix: NDArray[np.int8], scale: float, calibration: str, method: str = "bradley_terry"
) -> NDArray[np.float64]:
    """(m,) the shift to add after the logits of machines are multiplied by the scale b of the coupled model.

    The uninformative logit of a machine, for which all classes are equally likely, is not zero but
    u = log(classes at +1 / classes at -1). So a scale below one must shrink a calibrated logit l towards u:
    b (l - u) + u. An uninformative distance is zero, so a distance d becomes b d + u. For pairs of classes, and for
    "linear" decoding, u is zero.

    Examples
    --------
    >>> neutral_shift(np.array([[1], [-1], [-1]], np.int8), 0.5, "platt").round(3)
    array([-0.347])
    """
    if method == "linear":
        return np.zeros(matrix.shape[1])
    u = np.log((matrix == 1).sum(axis=0) / (matrix == -1).sum(axis=0))
    return np.asarray(u if calibration in ("distance", "slopes") else (1 - scale) * u)


class AllPairs(NamedTuple):
    """Samples whose pairs are completed and coupled slab by slab, again for every scale."""

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

    def class_scores(self) -> NDArray[np.float32]:
        """(R, N) the mean of the completed logits of each class."""
        n, n_samples = self.completion.n_classes, self.edge_logits.shape[1]
        size = max(1, self.memory_limit // (8 * n**2))
        parts = [
            complete_slab(
                np.ascontiguousarray(self.edge_logits[:, some]),
                self.completion,
                np.empty((n, n, some.stop - some.start), np.float32),
            ).mean(axis=1)
            for some in pieces(n_samples, size)
        ]
        return np.concatenate(parts, axis=1).T if parts else np.empty((0, n), np.float32)

    def of_samples(self, samples: slice) -> AllPairs:
        """Some of the samples."""
        return self._replace(edge_logits=np.ascontiguousarray(self.edge_logits[:, samples]))


class CompletedPairs(NamedTuple):
    """Samples with the completed logits (N, N, R) of all pairs, completed once for all scales."""

    tensor: NDArray[np.float32]
    weights: NDArray[np.float64] | None = None

    def couple(self, method: str, scale: float = 1.0, n_jobs: int | None = None) -> NDArray[np.float32]:
        """(R, N) probabilities, with the logits multiplied by the scale."""
        return couple(self.tensor * np.float32(scale), method, self.weights, n_jobs=n_jobs)

    def class_scores(self) -> NDArray[np.float32]:
        """(R, N) the mean of the completed logits of each class."""
        return np.asarray(self.tensor.mean(axis=1).T)

    def of_samples(self, samples: slice) -> CompletedPairs:
        """Some of the samples."""
        return self._replace(tensor=np.ascontiguousarray(self.tensor[:, :, samples]))


class CodeSamples(NamedTuple):
    """Samples with the logits (m, R) of machines on sets of classes.

    ``calibration`` is their calibration before the scale of the coupled model; None if they are scaled already.
    """

    logits: NDArray[np.float32]
    coupler: CodeCoupler
    calibration: str | None = None

    def couple(self, method: str, scale: float = 1.0, n_jobs: int | None = None) -> NDArray[np.float32]:
        """(R, N) probabilities, with the logits multiplied by the scale and shifted accordingly."""
        logits = self.logits * np.float32(scale)
        if self.calibration is not None:
            logits += self.coupler.shift(scale, self.calibration, method)[:, None].astype(np.float32)
        return self.coupler.couple(logits, method, n_jobs=n_jobs)

    def class_scores(self) -> NDArray[np.float32]:
        """(R, N) the mean logit of the machines of each class, seen from its side."""
        matrix = self.coupler.code.matrix.astype(np.float32)
        return np.asarray((matrix @ self.logits).T / np.abs(matrix).sum(axis=1))

    def of_samples(self, samples: slice) -> CodeSamples:
        """Some of the samples."""
        return self._replace(logits=np.ascontiguousarray(self.logits[:, samples]))
