"""The model graph that a user asks for: a family's name, its name and parameters, or a graph of their own."""

from collections.abc import Mapping

import networkx as nx

from pairloom import graphs
from pairloom.graphs.labels import did_you_mean, listed


def requested_graph(asked, labels, distances):
    """The model graph on the indices of the class labels. `distances()` is called only if the family needs them."""
    if isinstance(asked, nx.Graph):
        return _given_graph(asked, labels)
    family, parameters = _family(asked)
    if graphs.needs_distances(family):
        parameters.setdefault("distances", distances())
    return graphs.build(family, len(labels), **parameters)


def _given_graph(graph, labels):
    n = len(labels)
    if set(graph) != set(range(n)) or set(graph) == set(labels):
        graph = graphs.relabel_to_indices(graph, labels)
    graphs.check_model_graph(graph, n, labels)
    return graph


def _family(asked):
    """The family's name and its parameters."""
    if isinstance(asked, str):
        family, parameters = asked, {}
    elif isinstance(asked, Mapping) and "family" in asked:
        parameters = {name: value for name, value in asked.items() if name not in ("family", "n")}
        family = asked["family"]
    else:
        raise TypeError(
            "PairwiseSVC: graph must be a family's name, a mapping with the key 'family' or a networkx.Graph,"
            f" got {asked!r}."
        )
    if family not in graphs.FAMILIES:
        raise ValueError(
            f"PairwiseSVC: graph must be one of {listed(graphs.FAMILIES, most=20)}, got {family!r}."
            f"{did_you_mean(family, graphs.FAMILIES)}"
        )
    return family, parameters
