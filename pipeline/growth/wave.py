"""A wave of a growing model: how good the model is after it, and which pairs are worth training next.

Both are judged by samples that the machines have not seen. A pair that is not trained has no confusion and no d' of its
own, but the model has an opinion on it: its coupled probabilities and its completed logits.

One half of the samples says which pairs are next, the other how good the model is: the pairs that some samples ask for
are those that they will find the model better for. With the same samples for both, 299 pairs of fifty classes had the
log loss of the complete graph (0.862, tinyimagenet50) where new samples saw 0.854 against 0.841.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Literal, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.held_out import HeldOut
from pairloom.pipeline.calibration.log_loss import mean_log_loss
from pairloom.pipeline.calibration.scale import choose_scale, nearby_scale
from pairloom.pipeline.completion.complete import Completion, complete_slab, plan_completion
from pairloom.pipeline.completion.slab import slab_width
from pairloom.pipeline.completion.uncoupled import Uncoupled
from pairloom.pipeline.pieces import pieces

__all__ = ["GrowthCost", "Wave", "judge_wave", "usual_wave"]

#: Which samples say what is next, and which how good the model is.
_ASKED, _JUDGES = slice(0, None, 2), slice(1, None, 2)
#: Samples of which a quarter is enough to follow the scale.
_MANY = 2000

GrowthCost = Literal["uniform", "confusion", "dprime"]
PairCost = Callable[[int, int], float]


class Wave(NamedTuple):
    """A growing model after a wave: its pairs, how good it is at its best scale, and the pairs of the next wave."""

    pairs: int
    scale: float
    log_loss: float
    accuracy: float
    proposed: list[tuple[int, int]]


def usual_wave(pairs: int, n_classes: int) -> int:
    """How many pairs a wave adds unless one says: a fifth of those that are there, at least one for each class.

    Waves that grow with the model keep their number small, and what it costs to judge them.
    """
    return max(n_classes, pairs // 5)


def judge_wave(
    held_out: HeldOut,
    graph: nx.Graph,
    method: str,
    cost: GrowthCost | PairCost,
    most: int,
    *,
    seed: int = 0,
    near: float | None = None,
    n_jobs: int | None = None,
) -> Wave:
    """Judge a growing model, and propose the pairs of its next wave.

    Parameters
    ----------
    held_out
        Samples which the machines have not seen, of this graph; for "dprime" with the logits of its edges. Those of a
        class come one after the other: every second one is asked, the others judge.
    graph, method
        The model.
    cost
        - "confusion": first the pairs that the model confuses most, by the mean probability it gives the one class on
          samples of the other;
        - "dprime": first those whose classes are nearest on the logits of their pair, completed where it is not
          trained;
        - "uniform": in random order;
        - a function of (i, j), i < j: its least value first.
    most
        How many pairs to propose, if so many are missing.
    seed
        For "uniform".
    near
        The scale of the model before its last wave, if it is known: this one's is then looked for beside it, of many
        judges by every second.
    """
    samples, y, _, unit, edge_logits = held_out
    scale = _scale(samples, y, method, near, unit, n_jobs)
    p = samples.couple(method, scale, n_jobs)
    matrix = None
    if cost == "confusion":
        matrix = mean_probabilities(p[_ASKED], y[_ASKED])
    elif cost == "dprime":
        assert edge_logits is not None
        matrix = completed_dprime(edge_logits[:, _ASKED], y[_ASKED], plan_completion(graph))
    return Wave(
        pairs=graph.number_of_edges(),
        scale=scale,
        log_loss=mean_log_loss(p[_JUDGES], y[_JUDGES]),
        accuracy=float((p[_JUDGES].argmax(axis=1) == y[_JUDGES]).mean()),
        proposed=list(islice(graphs.grow(graph, cost, matrix=matrix, seed=seed), most)),
    )


def _scale(
    samples: Uncoupled,
    y: NDArray[np.integer],
    method: str,
    near: float | None,
    unit: float,
    n_jobs: int | None,
) -> float:
    """The scale of the coupled model, by its judges."""
    if near is None:
        return choose_scale(samples.of_samples(_JUDGES), y[_JUDGES], method, unit=unit, n_jobs=n_jobs).scale
    judges = _JUDGES if len(y) < _MANY else slice(1, None, 4)
    return nearby_scale(samples.of_samples(judges), y[judges], method, near, unit=unit, n_jobs=n_jobs)


def mean_probabilities(p: NDArray[np.floating], y: NDArray[np.integer]) -> NDArray[np.float64]:
    """(N, N) mean probability of class j on samples of class i: a confusion matrix that tells near misses too.

    Counts would be zero for almost every pair of hundreds of classes.
    """
    membership = _membership(y, p.shape[1])
    return np.asarray(membership.T @ p.astype(np.float64) / _sizes(membership))


def completed_dprime(
    edge_logits: NDArray[np.float32], y: NDArray[np.integer], completion: Completion
) -> NDArray[np.float64]:
    """(N, N) d' of every pair on the logits of the completed model."""
    own = _own_logits(edge_logits, y, completion).astype(np.float64)
    membership = _membership(y, completion.n_classes)
    size = _sizes(membership)
    mean = membership.T @ own / size
    variance = np.maximum(membership.T @ own**2 / size - mean**2, 1e-12)
    dprime = np.abs(mean + mean.T) / np.sqrt((variance + variance.T) / 2)
    np.fill_diagonal(dprime, 0)
    return np.asarray(dprime)


def _own_logits(
    edge_logits: NDArray[np.float32], y: NDArray[np.integer], completion: Completion
) -> NDArray[np.float32]:
    """(R, N) logits of each sample's own class against every other, completed a slab at a time."""
    n, n_samples = completion.n_classes, len(y)
    own = np.empty((n_samples, n), np.float32)
    for samples in pieces(n_samples, slab_width(n)):
        part = np.ascontiguousarray(edge_logits[:, samples])
        slab = complete_slab(part, completion, np.empty((n, n, part.shape[1]), np.float32))
        own[samples] = slab[y[samples], :, np.arange(part.shape[1])]
    return own


def _membership(y: NDArray[np.integer], n_classes: int) -> NDArray[np.float64]:
    """(R, N): one where the sample is of the class."""
    return np.asarray(np.eye(n_classes)[y])


def _sizes(membership: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, 1) samples of each class; one where there is none, as what is divided by it is zero then."""
    return np.asarray(np.maximum(membership.sum(axis=0), 1)[:, None])
