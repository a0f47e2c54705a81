"""The decomposition of a multi-class problem: on which classes each two-class machine of a model is trained.

Either on pairs of classes (`Pairs`) or on sets of classes (`ModelCode`). Both have the same methods, so code that
counts, describes, splits or stores machines does not ask which kind they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.graphs.model_graph import edge_array, edge_order, model_graph

__all__ = ["Decomposition", "Pairs", "decomposition_of"]


class Decomposition(ABC):
    """The two-class problems of a model.

    Attributes
    ----------
    unit : str
        The word for several machines: "pairs" or "machines".
    noun : str
        What one machine is trained on: a "pair" of classes, or a "column" of a code.
    label : mapping
        The family, the number of classes and the parameters of the builder.
    """

    unit: str
    noun: str
    label: Mapping[str, Any]

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """N, the number of classes."""

    @property
    @abstractmethod
    def n_machines(self) -> int:
        """E, the number of machines."""

    @property
    @abstractmethod
    def classes(self) -> NDArray[np.intp]:
        """The classes that some machine is trained on, ascending."""

    @property
    @abstractmethod
    def order(self) -> NDArray[np.intp]:
        """The permutation that brings the machines into the order of a model."""

    @abstractmethod
    def sides(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """The classes on the positive and on the negative side of each machine."""

    def members(self) -> list[NDArray[np.intp]]:
        """The classes that each machine is trained on, those of its positive side first."""
        return [np.concatenate(sides) for sides in self.sides()]

    @abstractmethod
    def part(self, machines: slice) -> Decomposition:
        """Some of the machines."""

    @abstractmethod
    def described(self) -> list[Any]:
        """The machines as JSON values."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The machines as they are stored with a model, by name."""

    @abstractmethod
    def coordinates(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """The dimensions and values of the coordinates of an axis of machines, by name."""

    @property
    @abstractmethod
    def classes_per_machine(self) -> float:
        """The classes that an average machine is trained on."""

    @property
    def share_of_pairs(self) -> float | None:
        """The share of all pairs of classes that are trained; None for machines on sets of classes."""
        return None

    @abstractmethod
    def rows_per_machine(self, rows: ArrayLike) -> float:
        """The training rows of an average machine, given those of each class."""


@dataclass(frozen=True, eq=False)
class Pairs(Decomposition):
    """Machines on pairs of classes.

    Attributes
    ----------
    edges : (E, 2) int64 array
        The pairs, i < j; class i is on the positive side.
    n : int
        Number of classes.

    Examples
    --------
    >>> pairs = Pairs(np.array([[0, 2], [0, 1]]), 3)
    >>> pairs.n_machines, pairs.order.tolist(), pairs.described()
    (2, [1, 0], [[0, 2], [0, 1]])
    """

    edges: NDArray[np.int64]
    n: int
    label: Mapping[str, Any] = field(default_factory=dict)
    unit = "pairs"
    noun = "pair"
    classes_per_machine = 2.0

    @property
    def n_classes(self) -> int:
        """N, the number of classes."""
        return self.n

    @property
    def n_machines(self) -> int:
        """E, the number of pairs."""
        return len(self.edges)

    @property
    def classes(self) -> NDArray[np.intp]:
        """The classes of these pairs, ascending."""
        return np.unique(self.edges)

    @property
    def order(self) -> NDArray[np.intp]:
        """The permutation that sorts the pairs."""
        return edge_order(self.edges)

    def sides(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """The lower and the higher class of each pair."""
        return [(pair[:1], pair[1:]) for pair in self.edges]

    def members(self) -> list[NDArray[np.intp]]:
        """The two classes of each pair."""
        return list(self.edges)

    def part(self, machines: slice) -> Pairs:
        """Some of the pairs."""
        return Pairs(self.edges[machines], self.n, self.label)

    def described(self) -> list[Any]:
        """The pairs as lists."""
        return list(self.edges.tolist())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The pairs (E, 2)."""
        return {"edges": self.edges}

    def coordinates(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """The first and the second class of each pair."""
        first, second = self.edges.astype(np.int32).T
        return {"class_i": (("edge",), first), "class_j": (("edge",), second)}

    @property
    def degrees(self) -> NDArray[np.int64]:
        """(N,) the number of pairs of each class."""
        return np.bincount(self.edges.ravel(), minlength=self.n)

    def have(self, pairs: NDArray[np.integer]) -> NDArray[np.bool_]:
        """(m,) whether each of some pairs (m, 2), i < j, is trained."""
        trained, asked = (edges[:, 0] * self.n + edges[:, 1] for edges in (self.edges, pairs))
        return np.isin(asked, trained)

    def graph(self) -> nx.Graph:
        """The pairs as a model graph."""
        parameters = dict(self.label)
        family = str(parameters.pop("family", "changed"))
        parameters.pop("n", None)
        return model_graph(self.n, self.edges.tolist(), family, **parameters)

    @property
    def share_of_pairs(self) -> float:
        """The share of all pairs of classes that are trained."""
        return self.n_machines / (self.n * (self.n - 1) / 2)

    def rows_per_machine(self, rows: ArrayLike) -> float:
        """Twice the rows of an average class."""
        return 2 * float(np.asarray(rows, np.float64).mean())


def decomposition_of(graph: nx.Graph | Decomposition) -> Decomposition:
    """Return what the machines of a model are trained on: the sorted pairs of a model graph, or a code as it is.

    Examples
    --------
    >>> from pairloom.graphs import path
    >>> decomposition_of(path(3)).described()
    [[0, 1], [1, 2]]
    """
    return graph if isinstance(graph, Decomposition) else Pairs(edge_array(graph), len(graph), graph.graph)
