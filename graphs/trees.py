"""Trees: the smallest model graphs, with n - 1 pairs.

Two findings about trees [S 3, 4]: pairs of near classes make better models (metrical), and so does a small
diameter (topological): a star is better than a path.
"""

from collections.abc import Sequence
from typing import SupportsIndex

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree

from pairloom.graphs.checks import check_class, check_count, check_distances
from pairloom.graphs.model_graph import model_graph
from pairloom.graphs.text import listed

__all__ = ["five_vertex_trees", "path", "spanning_tree", "star", "star_of_least_distance", "tree"]


def star(n: SupportsIndex, centre: SupportsIndex = 0) -> nx.Graph:
    """Return the star K(1, n - 1): one class joined to every other.

    Parameters
    ----------
    n : int
        Number of classes, at least 1.
    centre : int, default=0
        The class in the middle.

    Returns
    -------
    networkx.Graph
        With n - 1 edges and a diameter of at most two.

    Raises
    ------
    TypeError
        If a parameter is not of an integer type.
    ValueError
        If a parameter is out of range.

    See Also
    --------
    star_of_least_distance : chooses the centre by the distances between the classes.
    bipartite : several classes in the middle.

    Examples
    --------
    >>> star(4, centre=2).edges
    EdgeView([(0, 2), (1, 2), (2, 3)])
    """
    n = check_count("star", "n", n, 1)
    centre = check_class("star", "centre", centre, n)
    return model_graph(n, _spokes(n, centre), "star", centre=centre)


def path(n: SupportsIndex) -> nx.Graph:
    """Return the path 0 - 1 - ... - (n - 1): every class joined to the next.

    Parameters
    ----------
    n : int
        Number of classes, at least 1.

    Returns
    -------
    networkx.Graph
        With n - 1 edges and a diameter of n - 1.

    Raises
    ------
    TypeError
        If a parameter is not of an integer type.
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> path(4).edges
    EdgeView([(0, 1), (1, 2), (2, 3)])
    """
    n = check_count("path", "n", n, 1)
    return model_graph(n, ((i, i + 1) for i in range(n - 1)), "path")


def tree(parents: Sequence[SupportsIndex]) -> nx.Graph:
    """Return the tree in which every class is joined to its parent.

    Parameters
    ----------
    parents : sequence of int, length n
        ``parents[i]`` is the parent of class i, and -1 for the root, the only class without a parent. (-1 and
        not None, so that an integer array or a TOML list can be used.) A parent need not come before its children.

    Returns
    -------
    networkx.Graph
        With n - 1 edges.

    Raises
    ------
    TypeError
        If `parents` are not a sequence, or a parent is not of an integer type.
    ValueError
        If there is not exactly one root, a parent is not a class, or the parents form a cycle.

    Examples
    --------
    >>> tree([-1, 0, 0, 2]).edges
    EdgeView([(0, 1), (0, 2), (2, 3)])
    """
    if not isinstance(parents, Sequence | np.ndarray):
        raise TypeError(f"tree: parents must be a list of classes, got {parents!r}.")
    n = check_count("tree", "the number of parents", len(parents), 1)
    above = [check_count("tree", f"parents[{i}]", p, -1, n - 1, "n - 1") for i, p in enumerate(parents)]
    roots = [i for i in range(n) if above[i] == -1]
    if len(roots) != 1:
        got = f"{len(roots)} ({listed(roots)})" if roots else "none"
        raise ValueError(f"tree: parents must have -1 for exactly one class, the root, got {got}.")
    graph = model_graph(n, ((above[i], i) for i in range(n) if i != roots[0]), "tree", parents=above)
    # One root and n - 1 parents are a tree if and only if there is no cycle away from the root.
    if astray := sorted(set(graph) - nx.node_connected_component(graph, roots[0])):
        raise ValueError(
            f"tree: following parents from every class must end at the root {roots[0]}, "
            f"got a cycle from {listed(astray)}."
        )
    return graph


def five_vertex_trees() -> dict[str, nx.Graph]:
    """Return the three trees on five vertices, with their names in [S Table 4].

    Up to isomorphism there are no others: G2 is the star K(1, 4), G4 the path, and G3 the fork between them,
    with degrees 3, 2, 1, 1, 1. Their diameters are 2, 3 and 4, and the errors in the paper increase in that
    order.

    Returns
    -------
    dict of str to networkx.Graph
        G2, G3 and G4.

    References
    ----------
    .. [S] O. Šuch et al. "Bridging performance gap between minimal and maximal SVM models". Code of the paper:
       https://github.com/ondrej-such/svm3

    Examples
    --------
    >>> for name, graph in five_vertex_trees().items():
    ...     print(name, sorted(degree for _, degree in graph.degree))
    G2 [1, 1, 1, 1, 4]
    G3 [1, 1, 1, 2, 3]
    G4 [1, 1, 2, 2, 2]
    """
    return {"G2": star(5), "G3": tree([-1, 0, 0, 0, 3]), "G4": path(5)}


def spanning_tree(distances: ArrayLike) -> nx.Graph:
    """Return the minimum spanning tree: the tree with the smallest sum of distances over its pairs [S 3, 4].

    Of equal distances, the first pair (i, j), i < j, is preferred, so the tree is unique.

    Parameters
    ----------
    distances : array-like of shape (n, n)
        Distances between the classes, d' where it is known.

    Returns
    -------
    networkx.Graph
        With n - 1 edges.

    Raises
    ------
    ValueError
        If `distances` are not distances: see `check_distances`.

    See Also
    --------
    star_of_least_distance : the smallest sum of distances among stars.

    References
    ----------
    .. [S] O. Šuch et al. "Bridging performance gap between minimal and maximal SVM models". Code of the paper:
       https://github.com/ondrej-such/svm3

    Examples
    --------
    >>> spanning_tree([[0, 1, 4], [1, 0, 2], [4, 2, 0]]).edges
    EdgeView([(0, 1), (1, 2)])
    """
    d = check_distances(distances, owner="spanning_tree")
    # SciPy before 1.15 takes indices of 32 bits only.
    i, j = np.asarray(np.triu_indices(len(d), 1), np.int32)
    # The tree depends only on the order of the distances. Ranks keep the order, break ties, and are never zero,
    # which SciPy would treat as a missing pair.
    rank = np.empty(len(i))
    rank[np.argsort(d[i, j], kind="stable")] = np.arange(1, len(i) + 1)
    chosen = minimum_spanning_tree(coo_array((rank, (i, j)), shape=d.shape)).nonzero()
    return model_graph(len(d), zip(*(ends.tolist() for ends in chosen), strict=True), "spanning_tree")


def star_of_least_distance(distances: ArrayLike) -> nx.Graph:
    """Return the star with the smallest sum of distances over its pairs [S 3, 4].

    Its centre is the class with the smallest sum of distances to the others; of equal sums, the first. It has
    the nearest pairs of all trees with diameter two.

    Parameters
    ----------
    distances : array-like of shape (n, n)
        Distances between the classes, d' where it is known.

    Returns
    -------
    networkx.Graph
        With n - 1 edges and a diameter of at most two.

    Raises
    ------
    ValueError
        If `distances` are not distances: see `check_distances`.

    See Also
    --------
    star : a star with a given centre.
    spanning_tree : the smallest sum of distances among all trees.
    hub_neighbours : several hubs, and pairs of near classes.

    References
    ----------
    .. [S] O. Šuch et al. "Bridging performance gap between minimal and maximal SVM models". Code of the paper:
       https://github.com/ondrej-such/svm3

    Examples
    --------
    >>> star_of_least_distance([[0, 1, 4], [1, 0, 2], [4, 2, 0]]).edges
    EdgeView([(0, 1), (1, 2)])
    """
    d = check_distances(distances, owner="star_of_least_distance")
    centre = int(d.sum(axis=0).argmin())
    return model_graph(len(d), _spokes(len(d), centre), "star_of_least_distance")


def _spokes(n: int, centre: int) -> list[tuple[int, int]]:
    return [(centre, i) for i in range(n) if i != centre]
