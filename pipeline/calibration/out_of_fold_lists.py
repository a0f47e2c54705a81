"""Shortlists of held-out samples, computed without the logits of all edges.

Samples of the same fold and part share the machines and parameters that they had no part in. So for each such group of
samples, these machines of all edges are summed into one ranking of the classes, a row of weights per class. Then only
the logits that the lists of the samples need are computed. Both passes read the edges tile by tile, so no machine is
read more than twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.held_out import ENOUGH, typical_sizes
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.completion_kernels import add_class_sums, apply_unseen
from pairloom.pipeline.completion.shortlist import NeededEdges, Shortlists, top_classes
from pairloom.pipeline.machines.folds import FoldScheme
from pairloom.pipeline.machines.linear_machines import Machines
from pairloom.pipeline.machines.pair_calibration import Slopes
from pairloom.pipeline.machines.settings import Calibration

__all__ = ["Listed", "Unseen", "listed_out_of_fold", "lists_of_ranking"]


#: Weights, shares and biases: see `completion_kernels.apply_unseen`.
Maps = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]


class Listed(NamedTuple):
    """The shortlists of some held-out samples, and the typical size of their logits."""

    lists: Shortlists
    sizes: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Unseen:
    """For one calibration: how the machines that did not see a group of held-out samples are combined.

    Attributes
    ----------
    scheme : FoldScheme
    turned : bool
        Whether logits are distances.
    slopes : Slopes, optional
        The slopes of all edges, in the order of the tiles.
    groups : (G, 2) int array
        The fold and the part of the samples of each group.
    group : (R,) int array
        The group of each sample.
    """

    scheme: FoldScheme
    turned: bool
    slopes: Slopes | None
    groups: NDArray[np.int64]
    group: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        scheme: FoldScheme,
        folds: NDArray[np.integer],
        parts: NDArray[np.integer],
        *,
        by_part: bool,
        turned: bool,
        slopes: Slopes | None = None,
    ) -> Unseen:
        """Group samples by fold, and by part if ``by_part``: if parameters differ between parts."""
        of_part = parts if by_part else np.zeros_like(parts)
        groups, group = np.unique(np.column_stack([folds, of_part]), axis=0, return_inverse=True)
        return cls(scheme, turned, slopes, groups.astype(np.int64), group.reshape(-1).astype(np.int64))

    def maps(self, tile: slice, machines: Machines) -> Maps:
        """The weights (T, M, D) of the machines of a tile, the shares (G, T, M) of each, and the biases (G, T)."""
        assert isinstance(machines.coef, np.ndarray), "runs have dense features"
        shares = np.empty((len(self.groups), *machines.intercept.shape), np.float32)
        bias = np.empty(shares.shape[:2], np.float32)
        for g, (fold, part) in enumerate(self.groups.tolist()):
            A, B = np.moveaxis(machines.crossfit[:, :, part] * self.scheme.out_of_fold[fold][:, None], 2, 0)
            slope = np.ones(len(A)) if self.slopes is None else self.slopes.without_part[tile, part]
            shares[g] = -A * slope[:, None]
            bias[g] = -(A * machines.intercept + B).sum(axis=1) * slope
        return np.ascontiguousarray(machines.coef), shares, bias


def _maps_of_tile(
    unseen: Mapping[Calibration, Unseen], tile: slice, machines: Machines
) -> Iterator[tuple[Calibration, Maps]]:
    """The maps of a tile for held-out samples, by calibration."""
    scheme = next(one.scheme for one in unseen.values())
    # Calibrations share the distances, which take a pass over all weights.
    turned = machines.by_distance(scheme) if any(one.turned for one in unseen.values()) else machines
    for calibration, one in unseen.items():
        yield calibration, one.maps(tile, turned if one.turned else machines)


#: Opens the machines of all edges for one pass, tile by tile in order.
Tiles = Callable[[], Iterable[tuple[slice, Machines]]]


def listed_out_of_fold(
    unseen: Mapping[Calibration, Unseen],
    X: NDArray[np.float32],
    tiles: Tiles,
    completion: Completion,
    order: NDArray[np.intp],
    k: int,
) -> dict[Calibration, Listed]:
    """The shortlists of held-out samples, for each calibration.

    Parameters
    ----------
    unseen : mapping of calibration -> Unseen
    X : (R, D) float32 array
        The normalised samples.
    tiles : callable
    completion : Completion
        The completion, whose edges are sorted.
    order : (E,) int array
        The position of each sorted edge in the order of the tiles.
    k : int
        Classes per list.
    """
    ranked = _ranked(unseen, X, tiles, completion, np.argsort(order))
    needed = {name: NeededEdges.of(top_classes(u, k), completion) for name, u in ranked.items()}
    # The typical size of logits is estimated on some edges for all samples, as for samples without lists.
    some = order[:: max(1, len(order) // ENOUGH)]
    wanted = {name: _Wanted.of(edges, order, some) for name, edges in needed.items()}
    logits = _logits(unseen, X, tiles, wanted)
    listed = {}
    for name, edges in needed.items():
        of_lists, of_some = np.split(logits[name], [len(edges.edges)])
        sizes = typical_sizes(of_some.reshape(len(some), len(X)))
        listed[name] = Listed(edges.completed(of_lists, ranked[name], completion), sizes)
    return listed


def lists_of_ranking(
    ranked: Mapping[Calibration, NDArray[np.float32]],
    unseen: Mapping[Calibration, Unseen],
    X: NDArray[np.float32],
    tiles: Tiles,
    completion: Completion,
    order: NDArray[np.intp],
    k: int,
) -> dict[Calibration, Shortlists]:
    """The shortlists of held-out samples whose potentials (R, N) `listed_out_of_fold` has found before, in one pass.

    The other parameters are as there.
    """
    needed = {name: NeededEdges.of(top_classes(u, k), completion) for name, u in ranked.items()}
    wanted = {name: _Wanted.of(edges, order, np.empty(0, np.intp)) for name, edges in needed.items()}
    logits = _logits(unseen, X, tiles, wanted)
    return {name: edges.completed(logits[name], ranked[name], completion) for name, edges in needed.items()}


def _ranked(
    unseen: Mapping[Calibration, Unseen],
    X: NDArray[np.float32],
    tiles: Tiles,
    completion: Completion,
    place: NDArray[np.intp],
) -> dict[Calibration, NDArray[np.float32]]:
    """The first pass: the potentials (R, N) of the classes, for each calibration."""
    N, D = completion.n_classes, X.shape[1]
    sums = {name: np.zeros((N, len(one.groups), D + 1), np.float32) for name, one in unseen.items()}
    for tile, machines in tiles():
        edges = np.ascontiguousarray(completion.edges[place[tile]])
        for name, maps in _maps_of_tile(unseen, tile, machines):
            joined = _joined(*maps)
            add_class_sums(joined.reshape(len(joined), -1), edges, sums[name].reshape(N, -1))
    potentials = {}
    for name, one in unseen.items():
        ranking = sums.pop(name)
        divergences = np.empty((len(X), N), np.float32)
        for g in range(len(one.groups)):
            samples = np.flatnonzero(one.group == g)
            divergences[samples] = X[samples] @ ranking[:, g, :D].T + ranking[:, g, D]
        del ranking  # large: free it before the potentials are allocated
        potentials[name] = np.ascontiguousarray(completion.ranking.solved(divergences.T).T)
    return potentials


def _joined(
    coef: NDArray[np.float32], shares: NDArray[np.float32], bias: NDArray[np.float32]
) -> NDArray[np.float32]:
    """(T, G, D + 1) the machines of each edge as one map per group: weights, then the bias.

    The product of an edge has the same shape in tiles of any size, hence the same bits.
    """
    joined = np.empty((len(coef), len(shares), coef.shape[2] + 1), np.float32)
    np.matmul(shares.transpose(1, 0, 2), coef, out=joined[:, :, :-1])
    joined[:, :, -1] = bias.T
    return joined


class _Wanted(NamedTuple):
    """Requested logits: the sample and the edge's position of each, and an order that follows the tiles."""

    samples: NDArray[np.int64]
    places: NDArray[np.int64]
    by_place: NDArray[np.int64]

    @classmethod
    def of(cls, needed: NeededEdges, order: NDArray[np.intp], some: NDArray[np.intp]) -> _Wanted:
        """The logits that lists need, then the logits of all samples by ``some`` edges, given by position."""
        n_samples = len(needed.classes)
        samples = np.concatenate([needed.samples, np.tile(np.arange(n_samples), len(some))])
        places = np.concatenate([order[needed.edges], np.repeat(some, n_samples)])
        return cls(samples, places, np.argsort(places, kind="stable"))


def _logits(
    unseen: Mapping[Calibration, Unseen],
    X: NDArray[np.float32],
    tiles: Tiles,
    wanted: Mapping[Calibration, _Wanted],
) -> dict[Calibration, NDArray[np.float32]]:
    """The second pass: the requested logits, for each calibration."""
    logits = {name: np.empty(len(asked.places), np.float32) for name, asked in wanted.items()}
    for tile, machines in tiles():
        for name, maps in _maps_of_tile(unseen, tile, machines):
            samples, places, by_place = wanted[name]
            first, last = np.searchsorted(places, [tile.start, tile.stop], sorter=by_place)
            here = by_place[first:last]
            values = np.empty(len(here), np.float32)
            apply_unseen(*maps, X, unseen[name].group, samples[here], places[here] - tile.start, values)
            logits[name][here] = values
    return logits
