"""The model graph that a user asks for: a family's name, its name and parameters, or a graph or code of their own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from .code_graph import code_from_graph
from .families import CODE_FAMILIES, FAMILIES, build, build_code, needs_distances
from .labels import did_you_mean, listed
from .model_code import ModelCode, model_code
from .model_graph import check_model_graph, relabel_to_indices

__all__ = ["asks_for_code", "requested_graph"]

_KNOWN = (*FAMILIES, *CODE_FAMILIES)


def asks_for_code(asked: object) -> bool:
    """Return whether machines on sets of classes are asked for, by a value for `requested_graph`.

    Examples
    --------
    >>> asks_for_code("dense"), asks_for_code({"family": "star"}), asks_for_code(np.array([[1], [-1]]))
    (True, False, True)
    """
    if isinstance(asked, nx.Graph):
        return any(isinstance(node, tuple) and node[:1] == ("machine",) for node in asked)
    family = asked.get("family") if isinstance(asked, Mapping) else asked
    return isinstance(asked, (np.ndarray, ModelCode)) or (isinstance(family, str) and family in CODE_FAMILIES)


def requested_graph(
    asked: str | Mapping[str, Any] | nx.Graph | NDArray[Any],
    labels: Sequence[object],
    distances: Callable[[], ArrayLike],
    owner: str = "requested_graph",
) -> nx.Graph | ModelCode:
    """Return the model graph on the indices of the class labels, or the code of machines on sets of classes.

    Parameters
    ----------
    asked : str, mapping, networkx.Graph or array
        A name in `FAMILIES` or `CODE_FAMILIES`; a mapping of "family" to that name and of the family's parameters; a
        graph whose nodes are the labels or their indices; the bipartite graph of a code (`code_graph`); or a code
        matrix (n, m), its rows in the order of the labels.
    labels : sequence of length n
        The classes, in order.
    distances : callable
        Returns the (n, n) distances between the classes. Called only if the family needs them.
    owner : str
        Who asks, for the messages.

    Returns
    -------
    networkx.Graph or ModelCode
        A graph is connected, on 0..n-1. A code connects all classes too.

    See Also
    --------
    build : the graph of a family, given by name.
    build_code : the same for codes.

    Examples
    --------
    >>> graph = requested_graph({"family": "star", "centre": 1}, ["cat", "dog", "owl"], lambda: None)
    >>> sorted(graph.edges)
    [(0, 1), (1, 2)]
    >>> requested_graph("one_vs_rest", ["cat", "dog", "owl"], lambda: None).n_machines
    3
    >>> requested_graph("starr", ["cat", "dog"], lambda: None, "PairwiseSVC")
    Traceback (most recent call last):
        ...
    ValueError: PairwiseSVC: graph must be one of 'star', 'path', 'tree', 'spanning_tree', 'star_of_least_distance', \
'bipartite', 'complete', 'hub_neighbours', 'grown', 'one_vs_rest', 'one_vs_one', 'dense', 'sparse', 'code', \
got 'starr'. Did you mean 'star'?
    """
    if isinstance(asked, (np.ndarray, ModelCode)) or (isinstance(asked, nx.Graph) and asks_for_code(asked)):
        return _given_code(asked, labels, owner)
    if isinstance(asked, nx.Graph):
        return _given_graph(asked, labels)
    family, parameters = _family(asked, owner)
    # The label of a graph has the number of classes: see `model_graph`.
    if (n := parameters.pop("n", len(labels))) != len(labels):
        raise ValueError(f"{owner}: n of graph must be {len(labels)}, the number of classes, got {n!r}.")
    if family in CODE_FAMILIES:
        return build_code(family, len(labels), **parameters)
    if needs_distances(family):
        parameters.setdefault("distances", distances())
    return build(family, len(labels), **parameters)


def _given_code(
    asked: NDArray[Any] | nx.Graph | ModelCode, labels: Sequence[object], owner: str
) -> ModelCode:
    if isinstance(asked, ModelCode):
        asked = asked.matrix
    matrix = code_from_graph(asked) if isinstance(asked, nx.Graph) else asked
    return model_code(matrix, "code", n=len(labels), owner=f"{owner}: graph", names=labels)


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
            f"{owner}: graph must be a family's name, a mapping with the key 'family' and its parameters, a"
            f" networkx.Graph or an array (the matrix of a code), got {asked!r}."
        )
    if not isinstance(family, str) or family not in _KNOWN:
        raise ValueError(
            f"{owner}: graph must be one of {listed(_KNOWN, most=20)}, got {family!r}."
            f"{did_you_mean(family, _KNOWN)}"
        )
    return family, parameters
