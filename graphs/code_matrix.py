"""The code matrix: machines on sets of classes, one column per machine.

Entry (s, q) is +1 if machine q is trained with class s on its positive side, -1 if on its negative side, and 0 if it
is trained without class s. A machine of a model graph is the special case with one class on either side.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.graphs.model_graph import check_model_graph, edge_array
from pairloom.graphs.text import listed, quoted

__all__ = ["check_code", "code_as_text", "code_from_text", "code_of_pairs", "different_machines"]


def check_code(
    code: ArrayLike,
    n: int | None = None,
    *,
    owner: str = "check_code",
    names: Sequence[object] | None = None,
) -> NDArray[np.int8]:
    """Return a code matrix as a new int8 array, or raise.

    A code can be used if every machine has a class on either side, no two machines are the same or the same with
    their sides exchanged, every class takes part in a machine, and no two classes are on the same side of every
    machine. Two such classes could not be told apart: only the sum of their probabilities would count.

    Parameters
    ----------
    code : array-like of shape (N, m)
        One row per class, one column per machine, with entries -1, 0 and +1.
    n : int, default=None
        Required number of classes. By default, any number of at least 2.
    owner : str, default="check_code"
        The function, for the message.
    names : sequence, default=None
        Name per class, for the message.

    Returns
    -------
    (N, m) int8 array

    Raises
    ------
    TypeError
        If the entries are not real numbers.
    ValueError
        If the code cannot be used; the message names the columns (machines) or rows (classes), counted from 0, or by
        their names.

    See Also
    --------
    code_is_connected : whether every class gets a positive probability, whatever the machines say.
    code_identifies : whether consistent machines determine the probabilities.

    Examples
    --------
    >>> check_code([[1, 1], [-1, 0], [0, -1]])
    array([[ 1,  1],
           [-1,  0],
           [ 0, -1]], dtype=int8)
    >>> check_code([[1, -1], [-1, 1]])
    Traceback (most recent call last):
        ...
    ValueError: check_code: code must not repeat a machine, but column 1 is column 0 with its sides exchanged. \
Remove one of them.
    """
    M = _signs(code, n, owner)
    _check_sides(M, owner)
    _check_columns(M, owner)
    _check_rows(M, owner, range(len(M)) if names is None else names)
    return M


def code_of_pairs(graph: Any) -> NDArray[np.int8]:
    """Return the code of a model graph: one machine per edge (i, j), with i on the positive side.

    Parameters
    ----------
    graph : networkx.Graph
        A model graph: connected, on 0..n-1.

    Returns
    -------
    (N, E) int8 array
        The columns are in the order of `edge_array`.

    Raises
    ------
    TypeError, ValueError
        If `graph` is not a model graph: see `check_model_graph`.

    Examples
    --------
    >>> from pairloom.graphs import path
    >>> code_of_pairs(path(3))
    array([[ 1,  0],
           [-1,  1],
           [ 0, -1]], dtype=int8)
    """
    check_model_graph(graph)
    return pair_columns(edge_array(graph), len(graph))


def different_machines(matrix: NDArray[np.int8]) -> NDArray[np.intp]:
    """Return the columns of a code, ascending, without those that repeat an earlier machine or exchange its sides.

    Examples
    --------
    >>> different_machines(np.array([[1, 1, -1], [-1, 0, 1], [0, -1, 0]], np.int8))
    array([0, 1])
    """
    _, first = np.unique(_positive_first(matrix), axis=1, return_index=True)
    return np.sort(first)


def pair_columns(pairs: NDArray[np.integer], n: int) -> NDArray[np.int8]:
    """Return the code (n, E) of pairs (E, 2).

    Examples
    --------
    >>> pair_columns(np.array([[0, 2]]), 3).ravel()
    array([ 1,  0, -1], dtype=int8)
    """
    code = np.zeros((n, len(pairs)), np.int8)
    machines = np.arange(len(pairs))
    code[pairs[:, 0], machines], code[pairs[:, 1], machines] = 1, -1
    return code


def _signs(code: ArrayLike, n: int | None, owner: str) -> NDArray[np.int8]:
    """Return the entries as int8, if they are -1, 0 and +1 and the shape is (N, m)."""
    try:
        given = np.asarray(code)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{owner}: code must be a matrix (N, m): {error}") from error
    if given.dtype.kind not in "iuf":
        raise TypeError(
            f"{owner}: code must be a matrix of the numbers -1, 0 and +1, got dtype {given.dtype}."
        )
    if given.ndim != 2 or given.shape[0] < 2 or given.shape[1] < 1:
        raise ValueError(
            f"{owner}: code must be a matrix (N, m) of at least 2 classes and 1 machine, got shape {given.shape}."
        )
    if n is not None and len(given) != n:
        raise ValueError(f"{owner}: code must have one row for each of {n} classes, got {len(given)} rows.")
    wrong = ~np.isin(given, (-1, 0, 1))
    if wrong.any():
        s, q = np.argwhere(wrong)[0]
        raise ValueError(f"{owner}: code must be -1, 0 or +1, got code[{s}, {q}] = {given[s, q]}.")
    return given.astype(np.int8)


def _check_sides(M: NDArray[np.int8], owner: str) -> None:
    for sign, name in ((1, "+1"), (-1, "-1")):
        if (without := np.flatnonzero(~np.equal(M, sign).any(axis=0))).size:
            raise ValueError(
                f"{owner}: every column of code must have a class at {name}, got none in column"
                f" {listed(without)}. A machine needs classes on both sides."
            )


def _check_columns(M: NDArray[np.int8], owner: str) -> None:
    for one, other in _equal(np.ascontiguousarray(_positive_first(M).T)):
        exchanged = "" if np.array_equal(M[:, one], M[:, other]) else " with its sides exchanged"
        raise ValueError(
            f"{owner}: code must not repeat a machine, but column {other} is column {one}{exchanged}."
            " Remove one of them."
        )


def _positive_first(M: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return the code with the first class of each machine on its positive side: the same machines are equal then."""
    first = np.take_along_axis(M, (M != 0).argmax(axis=0)[None], axis=0)
    return M * first


def _check_rows(M: NDArray[np.int8], owner: str, names: Sequence[object]) -> None:
    if (unused := np.flatnonzero(~M.any(axis=1))).size:
        raise ValueError(
            f"{owner}: every class must take part in a machine, got rows of zeros for class"
            f" {listed(names[s] for s in unused.tolist())}."
        )
    for one, other in _equal(M):
        raise ValueError(
            f"{owner}: code must tell all classes apart, but the rows of classes {quoted(names[one])} and"
            f" {quoted(names[other])} are equal. Add a machine with the two on different sides."
        )


def _equal(rows: NDArray[np.int8]) -> list[tuple[int, int]]:
    """Return pairs of equal rows, the lower number first; none if all rows differ."""
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    places = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
    return list(zip(order[places].tolist(), order[places + 1].tolist(), strict=True))


def code_as_text(matrix: NDArray[np.int8]) -> list[str]:
    """Return the columns of a code as words.

    Examples
    --------
    >>> code_as_text(np.array([[1, 1], [-1, 0], [0, -1]], np.int8))
    ['+-0', '+0-']
    """
    letters = np.frombuffer(b"-0+", np.uint8)[matrix.T + 1]
    return [word.tobytes().decode() for word in letters]


def code_from_text(words: Sequence[str]) -> NDArray[np.int8]:
    """Return the code whose columns are these words.

    Examples
    --------
    >>> code_from_text(["+-0", "+0-"]).tolist()
    [[1, 1], [-1, 0], [0, -1]]
    """
    letters = np.frombuffer("".join(words).encode(), np.uint8).reshape(len(words), -1)
    matrix: NDArray[np.int8] = (letters == ord("+")).astype(np.int8) - (letters == ord("-")).astype(np.int8)
    return np.ascontiguousarray(matrix.T)
