"""Graphs with hubs, which are joined to many classes: bipartite, hubs and neighbours, and the complete graph."""

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any, SupportsIndex

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.graphs.checks import check_classes, check_count, check_distances
from pairloom.graphs.decomposition import Pairs
from pairloom.graphs.model_graph import model_graph
from pairloom.graphs.point_distances import PointDistances

__all__ = [
    "bipartite",
    "complete",
    "complete_pairs",
    "hub_neighbour_pairs",
    "hub_neighbours",
    "hubs_of",
    "hubs_to_mark",
]


def bipartite(n: SupportsIndex, hubs: SupportsIndex | Iterable[SupportsIndex]) -> nx.Graph:
    """Return K(d, n - d) on the classes 0..n-1; two hubs are not joined, nor are two other classes.

    Its diameter is at most two, so every missing pair is completed through common neighbours: two hubs
    through all other classes, two other classes through all hubs. It is more accurate than a grown graph with
    the same number of pairs [S Figure 6].

    Parameters
    ----------
    n : int
        Number of classes, at least 2.
    hubs : int or iterable of int
        Either the number of hubs d, which are then the classes 0..d-1, or the hubs themselves. At least 1, at
        most n - 1 hubs.

    Returns
    -------
    networkx.Graph
        With d (n - d) edges.

    Raises
    ------
    TypeError
        If a parameter is not of an integer type.
    ValueError
        If a parameter is out of range.

    See Also
    --------
    star : K(1, n - 1).
    hub_neighbours : hubs that are also joined to each other, and pairs of near classes.

    References
    ----------
    .. [S] O. Šuch et al. "Bridging performance gap between minimal and maximal SVM models". Code of the paper:
       https://github.com/ondrej-such/svm3

    Examples
    --------
    >>> bipartite(4, hubs=2).edges
    EdgeView([(0, 2), (0, 3), (1, 2), (1, 3)])
    >>> bipartite(4, hubs=[3]).edges
    EdgeView([(0, 3), (1, 3), (2, 3)])
    """
    n = check_count("bipartite", "n", n, 2)
    if isinstance(hubs, Iterable):
        chosen = check_classes("bipartite", "hubs", hubs, n, n - 1, "n - 1")
    else:
        chosen = list(range(check_count("bipartite", "hubs", hubs, 1, n - 1, "n - 1")))
    others = sorted(set(range(n)).difference(chosen))
    return model_graph(n, product(chosen, others), "bipartite", hubs=chosen)


def complete(n: SupportsIndex) -> nx.Graph:
    """Return the complete graph: all n (n - 1) / 2 pairs, so no pair needs to be completed.

    Parameters
    ----------
    n : int
        Number of classes, at least 1.

    Returns
    -------
    networkx.Graph
        With n (n - 1) / 2 edges.

    Raises
    ------
    TypeError
        If a parameter is not of an integer type.
    ValueError
        If a parameter is out of range.

    See Also
    --------
    hub_neighbours : far fewer pairs, chosen by the distances between the classes.

    Examples
    --------
    >>> complete(4).number_of_edges()
    6
    """
    n = check_count("complete", "n", n, 1)
    return model_graph(n, combinations(range(n), 2), "complete")


def complete_pairs(n: SupportsIndex) -> Pairs:
    """Return the pairs of `complete`, without a networkx graph, which takes ten times their memory.

    Examples
    --------
    >>> complete_pairs(3).described()
    [[0, 1], [0, 2], [1, 2]]
    """
    n = check_count("complete", "n", n, 1)
    edges = np.stack(np.triu_indices(n, 1), axis=1).astype(np.int64)
    return Pairs(edges, n, {"family": "complete", "n": n})


# On clinc150, accuracy and log loss with 10 neighbours are 0.960 and 0.162, with 20 (21% of the pairs) 0.960 and 0.156,
# with all pairs 0.961 and 0.153.
USUAL_HUBS = 3
USUAL_NEIGHBOURS = 20


def hub_neighbours(
    distances: ArrayLike | PointDistances,
    hubs: SupportsIndex | Iterable[SupportsIndex] | None = None,
    neighbours: SupportsIndex | None = None,
) -> nx.Graph:
    """Return the graph in which hubs are joined to every class and every class to its nearest ones.

    It combines the two findings of [S 3, 4]: the hubs make the diameter two (topological), and the neighbours
    are the pairs most easily confused (metrical). Hubs are joined to each other too, and a pair that both
    rules select is one edge.

    Parameters
    ----------
    distances : array-like of shape (n, n), or PointDistances
        Distances between the classes: between their means, or d' where it is known.
    hubs : int or iterable of int, default=None
        Either the number of hubs, or the hubs themselves. A number selects the classes with the smallest sums of
        distances to the others; of equal sums, the first. At least 1, at most n. By default min(3, n).
    neighbours : int, default=None
        Number of nearest classes to which each class is joined; of equal distances, the first. At least 0, at
        most n - 1. By default min(20, n - 1). A class can have more neighbours in the graph, since other classes
        select it too.

    Returns
    -------
    networkx.Graph
        ``graph.graph`` names the hubs and the number of neighbours.

    Raises
    ------
    TypeError
        If `hubs` or `neighbours` is not of an integer type.
    ValueError
        If a parameter is out of range or `distances` are not distances: see `check_distances`.

    See Also
    --------
    bipartite : hubs only.
    star_of_least_distance : one hub and no neighbours.

    References
    ----------
    .. [S] O. Šuch et al. "Bridging performance gap between minimal and maximal SVM models". Code of the paper:
       https://github.com/ondrej-such/svm3

    Examples
    --------
    >>> import numpy as np
    >>> line = np.arange(5)
    >>> distances = abs(line[:, None] - line)
    >>> graph = hub_neighbours(distances, hubs=1, neighbours=1)
    >>> graph.graph["hubs"]
    [2]
    >>> sorted(graph.edges)
    [(0, 1), (0, 2), (1, 2), (2, 3), (2, 4), (3, 4)]
    """
    return hub_neighbour_pairs(distances, hubs, neighbours).graph()


def hub_neighbour_pairs(
    distances: ArrayLike | PointDistances,
    hubs: SupportsIndex | Iterable[SupportsIndex] | None = None,
    neighbours: SupportsIndex | None = None,
) -> Pairs:
    """Return the pairs of `hub_neighbours`, without a networkx graph, which takes ten times their memory.

    Examples
    --------
    >>> line = np.arange(4)
    >>> hub_neighbour_pairs(abs(line[:, None] - line), hubs=1, neighbours=1).described()
    [[0, 1], [1, 2], [1, 3], [2, 3]]
    """
    if not isinstance(distances, PointDistances):
        distances = check_distances(distances, owner="hub_neighbours")
    n = len(distances)
    chosen = _chosen_hubs(distances, min(USUAL_HUBS, n) if hubs is None else hubs)
    k = min(USUAL_NEIGHBOURS, n - 1) if neighbours is None else neighbours
    k = check_count("hub_neighbours", "neighbours", k, 0, n - 1, "n - 1")
    of_hubs = np.stack(np.meshgrid(chosen, np.arange(n), indexing="ij"), axis=-1).reshape(-1, 2)
    near = np.stack([np.repeat(np.arange(n), k), _nearest(distances, k).ravel()], axis=1)
    label: dict[str, Any] = {"family": "hub_neighbours", "n": n, "hubs": chosen, "neighbours": k}
    return Pairs(_distinct(np.concatenate([of_hubs, near]), n), n, label)


def _distinct(pairs: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """The pairs (i, j), i < j, among these ordered pairs, each once and sorted."""
    first, second = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1).T
    return np.stack(np.divmod(np.unique(first * n + second), n), axis=1)


def _chosen_hubs(
    d: NDArray[np.float64] | PointDistances, hubs: SupportsIndex | Iterable[SupportsIndex]
) -> list[int]:
    n = len(d)
    if isinstance(hubs, Iterable):
        return check_classes("hub_neighbours", "hubs", hubs, n, n, "n")
    count = check_count("hub_neighbours", "hubs", hubs, 1, n, "n")
    if isinstance(d, PointDistances):
        return d.central(count)
    central: list[int] = np.argsort(d.sum(axis=0), kind="stable")[:count].tolist()
    return sorted(central)


def _nearest(d: NDArray[np.float64] | PointDistances, k: int) -> NDArray[np.int64]:
    """Return the k classes nearest to each class, without the class itself, shape (n, k)."""
    if isinstance(d, PointDistances):
        return d.nearest(k)
    # Another class may be at distance zero too, so the class itself is moved to the end, not dropped as the first.
    apart = d + np.diag(np.full(len(d), np.inf))
    return np.argsort(apart, axis=1, kind="stable")[:, :k]


def hubs_of(pairs: Pairs) -> NDArray[np.int64]:
    """Return the hubs of a graph: the classes that its family names, or else those that are joined to all others.

    Examples
    --------
    >>> from pairloom.graphs import complete, decomposition_of, star
    >>> hubs_of(decomposition_of(star(4, centre=2))), hubs_of(decomposition_of(complete(3)))
    (array([2]), array([0, 1, 2]))
    """
    if "family" in pairs.label and "hubs" in pairs.label:
        return np.array(pairs.label["hubs"], np.int64)
    return np.flatnonzero(pairs.degrees == pairs.n - 1)


def hubs_to_mark(pairs: Pairs) -> NDArray[np.int64]:
    """Return the hubs that a figure sets apart: none if every class is one, as in a complete graph."""
    hubs = hubs_of(pairs)
    return hubs if len(hubs) < pairs.n else np.empty(0, np.int64)
