"""Gradient of the log probability of the true class if only a shortlist of the classes is coupled.

A listed class has p_c = s q_c: q is the coupling of the list, and s the share of the list by the ranking of all
classes. Other classes have their probabilities from the ranking. So log p_y has a part through the coupling and the
completed pairs of the list, and a part through the potentials of the ranking. Both completed pairs and potentials are
linear in the logits of the edges, so gradients pass through them by the transposes. The list itself is piecewise
constant, and its `ListMass` is given.

A list of all classes has the share one: it is the coupling of all pairs.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.accelerate import kernel
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.completion_kernels import clear_neighbours, mark_neighbours
from pairloom.pipeline.completion.shortlist import ONE_SCALE, ListMass, Shortlists, shortlists
from pairloom.pipeline.coupling.pairs.couple import couple
from pairloom.pipeline.coupling.pairs.gradient import SMALLEST, gradient_of_true_class

__all__ = [
    "gradient_through_shortlists",
    "log_probabilities_of_lists",
]


Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.integer]


@kernel
def add_to_edge(gradient: Floats, edge: int, share: float) -> None:
    """Add to the gradient of an edge, counted from 1; a negative number means its second class."""
    if edge > 0:
        gradient[edge - 1] += share
    else:
        gradient[-edge - 1] -= share


@kernel
def pass_on_block(
    G: Floats,
    listed: Integers,
    offsets: Integers,
    neighbours: Integers,
    edge_of: Integers,
    edge_to: Integers,
    of_edges: Floats,
    of_potentials: Floats,
) -> None:
    """The transpose of `complete_block`: add the gradient G (k, k) of listed pairs to those of edges and potentials.

    A trained pair is an edge. Any other pair is a mean over common neighbours, each of which passes a share to its two
    edges; or, without common neighbours, a difference of potentials.
    """
    for a in range(listed.shape[0]):
        i = listed[a]
        mark_neighbours(i, offsets, neighbours, edge_of, edge_to)
        for b in range(a + 1, listed.shape[0]):
            j, g = listed[b], G[a, b]
            if edge_to[j] != 0:
                add_to_edge(of_edges, edge_to[j], g)
                continue
            common = 0
            for at in range(offsets[j], offsets[j + 1]):
                common += edge_to[neighbours[at]] != 0
            if common == 0:
                of_potentials[i] += g
                of_potentials[j] -= g
                continue
            for at in range(offsets[j], offsets[j + 1]):
                first = edge_to[neighbours[at]]
                if first != 0:
                    add_to_edge(of_edges, first, g / common)
                    add_to_edge(of_edges, edge_of[at], -g / common)
        clear_neighbours(i, offsets, neighbours, edge_to)


@kernel
def pass_on_blocks(
    G: Floats,
    lists: Integers,
    offsets: Integers,
    neighbours: Integers,
    edge_of: Integers,
    of_edges: Floats,
    of_potentials: Floats,
) -> None:
    """`pass_on_block` for samples: G (R, k, k), lists (R, k), of_edges (R, E), of_potentials (R, N)."""
    edge_to = np.zeros(of_potentials.shape[1], np.int64)
    for r in range(lists.shape[0]):
        pass_on_block(G[r], lists[r], offsets, neighbours, edge_of, edge_to, of_edges[r], of_potentials[r])


@kernel
def add_differences(potentials: Floats, edges: Integers, of_edges: Floats) -> None:
    """of_edges[r, e] += potentials[r, i] - potentials[r, j] for every edge e = (i, j): the transpose of divergences."""
    for r in range(of_edges.shape[0]):
        row, own = potentials[r], of_edges[r]
        for e in range(edges.shape[0]):
            own[e] += row[edges[e, 0]] - row[edges[e, 1]]


def gradient_through_shortlists(
    logits: NDArray[np.float32],
    y: NDArray[np.integer],
    completion: Completion,
    method: str,
    k: int,
    mass: ListMass = ONE_SCALE,
) -> tuple[Floats, NDArray[np.float32]]:
    """log p_y of every sample, and its gradient with respect to the logits of all edges.

    Parameters
    ----------
    logits : (R, E) float32 array
        Logits of the trained pairs, in the order of ``completion.edges``.
    y : (R,) int array
        True classes.
    completion : Completion
    method : {"normal", "stratified", "wlw2", "bradley_terry"}
        The coupling.
    k : int
        The number of classes listed per sample, at most N.
    mass : ListMass
        How the list and the rest share the probability.

    Returns
    -------
    log_p : (R,) float64 array
    gradient : (R, E) float32 array
    """
    lists = _lists(logits, completion, k)
    listed = couple(lists.tensor.astype(np.float64), method).astype(np.float64, copy=False)
    ranked = mass.ranked(lists.potentials.astype(np.float64), lists.classes)
    log_p = _log_p(lists, listed, ranked, y)
    G = _gradient_of_lists(lists, listed, y, method)
    of_potentials = mass.ranking * _gradient_of_ranking(lists, ranked, y)
    of_edges = np.zeros(logits.shape)
    graph = (completion.offsets, completion.neighbours, completion.edge_of)
    pass_on_blocks(G, lists.classes, *graph, of_edges, of_potentials)
    if of_potentials.any():
        # Potentials are a symmetric matrix times the divergences, so the transpose solves again.
        add_differences(completion.ranking.solved(of_potentials.T).T, completion.edges, of_edges)
    return log_p, of_edges.astype(np.float32)


def log_probabilities_of_lists(
    logits: NDArray[np.float32],
    y: NDArray[np.integer],
    completion: Completion,
    method: str,
    k: int,
    mass: ListMass = ONE_SCALE,
) -> Floats:
    """(R,) log p_y of every sample, without the gradient; parameters as in `gradient_through_shortlists`."""
    lists = _lists(logits, completion, k)
    listed = couple(lists.tensor, method)
    ranked = mass.ranked(lists.potentials.astype(np.float64), lists.classes)
    return _log_p(lists, listed.astype(np.float64), ranked, y)


def _lists(logits: NDArray[np.float32], completion: Completion, k: int) -> Shortlists:
    return shortlists(logits, completion.ranking.of_samples(logits), completion, k)


def _log_p(lists: Shortlists, listed: Floats, ranked: Floats, y: NDArray[np.integer]) -> Floats:
    p = ranked.copy()
    share = np.take_along_axis(p, lists.classes, axis=1).sum(axis=1, keepdims=True)
    np.put_along_axis(p, lists.classes, listed * share, axis=1)
    log_p: Floats = np.log(np.maximum(p[np.arange(len(y)), y], SMALLEST))
    return log_p


def _gradient_of_lists(lists: Shortlists, listed: Floats, y: NDArray[np.integer], method: str) -> Floats:
    """(R, k, k) gradient of log q_y; zero if the true class is not listed."""
    is_true = lists.classes == y[:, None]
    L = lists.tensor.transpose(2, 0, 1).astype(np.float64)
    G = gradient_of_true_class(L, listed, is_true.argmax(axis=1), method)
    G *= is_true.any(axis=1)[:, None, None]
    return G


def _gradient_of_ranking(lists: Shortlists, ranked: Floats, y: NDArray[np.integer]) -> Floats:
    """(R, N) gradient by the scaled potentials: of the list's log share if it has the true class, else of log p_y."""
    n_samples, k = lists.classes.shape
    if k == ranked.shape[1]:
        return np.zeros_like(ranked)
    rows = np.arange(n_samples)
    wanted = np.zeros_like(ranked)
    np.put_along_axis(wanted, lists.classes, np.take_along_axis(ranked, lists.classes, axis=1), axis=1)
    missed = ~(lists.classes == y[:, None]).any(axis=1)
    wanted[missed] = 0
    wanted[rows[missed], y[missed]] = 1
    wanted /= wanted.sum(axis=1, keepdims=True)
    return np.asarray(wanted - ranked)
