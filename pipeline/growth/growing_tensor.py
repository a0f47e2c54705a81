"""Growing a model: pairs are added one by one, and probabilities are available after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairloom import graphs
from pairloom.graphs.growth_order import NamedCost, PairCost
from pairloom.pipeline.calibration.log_loss import mean_log_loss
from pairloom.pipeline.completion.complete import complete_slab, plan_completion
from pairloom.pipeline.coupling import couple
from pairloom.pipeline.coupling.normal import softmax
from pairloom.pipeline.growth.budget import NEVER, GrowthBudget
from pairloom.pipeline.growth.growing_tensor_kernels import add_edge


class GrowingTensor:
    """Completed logits (N, N, R) of a model graph that grows.

    The means of completion are updated as running means and the row sums that `normal` needs as running sums, so adding
    a pair costs O(N R), where completing again would cost O(N^2 R). Shapes: see `pairloom.pipeline`.

    Parameters
    ----------
    start : networkx.Graph
        A model graph of diameter at most two, such as a star or hubs, so that every missing pair has a common
        neighbour from the beginning.
    edge_logits : (E, R) array
        Logits of the edges, in the order of ``graphs.edge_array(start)``.

    Attributes
    ----------
    tensor : (N, N, R) float32 array
        Completed logits.
    trained : (N, N) bool array
        Adjacency matrix of the graph.
    changed : int
        Number of pairs that the last step changed.
    """

    def __init__(self, start: nx.Graph, edge_logits: NDArray[np.floating]) -> None:
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
        self._last: dict[str, NDArray[np.floating]] = {}
        self.changed = 0

    def add(self, i: int, j: int, logits: ArrayLike) -> None:
        """Add the pair (i, j) with its logits (R,) of i against j."""
        if i == j or self.trained[i, j]:
            raise ValueError(
                f"GrowingTensor.add: (i, j) must be a pair that is not trained yet, got ({i}, {j})."
            )
        logits = np.ascontiguousarray(logits, np.float32)
        self.changed = add_edge(self.tensor, self._row_sums, self.trained, self._common, i, j, logits)

    def probabilities(self, method: str = "normal") -> NDArray[np.floating]:
        """Probabilities (R, N) of the current model. `normal` costs O(N R), others start from their last result."""
        if method == "normal":
            return softmax(self._row_sums.T / len(self.tensor)).astype(np.float32)
        self._last[method] = couple(self.tensor, method, start=self._last.get(method))
        return self._last[method]


class GrowthStep(NamedTuple):
    """The pair that was added, the number of pairs after it, and, if requested, probabilities and their log loss.

    The first step is the start itself: no pair was added.
    """

    pair: tuple[int, int] | None
    pairs: int
    probabilities: NDArray[np.floating] | None
    log_loss: float | None


def grow_model(
    start: nx.Graph,
    logits_of: Callable[[int, int], NDArray[np.floating]],
    cost: NamedCost | PairCost = "uniform",
    *,
    matrix: ArrayLike | None = None,
    seed: int = 0,
    method: str | None = None,
    every: int = 1,
    y: NDArray[np.integer] | None = None,
    budget: GrowthBudget | None = None,
) -> Iterator[GrowthStep]:
    """Grow a model from a start graph, the cheapest pair first, and yield the start and every step [S Algorithm 1].

    The algorithm yields the model before it adds a pair, so the first model is the start, for example the star.

    Shapes: see `pairloom.pipeline`.

    Parameters
    ----------
    start : networkx.Graph
        A model graph of diameter at most two.
    logits_of : callable
        ``logits_of(i, j)`` returns the logits (R,) of class i against j, i < j, for example of a machine trained at
        that moment, or a row of a tensor that was trained before.
    cost : {"uniform", "confusion", "dprime"} or callable, default="uniform"
        The order of the pairs, as in `graphs.grow`.
    matrix : array-like of shape (N, N), default=None
        Confusion matrix or d' for those two costs, as in `graphs.grow`.
    seed : int, default=0
        Seed of the order of pairs of equal cost, as in `graphs.grow`.
    method : str, default=None
        Coupling method of the probabilities. With None, steps have no probabilities.
    every : int, default=1
        Number of pairs between probabilities. The start and the last step that a budget of pairs allows have them.
    y : (R,) int array, default=None
        True classes of the samples. If given, steps with probabilities have a log loss.
    budget : GrowthBudget, default=None
        When to stop: a number or share of pairs, seconds, or a plateau of the log loss, where a wave is `every` steps.
        By default, the model grows to the complete graph.

    Returns
    -------
    iterator of GrowthStep

    Raises
    ------
    ValueError
        If the budget has a plateau and `method` or `y` is None, or if `start`, `cost` or `matrix` is not allowed.

    See Also
    --------
    pairloom.graphs.grow : the order of the pairs.

    References
    ----------
    .. [S] O. Such et al. "Bridging performance gap between minimal and maximal SVM models". Code of the paper:
       https://github.com/ondrej-such/svm3

    Examples
    --------
    >>> import numpy as np
    >>> from pairloom import graphs
    >>> u = np.array([[1.0], [0.0], [2.0], [0.5]])
    >>> steps = grow_model(graphs.star(4), lambda i, j: u[i] - u[j], method="normal")
    >>> [(step.pairs, int(step.probabilities.argmax())) for step in steps]
    [(3, 2), (4, 2), (5, 2), (6, 2)]
    """
    budget = budget or GrowthBudget()
    if budget.plateau != NEVER and (method is None or y is None):
        raise ValueError("grow_model: method and y must be given for a budget with a plateau, got None.")
    return _steps(
        start, logits_of, graphs.grow(start, cost, matrix=matrix, seed=seed), method, every, y, budget
    )


def _steps(
    start: nx.Graph,
    logits_of: Callable[[int, int], NDArray[np.floating]],
    order: Iterator[tuple[int, int]],
    method: str | None,
    every: int,
    y: NDArray[np.integer] | None,
    budget: GrowthBudget,
) -> Iterator[GrowthStep]:
    """Yield the steps of `grow_model`, which has checked the arguments."""
    edges = graphs.edge_array(start)
    model = GrowingTensor(start, np.array([logits_of(i, j) for i, j in edges.tolist()], np.float32))
    n, began = len(start), time.monotonic()
    losses: list[float] = []
    most = budget.most_pairs(n)

    def step(pair: tuple[int, int] | None, pairs: int) -> GrowthStep:
        due = (pairs - len(edges)) % every == 0 or pairs == most
        p = model.probabilities(method) if due and method is not None else None
        loss = mean_log_loss(p, y) if p is not None and y is not None else None
        if loss is not None:
            losses.append(loss)
        return GrowthStep(pair, pairs, p, loss)

    yield step(None, len(edges))
    for pairs, (i, j) in enumerate(order, start=len(edges) + 1):
        if budget.spent(n, pairs - 1, time.monotonic() - began, losses) is not None:
            return
        model.add(i, j, logits_of(i, j))
        yield step((i, j), pairs)
