"""Whether a code determines the probabilities of the classes.

A code is *connected* if for every set Z of classes, neither empty nor all, there is a machine with one side inside Z
and the other not. Its likelihood then tends to zero wherever some probabilities do: if those of Z vanish, that machine
would have to be certain, and no finite logit is. So the maximum is inside the simplex, whatever the machines say. This
takes the place of Assumption 1 of [HLW], for machines that are never certain. For machines on pairs, it says that the
graph is connected. It does not make the maximum unique: see docs/maths.md, 9.

It is also necessary. If no machine has exactly one side inside Z, the likelihood does not tend to zero where the
probabilities of Z vanish together, and for some answers of the machines no other p is as likely.

References
----------
.. [HLW] T.-K. Huang, C.-J. Lin and R. C. Weng (2005). "A generalized Bradley-Terry model: from group competition to
   individual skill". Advances in Neural Information Processing Systems 17, 601-608.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.graphs.code_matrix import check_code

__all__ = ["closed_classes", "code_identifies", "code_is_connected"]

#: A prime below 2^31, so that products of two residues fit into int64.
PRIME = 2_147_483_629


def code_is_connected(code: ArrayLike) -> bool:
    """Return whether every class gets a positive probability, whatever the machines say [HLW Assumption 1]_.

    The test is exact, in O(N^2 m). A connected code also identifies the probabilities (`code_identifies`).

    Parameters
    ----------
    code : array-like of shape (N, m)
        A code matrix: see `check_code`.

    Returns
    -------
    bool

    Raises
    ------
    TypeError, ValueError
        If `code` is not a usable code.

    See Also
    --------
    closed_classes : the classes for which it fails.
    pairloom.couple_code : needs a barrier where the code is not connected.

    Examples
    --------
    >>> from pairloom.graphs import dense_code, one_vs_rest
    >>> code_is_connected(one_vs_rest(5)), code_is_connected(dense_code(5))
    (True, False)
    """
    return not closed_classes(code)


def closed_classes(code: ArrayLike) -> list[int]:
    """Return a smallest set of classes whose probabilities may vanish together; empty if the code is connected.

    No machine has exactly one of its sides inside this set.

    Parameters
    ----------
    code : array-like of shape (N, m)
        A code matrix: see `check_code`.

    Returns
    -------
    list of int
        Sorted.

    Raises
    ------
    TypeError, ValueError
        If `code` is not a usable code.

    Examples
    --------
    >>> closed_classes([[1, 0], [-1, 0], [0, 1], [0, -1]])
    [0, 1]
    >>> closed_classes([[1, 0, 1], [-1, 0, 1], [0, 1, -1], [0, -1, -1]])
    []
    """
    M = check_code(code, owner="code_is_connected")
    sizes = np.stack([np.count_nonzero(sign == M, axis=0) for sign in (1, -1)])
    reaches_all = np.zeros(len(M), dtype=bool)
    closed: list[NDArray[np.bool_]] = []
    for s in range(len(M)):
        inside = _closure(M, s, sizes, reaches_all)
        reaches_all[s] = inside.all()
        if not reaches_all[s]:
            closed.append(inside)
    return np.flatnonzero(min(closed, key=np.count_nonzero)).tolist() if closed else []


def _closure(
    M: NDArray[np.int8], s: int, sizes: NDArray[np.intp], reaches_all: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return the classes whose probabilities vanish if that of class s does, as a mask.

    A machine with a whole side inside adds its other side. Every closed set contains the closures of its classes, so a
    code is connected if and only if the closure of each class is the set of all classes. The search ends early at a
    class whose closure is known to be all.
    """
    inside: NDArray[np.bool_] = np.arange(len(M)) == s
    outside = sizes.copy()  # per machine, the classes of its positive and negative side that are not inside
    sunk, fresh = np.zeros(M.shape[1], dtype=bool), np.array([s])
    while fresh.size:
        if reaches_all[fresh].any():
            return np.ones(len(M), dtype=bool)
        outside -= np.stack([np.count_nonzero(M[fresh] == sign, axis=0) for sign in (1, -1)])
        sinking = (outside == 0).any(axis=0) & ~sunk
        sunk |= sinking
        fresh = np.flatnonzero((M[:, sinking] != 0).any(axis=1) & ~inside)
        inside[fresh] = True
    return inside


def code_identifies(code: ArrayLike) -> bool:
    """Return whether machines that all tell the truth determine the probabilities of the classes.

    With r_q the probability that machine q gives to its positive side, the truth satisfies one linear equation per
    machine,

        (1 - r_q) sum_{s at +1} p_s = r_q sum_{s at -1} p_s

    and the code identifies p if these have rank N - 1. The rank is the same for almost all p; it is computed for
    random integers, modulo a prime. True is always right, False is wrong with a probability below N / 2^31.

    Parameters
    ----------
    code : array-like of shape (N, m)
        A code matrix: see `check_code`.

    Returns
    -------
    bool

    Raises
    ------
    TypeError, ValueError
        If `code` is not a usable code.

    See Also
    --------
    code_is_connected : whether noisy machines leave every class a positive probability; a stronger condition.

    Examples
    --------
    >>> from pairloom.graphs import dense_code
    >>> code_identifies(dense_code(4)), code_identifies([[1, 0], [-1, 0], [0, 1], [0, -1]])
    (True, False)
    """
    M = check_code(code, owner="code_identifies").astype(np.int64)
    p = np.random.default_rng(0).integers(1, 2**20, len(M))
    positive, negative = p @ (M == 1), p @ (M == -1)
    equations = (M == 1) * negative - (M == -1) * positive
    return _rank(equations % PRIME) == len(M) - 1


def _rank(matrix: NDArray[np.int64]) -> int:
    """Return the rank modulo PRIME, by elimination."""
    rank = 0
    for column in range(matrix.shape[1]):
        pivots = np.flatnonzero(matrix[rank:, column])
        if not pivots.size:
            continue
        matrix[[rank, rank + pivots[0]]] = matrix[[rank + pivots[0], rank]]
        matrix[rank] = matrix[rank] * pow(int(matrix[rank, column]), -1, PRIME) % PRIME
        below = matrix[rank + 1 :]
        below[:] = (below - below[:, column, None] * matrix[rank] % PRIME) % PRIME
        rank += 1
        if rank == len(matrix):
            break
    return rank
