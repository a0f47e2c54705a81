"""The model code: what a model has in place of a model graph if its machines are on sets of classes.

A checked code matrix, labelled with the call that builds it. Every class is joined to every other by a chain of
machines: the odds of classes without such a chain would be anyone's guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypeAlias

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from .classes import check_count
from .code_matrix import check_code, different_machines
from .labels import listed
from .model_graph import edge_array

__all__ = ["ModelCode", "Sides", "given_code", "model_code", "sides_of"]


@dataclass(frozen=True, eq=False)
class ModelCode:
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

    @property
    def n_classes(self) -> int:
        """N, how many classes there are."""
        return len(self.matrix)

    @property
    def n_machines(self) -> int:
        """m, how many machines there are."""
        return int(self.matrix.shape[1])

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

        A machine with an empty side goes, and so does one that has become the same as an earlier one.

        Examples
        --------
        >>> code, kept = model_code([[1, -1, -1], [-1, 1, -1], [-1, -1, 1]], "one_vs_rest").without(2)
        >>> code.matrix.ravel(), kept
        (array([ 1, -1], dtype=int8), array([0]))
        """
        rest = np.delete(self.matrix, c, axis=0)
        used = np.flatnonzero((rest == 1).any(axis=0) & (rest == -1).any(axis=0))
        if not used.size:
            raise ValueError(f"no machine has classes on both sides any more, of {self.n_machines}.")
        kept = used[different_machines(rest[:, used])]
        others = None if names is None else [name for k, name in enumerate(names) if k != c]
        return model_code(rest[:, kept], "changed", owner="code", names=others), kept


#: What the machines of a model are trained on: pairs (E, 2), or the columns of a code.
Sides: TypeAlias = NDArray[np.int64] | ModelCode


def sides_of(graph: nx.Graph | ModelCode) -> Sides:
    """Return what machines are trained on: the sorted pairs of a model graph, or a code as it is.

    Examples
    --------
    >>> from pairloom.graphs import path
    >>> sides_of(path(3)).tolist()
    [[0, 1], [1, 2]]
    """
    return graph if isinstance(graph, ModelCode) else edge_array(graph)


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
        Who asks, for the messages.
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
