"""The families of graphs and of codes by name, and the graph or code that a user asks for.

A user gives the name of a family, its name and parameters, or a graph or code of their own.
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any, SupportsIndex

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.graphs.checks import check_count
from pairloom.graphs.codes import dense_code, one_vs_one, one_vs_rest, sparse_code
from pairloom.graphs.decomposition import Decomposition, Pairs, decomposition_of
from pairloom.graphs.growth_order import grown
from pairloom.graphs.hubs import bipartite, complete, complete_pairs, hub_neighbour_pairs, hub_neighbours
from pairloom.graphs.model_code import ModelCode, code_from_graph, given_code, model_code
from pairloom.graphs.model_graph import check_model_graph, relabel_to_indices
from pairloom.graphs.text import did_you_mean, listed, quoted
from pairloom.graphs.trees import path, spanning_tree, star, star_of_least_distance, tree

__all__ = [
    "CODE_FAMILIES",
    "FAMILIES",
    "asks_for_code",
    "build",
    "build_code",
    "check_code_size",
    "family_parameters",
    "needs_distances",
    "requested_decomposition",
    "requested_graph",
]


_TREES = (star, path, tree, spanning_tree, star_of_least_distance)
#: The builder of each family, by name. Read-only.
FAMILIES: Mapping[str, Callable[..., nx.Graph]] = MappingProxyType(
    {b.__name__: b for b in (*_TREES, bipartite, complete, hub_neighbours, grown)}
)

#: Builders of the pairs of families that may have millions, too many for a networkx graph.
_PAIRS: Mapping[str, Callable[..., Pairs]] = MappingProxyType(
    {"complete": complete_pairs, "hub_neighbours": hub_neighbour_pairs}
)

#: The builder of each family of codes, machines on sets of classes, by name. Read-only.
CODE_FAMILIES: Mapping[str, Callable[..., NDArray[np.int8]]] = MappingProxyType(
    {
        "one_vs_rest": one_vs_rest,
        "one_vs_one": one_vs_one,
        "dense": dense_code,
        "sparse": sparse_code,
        "code": given_code,
    }
)
#: Largest number of entries of a code that is built by name: 16 MB, and a second to check.
MOST_ENTRIES = 2**24
#: Largest number of classes of a random code: the distances of all pairs of classes in a hundred draws take seconds.
MOST_RANDOM_CLASSES = 2048


def build(family: str, n: SupportsIndex, **parameters: Any) -> nx.Graph:
    """Return the graph of a family, given by name, on n classes.

    Parameters
    ----------
    family : str
        A name in `FAMILIES`.
    n : int
        Number of classes, at least 1. Parameters that imply a number of classes (distances, parents) must agree.
    **parameters
        Parameters of the family's builder, except n.

    Returns
    -------
    networkx.Graph
        The graph that the builder returns.

    Raises
    ------
    ValueError
        If `family` is unknown, or a parameter is unknown, missing or not allowed.
    TypeError
        If an integer parameter is not of an integer type.

    See Also
    --------
    needs_distances : whether a family is built from distances.

    Examples
    --------
    >>> build("bipartite", 5, hubs=2).number_of_edges()
    6
    >>> build("bipartit", 5, hubs=2)
    Traceback (most recent call last):
        ...
    ValueError: build: family must be one of 'star', 'path', 'tree', 'spanning_tree', 'star_of_least_distance', \
'bipartite', 'complete', 'hub_neighbours', 'grown', got 'bipartit'. Did you mean 'bipartite'?
    >>> build("spanning_tree", 5)
    Traceback (most recent call last):
        ...
    ValueError: build: distances must be given for family 'spanning_tree', got none.
    """
    builder = _builder(family, "build")
    n = check_count("build", "n", n, 1)
    required = _check_parameters("build", family, builder, parameters)
    graph = builder(n, **parameters) if "n" in signature(builder).parameters else builder(**parameters)
    if len(graph) != n:
        raise ValueError(
            f"build: {required[0]} of family {family!r} must be for n = {n} classes, got {len(graph)}."
        )
    return graph


def build_code(family: str, n: SupportsIndex, **parameters: Any) -> ModelCode:
    """Return the code of a family, given by name, on n classes.

    Parameters
    ----------
    family : str
        A name in `CODE_FAMILIES`.
    n : int
        Number of classes, at least 2.
    **parameters
        Parameters of the family's builder, except n.

    Returns
    -------
    ModelCode

    Raises
    ------
    ValueError
        If `family` is unknown, a parameter is unknown, missing or not allowed, or the code would be too large.
    TypeError
        If a parameter is of the wrong type.

    Examples
    --------
    >>> code = build_code("dense", 8, seed=1)
    >>> code.matrix.shape, code.label
    ((8, 30), {'family': 'dense', 'n': 8, 'seed': 1})
    """
    if not isinstance(family, str) or family not in CODE_FAMILIES:
        known = listed(CODE_FAMILIES, most=len(CODE_FAMILIES))
        raise ValueError(
            f"build_code: family must be one of {known}, got {quoted(family)}.{did_you_mean(family, CODE_FAMILIES)}"
        )
    n = check_count("build_code", "n", n, 2)
    _check_parameters("build_code", family, CODE_FAMILIES[family], parameters)
    check_code_size(family, n, "build_code: family")
    matrix = CODE_FAMILIES[family](n, **parameters)
    label = {name: value for name, value in parameters.items() if name != "matrix"}
    return model_code(matrix, family, n=n, owner=family, **label)


def check_code_size(family: str, n: int, owner: str) -> None:
    """Raise if the code of a family would be too large to be built in seconds.

    Examples
    --------
    >>> check_code_size("one_vs_one", 1000, "family")
    Traceback (most recent call last):
        ...
    ValueError: family 'one_vs_one' has 499,500 machines for 1,000 classes; a code can have at most 16,777,216 \
entries. The graph 'complete' trains the same pairs without a code.
    """
    if family in ("dense", "sparse") and n > MOST_RANDOM_CLASSES:
        raise ValueError(
            f"{owner} {family!r} compares every class with every other; it can have at most"
            f" {MOST_RANDOM_CLASSES:,} classes, got {n:,}. Choose one_vs_rest, or a graph of pairs."
        )
    machines = {"one_vs_one": n * (n - 1) // 2, "one_vs_rest": n}.get(family, 0)
    if n * machines > MOST_ENTRIES:
        same = " The graph 'complete' trains the same pairs without a code."
        raise ValueError(
            f"{owner} {family!r} has {machines:,} machines for {n:,} classes; a code can have at most"
            f" {MOST_ENTRIES:,} entries.{same if family == 'one_vs_one' else ' Choose a graph of pairs.'}"
        )


def needs_distances(family: str) -> bool:
    """Return whether a family, given by name, is built from the distances between the classes.

    Parameters
    ----------
    family : str
        A name in `FAMILIES`.

    Returns
    -------
    bool

    Raises
    ------
    ValueError
        If `family` is unknown.

    Examples
    --------
    >>> [family for family in FAMILIES if needs_distances(family)]
    ['spanning_tree', 'star_of_least_distance', 'hub_neighbours']
    """
    return "distances" in _accepted(_builder(family, "needs_distances"))


def family_parameters(family: str) -> dict[str, bool]:
    """Return the parameters of a family, given by name, and whether each must be given.

    The number of classes and the distances between them come from the data and are not included.

    Parameters
    ----------
    family : str
        A name in `FAMILIES` or `CODE_FAMILIES`.

    Returns
    -------
    dict of str to bool
        Whether each parameter is required, by name.

    Raises
    ------
    ValueError
        If `family` is unknown.

    Examples
    --------
    >>> family_parameters("hub_neighbours"), family_parameters("bipartite")
    ({'hubs': False, 'neighbours': False}, {'hubs': True})
    >>> family_parameters("dense")
    {'seed': False}
    """
    is_code = isinstance(family, str) and family in CODE_FAMILIES
    accepted = _accepted(CODE_FAMILIES[family] if is_code else _builder(family, "family_parameters"))
    return {name: p.default is Parameter.empty for name, p in accepted.items() if name != "distances"}


def _builder(family: str, owner: str) -> Callable[..., nx.Graph]:
    if not isinstance(family, str) or family not in FAMILIES:
        known = listed(FAMILIES, most=len(FAMILIES))
        raise ValueError(
            f"{owner}: family must be one of {known}, got {quoted(family)}.{did_you_mean(family, FAMILIES)}"
        )
    return FAMILIES[family]


def _check_parameters(
    owner: str, family: str, builder: Callable[..., Any], parameters: Mapping[str, Any]
) -> list[str]:
    """Raise if a builder has no such parameter, or a required one is absent; return the required ones."""
    accepted = _accepted(builder)
    if unknown := [name for name in parameters if name not in accepted]:
        raise ValueError(
            f"{owner}: family {family!r} has no parameter {quoted(unknown[0])}, "
            f"it has {listed(accepted, most=len(accepted)) or 'none'}.{did_you_mean(unknown[0], accepted)}"
        )
    required = [name for name, parameter in accepted.items() if parameter.default is Parameter.empty]
    if absent := [name for name in required if name not in parameters]:
        raise ValueError(f"{owner}: {' and '.join(absent)} must be given for family {family!r}, got none.")
    return required


def _accepted(builder: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters of a builder, except the number of classes."""
    return {name: p for name, p in signature(builder).parameters.items() if name != "n"}


_KNOWN = (*FAMILIES, *CODE_FAMILIES)


def asks_for_code(asked: object) -> bool:
    """Return whether a value for `requested_graph` asks for machines on sets of classes.

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
        The caller, for the messages.

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
    # `asked` may be the label of a graph, which has the number of classes: see `model_graph`.
    if (n := parameters.pop("n", len(labels))) != len(labels):
        raise ValueError(f"{owner}: n of graph must be {len(labels)}, the number of classes, got {n!r}.")
    if family in CODE_FAMILIES:
        return build_code(family, len(labels), **parameters)
    if needs_distances(family):
        parameters.setdefault("distances", distances())
    return build(family, len(labels), **parameters)


def requested_decomposition(
    asked: str | Mapping[str, Any] | nx.Graph | NDArray[Any],
    labels: Sequence[object],
    distances: Callable[[], ArrayLike],
    owner: str = "requested_decomposition",
) -> Decomposition:
    """Return the machines of the graph or code that `requested_graph` returns, for the same parameters.

    For families with many pairs no networkx graph is built: it would take ten times the memory of the pairs.

    Examples
    --------
    >>> requested_decomposition("complete", ["cat", "dog", "owl"], lambda: None).described()
    [[0, 1], [0, 2], [1, 2]]
    """
    family = asked.get("family") if isinstance(asked, Mapping) else asked
    if not isinstance(family, str) or family not in _PAIRS:
        return decomposition_of(requested_graph(asked, labels, distances, owner))
    parameters = dict(_family(asked, owner)[1])
    if parameters.pop("n", len(labels)) != len(labels):
        return decomposition_of(requested_graph(asked, labels, distances, owner))  # raises
    if needs_distances(family):
        parameters.setdefault("distances", distances())
    else:
        parameters["n"] = len(labels)
    _check_parameters("build", family, _PAIRS[family], {k: v for k, v in parameters.items() if k != "n"})
    return _PAIRS[family](**parameters)


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
