"""Coupling of a shortlist: the likeliest classes of each sample are completed and coupled, the others only ranked.

A sample has a handful of candidates among a thousand classes. All classes are ranked without a tensor. The k best are
completed and coupled as if there were no others, and share the total probability that the ranking gives them; each of
the others keeps its probability from the ranking. The cost per sample becomes E + k^2 instead of N^2.

Coupling and ranking are two models. If classes overlap, or are thousands, their best scales differ. So the ranking has
a scale of its own, and the log odds of the list against the rest have an offset: see `ListMass`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.completion_kernels import (
    apply_and_complete,
    complete_blocks,
    complete_needed,
    needed_by_samples,
)
from pairloom.pipeline.coupling.pairs.couple import Float, couple, softmax
from pairloom.pipeline.threads import in_threads, thread_count

__all__ = [
    "FEW_CLASSES",
    "ONE_SCALE",
    "USUAL_SIZE",
    "ListMass",
    "Lists",
    "NeededEdges",
    "Shortlists",
    "affine_shortlists",
    "joined",
    "shortlist_size",
    "shortlists",
    "top_classes",
    "with_mass",
]

Samples = TypeVar("Samples")

#: The size for "auto", and the number of classes up to which "auto" couples all of them without a list.
USUAL_SIZE, FEW_CLASSES = 20, 50


def shortlist_size(shortlist: int | Literal["auto", "none"], n_classes: int) -> int | None:
    """The number of classes that the parameter `shortlist` lists; None if all are coupled."""
    if shortlist == "auto":
        return None if n_classes <= FEW_CLASSES else USUAL_SIZE
    return None if shortlist == "none" or shortlist >= n_classes else shortlist


class ListMass(NamedTuple):
    """The division of probability between the list and the rest, and among the rest.

    Attributes
    ----------
    ranking : float
        The scale of the potentials, relative to the scale of the list.
    offset : float
        Added to the log odds of the list against the rest.
    """

    ranking: float = 1.0
    offset: float = 0.0

    def ranked(
        self, potentials: NDArray[Float], classes: NDArray[np.integer], scale: float = 1.0
    ) -> NDArray[Float]:
        """(R, N) probabilities by the ranking, from the potentials (R, N) and the listed classes (R, k).

        All listed classes are moved by the offset. If all classes are listed, that changes nothing.
        """
        moved = potentials * potentials.dtype.type(scale * self.ranking)
        if self.offset:
            np.put_along_axis(
                moved,
                classes,
                np.take_along_axis(moved, classes, axis=1) + moved.dtype.type(self.offset),
                axis=1,
            )
        return softmax(moved)


#: The same scale for the list and the rest.
ONE_SCALE = ListMass()


class Lists(NamedTuple):
    """The listed classes of R samples, coupled as if there were no others.

    Attributes
    ----------
    classes : (R, k) int array
        In ascending order.
    tensor : (k, k, R) float32 array
        Their completed logits.
    weights : (N, N) float64 array, optional
        Weight per pair in the coupling; None if all are equal.
    """

    classes: NDArray[np.int64]
    tensor: NDArray[np.float32]
    weights: NDArray[np.float64] | None = None

    def couple(self, method: str, scale: float = 1.0, n_jobs: int | None = None) -> NDArray[np.float32]:
        """(R, k) probabilities of the listed classes, with the logits multiplied by the scale."""
        tensor = self.tensor * np.float32(scale)
        if self.weights is None:
            return couple(tensor, method, n_jobs=n_jobs)
        return self._weighted(tensor, self.weights, method, n_jobs)

    def places(self, y: NDArray[np.integer]) -> NDArray[np.int64]:
        """(R,) the place of the class y of each sample in its list; -1 if it is not listed."""
        is_true = self.classes == y[:, None]
        return np.where(is_true.any(axis=1), is_true.argmax(axis=1), -1)

    def class_scores(self) -> NDArray[np.float32]:
        """(R, k) the mean of the completed logits of each listed class."""
        return np.asarray(self.tensor.mean(axis=1).T)

    def of_samples(self, samples: slice | NDArray[np.bool_]) -> Lists:
        """Some of the samples."""
        return Lists(self.classes[samples], np.ascontiguousarray(self.tensor[:, :, samples]), self.weights)

    def _weighted(
        self,
        tensor: NDArray[np.float32],
        weights: NDArray[np.float64],
        method: str,
        n_jobs: int | None,
    ) -> NDArray[np.float32]:
        """Couple lists one by one, since each has its own weights."""

        def of_sample(r: int) -> NDArray[np.float32]:
            of_list = weights[np.ix_(self.classes[r], self.classes[r])]
            return couple(np.ascontiguousarray(tensor[:, :, r : r + 1]), method, of_list)

        rows = in_threads(of_sample, range(len(self.classes)), thread_count(n_jobs, "couple"))
        return np.concatenate(rows) if rows else np.empty((0, len(tensor)), np.float32)


class Shortlists(NamedTuple):
    """The shortlists of R samples, at scale one.

    Attributes
    ----------
    classes : (R, k) int array
        The listed classes of every sample, in ascending order.
    tensor : (k, k, R) float32 array
        Their completed logits.
    potentials : (R, N) float32 array
        The ranking of all classes.
    weights : (N, N) float64 array, optional
        Weight per pair in the coupling; None if all are equal.
    mass : ListMass
        How the list and the rest share the probability.
    """

    classes: NDArray[np.int64]
    tensor: NDArray[np.float32]
    potentials: NDArray[np.float32]
    weights: NDArray[np.float64] | None = None
    mass: ListMass = ONE_SCALE

    @property
    def lists(self) -> Lists:
        """The listed classes without the others."""
        return Lists(self.classes, self.tensor, self.weights)

    def couple(self, method: str, scale: float = 1.0, n_jobs: int | None = None) -> NDArray[np.float32]:
        """(R, N) probabilities of all classes, with the logits multiplied by the scale."""
        p = self.mass.ranked(self.potentials, self.classes, scale)
        share = np.take_along_axis(p, self.classes, axis=1).sum(axis=1, keepdims=True)
        np.put_along_axis(p, self.classes, self.lists.couple(method, scale, n_jobs) * share, axis=1)
        return p

    def class_scores(self) -> NDArray[np.float32]:
        """(R, N) the potentials. If all pairs are trained, they are the mean logit of each class against the others."""
        return self.potentials

    def of_samples(self, samples: slice) -> Shortlists:
        """Some of the samples."""
        return Shortlists(
            *self.lists.of_samples(samples)[:2], self.potentials[samples], self.weights, self.mass
        )


def joined(lists: Sequence[Shortlists]) -> Shortlists:
    """The shortlists of several groups of samples, by one model, as those of all of them."""
    if len(lists) == 1:
        return lists[0]
    return lists[0]._replace(
        classes=np.concatenate([one.classes for one in lists]),
        tensor=np.concatenate([one.tensor for one in lists], axis=2),
        potentials=np.concatenate([one.potentials for one in lists]),
    )


def with_mass(samples: Samples, mass: ListMass) -> Samples:
    """Samples whose lists have this mass. Samples without lists are returned unchanged."""
    return samples._replace(mass=mass) if isinstance(samples, Shortlists) else samples


def affine_shortlists(
    X: NDArray[np.float32],
    weights: NDArray[np.float32],
    bias: NDArray[np.float32],
    potentials: NDArray[np.float32],
    completion: Completion,
    k: int,
) -> Shortlists:
    """As `shortlists`, for affine edge logits weights[e] . x + bias[e], of which only the needed ones are computed.

    Parameters
    ----------
    X : (R, D) float32 array
    weights, bias : (E, D) and (E,) float32 arrays
    potentials, completion, k : as in `shortlists`
    """
    classes = top_classes(potentials, k)
    tensor = np.empty((k, k, len(classes)), np.float32)
    graph = (completion.offsets, completion.neighbours, completion.edge_of)
    apply_and_complete(weights, bias, X, classes, potentials, *graph, tensor)
    return Shortlists(classes, tensor, potentials, completion.weights)


class NeededEdges(NamedTuple):
    """The edges that are needed to complete the lists of samples: a few of all edges of a model.

    Attributes
    ----------
    classes : (R, k) int array
        The listed classes of every sample.
    starts, edges : (R + 1,) and (starts[R],) int arrays
        Sample r needs the edges ``edges[starts[r]:starts[r + 1]]``.
    """

    classes: NDArray[np.int64]
    starts: NDArray[np.int64]
    edges: NDArray[np.int64]

    @classmethod
    def of(cls, classes: NDArray[np.int64], completion: Completion) -> NeededEdges:
        """The edges that lists (R, k) need."""
        graph = (completion.offsets, completion.neighbours, completion.edge_of)
        sizes = (classes, np.int64(completion.n_classes), np.int64(completion.n_machines), *graph)
        starts = np.zeros(len(classes) + 1, np.int64)
        needed_by_samples(*sizes, starts, np.empty(0, np.int64))
        edges = np.empty(starts[-1], np.int64)
        if len(edges):
            needed_by_samples(*sizes, starts, edges)
        return cls(classes, starts, edges)

    @property
    def samples(self) -> NDArray[np.int64]:
        """The sample of each entry of `edges`."""
        return np.repeat(np.arange(len(self.classes)), np.diff(self.starts))

    def completed(
        self, logits: NDArray[np.float32], potentials: NDArray[np.float32], completion: Completion
    ) -> Shortlists:
        """The completed lists, from the logit of each entry of `edges` for its sample."""
        k = self.classes.shape[1]
        tensor = np.empty((k, k, len(self.classes)), np.float32)
        graph = (completion.offsets, completion.neighbours, completion.edge_of)
        needed = (self.starts, self.edges, np.int64(completion.n_machines))
        complete_needed(logits, *needed, self.classes, potentials, *graph, tensor)
        return Shortlists(self.classes, tensor, potentials, completion.weights)


def top_classes(potentials: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """(R, k) the classes with the largest potentials (R, N) of each sample, in ascending order."""
    best = np.argpartition(potentials, -k, axis=1)[:, -k:]
    return np.sort(best, axis=1)


def shortlists(
    logits: NDArray[np.float32], potentials: NDArray[np.float32], completion: Completion, k: int
) -> Shortlists:
    """List the k best classes of samples and complete their logits.

    Parameters
    ----------
    logits : (R, E) float32 array
        The logits of all edges, sample by sample.
    potentials : (R, N) float32 array
        From `Ranking.of_samples`, or from the same ranking as an affine map.
    completion : Completion
    k : int
    """
    classes = top_classes(potentials, k)
    tensor = np.empty((k, k, len(classes)), np.float32)
    graph = (completion.offsets, completion.neighbours, completion.edge_of)
    complete_blocks(logits, classes, potentials, *graph, tensor)
    return Shortlists(classes, tensor, potentials, completion.weights)
