"""Growing a model: the order in which missing pairs are added to a start graph [S Algorithm 1]."""

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Literal, SupportsIndex, get_args

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom.graphs.checks import check_class, check_count, check_distances, check_pair_matrix
from pairloom.graphs.model_graph import check_model_graph, edge_array, model_graph
from pairloom.graphs.text import did_you_mean, listed, quoted
from pairloom.graphs.trees import star

__all__ = ["cost_of", "grow", "grown"]

NamedCost = Literal["uniform", "confusion", "dprime"]
PairCost = Callable[[int, int], float]


def grow(
    start: nx.Graph,
    cost: NamedCost | PairCost = "uniform",
    *,
    matrix: ArrayLike | None = None,
    seed: int = 0,
) -> Iterator[tuple[int, int]]:
    """Return the pairs missing in `start`, the cheapest first; pairs of equal cost in random order.

    The order is computed before the first pair is returned, so `start` may be changed during the iteration. Neither the
    cost of a pair nor its place among pairs of equal cost depends on the start: a larger start gives the same order
    with fewer pairs [S Algorithm 1].

    Parameters
    ----------
    start : networkx.Graph
        A model graph: connected, on 0..n-1.
    cost : {"uniform", "confusion", "dprime"} or callable, default="uniform"
        - "uniform": all pairs cost the same, so every order is equally likely;
        - "confusion": the most confused pair first, by the mean of the two entries of a confusion matrix;
        - "dprime": the smallest d' first;
        - a function of (i, j), i < j, called once per missing pair: its smallest value first.
    matrix : array-like of shape (n, n), default=None
        The confusion matrix (counts or rates, of another model) or the d' of the pairs. Required for those two
        costs, not allowed for "uniform".
    seed : int, default=0
        Seed of the random order of pairs of equal cost, at least 0.

    Returns
    -------
    iterator of (int, int)
        The missing pairs (i, j), i < j.

    Raises
    ------
    ValueError
        If `cost` is unknown or NaN for a pair, if `matrix` does not fit the cost and the classes, or if `start` is
        not a model graph.

    See Also
    --------
    grown : the graph after a number of pairs.

    References
    ----------
    .. [S] O. Šuch et al. "Bridging performance gap between minimal and maximal SVM models". Code of the paper:
       https://github.com/ondrej-such/svm3

    Examples
    --------
    >>> from pairloom.graphs import star
    >>> confused = [[9, 0, 0, 0], [0, 7, 2, 0], [0, 1, 6, 3], [0, 1, 4, 5]]
    >>> list(grow(star(4), "confusion", matrix=confused))
    [(2, 3), (1, 2), (1, 3)]
    >>> list(grow(star(4), lambda i, j: i + j))
    [(1, 2), (1, 3), (2, 3)]
    """
    check_model_graph(start)
    missing = _missing_pairs(start)
    i, j = missing.T
    if callable(cost):
        costs = np.array([cost_of(cost, *pair) for pair in missing.tolist()], dtype=np.float64)
    else:
        _check_name(cost, "grow", " or a function of (i, j)")
        costs = _cost_matrix(cost, len(start), matrix)[i, j]
    order = np.lexsort([_tie_breakers(len(start), seed)[i, j], costs])
    firsts, seconds = missing[order].T.tolist()
    return zip(firsts, seconds, strict=True)


def grown(
    n: SupportsIndex,
    edges: SupportsIndex,
    cost: NamedCost = "uniform",
    *,
    centre: SupportsIndex = 0,
    matrix: ArrayLike | None = None,
    seed: int = 0,
) -> nx.Graph:
    """Return a star grown to a number of pairs [S Algorithm 1].

    Parameters
    ----------
    n : int
        Number of classes, at least 2.
    edges : int
        Number of pairs of the result: at least n - 1, which is the star, at most n (n - 1) / 2.
    cost : {"uniform", "confusion", "dprime"}, default="uniform"
        The order in which pairs are added, as in `grow`.
    centre : int, default=0
        The class in the middle of the star.
    matrix : array-like of shape (n, n), default=None
        The confusion matrix or the d' of the pairs, as in `grow`.
    seed : int, default=0
        Seed of the random order of pairs of equal cost, at least 0.

    Returns
    -------
    networkx.Graph
        With `edges` edges.

    Raises
    ------
    TypeError
        If an integer parameter is not of an integer type.
    ValueError
        If a parameter is out of range or `matrix` does not fit the cost.

    See Also
    --------
    grow : the order of the pairs, for any start graph.
    star : the graph at the start.

    References
    ----------
    .. [S] O. Šuch et al. "Bridging performance gap between minimal and maximal SVM models". Code of the paper:
       https://github.com/ondrej-such/svm3

    Examples
    --------
    >>> dprime = [[0, 9, 9, 9], [9, 0, 3, 2], [9, 3, 0, 5], [9, 2, 5, 0]]
    >>> grown(4, edges=4, cost="dprime", matrix=dprime).edges
    EdgeView([(0, 1), (0, 2), (0, 3), (1, 3)])
    """
    n = check_count("grown", "n", n, 2)
    edges = check_count("grown", "edges", edges, n - 1, n * (n - 1) // 2, "n (n - 1) / 2")
    _check_name(cost, "grown", "")
    centre = check_class("grown", "centre", centre, n)
    seed = check_count("grown", "seed", seed, 0)
    start = star(n, centre)
    added = islice(grow(start, cost, matrix=matrix, seed=seed), edges - (n - 1))
    pairs = [*start.edges, *added]
    return model_graph(n, pairs, "grown", edges=edges, cost=cost, centre=centre, seed=seed)


def cost_of(cost: Callable[[Any, Any], float], one: Any, other: Any) -> float:
    """Return the cost of a pair by a function of its two classes, or raise if it is not a number."""
    value = cost(one, other)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if math.isnan(number):
        raise ValueError(
            f"grow: cost must be a number for every pair, got cost({quoted(one)}, {quoted(other)}) = {value!r}."
        )
    return number


def _missing_pairs(graph: nx.Graph) -> NDArray[np.int64]:
    """Return the pairs that are not edges, shape (M, 2), sorted."""
    missing = np.triu(np.ones((len(graph), len(graph)), dtype=bool), 1)
    missing[tuple(edge_array(graph).T)] = False
    return np.argwhere(missing)


def _check_name(cost: object, owner: str, otherwise: str) -> None:
    known = get_args(NamedCost)
    if not isinstance(cost, str) or cost not in known:
        raise ValueError(
            f"{owner}: cost must be one of {listed(known)}{otherwise}, got {quoted(cost)}."
            f"{did_you_mean(cost, known)}"
        )


def _tie_breakers(n: int, seed: int) -> NDArray[np.float64]:
    """Return a random number per pair, shape (n, n), by which pairs of equal cost are ordered.

    A matrix of counts has many such pairs: 544 of the 1225 pairs of tinyimagenet50 are never confused.
    """
    return np.random.default_rng(check_count("grow", "seed", seed, 0)).random((n, n))


def _cost_matrix(cost: str, n: int, matrix: ArrayLike | None) -> NDArray[np.float64]:
    """Return the cost of each pair, shape (n, n)."""
    if cost == "uniform":
        if matrix is not None:
            raise ValueError("grow: matrix must be None for the cost 'uniform', got a matrix.")
        return np.zeros((n, n))
    if matrix is None:
        raise ValueError(f"grow: matrix must be given for the cost {cost!r}, got None.")
    if cost == "dprime":
        return check_distances(matrix, n, owner="grow", name="matrix")
    confusion = check_pair_matrix(matrix, n, owner="grow", name="matrix")
    negated: NDArray[np.float64] = -(confusion + confusion.T) / 2
    return negated
