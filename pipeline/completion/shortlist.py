"""Coupling of a shortlist: the likeliest classes of each sample are completed and coupled, the others only ranked.

A sample has a handful of candidates among a thousand classes. All classes are ranked without a tensor, the k best are
completed and coupled as if there were no others, and share the probability that the ranking gives them together; each
of the others keeps what the ranking gave it. The cost of a sample becomes E + k^2 instead of N^2.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.shortlist_kernels import apply_and_complete, complete_blocks
from pairloom.pipeline.coupling.pairs.couple import couple
from pairloom.pipeline.coupling.pairs.solvers import softmax
from pairloom.pipeline.pieces import in_threads, thread_count

__all__ = ["Shortlists", "affine_shortlists", "shortlist_size", "shortlists", "top_classes"]

#: The size of "auto", and the number of classes up to which "auto" lists none but couples all of them.
USUAL_SIZE, FEW_CLASSES = 20, 50


def shortlist_size(shortlist: int | Literal["auto", "none"], n_classes: int) -> int | None:
    """How many of so many classes the parameter `shortlist` lists; None where all are coupled."""
    if shortlist == "auto":
        return None if n_classes <= FEW_CLASSES else USUAL_SIZE
    return None if shortlist == "none" or shortlist >= n_classes else shortlist


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
        Weight per pair in the coupling; None where all are alike.
    """

    classes: NDArray[np.int64]
    tensor: NDArray[np.float32]
    potentials: NDArray[np.float32]
    weights: NDArray[np.float64] | None = None

    def couple(self, method: str, scale: float = 1.0, n_jobs: int | None = None) -> NDArray[np.float32]:
        """(R, N) probabilities of all classes, with the logits multiplied by the scale."""
        p = softmax(self.potentials * np.float32(scale))
        share = np.take_along_axis(p, self.classes, axis=1).sum(axis=1, keepdims=True)
        tensor = self.tensor * np.float32(scale)
        if self.weights is None:
            listed = couple(tensor, method, n_jobs=n_jobs)
        else:
            listed = self._weighted(tensor, self.weights, method, n_jobs)
        np.put_along_axis(p, self.classes, listed * share, axis=1)
        return p

    def of_samples(self, samples: slice) -> Shortlists:
        """Some of the samples."""
        tensor = np.ascontiguousarray(self.tensor[:, :, samples])
        return Shortlists(self.classes[samples], tensor, self.potentials[samples], self.weights)

    def _weighted(
        self,
        tensor: NDArray[np.float32],
        weights: NDArray[np.float64],
        method: str,
        n_jobs: int | None,
    ) -> NDArray[np.float32]:
        """Couple lists one by one, as each has weights of its own."""

        def of_sample(r: int) -> NDArray[np.float32]:
            of_list = weights[np.ix_(self.classes[r], self.classes[r])]
            return couple(np.ascontiguousarray(tensor[:, :, r : r + 1]), method, of_list)

        rows = in_threads(of_sample, range(len(self.classes)), thread_count(n_jobs, "couple"))
        return np.concatenate(rows) if rows else np.empty((0, len(tensor)), np.float32)


def affine_shortlists(
    X: NDArray[np.float32],
    weights: NDArray[np.float32],
    bias: NDArray[np.float32],
    potentials: NDArray[np.float32],
    completion: Completion,
    k: int,
) -> Shortlists:
    """As `shortlists`, where the logit of edge e is weights[e] . x + bias[e], and only those that are read are found.

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
