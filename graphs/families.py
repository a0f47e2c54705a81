"""The families of graphs and of codes by name, for use in configurations."""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any, SupportsIndex

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from .bipartite import bipartite
from .classes import check_count
from .codes import one_vs_one, one_vs_rest
from .complete import complete
from .growth_order import grown
from .hub_neighbours import hub_neighbours
from .labels import did_you_mean, listed, quoted
from .model_code import ModelCode, given_code, model_code
from .random_codes import dense_code, sparse_code
from .trees import path, spanning_tree, star, star_of_least_distance, tree

__all__ = [
    "CODE_FAMILIES",
    "FAMILIES",
    "build",
    "build_code",
    "check_code_size",
    "family_parameters",
    "needs_distances",
]

_TREES = (star, path, tree, spanning_tree, star_of_least_distance)
#: The builder of each family, by name. Read-only.
FAMILIES: Mapping[str, Callable[..., nx.Graph]] = MappingProxyType(
    {b.__name__: b for b in (*_TREES, bipartite, complete, hub_neighbours, grown)}
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
#: Entries of a code that is built by name: 16 MB, and a second to check.
MOST_ENTRIES = 2**24
#: Classes of a random code. A hundred draws are judged by the distances of all pairs of classes, which takes seconds.
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
    """Raise unless a builder takes these parameters and misses none; return the required ones."""
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
