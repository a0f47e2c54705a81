"""The work of a run, stage by stage: how many units each stage has, where they run, and which classes they read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.cluster.simulator.run_sizes import RunSizes, imagined_sizes, planned_sizes
from pairloom.cluster.simulator.stage_costs import count_units
from pairloom.cluster.stages import STAGES
from pairloom.cluster.tiles import order_by_blocks

if TYPE_CHECKING:
    from pairloom.cluster.plan import Plan

__all__ = ["Phase", "TouchedClasses", "Workload", "imagined_workload", "planned_workload"]


class TouchedClasses(NamedTuple):
    """The class rows that tiles read: tile t reads ``pieces[first[t] : first[t + 1]]``.

    A piece is ``classes_per_piece`` classes.
    """

    first: NDArray[np.int64]
    pieces: NDArray[np.int32]
    classes_per_piece: int


class Phase(NamedTuple):
    """A stage, or the part of it that one wave of a growing run adds. ``first`` is the number of its first unit."""

    stage: str
    where: Literal["driver", "cluster", "in turn"]
    first: int
    units: int


@dataclass(frozen=True)
class Workload:
    """The phases of a run in their order, its sizes, and the classes that its tiles touch."""

    sizes: RunSizes
    phases: tuple[Phase, ...]
    touched: TouchedClasses

    def units(self) -> dict[str, int]:
        """Units by stage, all phases together."""
        total: dict[str, int] = {}
        for phase in self.phases:
            total[phase.stage] = total.get(phase.stage, 0) + phase.units
        return total


def planned_workload(plan: Plan) -> Workload:
    """The work of a plan. A run that grows is as long as the waves of its plan: later ones are not known yet."""
    phases = tuple(_growing_phases(plan)) if plan.config.growth else tuple(_phases(plan.keys, {}))
    return Workload(planned_sizes(plan), phases, _touched(plan))


def _phases(keys: dict[str, tuple[str, ...]], before: dict[str, tuple[str, ...]]) -> Iterator[Phase]:
    """The units whose keys are not those of an earlier plan, as the driver finds them."""
    for stage in STAGES:
        old, new = before.get(stage.name, ()), keys[stage.name]
        changed = [unit for unit, key in enumerate(new) if unit >= len(old) or old[unit] != key]
        if changed:
            yield Phase(stage.name, stage.where, changed[0], len(changed))


def _growing_phases(plan: Plan) -> Iterator[Phase]:
    """Waves train, apply and judge in turn; the stages after growth run once."""
    before: dict[str, tuple[str, ...]] = {}
    names = [stage.name for stage in STAGES]
    waited: dict[str, tuple[str, ...]] = dict.fromkeys(names[names.index("growth") + 1 :], ())
    for wave in range(1, len(plan.waves) + 1):
        shape = plan.shape._replace(edges=plan.shape.edges[: plan.waves[wave - 1]])
        keys = replace(plan, shape=shape, waves=plan.waves[:wave]).keys
        yield from _phases(keys | waited, before)
        before = keys | waited
    yield from _phases(plan.keys, before)


def _touched(plan: Plan) -> TouchedClasses:
    """The classes of every tile of a plan."""
    if plan.shape.code is None:
        return _touched_by(plan.shape.edges, plan.shape.edges_per_tile)
    of_tiles = [plan.shape.classes_of(tile) for tile in plan.tiles]
    first = np.cumsum([0, *map(len, of_tiles)])
    return TouchedClasses(first.astype(np.int64), np.concatenate(of_tiles).astype(np.int32), 1)


def _touched_by(edges: NDArray[np.int64], edges_per_tile: int) -> TouchedClasses:
    """The classes of every tile."""
    tile = np.repeat(np.arange(len(edges)) // edges_per_tile, 2)
    pairs = np.unique(np.stack([tile, edges.ravel()]), axis=1)
    first = np.searchsorted(pairs[0], np.arange(-(-len(edges) // edges_per_tile) + 1))
    return TouchedClasses(first.astype(np.int64), pairs[1].astype(np.int32), 1)


def imagined_workload(plan: Plan, *, family: str | None = None, seed: int = 0, **changes: Any) -> Workload:
    """The work of a run like a planned one, on data of other sizes: see `imagined_sizes`."""
    sizes = imagined_sizes(plan, family=family, **changes)
    complete = sizes.edges == sizes.classes * (sizes.classes - 1) // 2
    counted = ((stage, count_units(stage.name, sizes)) for stage in STAGES)
    phases = tuple(Phase(stage.name, stage.where, 0, units) for stage, units in counted if units)
    touched = _touched_by_all_pairs(sizes) if complete else _touched_by_some_pairs(sizes, seed)
    return Workload(sizes, phases, touched)


def _touched_by_all_pairs(sizes: RunSizes) -> TouchedClasses:
    """The blocks of classes that the tiles of all pairs read, without listing the pairs: there may be 238 million.

    The order is that of `order_by_blocks`: pairs of blocks, each with all its edges. Of a tile over several pairs of
    blocks, the first and the last count; blocks are read whole.
    """
    n, T = sizes.classes, sizes.edges_per_tile
    b = math.isqrt(max(T - 1, 0)) + 1
    blocks = -(-n // b)
    row, column = np.triu_indices(blocks)
    width = np.minimum(b, n - b * np.arange(blocks))
    pairs = np.where(row == column, width[row] * (width[row] - 1) // 2, width[row] * width[column])
    ends = np.cumsum(pairs)
    starts = np.arange(0, sizes.edges, T)
    first = np.searchsorted(ends, starts, side="right")
    last = np.searchsorted(ends, np.minimum(starts + T, sizes.edges) - 1, side="right")
    read = np.stack([row[first], row[last], column[first], column[last]], axis=1).astype(np.int32)
    return TouchedClasses(4 * np.arange(len(starts) + 1), read.ravel(), b)


def _touched_by_some_pairs(sizes: RunSizes, seed: int) -> TouchedClasses:
    """The classes of the tiles of a sparse graph with as many pairs, whose ends are any classes."""
    random, n = np.random.default_rng(seed), sizes.classes
    i = random.integers(0, n, sizes.edges)
    j = (i + random.integers(1, n, sizes.edges)) % n
    edges = np.sort(np.stack([i, j], axis=1), axis=1)
    return _touched_by(order_by_blocks(edges, sizes.edges_per_tile), sizes.edges_per_tile)
