"""The model code: it takes the place of the model graph in models whose machines are on sets of classes.

A checked code matrix, labelled with the call that builds it. A chain of machines joins every class to every other:
without one, their odds are not determined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.graphs.checks import check_count
from pairloom.graphs.code_matrix import check_code, code_as_text, different_machines
from pairloom.graphs.decomposition import Decomposition
from pairloom.graphs.text import listed, quoted

__all__ = ["ModelCode", "code_from_graph", "code_graph", "given_code", "model_code"]


@dataclass(frozen=True, eq=False)
class ModelCode(Decomposition):
    """A usable code and the call that builds it.

    Attributes
    ----------
    matrix : (N, m) int8 array
        One row per class, one column per machine: +1 and -1 are its sides, 0 is a class that it leaves out.
    label : mapping
        The family, the number of classes and the parameters, as ``graph.graph`` of a model graph has them.
    """

    matrix: NDArray[np.int8]
    label: Mapping[str, Any]
    unit = "machines"
    noun = "column"

    @property
    def n_classes(self) -> int:
        """N, the number of classes."""
        return len(self.matrix)

    @property
    def n_machines(self) -> int:
        """m, the number of machines."""
        return int(self.matrix.shape[1])

    @property
    def classes(self) -> NDArray[np.intp]:
        """The classes that some machine is trained on, ascending."""
        return np.flatnonzero(self.matrix.any(axis=1))

    @property
    def order(self) -> NDArray[np.intp]:
        """The order of the columns: the machines of a code have no other."""
        return np.arange(self.n_machines)

    def sides(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """The classes on the positive and on the negative side of each machine."""
        return [(np.flatnonzero(column == 1), np.flatnonzero(column == -1)) for column in self.matrix.T]

    def part(self, machines: slice) -> ModelCode:
        """Some of the machines; not every class need take part in them."""
        return ModelCode(self.matrix[:, machines], self.label)

    def described(self) -> list[str]:
        """The columns as words; see `code_as_text`."""
        return code_as_text(self.matrix)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The code matrix (N, m)."""
        return {"code": self.matrix}

    def coordinates(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """The side of each class in each machine."""
        return {"side": (("edge", "class"), self.matrix.T)}

    @property
    def classes_per_machine(self) -> float:
        """The classes that an average machine is trained on."""
        return np.count_nonzero(self.matrix) / self.n_machines

    def rows_per_machine(self, rows: ArrayLike) -> float:
        """The training rows of an average machine, given those of each class."""
        return float(self.samples_by_machine(rows).mean())

    def samples_by_machine(self, counts: ArrayLike) -> NDArray[np.float64]:
        """(m,) training samples of each machine, given those of each class.

        Examples
        --------
        >>> model_code([[1, 1], [-1, 0], [0, -1]], "code").samples_by_machine([10, 20, 30])
        array([30., 40.])
        """
        return np.asarray(np.asarray(counts, np.float64) @ (self.matrix != 0))

    def without(self, c: int, names: Sequence[object] | None = None) -> tuple[ModelCode, NDArray[np.int64]]:
        """Return the code without a class, and the machines that it keeps.

        A machine with an empty side is dropped, and so is one that has become equal to an earlier one.

        Examples
        --------
        >>> code, kept = model_code([[1, -1, -1], [-1, 1, -1], [-1, -1, 1]], "one_vs_rest").without(2)
        >>> code.matrix.ravel(), kept
        (array([ 1, -1], dtype=int8), array([0]))
        """
        rest = np.delete(self.matrix, c, axis=0)
        used = np.flatnonzero((rest == 1).any(axis=0) & (rest == -1).any(axis=0))
        if not used.size:
            raise ValueError(f"none of {self.n_machines} machines would have classes on both sides.")
        kept = used[different_machines(rest[:, used])]
        others = None if names is None else [name for k, name in enumerate(names) if k != c]
        return model_code(rest[:, kept], "changed", owner="code", names=others), kept


def model_code(
    matrix: ArrayLike,
    family: str,
    /,
    *,
    n: int | None = None,
    owner: str = "model_code",
    names: Sequence[object] | None = None,
    **parameters: Any,
) -> ModelCode:
    """Return a checked code, labelled with the call that builds it.

    Parameters
    ----------
    matrix : array-like of shape (N, m)
        See `check_code`.
    family : str
        Name of the family.
    n : int, default=None
        Required number of classes.
    owner : str, default="model_code"
        The caller, for the messages.
    names : sequence, default=None
        Name per class, for the messages.
    **parameters
        Parameters of the family's builder.

    Raises
    ------
    TypeError, ValueError
        If the code is not usable, or no chain of machines joins some classes to the others.

    Examples
    --------
    >>> model_code([[1, 0], [-1, 0], [0, 1], [0, -1]], "code")
    Traceback (most recent call last):
        ...
    ValueError: model_code: the machines of code must connect all classes, got 2 parts without a machine between \
them: (0, 1), (2, 3). Add a machine with classes of several parts.
    """
    M = check_code(matrix, n, owner=owner, names=names)
    _check_chain(M, owner, list(range(len(M))) if names is None else names)
    M.flags.writeable = False
    return ModelCode(M, {"family": family, "n": len(M), **parameters})


def given_code(n: SupportsIndex, matrix: ArrayLike) -> NDArray[np.int8]:
    """Return a code matrix as it was given, for n classes: the family "code".

    Examples
    --------
    >>> given_code(2, [[1], [-1]]).ravel()
    array([ 1, -1], dtype=int8)
    """
    return check_code(matrix, check_count("code", "n", n, 2), owner="code")


def _check_chain(M: NDArray[np.int8], owner: str, names: Sequence[object]) -> None:
    """Raise unless every class is joined to every other by a chain of machines."""
    parts, left = [], np.ones(len(M), dtype=bool)
    while left.any():
        part = _joined_to(M, int(left.argmax()))
        left &= ~part
        parts.append(np.flatnonzero(part).tolist())
    if len(parts) > 1:
        shown = ", ".join(f"({listed(names[c] for c in part)})" for part in parts[:5])
        raise ValueError(
            f"{owner}: the machines of code must connect all classes, got {len(parts)} parts without a machine between"
            f" them: {shown}. Add a machine with classes of several parts."
        )


def _joined_to(M: NDArray[np.int8], c: int) -> NDArray[np.bool_]:
    """Return which classes a chain of machines joins to class c, as a mask."""
    inside: NDArray[np.bool_] = np.arange(len(M)) == c
    while True:
        machines = M[inside].any(axis=0)
        wider = inside | M[:, machines].any(axis=1)
        if (wider == inside).all():
            return inside
        inside = wider


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
