"""The model graph: its nodes are the classes 0..n-1, its edges the pairs of classes to train.

A model graph is simple, undirected and connected, over at least two classes. It must be connected because the
odds of two classes are known only along a path of trained pairs [S 3, 4].
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.text import did_you_mean, listed

__all__ = ["check_model_graph", "edge_array", "edge_order", "model_graph", "relabel_to_indices"]


def model_graph(n: int, pairs: Iterable[Sequence[int]], family: str, /, **parameters: Any) -> nx.Graph:
    """Return the graph on 0..n-1 with these pairs as edges, labelled with the call that builds it.

    The label, ``graph.graph``, has only values that JSON can represent. ``build(**graph.graph)`` builds the graph
    again; families with a matrix need the matrix too.

    Parameters
    ----------
    n : int
        Number of classes.
    pairs : iterable of (int, int)
        The edges.
    family : str
        Name of the family.
    **parameters
        Parameters of the family's builder.

    Returns
    -------
    networkx.Graph
        Not checked: see `check_model_graph`.

    Examples
    --------
    >>> graph = model_graph(3, [(0, 1), (0, 2)], "star", centre=0)
    >>> graph.graph
    {'family': 'star', 'n': 3, 'centre': 0}
    """
    graph = nx.Graph(family=family, n=n, **parameters)
    graph.add_nodes_from(range(n))
    graph.add_edges_from(pairs)
    return graph


def edge_array(graph: nx.Graph) -> NDArray[np.int64]:
    """Return the pairs (i, j), i < j, of a graph on 0..n-1, sorted lexicographically.

    All per-edge arrays of the package are in this order, which does not depend on how the graph was built.

    Parameters
    ----------
    graph : networkx.Graph
        On the nodes 0..n-1.

    Returns
    -------
    (E, 2) int64 array
        The pairs, i < j.

    Raises
    ------
    TypeError
        If `graph` is not an undirected graph without parallel edges.
    ValueError
        If the nodes are not 0..n-1, or a class is joined to itself.

    See Also
    --------
    relabel_to_indices : from class labels to 0..n-1.

    Examples
    --------
    >>> import networkx as nx
    >>> edge_array(nx.Graph([(2, 1), (2, 0)]))
    array([[0, 2],
           [1, 2]])
    """
    _check_simple(graph, "edge_array")
    _check_nodes(graph, len(graph), None, "edge_array")
    _check_loops(graph, None, "edge_array")
    ends = np.fromiter(chain.from_iterable(graph.edges()), np.int64, count=2 * graph.number_of_edges())
    pairs = np.sort(ends.reshape(-1, 2), axis=1)
    ordered: NDArray[np.int64] = pairs[edge_order(pairs)]
    return ordered


def edge_order(edges: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return the permutation that sorts pairs (i, j) as `edge_array` does.

    Parameters
    ----------
    edges : (E, 2) int array
        Pairs, i < j.

    Returns
    -------
    (E,) int array
        ``edges[edge_order(edges)]`` is sorted.

    Examples
    --------
    >>> edge_order(np.array([[1, 2], [0, 2], [0, 1]]))
    array([2, 1, 0])
    """
    return np.lexsort((edges[:, 1], edges[:, 0]))


def check_model_graph(
    graph: nx.Graph, n_classes: int | None = None, class_names: Sequence[object] | None = None
) -> None:
    """Raise unless `graph` is a model graph: simple, undirected, connected, on 0..n-1, with n of at least 2.

    Parameters
    ----------
    graph : networkx.Graph
        The graph to check.
    n_classes : int, default=None
        Number of classes. By default, the number of names if they are given, else of nodes.
    class_names : sequence, default=None
        Name per class, for the messages.

    Raises
    ------
    TypeError
        If `graph` is not a graph, is directed, or may have parallel edges.
    ValueError
        In all other cases; the message names the classes or the components.

    See Also
    --------
    relabel_to_indices : from class labels to 0..n-1.

    Examples
    --------
    >>> import networkx as nx
    >>> check_model_graph(nx.star_graph(4))
    >>> check_model_graph(nx.Graph([(0, 1), (2, 3)]), class_names=["cat", "dog", "gar", "owl"])
    Traceback (most recent call last):
        ...
    ValueError: model graph: must be connected, got 2 components: ('cat', 'dog'), ('gar', 'owl').
    """
    owner = "model graph"
    _check_simple(graph, owner)
    n = _number_of_classes(graph, n_classes, class_names)
    if n < 2:
        raise ValueError(f"{owner}: must have at least 2 classes, got {n}.")
    _check_nodes(graph, n, class_names, owner)
    _check_loops(graph, class_names, owner)
    components = sorted(
        (sorted(nodes) for nodes in nx.connected_components(graph)), key=lambda c: (-len(c), c)
    )
    if len(components) > 1:
        shown = ", ".join(f"({listed(_named(nodes, class_names))})" for nodes in components[:5])
        rest = f" and {len(components) - 5} more" if len(components) > 5 else ""
        raise ValueError(f"{owner}: must be connected, got {len(components)} components: {shown}{rest}.")


def relabel_to_indices(graph: nx.Graph, classes: Sequence[object]) -> nx.Graph:
    """Return a copy of a graph over class labels, with the nodes 0..n-1.

    Parameters
    ----------
    graph : networkx.Graph
        Its nodes are the labels, each class once.
    classes : sequence of length n
        The labels in order: ``classes[i]`` becomes i.

    Returns
    -------
    networkx.Graph
        A new graph. Attributes of the graph and of its edges are kept.

    Raises
    ------
    TypeError
        If `graph` is not an undirected graph without parallel edges.
    ValueError
        If the labels are not distinct, or are not the nodes.

    See Also
    --------
    check_model_graph : checks the result.

    Examples
    --------
    >>> import networkx as nx
    >>> pets = nx.Graph([("dog", "cat"), ("dog", "owl")])
    >>> edge_array(relabel_to_indices(pets, ["cat", "dog", "owl"]))
    array([[0, 1],
           [1, 2]])
    >>> relabel_to_indices(pets, ["cat", "dogs", "owl"])
    Traceback (most recent call last):
        ...
    ValueError: relabel_to_indices: every node must be a class, got 'dog'. Did you mean 'dogs'?
    """
    owner = "relabel_to_indices"
    _check_simple(graph, owner)
    position = {label: i for i, label in enumerate(classes)}
    if len(position) < len(classes):
        repeated = [label for i, label in enumerate(classes) if position[label] != i]
        raise ValueError(f"{owner}: classes must be distinct, got {listed(repeated)} more than once.")
    if unknown := [node for node in graph if node not in position]:
        raise ValueError(
            f"{owner}: every node must be a class, got {listed(unknown)}.{did_you_mean(unknown[0], position)}"
        )
    if missing := [label for label in classes if label not in graph]:
        raise ValueError(f"{owner}: every class must be a node, got a graph without {listed(missing)}.")
    relabelled = nx.Graph()
    relabelled.graph.update(graph.graph)
    relabelled.add_nodes_from(range(len(position)))
    relabelled.add_edges_from((position[u], position[v], data) for u, v, data in graph.edges(data=True))
    return relabelled


def _check_simple(graph: nx.Graph, owner: str) -> None:
    if not isinstance(graph, nx.Graph) or graph.is_directed() or graph.is_multigraph():
        raise TypeError(f"{owner}: must be an undirected networkx.Graph, got {type(graph).__name__}.")


def _number_of_classes(graph: nx.Graph, n_classes: int | None, class_names: Sequence[object] | None) -> int:
    if n_classes is None:
        return len(graph) if class_names is None else len(class_names)
    if class_names is not None and len(class_names) != n_classes:
        raise ValueError(
            f"check_model_graph: class_names must have n_classes = {n_classes} names, got {len(class_names)}."
        )
    return n_classes


def _check_nodes(graph: nx.Graph, n: int, class_names: Sequence[object] | None, owner: str) -> None:
    if missing := [node for node in range(n) if node not in graph]:
        named = _named(missing, class_names)
        # Labels instead of numbers are the likeliest mistake here, so the message says how to map them.
        hint = _label_hint(graph)
        raise ValueError(
            f"{owner}: nodes must be the classes 0..{n - 1}, got a graph without {listed(named)}.{hint}"
        )
    if len(graph) > n:
        extra = [node for node in graph if node not in range(n)]
        raise ValueError(f"{owner}: nodes must be the classes 0..{n - 1}, got also {listed(extra)}.")


def _check_loops(graph: nx.Graph, class_names: Sequence[object] | None, owner: str) -> None:
    if loops := sorted(nx.nodes_with_selfloops(graph)):
        raise ValueError(
            f"{owner}: must not join a class to itself, got {listed(_named(loops, class_names))}."
        )


def _label_hint(graph: nx.Graph) -> str:
    labels = [node for node in graph if not isinstance(node, int | np.integer)]
    return f" Map labels such as {listed(labels, 2)} with relabel_to_indices." if labels else ""


def _named(nodes: Iterable[int], class_names: Sequence[object] | None) -> list[object]:
    return [node if class_names is None else class_names[node] for node in nodes]
