"""A code matrix as a bipartite graph of classes and machines, and back."""

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from .code_matrix import check_code
from .labels import listed, quoted

__all__ = ["code_from_graph", "code_graph"]


def code_graph(code: ArrayLike) -> nx.Graph:
    """Return the bipartite graph of a code: an edge joins a machine to each class that it is trained on.

    Parameters
    ----------
    code : array-like of shape (N, m)
        A code matrix: see `check_code`.

    Returns
    -------
    networkx.Graph
        The classes are the nodes 0..N-1, with the attribute ``bipartite=0``. The machines are the nodes
        ``("machine", q)``, with ``bipartite=1``. The edge attribute ``sign`` is +1 or -1.

    Raises
    ------
    TypeError, ValueError
        If `code` is not a usable code.

    See Also
    --------
    code_from_graph : the way back.

    Examples
    --------
    >>> from pairloom.graphs import one_vs_one
    >>> code_graph(one_vs_one(3)).edges[1, ("machine", 0)]
    {'sign': -1}
    """
    M = check_code(code, owner="code_graph")
    graph = nx.Graph()
    graph.add_nodes_from(range(M.shape[0]), bipartite=0)
    graph.add_nodes_from((("machine", q) for q in range(M.shape[1])), bipartite=1)
    joined = np.argwhere(M).tolist()
    graph.add_edges_from((s, ("machine", q), {"sign": int(M[s, q])}) for s, q in joined)
    return graph


def code_from_graph(graph: nx.Graph) -> NDArray[np.int8]:
    """Return the code of a bipartite graph of classes and machines.

    Parameters
    ----------
    graph : networkx.Graph
        As `code_graph` returns it. The order of its nodes and edges does not matter.

    Returns
    -------
    (N, m) int8 array

    Raises
    ------
    TypeError
        If `graph` is not an undirected graph without parallel edges.
    ValueError
        If its nodes are not classes 0..N-1 and machines ("machine", 0..m-1), an edge does not join a class to a
        machine, its sign is not +1 or -1, or the code is not usable.

    Examples
    --------
    >>> from pairloom.graphs import one_vs_rest
    >>> bool((code_from_graph(code_graph(one_vs_rest(4))) == one_vs_rest(4)).all())
    True
    """
    if not isinstance(graph, nx.Graph) or graph.is_directed() or graph.is_multigraph():
        raise TypeError(
            f"code_from_graph: graph must be an undirected networkx.Graph, got {type(graph).__name__}."
        )
    machines = {node for node in graph if isinstance(node, tuple)}
    n, m = len(graph) - len(machines), len(machines)
    expected = {*range(n), *(("machine", q) for q in range(m))}
    if strange := [node for node in graph if node not in expected]:
        raise ValueError(
            f"code_from_graph: the nodes of graph must be classes 0..{n - 1} and machines ('machine', 0..{m - 1}),"
            f" got {listed(strange)}."
        )
    code = np.zeros((n, m), np.int8)
    for one, other, sign in graph.edges(data="sign"):
        s, machine = (other, one) if isinstance(one, tuple) else (one, other)
        if isinstance(s, tuple) or not isinstance(machine, tuple):
            raise ValueError(
                f"code_from_graph: every edge must join a class to a machine, got {quoted((one, other))}."
            )
        if sign not in (1, -1):
            raise ValueError(
                f"code_from_graph: the sign of every edge must be +1 or -1, got {quoted(sign)} between"
                f" {quoted(s)} and {quoted(machine)}."
            )
        code[s, machine[1]] = sign
    return check_code(code, owner="code_from_graph")
