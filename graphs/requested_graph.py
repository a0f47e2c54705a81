"""The model graph that a user asks for: a family's name, its name and parameters, or a graph of their own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import networkx as nx
from numpy.typing import ArrayLike

from .families import FAMILIES, build, needs_distances
from .labels import did_you_mean, listed
from .model_graph import check_model_graph, relabel_to_indices

__all__ = ["requested_graph"]


def requested_graph(
    asked: str | Mapping[str, Any] | nx.Graph,
    labels: Sequence[object],
    distances: Callable[[], ArrayLike],
    owner: str = "requested_graph",
) -> nx.Graph:
    """Return the model graph on the indices of the class labels.

    Parameters
    ----------
    asked : str, mapping or networkx.Graph
        A name in `FAMILIES`; a mapping of "family" to that name and of the family's parameters; or a graph whose nodes
        are the labels or their indices.
    labels : sequence of length n
        The classes, in order.
    distances : callable
        Returns the (n, n) distances between the classes. Called only if the family needs them.
    owner : str
        Who asks, for the messages.

    Returns
    -------
    networkx.Graph
        Connected, on 0..n-1.

    See Also
    --------
    build : the graph of a family, given by name.

    Examples
    --------
    >>> graph = requested_graph({"family": "star", "centre": 1}, ["cat", "dog", "owl"], lambda: None)
    >>> sorted(graph.edges)
    [(0, 1), (1, 2)]
    >>> requested_graph("starr", ["cat", "dog"], lambda: None, "PairwiseSVC")
    Traceback (most recent call last):
        ...
    ValueError: PairwiseSVC: graph must be one of 'star', 'path', 'tree', 'spanning_tree', 'star_of_least_distance', \
'bipartite', 'complete', 'hub_neighbours', 'grown', got 'starr'. Did you mean 'star'?
    """
    if isinstance(asked, nx.Graph):
        return _given_graph(asked, labels)
    family, parameters = _family(asked, owner)
    # The label of a graph has the number of classes: see `model_graph`.
    if (n := parameters.pop("n", len(labels))) != len(labels):
        raise ValueError(f"{owner}: n of graph must be {len(labels)}, the number of classes, got {n!r}.")
    if needs_distances(family):
        parameters.setdefault("distances", distances())
    return build(family, len(labels), **parameters)


def _given_graph(graph: nx.Graph, labels: Sequence[object]) -> nx.Graph:
    n = len(labels)
    if set(graph) != set(range(n)) or set(graph) == set(labels):
        graph = relabel_to_indices(graph, labels)
    check_model_graph(graph, n, labels)
    return graph


def _family(asked: object, owner: str) -> tuple[str, dict[str, Any]]:
    """Return the family's name and its parameters."""
    if isinstance(asked, Mapping) and "family" in asked:
        family = asked["family"]
        parameters = {str(name): value for name, value in asked.items() if name != "family"}
    elif isinstance(asked, str):
        family, parameters = asked, {}
    else:
        raise TypeError(
            f"{owner}: graph must be a family's name, a mapping with the key 'family' or a networkx.Graph,"
            f" got {asked!r}."
        )
    if not isinstance(family, str) or family not in FAMILIES:
        raise ValueError(
            f"{owner}: graph must be one of {listed(FAMILIES, most=20)}, got {family!r}."
            f"{did_you_mean(family, FAMILIES)}"
        )
    return family, parameters
