"""Checks of the arguments of a builder: a number of classes, one class, several classes."""

from collections.abc import Iterable
from itertools import pairwise
from operator import index
from typing import SupportsIndex

from .labels import listed, quoted

__all__ = ["check_class", "check_classes", "check_count"]


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
