"""Checks of the arguments of a builder: numbers, classes, and matrices with one number per pair of classes."""

from collections.abc import Iterable
from itertools import pairwise
from operator import index
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.graphs.text import listed, quoted

__all__ = ["check_class", "check_classes", "check_count", "check_distances", "check_pair_matrix"]


def check_count(
    owner: str,
    name: str,
    value: SupportsIndex,
    least: int,
    most: int | None = None,
    most_is: str | None = None,
) -> int:
    """Return `value` as an int between `least` and `most`, or raise.

    Parameters
    ----------
    owner, name : str
        The function and its parameter, for the message.
    value : int
        Of any integer type. Floats are not accepted, even 2.0, nor are True and False.
    least : int
        The smallest allowed value.
    most : int, default=None
        The largest allowed value. None means no limit.
    most_is : str, default=None
        The meaning of `most`, for the message, such as ``"n - 1"``.

    Examples
    --------
    >>> check_count("hub_neighbours", "neighbours", 60, 0, 49, "n - 1")
    Traceback (most recent call last):
        ...
    ValueError: hub_neighbours: neighbours must be at least 0 and at most n - 1 = 49, got 60.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        count = index(value)
    except TypeError:
        raise TypeError(f"{owner}: {name} must be an integer, got {quoted(value)}.") from None
    if count < least or (most is not None and count > most):
        limit = "" if most is None else f" and at most {f'{most_is} = ' if most_is else ''}{most}"
        raise ValueError(f"{owner}: {name} must be at least {least}{limit}, got {count}.")
    return count


def check_class(owner: str, name: str, value: SupportsIndex, n: int) -> int:
    """Return `value` as one of the classes 0..n-1, or raise.

    Examples
    --------
    >>> check_class("star", "centre", 5, n=5)
    Traceback (most recent call last):
        ...
    ValueError: star: centre must be at least 0 and at most n - 1 = 4, got 5.
    """
    return check_count(owner, name, value, 0, n - 1, "n - 1")


def check_classes(
    owner: str, name: str, values: Iterable[SupportsIndex], n: int, most: int, most_is: str
) -> list[int]:
    """Return `values` as a sorted list of 1 to `most` distinct classes of 0..n-1, or raise.

    Examples
    --------
    >>> check_classes("bipartite", "hubs", [3, 1], n=5, most=4, most_is="n - 1")
    [1, 3]
    >>> check_classes("bipartite", "hubs", [3, 3], n=5, most=4, most_is="n - 1")
    Traceback (most recent call last):
        ...
    ValueError: bipartite: hubs must be distinct classes, got 3 more than once.
    """
    classes = sorted(check_class(owner, f"every class of {name}", value, n) for value in values)
    repeated = sorted({one for one, next_one in pairwise(classes) if one == next_one})
    if repeated:
        raise ValueError(f"{owner}: {name} must be distinct classes, got {listed(repeated)} more than once.")
    check_count(owner, f"the number of {name}", len(classes), 1, most, most_is)
    return classes


# Distances computed in single precision, or through a matrix product, are symmetric only to rounding.
ROUNDING = 1e-6


def check_pair_matrix(
    matrix: ArrayLike, n: int | None = None, *, owner: str = "check_pair_matrix", name: str = "matrix"
) -> NDArray[np.float64]:
    """Return a square matrix of finite, non-negative numbers as a new float64 array, or raise.

    Parameters
    ----------
    matrix : array-like of shape (n, n)
        The matrix to check.
    n : int, default=None
        Required number of classes. By default, any number of at least 1.
    owner : str, default="check_pair_matrix"
        The function, for the message.
    name : str, default="matrix"
        Its parameter, for the message.

    Returns
    -------
    (n, n) float64 array

    Raises
    ------
    ValueError
        If the matrix has the wrong shape, or an entry is not finite or is negative.

    Examples
    --------
    >>> check_pair_matrix([[5, -1], [0, 5]], owner="grow")
    Traceback (most recent call last):
        ...
    ValueError: grow: matrix must be non-negative, got matrix[0, 1] = -1.0.
    """
    try:
        given = np.array(matrix)
        values = given.astype(np.float64, casting="same_kind" if given.dtype.kind == "c" else "unsafe")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{owner}: {name} must be a matrix of real numbers, got {matrix!r}.") from error
    if values.ndim != 2 or values.shape[0] != values.shape[1] or values.size == 0:
        raise ValueError(
            f"{owner}: {name} must be a square matrix over the classes, got shape {values.shape}."
        )
    if n is not None and len(values) != n:
        raise ValueError(
            f"{owner}: {name} must be of shape ({n}, {n}), one row per class, got {values.shape}."
        )
    for requirement, fails in (("finite", ~np.isfinite(values)), ("non-negative", values < 0)):
        if fails.any():
            i, j = _first(fails)
            raise ValueError(f"{owner}: {name} must be {requirement}, got {name}[{i}, {j}] = {values[i, j]}.")
    return values


def check_distances(
    distances: ArrayLike, n: int | None = None, *, owner: str = "check_distances", name: str = "distances"
) -> NDArray[np.float64]:
    """Return a matrix of distances between classes as a new float64 array, or raise.

    Distances are finite, non-negative and symmetric, and zero on the diagonal; two classes may be at
    distance zero. Rounding errors, up to one millionth of the largest distance, are accepted and removed.

    Parameters
    ----------
    distances : array-like of shape (n, n)
        The matrix to check.
    n : int, default=None
        Required number of classes. By default, any number of at least 1.
    owner : str, default="check_distances"
        The function, for the message.
    name : str, default="distances"
        Its parameter, for the message.

    Returns
    -------
    (n, n) float64 array
        A new array, exactly symmetric, with zeros on the diagonal.

    Raises
    ------
    ValueError
        If the matrix has the wrong shape or is not a matrix of distances; the message names the first entry.

    See Also
    --------
    spanning_tree, star_of_least_distance, hub_neighbours : graphs built from distances.

    Examples
    --------
    >>> check_distances([[0, 1, 2], [1, 0, 3], [2, 4, 0]], owner="grow", name="matrix")
    Traceback (most recent call last):
        ...
    ValueError: grow: matrix must be symmetric, got matrix[1, 2] = 3.0 and matrix[2, 1] = 4.0.
    """
    values = check_pair_matrix(distances, n, owner=owner, name=name)
    tolerance = ROUNDING * values.max()
    if (off := np.diag(values) > tolerance).any():
        i = int(off.argmax())
        raise ValueError(
            f"{owner}: {name} must be zero on the diagonal, got {name}[{i}, {i}] = {values[i, i]}."
        )
    if (off := np.abs(values - values.T) > tolerance).any():
        i, j = _first(off)
        raise ValueError(
            f"{owner}: {name} must be symmetric, "
            f"got {name}[{i}, {j}] = {values[i, j]} and {name}[{j}, {i}] = {values[j, i]}."
        )
    np.fill_diagonal(values, 0.0)
    symmetric: NDArray[np.float64] = (values + values.T) / 2
    return symmetric


def _first(mask: NDArray[np.bool_]) -> tuple[Any, ...]:
    return np.unravel_index(mask.argmax(), mask.shape)
