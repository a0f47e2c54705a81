"""Codes without a draw: every class against the rest, and every class against every other."""

from itertools import combinations
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from .classes import check_count
from .code_matrix import pair_columns

__all__ = ["one_vs_one", "one_vs_rest"]


def one_vs_rest(n: SupportsIndex) -> NDArray[np.int8]:
    """Return the code in which machine s has class s against all others.

    Parameters
    ----------
    n : int
        Number of classes, at least 2.

    Returns
    -------
    (n, n) int8 array
        For n = 2 only one column: the second would be the first with its sides exchanged.

    Raises
    ------
    TypeError
        If `n` is not of an integer type.
    ValueError
        If `n` is less than 2.

    See Also
    --------
    one_vs_one : one machine per pair.

    Examples
    --------
    >>> one_vs_rest(3)
    array([[ 1, -1, -1],
           [-1,  1, -1],
           [-1, -1,  1]], dtype=int8)
    >>> one_vs_rest(2).shape
    (2, 1)
    """
    n = check_count("one_vs_rest", "n", n, 2)
    code: NDArray[np.int8] = 2 * np.eye(n, dtype=np.int8) - np.int8(1)
    return code if n > 2 else code[:, :1]


def one_vs_one(n: SupportsIndex) -> NDArray[np.int8]:
    """Return the code with one machine per pair (i, j), i < j, class i at +1 and class j at -1.

    Parameters
    ----------
    n : int
        Number of classes, at least 2.

    Returns
    -------
    (n, n (n - 1) / 2) int8 array
        The pairs are in the order of ``edge_array(complete(n))``.

    Raises
    ------
    TypeError
        If `n` is not of an integer type.
    ValueError
        If `n` is less than 2.

    See Also
    --------
    code_of_pairs : the code of any model graph.

    Examples
    --------
    >>> one_vs_one(3)
    array([[ 1,  1,  0],
           [-1,  0,  1],
           [ 0, -1, -1]], dtype=int8)
    """
    n = check_count("one_vs_one", "n", n, 2)
    return pair_columns(np.array(list(combinations(range(n), 2))), n)
