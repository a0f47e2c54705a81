"""Completion: the logits of pairs that were not trained, from those that were."""

from typing import NamedTuple

import networkx as nx
import numpy as np

from pairloom.graphs import check_model_graph, coverage, edge_array
from pairloom.pipeline.completion.completion_kernels import fill_missing, graph_potentials, scatter
from pairloom.pipeline.coupling.couple import ANTISYMMETRY, check_tensor
from pairloom.pipeline.coupling.normal import laplacian_inverse


class Completion(NamedTuple):
    """A model graph as the arrays that completion needs: plain, small, the same for every slab of samples.

    Attributes
    ----------
    edges : (E, 2) int array, i < j, sorted
    trained : (N, N) bool array, the adjacency
    offsets, neighbours : the neighbours of class i are ``neighbours[offsets[i]:offsets[i + 1]]``
    edge_of : for each entry of `neighbours` the edge it stands for, counted from 1, negative seen from its second class
    to_potentials : (N, N) array, or (0, 0) where no pair is at distance three or more
    """

    edges: np.ndarray
    trained: np.ndarray
    offsets: np.ndarray
    neighbours: np.ndarray
    edge_of: np.ndarray
    to_potentials: np.ndarray

    @property
    def n_classes(self):
        return len(self.trained)


def plan_completion(graph: nx.Graph) -> Completion:
    """The arrays for completing logits over a model graph."""
    check_model_graph(graph)
    n, edges = len(graph), edge_array(graph)
    trained = np.zeros((n, n), dtype=bool)
    trained[edges[:, 0], edges[:, 1]] = trained[edges[:, 1], edges[:, 0]] = True
    number = np.zeros((n, n), dtype=np.int64)
    number[edges[:, 0], edges[:, 1]] = np.arange(1, len(edges) + 1)
    number -= number.T
    classes, neighbours = np.nonzero(trained)
    offsets = np.searchsorted(classes, np.arange(n + 1))
    distant = len(coverage(graph).by_potentials) > 0
    to_potentials = laplacian_inverse(trained.astype(np.float64)) if distant else np.empty((0, 0))
    return Completion(edges, trained, offsets, neighbours, number[classes, neighbours], to_potentials)


def potentials_of(tensor, completion):
    """(N, samples): the u that minimises the sum over trained pairs of (u_i - u_j - L_ij)^2.

    On a tree u_i - u_j is the sum of the logits along the path, which is the product of the odds.
    """
    if not completion.to_potentials.size:
        return np.empty((0, tensor.shape[2]), tensor.dtype)
    potentials = np.empty(tensor.shape[1:])
    graph_potentials(tensor, completion.offsets, completion.neighbours, completion.to_potentials, potentials)
    return potentials.astype(tensor.dtype)


def complete_slab(edge_logits, completion, tensor):
    """Write the completed logits of all pairs into `tensor` (N, N, samples) from those of the edges (E, samples)."""
    scatter(edge_logits, completion.edges, tensor)
    fill_missing(
        tensor,
        completion.trained,
        completion.offsets,
        completion.neighbours,
        potentials_of(tensor, completion),
    )
    return tensor


def complete_logits(logits, graph):
    """Fill the pairs that a model graph did not train.

    A missing pair is completed through the classes that both of its ends were trained against,

        L_ij = mean over m of (L_im + L_mj),   (i, m) and (m, j) trained,

    and where there is none, by potentials: u minimises the sum over trained pairs of (u_i - u_j - L_ij)^2, and
    L_ij = u_i - u_j. [S] prints a minus in (4) and (5); with antisymmetric logits it must be a plus.

    Parameters
    ----------
    logits : (N, N, R) array
        Antisymmetric and finite where the graph has an edge. Other entries are not read: NaN will do.
    graph : networkx.Graph
        A connected model graph on 0..N-1.

    Returns
    -------
    (N, N, R) array, antisymmetric, of the same dtype; trained pairs as they were.

    Examples
    --------
    >>> import numpy as np
    >>> from pairloom import graphs
    >>> L = np.full((3, 3, 1), np.nan)
    >>> L[0, 1], L[1, 0], L[0, 2], L[2, 0] = 1, -1, 3, -3
    >>> complete_logits(L, graphs.star(3, centre=0))[1, 2]
    array([2.])
    """
    L = check_tensor(logits, "complete_logits")
    check_model_graph(graph, n_classes=len(L))
    completion = plan_completion(graph)
    edge_logits = _checked_edge_logits(L, completion.edges)
    return complete_slab(edge_logits, completion, np.empty_like(L))


def _checked_edge_logits(L, edges):
    """L[i, j] for every edge, with an error where a trained entry is not finite or not antisymmetric."""
    forward, backward = L[edges[:, 0], edges[:, 1]], L[edges[:, 1], edges[:, 0]]
    with np.errstate(invalid="ignore", over="ignore"):
        # Subtracted from itself, infinity is NaN, and no comparison holds.
        sound = np.abs(forward + backward) - ANTISYMMETRY * np.abs(forward) <= ANTISYMMETRY
    if not sound.all():
        e, r = np.argwhere(~sound)[0]
        i, j = edges[e]
        raise ValueError(
            "complete_logits: logits of trained pairs must be finite and antisymmetric, got"
            f" L[{i}, {j}, {r}] = {forward[e, r]} and L[{j}, {i}, {r}] = {backward[e, r]}."
        )
    return forward
