"""Coverage: which pairs of a model graph are trained, and how each of the others is completed."""

from dataclasses import dataclass

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from pairloom.graphs.model_graph import check_model_graph, edge_array

__all__ = ["Coverage", "coverage", "has_distant_pairs"]


# Comparing arrays field by field has no single truth value, so equality stays identity.
@dataclass(frozen=True, eq=False)
class Coverage:
    """The pairs of classes by the way their odds are computed.

    In all three arrays, i < j and the rows are sorted.

    Attributes
    ----------
    trained : (E, 2) int64 array
        Distance 1: pairs with machines of their own.
    through_common_neighbours : (M, 2) int64 array
        Distance 2: the mean over the classes joined to both [S eq. 4, 5].
    by_potentials : (P, 2) int64 array
        Distance 3 or more: there is no such class, so least-squares potentials over the whole graph are used.
    diameter : int
        The largest distance.

    References
    ----------
    .. [S] O. Šuch et al. "Bridging performance gap between minimal and maximal SVM models". Code of the paper:
       https://github.com/ondrej-such/svm3
    """

    trained: NDArray[np.int64]
    through_common_neighbours: NDArray[np.int64]
    by_potentials: NDArray[np.int64]
    diameter: int

    @property
    def counts(self) -> dict[str, int]:
        """Number of pairs of each kind."""
        return {
            "trained": len(self.trained),
            "through common neighbours": len(self.through_common_neighbours),
            "by potentials": len(self.by_potentials),
        }

    def table(self) -> str:
        """Return the counts and their shares of all pairs as text."""
        total = sum(self.counts.values())
        rows = [(kind, count) for kind, count in [*self.counts.items(), ("all", total)]]
        lines = [f"{kind:<25} {count:>9,} {count / total:>7.1%}" for kind, count in rows]
        return "\n".join([f"{'pairs':<25} {'count':>9} {'share':>7}", *lines, f"diameter {self.diameter}"])

    def __str__(self) -> str:
        return self.table()


def coverage(graph: nx.Graph) -> Coverage:
    """Return which pairs of a model graph are trained, and how each of the others is completed.

    Parameters
    ----------
    graph : networkx.Graph
        A model graph: connected, on 0..n-1.

    Returns
    -------
    Coverage
        The pairs of each kind, and the diameter.

    Raises
    ------
    TypeError, ValueError
        If `graph` is not a model graph: see `check_model_graph`.

    See Also
    --------
    pairloom.complete_logits : completes the logits.

    Examples
    --------
    >>> from pairloom.graphs import path
    >>> print(coverage(path(5)))
    pairs                         count   share
    trained                           4   40.0%
    through common neighbours         3   30.0%
    by potentials                     3   30.0%
    all                              10  100.0%
    diameter 4
    """
    check_model_graph(graph)
    trained = edge_array(graph)
    A = np.zeros((len(graph), len(graph)), dtype=np.float32)
    A[trained[:, 0], trained[:, 1]] = A[trained[:, 1], trained[:, 0]] = 1
    missing, common = np.triu(A == 0, 1), _common_neighbours(A)
    near, far = np.argwhere(missing & common), np.argwhere(missing & ~common)
    return Coverage(trained, near, far, _diameter(A) if len(far) else 1 + bool(len(near)))


def has_distant_pairs(trained: NDArray[np.bool_]) -> bool:
    """Return whether a graph has pairs at distance three or more, which are completed by potentials.

    Parameters
    ----------
    trained : (N, N) bool array
        Adjacency matrix.

    Examples
    --------
    >>> from pairloom.graphs import path
    >>> import networkx as nx
    >>> [has_distant_pairs(nx.to_numpy_array(path(n), dtype=bool)) for n in (3, 4)]
    [False, True]
    """
    reached = trained | _common_neighbours(trained.astype(np.float32))
    np.fill_diagonal(reached, True)
    return not reached.all()


def _common_neighbours(A: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which pairs have a common neighbour, from the adjacency matrix.

    At 1000 classes the dense product takes 0.02 s for any graph, a sparse one up to 2 s. Single precision is enough:
    sums of ones below 2**24 are exact.
    """
    return np.asarray(A @ A > 0)


def _diameter(A: NDArray[np.float32]) -> int:
    return int(shortest_path(csr_array(A), directed=False, unweighted=True).max())
