"""Growth in waves: the budget, the loop over waves, and the judgement of a wave.

After every wave the model is scored on held-out samples. Half of them choose the pairs of the next wave, the other half
estimate the log loss: selecting and scoring on the same samples would be optimistically biased.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Literal, NamedTuple, Protocol

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.held_out import HeldOutSamples, mean_log_loss
from pairloom.pipeline.calibration.list_mass import choose_mass
from pairloom.pipeline.calibration.scale import choose_scale, nearby_scale
from pairloom.pipeline.completion.complete import Completion, complete_slab, plan_completion
from pairloom.pipeline.completion.shortlist import ONE_SCALE, ListMass, with_mass
from pairloom.pipeline.completion.slab import slab_width
from pairloom.pipeline.threads import pieces

__all__ = [
    "NEVER",
    "Growing",
    "GrowthBudget",
    "GrowthCost",
    "Wave",
    "grow_in_waves",
    "judge_wave",
    "usual_wave",
]


NEVER: Literal["never"] = "never"
_INTEGER, _NUMBER = (int, np.integer), (int, float, np.integer, np.floating)
#: Consecutive waves without improvement that make a plateau: a single one may be chance.
PATIENCE = 2


@dataclass(frozen=True)
class GrowthBudget:
    """Limits of growth: the first one that is reached ends it.

    Parameters
    ----------
    pairs
        Number of pairs in all, including the start.
    share
        The same as a share of all pairs of classes, above 0 and up to 1.
    seconds
        No wave starts after this many seconds of growing. A wave that has started is finished.
    plateau
        Growth ends when two waves in a row improve the log loss by less than this share of it, or "never".
    """

    pairs: int | None = None
    share: float | None = None
    seconds: float | None = None
    plateau: float | Literal["never"] = NEVER

    def __post_init__(self) -> None:
        def check(name: str, value: object, right: bool, must: str) -> None:
            if value is not None and not right:
                raise ValueError(f"GrowthBudget: {name} must be {must}, or None, got {value!r}.")

        pairs, share, seconds = self.pairs, self.share, self.seconds
        check("pairs", pairs, isinstance(pairs, _INTEGER) and pairs >= 1, "a positive integer")
        check("share", share, isinstance(share, _NUMBER) and 0 < share <= 1, "above 0 and at most 1")
        check("seconds", seconds, isinstance(seconds, _NUMBER) and seconds > 0, "a positive number")
        if self.plateau != NEVER and not (isinstance(self.plateau, _NUMBER) and 0 <= self.plateau < 1):
            raise ValueError(
                f"GrowthBudget: plateau must be from 0 to below 1, or {NEVER!r}, got {self.plateau!r}."
            )

    def most_pairs(self, n_classes: int) -> int:
        """The largest number of pairs within the budget; seconds and plateau are not considered.

        >>> GrowthBudget(share=0.5).most_pairs(10)
        22
        """
        every = n_classes * (n_classes - 1) // 2
        # A share of exactly k / every may round to slightly below k.
        by_share = every if self.share is None else int(self.share * every + 1e-9 * every)
        return min(every, by_share, every if self.pairs is None else self.pairs)

    def spent(self, n_classes: int, pairs: int, seconds: float, losses: Sequence[float]) -> str | None:
        """Why a model with this number of pairs stops growing; None if it goes on.

        Parameters
        ----------
        seconds
            Seconds of growing so far.
        losses
            The log loss of the start, then after each wave.
        """
        if pairs == n_classes * (n_classes - 1) // 2:
            return "all pairs are trained"
        if pairs >= self.most_pairs(n_classes):
            return f"the budget of {self.most_pairs(n_classes)} pairs is spent"
        if self.plateau != NEVER and _flat(losses, self.plateau):
            return f"{PATIENCE} waves in a row improved the log loss by less than {self.plateau:.2%}"
        if self.seconds is not None and seconds >= self.seconds:
            return f"the budget of {self.seconds:g} seconds is spent"
        return None


def _flat(losses: Sequence[float], plateau: float) -> bool:
    """Whether each of the last `PATIENCE` waves improved the loss by less than a share ``plateau`` of it.

    >>> _flat([1.0, 0.5, 0.499, 0.4985], 0.01), _flat([1.0, 0.5, 0.499, 0.45], 0.01)
    (True, False)
    """
    if len(losses) <= PATIENCE:
        return False
    recent = losses[-PATIENCE - 1 :]
    return all(after >= (1 - plateau) * before for before, after in pairwise(recent))


class Growing(Protocol):
    """A model that grows: in this process, or as a run on a cluster."""

    @property
    def n_classes(self) -> int:
        """The number of classes."""

    @property
    def n_pairs(self) -> int:
        """The number of trained pairs."""

    def judge(self) -> list[Wave]:
        """Score the model; return all scores that count towards a plateau, the new one last."""

    def add_wave(self) -> None:
        """Train the pairs of the next wave."""

    def finish(self) -> None:
        """Called once, when growth ends."""


def grow_in_waves(growing: Growing, budget: GrowthBudget) -> Iterator[str | None]:
    """Grow a model within a budget. Yields None after every scoring, and at the end the reason for stopping.

    Seconds are counted after the first scoring, without the time that the caller spends between two waves.
    """
    seconds = 0.0
    waves = growing.judge()
    while True:
        losses = [wave.log_loss for wave in waves]
        reason = budget.spent(growing.n_classes, growing.n_pairs, seconds, losses)
        if reason is not None:
            growing.finish()
        yield reason
        if reason is not None:
            return
        began = time.monotonic()
        growing.add_wave()
        waves = growing.judge()
        seconds += time.monotonic() - began


#: Every other sample chooses the next wave, the others score the model. Samples are sorted by class.
_ASKED, _JUDGES = slice(0, None, 2), slice(1, None, 2)
#: From this many samples on, a quarter of them is enough to update the scale.
_MANY = 2000

GrowthCost = Literal["uniform", "confusion", "dprime"]
PairCost = Callable[[int, int], float]


class Wave(NamedTuple):
    """A growing model after a wave: its number of pairs, its scores at the best scale, and the pairs of the next wave.

    ``mass`` is the best mass of its shortlists, if it has any.
    """

    pairs: int
    scale: float
    log_loss: float
    accuracy: float
    proposed: list[tuple[int, int]]
    mass: ListMass = ONE_SCALE


def usual_wave(pairs: int, n_classes: int) -> int:
    """The default number of pairs per wave: a fifth of the model's pairs, and at least one per class.

    Waves grow with the model, so there are few of them, which keeps the cost of scoring low.
    """
    return max(n_classes, pairs // 5)


def judge_wave(
    held_out: HeldOutSamples,
    graph: nx.Graph,
    method: str,
    cost: GrowthCost | PairCost,
    most: int,
    *,
    seed: int = 0,
    near: float | None = None,
    n_jobs: int | None = None,
) -> Wave:
    """Score a growing model, and propose the pairs of its next wave.

    Parameters
    ----------
    held_out
        Samples that the machines have not seen, sorted by class; for "dprime" with the logits of the edges of this
        graph. Every other one helps to choose the next wave, the others score the model.
    graph, method
        The model graph and the coupling.
    cost
        - "confusion": the most confused pairs first, by the mean probability of the one class on samples of the other;
        - "dprime": the pairs with the smallest d' first, from their completed logits;
        - "uniform": in random order;
        - a function of (i, j), i < j: its smallest value first.
    most
        Number of pairs to propose, as far as pairs are missing.
    seed
        Seed of the order for "uniform".
    near
        The scale of the model before its last wave, if known: the search starts there, and uses every other scoring
        sample if there are many.
    """
    samples, y, edge_logits = held_out.samples, held_out.classes, held_out.edge_logits
    scale, mass = _scale(held_out, method, near, n_jobs)
    p = with_mass(samples, mass).couple(method, scale, n_jobs)
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
        mass=mass,
    )


def _scale(
    held_out: HeldOutSamples, method: str, near: float | None, n_jobs: int | None
) -> tuple[float, ListMass]:
    """The scale of the coupled model and the mass of its lists, chosen on the scoring samples."""
    judges = _JUDGES if near is None or len(held_out.classes) < _MANY else slice(1, None, 4)
    samples, y = held_out.samples.of_samples(judges), held_out.classes[judges]
    unit, totals = held_out.unit, held_out.totals
    if near is None:
        choice = choose_scale(samples, y, method, unit=unit, totals=totals, n_jobs=n_jobs)
        return choice.scale, choice.mass
    scale = nearby_scale(samples, y, method, near, unit=unit, n_jobs=n_jobs)
    return scale, choose_mass(samples, y, scale, totals=totals)


def mean_probabilities(p: NDArray[np.floating], y: NDArray[np.integer]) -> NDArray[np.float64]:
    """(N, N) mean probability of class j on samples of class i: a confusion matrix that shows near misses too.

    With hundreds of classes, counts would be zero for almost every pair.
    """
    membership = _membership(y, p.shape[1])
    return np.asarray(membership.T @ p.astype(np.float64) / _sizes(membership))


def completed_dprime(
    edge_logits: NDArray[np.float32], y: NDArray[np.integer], completion: Completion
) -> NDArray[np.float64]:
    """(N, N) d' of every pair on the logits of the completed model."""
    logits = _true_class_logits(edge_logits, y, completion).astype(np.float64)
    membership = _membership(y, completion.n_classes)
    size = _sizes(membership)
    mean = membership.T @ logits / size
    variance = np.maximum(membership.T @ logits**2 / size - mean**2, 1e-12)
    dprime = np.abs(mean + mean.T) / np.sqrt((variance + variance.T) / 2)
    np.fill_diagonal(dprime, 0)
    return np.asarray(dprime)


def _true_class_logits(
    edge_logits: NDArray[np.float32], y: NDArray[np.integer], completion: Completion
) -> NDArray[np.float32]:
    """(R, N) logits of each sample's true class against every other, completed slab by slab."""
    n, n_samples = completion.n_classes, len(y)
    logits = np.empty((n_samples, n), np.float32)
    for samples in pieces(n_samples, slab_width(n)):
        part = np.ascontiguousarray(edge_logits[:, samples])
        slab = complete_slab(part, completion, np.empty((n, n, part.shape[1]), np.float32))
        logits[samples] = slab[y[samples], :, np.arange(part.shape[1])]
    return logits


def _membership(y: NDArray[np.integer], n_classes: int) -> NDArray[np.float64]:
    """(R, N) one-hot matrix of the classes of samples."""
    return np.asarray(np.eye(n_classes)[y])


def _sizes(membership: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, 1) number of samples of each class, at least 1: without samples, numerators are zero."""
    return np.asarray(np.maximum(membership.sum(axis=0), 1)[:, None])
