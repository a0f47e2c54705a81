"""Growing a model: pairs added one after the other, probabilities to be had after each."""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import networkx as nx
import numpy as np

from pairloom import graphs
from pairloom.pipeline.calibration.log_loss import mean_log_loss
from pairloom.pipeline.completion.complete import complete_slab, plan_completion
from pairloom.pipeline.coupling import couple
from pairloom.pipeline.coupling.normal import softmax
from pairloom.pipeline.growth.budget import NEVER, GrowthBudget
from pairloom.pipeline.growth.growing_tensor_kernels import add_edge


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
    """A pair that was added, how many pairs there are then, and, where asked for, probabilities and their log loss."""

    pair: tuple[int, int]
    pairs: int
    probabilities: np.ndarray | None
    log_loss: float | None


def grow_model(
    start: nx.Graph,
    logits_of: Callable[[int, int], np.ndarray],
    cost="uniform",
    *,
    matrix=None,
    seed=0,
    method=None,
    every=1,
    y=None,
    budget: GrowthBudget | None = None,
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
        Probabilities after every so many steps, and after the last that a budget of pairs allows.
    y : (R,) int array, optional
        The classes of the samples: steps with probabilities tell their log loss.
    budget : GrowthBudget, optional
        How far to grow: pairs, a share of them, seconds, or a plateau of the log loss, for which `every` steps are a
        wave. By default to the complete graph.

    Examples
    --------
    >>> import numpy as np
    >>> from pairloom import graphs
    >>> u = np.array([[1.0], [0.0], [2.0], [0.5]])
    >>> steps = grow_model(graphs.star(4), lambda i, j: u[i] - u[j], method="normal")
    >>> [step.probabilities.argmax() for step in steps]
    [np.int64(2), np.int64(2), np.int64(2)]
    """
    budget = budget or GrowthBudget()
    if budget.plateau != NEVER and (method is None or y is None):
        raise ValueError("grow_model: method and y must be given for a budget with a plateau, got None.")
    return _steps(
        start, logits_of, graphs.grow(start, cost, matrix=matrix, seed=seed), method, every, y, budget
    )


def _steps(start, logits_of, order, method, every, y, budget):
    """The steps of `grow_model`, whose arguments are right."""
    edges = graphs.edge_array(start)
    model = GrowingTensor(start, np.array([logits_of(i, j) for i, j in edges.tolist()], np.float32))
    n, began, losses = len(start), time.monotonic(), []
    most = budget.most_pairs(n)
    for pairs, (i, j) in enumerate(order, start=len(edges) + 1):
        if budget.spent(n, pairs - 1, time.monotonic() - began, losses) is not None:
            return
        model.add(i, j, logits_of(i, j))
        wanted = method is not None and ((pairs - len(edges)) % every == 0 or pairs == most)
        p = model.probabilities(method) if wanted else None
        if wanted and y is not None:
            losses.append(mean_log_loss(p, y))
        yield GrowthStep((i, j), pairs, p, losses[-1] if wanted and y is not None else None)
