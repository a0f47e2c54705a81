"""Growing a model: pairs added one after the other, probabilities to be had after each."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import networkx as nx
import numpy as np

from pairloom import graphs
from pairloom.pipeline.completion import complete_slab, plan_completion
from pairloom.pipeline.coupling import couple
from pairloom.pipeline.coupling.normal import softmax
from pairloom.pipeline.growth_kernels import add_edge


class GrowingTensor:
    """The completed logits (N, N, R) of a model graph that grows.

    The means of completion are kept as running means and the row sums that `normal` needs as running sums, so adding a
    pair costs O(N R), not the O(N^2 R) of completing anew.

    Parameters
    ----------
    start : networkx.Graph
        A model graph of diameter at most two: a star, hubs. Then every pair has a common neighbour from the beginning.
    edge_logits : (E, R) float32 array
        In the order of ``graphs.edge_array(start)``.

    Attributes
    ----------
    tensor : (N, N, R) float32 array, completed
    trained : (N, N) bool array
    changed : int
        How many pairs the last step changed.
    """

    def __init__(self, start: nx.Graph, edge_logits):
        if (far := graphs.coverage(start).by_potentials).size:
            i, j = far[0]
            raise ValueError(
                "GrowingTensor: start must have diameter at most 2 (a star, hubs),"
                f" got a graph where classes {i} and {j} are further apart."
            )
        completion = plan_completion(start)
        n = completion.n_classes
        self.tensor = np.empty((n, n, edge_logits.shape[1]), np.float32)
        complete_slab(np.ascontiguousarray(edge_logits, np.float32), completion, self.tensor)
        self.trained = completion.trained.copy()
        adjacency = self.trained.astype(np.int64)
        self._common = adjacency @ adjacency
        self._row_sums = self.tensor.sum(axis=1, dtype=np.float64)
        self._last: dict[str, np.ndarray] = {}
        self.changed = 0

    def add(self, i, j, logits):
        """Add the pair (i, j) with its logits (R,) of i against j."""
        if i == j or self.trained[i, j]:
            raise ValueError(
                f"GrowingTensor.add: (i, j) must be a pair that is not trained yet, got ({i}, {j})."
            )
        logits = np.ascontiguousarray(logits, np.float32)
        self.changed = add_edge(self.tensor, self._row_sums, self.trained, self._common, i, j, logits)

    def probabilities(self, method="normal"):
        """(R, N) probabilities of the model as it is. `normal` costs O(N R), others start from the last."""
        if method == "normal":
            return softmax(self._row_sums.T / len(self.tensor)).astype(np.float32)
        self._last[method] = couple(self.tensor, method, start=self._last.get(method))
        return self._last[method]


class GrowthStep(NamedTuple):
    """A pair that was added, how many pairs the model then has, and its probabilities where they were asked for."""

    pair: tuple[int, int]
    pairs: int
    probabilities: np.ndarray | None


def grow_model(
    start: nx.Graph,
    logits_of: Callable[[int, int], np.ndarray],
    cost="uniform",
    *,
    matrix=None,
    seed=0,
    method=None,
    every=1,
    most=None,
) -> Iterator[GrowthStep]:
    """Grow a model from a start graph, the cheapest pair first, and yield after each step [S Algorithm 1].

    Parameters
    ----------
    start : networkx.Graph of diameter at most two
    logits_of : callable
        ``logits_of(i, j)`` are the logits (R,) of class i against j, i < j: of a machine trained just then, or a row
        of a tensor that was trained before.
    cost, matrix, seed
        The order, as in `graphs.grow`.
    method : str, optional
        The coupling of the probabilities in each step; None gives none.
    every : int
        Probabilities after every so many steps, and after the last.
    most : int, optional
        How many pairs to add at most.

    Examples
    --------
    >>> import numpy as np
    >>> from pairloom import graphs
    >>> u = np.array([[1.0], [0.0], [2.0], [0.5]])
    >>> steps = grow_model(graphs.star(4), lambda i, j: u[i] - u[j], method="normal")
    >>> [step.probabilities.argmax() for step in steps]
    [np.int64(2), np.int64(2), np.int64(2)]
    """
    edges = graphs.edge_array(start)
    model = GrowingTensor(start, np.array([logits_of(i, j) for i, j in edges.tolist()], np.float32))
    order = list(graphs.grow(start, cost, matrix=matrix, seed=seed))[:most]
    for step, (i, j) in enumerate(order, start=1):
        model.add(i, j, logits_of(i, j))
        wanted = method is not None and (step % every == 0 or step == len(order))
        yield GrowthStep((i, j), len(edges) + step, model.probabilities(method) if wanted else None)
