"""The complete bipartite graph K(d, n - d): d hubs, each joined to every class that is not a hub."""

from collections.abc import Iterable
from itertools import product
from typing import SupportsIndex

import networkx as nx

from .classes import check_classes, check_count
from .model_graph import model_graph

__all__ = ["bipartite"]


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
    .. [S] O. Such et al. "Bridging performance gap between minimal and maximal SVM models". Code of the paper:
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
