"""Families of codes: one class against the rest, one against one, and random codes, dense and sparse.

References
----------
.. [HLW] T.-K. Huang, C.-J. Lin and R. C. Weng (2005). "A generalized Bradley-Terry model: from group competition to
   individual skill". Advances in Neural Information Processing Systems 17, 601-608.
"""

import math
from collections.abc import Callable
from itertools import combinations, product
from typing import SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.checks import check_count
from pairloom.graphs.code_matrix import pair_columns

__all__ = ["dense_code", "one_vs_one", "one_vs_rest", "sparse_code"]


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


Code: TypeAlias = NDArray[np.int8]
#: Random codes that are drawn; the best of them is kept [HLW 6.1].
DRAWS = 100


def dense_code(n: SupportsIndex, *, seed: SupportsIndex = 0) -> Code:
    """Return a random code of round(10 log2 n) machines, each with half of all classes against the other half.

    If n is odd, one side has one class more than the other. Of 100 draws, the one whose smallest distance
    between two rows is largest is kept; among equals, the one whose smallest distance between two columns, or a column
    and another's complement, is largest [HLW 6.1]_.

    Parameters
    ----------
    n : int
        Number of classes, at least 2.
    seed : int, default=0
        Seed of the draws, at least 0.

    Returns
    -------
    (n, m) int8 array
        No machine is repeated, so m is less than round(10 log2 n) where there are fewer equal splits. Up to n = 6 the
        code has all of them: 1, 3, 3, 10 and 10 machines for 2, 3, 4, 5 and 6 classes, and nothing is drawn.

    Raises
    ------
    TypeError
        If a parameter is not of an integer type.
    ValueError
        If a parameter is out of range.

    See Also
    --------
    sparse_code : machines that leave out half of the classes.
    code_is_connected : False for dense codes of more than three classes, which need a barrier in `couple_code`.

    Examples
    --------
    >>> dense_code(4)
    array([[ 1,  1,  1],
           [ 1, -1, -1],
           [-1,  1, -1],
           [-1, -1,  1]], dtype=int8)
    >>> dense_code(50, seed=1).shape
    (50, 56)
    """
    n, seed = _checked("dense_code", n, seed)
    size = round(10 * math.log2(n))
    splits = math.comb(n, n // 2) // (1 if n % 2 else 2)
    return _every_split(n) if splits <= size else _best_draw(n, size, seed, _equal_split)


def sparse_code(n: SupportsIndex, *, seed: SupportsIndex = 0) -> Code:
    """Return a random code of round(15 log2 n) machines, each without about half of the classes.

    An entry is 0 with probability 1/2, and +1 and -1 with probability 1/4 each; a column without +1 or without -1 is
    drawn again. Of 100 draws, the one whose smallest distance between two rows is largest is kept; among equals, the
    one whose smallest distance between two columns, or a column and another's complement, is largest [HLW 6.1]_. A
    machine that leaves out one of two classes adds one half to their distance [ASS]_.

    Parameters
    ----------
    n : int
        Number of classes, at least 2.
    seed : int, default=0
        Seed of the draws, at least 0.

    Returns
    -------
    (n, m) int8 array
        No machine is repeated, so m is less than round(15 log2 n) where there are fewer different ones. Up to n = 4
        the code has all of them: 1, 6 and 25 machines for 2, 3 and 4 classes, and nothing is drawn.

    Raises
    ------
    TypeError
        If a parameter is not of an integer type.
    ValueError
        If a parameter is out of range.

    See Also
    --------
    dense_code : machines on all classes.

    References
    ----------
    .. [ASS] E. L. Allwein, R. E. Schapire and Y. Singer (2000). "Reducing multiclass to binary: a unifying approach for
       margin classifiers". Journal of Machine Learning Research 1, 113-141.
       https://www.jmlr.org/papers/v1/allwein00a.html

    Examples
    --------
    >>> sparse_code(3)
    array([[ 1,  1,  1,  1,  1,  0],
           [ 1,  0, -1, -1, -1,  1],
           [-1, -1,  1,  0, -1, -1]], dtype=int8)
    >>> sparse_code(50, seed=1).shape
    (50, 85)
    """
    n, seed = _checked("sparse_code", n, seed)
    size = round(15 * math.log2(n))
    # Columns with both signs, up to an exchange of the sides.
    columns = (3**n - 2 ** (n + 1) + 1) // 2
    return _every_column(n) if columns <= size else _best_draw(n, size, seed, _quarters)


def smallest_distances(code: Code) -> tuple[float, float]:
    """Return the smallest distance between two rows, and between two columns or a column and another's complement.

    The distance is the number of different signs, where a zero on either side counts one half [ASS].

    Examples
    --------
    >>> smallest_distances(dense_code(4))
    (2.0, 2.0)
    """
    # Floats, because BLAS does not multiply integers: exact here, and a hundred times as fast.
    M = code.astype(np.float64)
    rows, columns = M @ M.T, np.abs(M.T @ M)
    n, m = code.shape
    return (m - _largest_off_diagonal(rows)) / 2, (n - _largest_off_diagonal(columns)) / 2


def _largest_off_diagonal(gram: NDArray[np.float64]) -> int:
    others = gram[~np.eye(len(gram), dtype=bool)]
    return int(others.max()) if others.size else 0


def _checked(owner: str, n: SupportsIndex, seed: SupportsIndex) -> tuple[int, int]:
    return check_count(owner, "n", n, 2), check_count(owner, "seed", seed, 0)


def _best_draw(n: int, size: int, seed: int, draw_column: Callable[[int, np.random.Generator], Code]) -> Code:
    rng = np.random.default_rng(seed)
    draws = [_distinct_columns(n, size, rng, draw_column) for _ in range(DRAWS)]
    # Classes with equal rows cannot be told apart. Their distance may be positive: every zero counts one half.
    usable = [code for code in draws if len(np.unique(code, axis=0)) == n and code.any(axis=1).all()]
    return max(usable, key=smallest_distances)


def _distinct_columns(
    n: int,
    size: int,
    rng: np.random.Generator,
    draw_column: Callable[[int, np.random.Generator], Code],
) -> Code:
    """Return a code of `size` columns; no column is equal to another one or to its complement."""
    columns: dict[bytes, Code] = {}
    while len(columns) < size:
        column = draw_column(n, rng)
        if column.max() == 1 and column.min() == -1:
            first = column[(column != 0).argmax()]
            columns.setdefault((column * first).tobytes(), column)
    return np.stack(list(columns.values()), axis=1)


def _equal_split(n: int, rng: np.random.Generator) -> Code:
    larger = (n + int(rng.integers(2))) // 2  # if n is odd, which side is larger is drawn too
    return np.where(rng.permutation(n) < larger, 1, -1).astype(np.int8)


def _quarters(n: int, rng: np.random.Generator) -> Code:
    return rng.choice(np.array([0, 0, 1, -1], np.int8), n)


def _every_split(n: int) -> Code:
    """Return all equal splits, class 0 at +1."""
    sizes = {n // 2, n - n // 2}
    sides = [set(side) for size in sorted(sizes) for side in combinations(range(n), size) if 0 in side]
    return np.array([[1 if s in side else -1 for side in sides] for s in range(n)], np.int8)


def _every_column(n: int) -> Code:
    """Return all columns with both signs, the first entry that is not zero at +1."""
    columns = [
        column for column in product((1, 0, -1), repeat=n) if column > tuple(-entry for entry in column)
    ]
    return np.array([column for column in columns if -1 in column], np.int8).T
