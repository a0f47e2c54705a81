"""Completion: the logits of pairs that were not trained, from those that were; and the ranking of all classes.

The ranking needs no tensor. Its potentials u minimise the sum over trained pairs of (u_i - u_j - L_ij)^2: this is
`normal` coupling without completion, and `normal` itself if all pairs are trained. They are linear in the logits. So
they are computed once for all scales, and if the machines are affine, so is the ranking: one row of weights per class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.graphs import check_model_graph, edge_array, has_distant_pairs
from pairloom.pipeline.completion.completion_kernels import (
    divergences,
    fill_missing,
    graph_potentials,
    scatter,
)
from pairloom.pipeline.completion.laplacian import Solve, laplacian_solver
from pairloom.pipeline.coupling.pairs.couple import (
    ANTISYMMETRY,
    Float,
    check_tensor,
    laplacian_inverse,
    pair_weights,
)
from pairloom.pipeline.threads import pieces

__all__ = ["Ranking", "plan_ranking"]


@dataclass(frozen=True, eq=False)
class Completion:
    """A model graph as the arrays that completion needs: small, and the same for every slab of samples.

    Shapes: see `pairloom.pipeline`.

    Attributes
    ----------
    n_classes : int
        N, the number of classes.
    edges : (E, 2) int64 array
        Trained pairs, i < j, sorted.
    offsets : (N + 1,) int64 array
        The neighbours of class i are ``neighbours[offsets[i]:offsets[i + 1]]``.
    neighbours : (2 E,) int64 array
        Neighbours of all classes.
    edge_of : (2 E,) int64 array
        For each entry of `neighbours` its edge, counted from 1, and negative if the class is the edge's second.
    counts : (N,) float64 array, optional
        Training samples of each class, if pairs are weighted by their training samples in the coupling; None for equal
        weights.
    """

    n_classes: int
    edges: NDArray[np.int64]
    offsets: NDArray[np.int64]
    neighbours: NDArray[np.int64]
    edge_of: NDArray[np.int64]
    counts: NDArray[np.float64] | None = None

    @cached_property
    def trained(self) -> NDArray[np.bool_]:
        """(N, N) adjacency matrix, for completing all pairs. Shortlists do not need it."""
        trained = np.zeros((self.n_classes, self.n_classes), dtype=bool)
        i, j = self.edges.T
        trained[i, j] = trained[j, i] = True
        return trained

    @cached_property
    def to_potentials(self) -> NDArray[np.float64]:
        """(N, N) from divergences to potentials; (0, 0) if no pair is at distance three or more."""
        # A class that is joined to all others makes the diameter two.
        joined_to_all = np.diff(self.offsets).max() == self.n_classes - 1
        if joined_to_all or not has_distant_pairs(self.trained):
            return np.empty((0, 0))
        return laplacian_inverse(self.trained.astype(np.float64))

    def neighbours_of(self, c: int) -> NDArray[np.int64]:
        """The classes that class c is trained against, ascending."""
        return self.neighbours[self.offsets[c] : self.offsets[c + 1]]

    @property
    def n_machines(self) -> int:
        """E, the number of trained pairs."""
        return len(self.edges)

    @cached_property
    def weights(self) -> NDArray[np.float64] | None:
        """(N, N) weights of the pairs in the coupling, with mean one; None if all are equal."""
        return None if self.counts is None else pair_weights(self.counts)

    def weighted_by(self, counts: NDArray[np.float64] | None) -> Completion:
        """The same with pairs weighted by their training samples."""
        return self if counts is None else replace(self, counts=counts)

    @cached_property
    def ranking(self) -> Ranking:
        """The ranking of all classes, without the tensor."""
        return plan_ranking(self.n_classes, self.edges)


def plan_completion(graph: nx.Graph) -> Completion:
    """Arrays for completing logits over a model graph."""
    check_model_graph(graph)
    return completion_over(len(graph), edge_array(graph))


def completion_over(n: int, edges: NDArray[np.int64]) -> Completion:
    """Arrays for completing logits over the connected graph of n classes with these sorted edges.

    Takes no networkx graph, which would be too large in every worker for half a million edges.
    """
    first, second, number = *edges.T, np.arange(1, len(edges) + 1)
    classes, neighbours = np.concatenate([first, second]), np.concatenate([second, first])
    order = np.lexsort([neighbours, classes])
    edge_of = np.concatenate([number, -number])[order]
    offsets = np.searchsorted(classes[order], np.arange(n + 1))
    return Completion(n, edges, offsets, neighbours[order], edge_of)


def potentials_of(tensor: NDArray[np.floating], completion: Completion) -> NDArray[np.floating]:
    """Compute the u, shape (N, samples), that minimises the sum over trained pairs of (u_i - u_j - L_ij)^2.

    On a tree u_i - u_j is the sum of the logits along the path, which is the product of the odds.
    """
    if not completion.to_potentials.size:
        return np.empty((0, tensor.shape[2]), tensor.dtype)
    potentials = np.empty(tensor.shape[1:])
    graph_potentials(tensor, completion.offsets, completion.neighbours, completion.to_potentials, potentials)
    return potentials.astype(tensor.dtype)


def complete_slab(
    edge_logits: NDArray[np.floating], completion: Completion, tensor: NDArray[Float]
) -> NDArray[Float]:
    """Write the completed logits of all pairs into `tensor` (N, N, samples), from edge logits (E, samples)."""
    scatter(edge_logits, completion.edges, tensor)
    fill_missing(
        tensor,
        completion.trained,
        completion.offsets,
        completion.neighbours,
        potentials_of(tensor, completion),
    )
    return tensor


def complete_logits(logits: ArrayLike, graph: nx.Graph) -> NDArray[np.floating]:
    """Fill in the logits of the pairs that a model graph did not train.

    A missing pair is completed through the classes that both of its classes were trained against,

        L_ij = mean over m of (L_im + L_mj),   (i, m) and (m, j) trained,

    or, if there is no such class, by potentials: u minimises the sum over trained pairs of (u_i - u_j - L_ij)^2, and
    L_ij = u_i - u_j. [S]_ prints a minus in (4) and (5); with antisymmetric logits it must be a plus.

    Shapes: see `pairloom.pipeline`.

    Parameters
    ----------
    logits : array-like of shape (N, N, R)
        Antisymmetric and finite where the graph has an edge. Other entries are not read and may be NaN. Dtypes other
        than float32 and float64 are converted to float64.
    graph : networkx.Graph
        A connected model graph on 0..N-1, whose edges are the trained pairs.

    Returns
    -------
    (N, N, R) array
        The completed logits, antisymmetric, in the dtype of `logits`. Trained pairs keep their logits.

    Raises
    ------
    ValueError
        If the logits have the wrong shape, if those of a trained pair are not finite and antisymmetric, or if `graph`
        is not a model graph on N classes.
    TypeError
        If the logits are not real numbers or `graph` is not an undirected graph.

    See Also
    --------
    couple : probabilities of the classes from the completed logits.
    pairloom.graphs.coverage : which pairs are completed, and how.

    References
    ----------
    .. [S] O. Šuch et al. "Bridging performance gap between minimal and maximal SVM models". Code of the paper:
       https://github.com/ondrej-such/svm3

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


def _checked_edge_logits(L: NDArray[np.floating], edges: NDArray[np.int64]) -> NDArray[np.floating]:
    """L[i, j] for every edge. Raises if a trained entry is not finite or not antisymmetric."""
    forward, backward = L[edges[:, 0], edges[:, 1]], L[edges[:, 1], edges[:, 0]]
    with np.errstate(invalid="ignore", over="ignore"):
        # Infinity minus infinity is NaN, and every comparison with NaN is false.
        sound = np.abs(forward + backward) - ANTISYMMETRY * np.abs(forward) <= ANTISYMMETRY
    if not sound.all():
        e, r = np.argwhere(~sound)[0]
        i, j = edges[e]
        raise ValueError(
            "complete_logits: logits of trained pairs must be finite and antisymmetric, got"
            f" L[{i}, {j}, {r}] = {forward[e, r]} and L[{j}, {i}, {r}] = {backward[e, r]}."
        )
    return forward


_COLUMNS = 64


class Ranking(NamedTuple):
    """The map from the logits of the edges to the potentials of the classes.

    Attributes
    ----------
    n_classes : int
    edges : (E, 2) int array
    solve : Solve
        From the divergences of the logits to the potentials.
    """

    n_classes: int
    edges: NDArray[np.int64]
    solve: Solve

    def potentials(self, edge_values: NDArray[np.floating]) -> NDArray[np.float32]:
        """(N, columns) potentials, which sum to zero, from edge values (E, columns)."""
        potentials = np.empty((self.n_classes, edge_values.shape[1]), np.float32)
        # A few columns at a time: for half a million edges, a second copy would take a gigabyte.
        for columns in pieces(edge_values.shape[1], _COLUMNS):
            some = np.ascontiguousarray(edge_values[:, columns].T, np.float32)
            potentials[:, columns] = self.of_samples(some).T
        return potentials

    def of_samples(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """(R, N) potentials of samples from their logits (R, E)."""
        sums = np.empty((len(logits), self.n_classes), np.float32)
        divergences(logits, self.edges, sums)
        return np.ascontiguousarray(self.solved(sums.T).T)

    def solved(self, sums: NDArray[np.floating]) -> NDArray[np.float32]:
        """(N, columns) potentials from divergences (N, columns) that sum to zero. This map is symmetric."""
        return np.asarray(self.solve(sums), np.float32)


def plan_ranking(n: int, edges: NDArray[np.int64]) -> Ranking:
    """The ranking of a connected graph of n classes, factorised once."""
    return Ranking(n, edges, laplacian_solver(n, edges))
