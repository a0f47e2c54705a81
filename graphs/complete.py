"""The complete graph: every pair is trained, the maximal model of [S]."""

from itertools import combinations
from typing import SupportsIndex

import networkx as nx

from .classes import check_count
from .model_graph import model_graph

__all__ = ["complete"]


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
