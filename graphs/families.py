"""The families of graphs by name, as a configuration asks for them."""

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

__all__ = ["FAMILIES", "build", "needs_distances"]

_TREES = (star, path, tree, spanning_tree, star_of_least_distance)
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
        Number of classes. A family that sees it in its parameters (distances, parents) must agree with it.
    **parameters
        What the family's function takes.

    Returns
    -------
    networkx.Graph

    Examples
    --------
    >>> build("bipartite", 5, hubs=2).number_of_edges()
    6
    >>> build("bipartit", 5, hubs=2)
    Traceback (most recent call last):
        ...
    ValueError: build: unknown family 'bipartit'. Did you mean 'bipartite'?
    >>> build("spanning_tree", 5)
    Traceback (most recent call last):
        ...
    ValueError: build: family 'spanning_tree' needs distances.
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
        raise ValueError(f"build: family {family!r} needs {' and '.join(absent)}.")
    graph = builder(n, **parameters) if "n" in signature(builder).parameters else builder(**parameters)
    if len(graph) != n:
        raise ValueError(
            f"build: {required[0]} of family {family!r} must be for n = {n} classes, got {len(graph)}."
        )
    return graph


def needs_distances(family: str) -> bool:
    """Return whether a family, given by name, is built from the distances between the classes.

    Examples
    --------
    >>> [family for family in FAMILIES if needs_distances(family)]
    ['spanning_tree', 'star_of_least_distance', 'hub_neighbours']
    """
    return "distances" in _accepted(_builder(family, "needs_distances"))


def _builder(family: str, owner: str) -> Callable[..., nx.Graph]:
    if family not in FAMILIES:
        hint = did_you_mean(family, FAMILIES) or f" Known are {listed(FAMILIES, most=len(FAMILIES))}."
        raise ValueError(f"{owner}: unknown family {quoted(family)}.{hint}")
    return FAMILIES[family]


def _accepted(builder: Callable[..., nx.Graph]) -> dict[str, Parameter]:
    """Return what a builder takes beside the number of classes."""
    return {name: p for name, p in signature(builder).parameters.items() if name != "n"}
