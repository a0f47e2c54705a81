"""The complete graph: every pair is trained, the maximal model of [S]."""

from itertools import combinations
from typing import SupportsIndex

import networkx as nx

from .classes import check_count
from .model_graph import model_graph

__all__ = ["complete"]


def complete(n: SupportsIndex) -> nx.Graph:
    """Return the complete graph: all n (n - 1) / 2 pairs, so nothing is left to be completed.

    Parameters
    ----------
    n : int
        Number of classes, at least 1.

    Returns
    -------
    networkx.Graph

    Examples
    --------
    >>> complete(4).number_of_edges()
    6
    """
    n = check_count("complete", "n", n, 1)
    return model_graph(n, combinations(range(n), 2), "complete")
