"""The families of graphs by name, for use in configurations."""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any, SupportsIndex

import networkx as nx

from .bipartite import bipartite
from .classes import check_count
from .complete import complete
from .growth_order import grown
from .hub_neighbours import hub_neighbours
from .labels import did_you_mean, listed, quoted
from .trees import path, spanning_tree, star, star_of_least_distance, tree

__all__ = ["FAMILIES", "build", "family_parameters", "needs_distances"]

_TREES = (star, path, tree, spanning_tree, star_of_least_distance)
#: The builder of each family, by name. Read-only.
FAMILIES: Mapping[str, Callable[..., nx.Graph]] = MappingProxyType(
    {b.__name__: b for b in (*_TREES, bipartite, complete, hub_neighbours, grown)}
)


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
    accepted = _accepted(builder)
    n = check_count("build", "n", n, 1)
    if unknown := [name for name in parameters if name not in accepted]:
        raise ValueError(
            f"build: family {family!r} has no parameter {quoted(unknown[0])}, "
            f"it has {listed(accepted, most=len(accepted)) or 'none'}.{did_you_mean(unknown[0], accepted)}"
        )
    required = [name for name, parameter in accepted.items() if parameter.default is Parameter.empty]
    if absent := [name for name in required if name not in parameters]:
        raise ValueError(f"build: {' and '.join(absent)} must be given for family {family!r}, got none.")
    graph = builder(n, **parameters) if "n" in signature(builder).parameters else builder(**parameters)
    if len(graph) != n:
        raise ValueError(
            f"build: {required[0]} of family {family!r} must be for n = {n} classes, got {len(graph)}."
        )
    return graph


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
        A name in `FAMILIES`.

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
    """
    accepted = _accepted(_builder(family, "family_parameters"))
    return {name: p.default is Parameter.empty for name, p in accepted.items() if name != "distances"}


def _builder(family: str, owner: str) -> Callable[..., nx.Graph]:
    if not isinstance(family, str) or family not in FAMILIES:
        known = listed(FAMILIES, most=len(FAMILIES))
        raise ValueError(
            f"{owner}: family must be one of {known}, got {quoted(family)}.{did_you_mean(family, FAMILIES)}"
        )
    return FAMILIES[family]


def _accepted(builder: Callable[..., nx.Graph]) -> dict[str, Parameter]:
    """Return the parameters of a builder, except the number of classes."""
    return {name: p for name, p in signature(builder).parameters.items() if name != "n"}
