"""The work of a run, stage by stage: the number of units, where they run, and the classes that they read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline import stages
from pairloom.pipeline.calibration.held_out import draws_by_class
from pairloom.pipeline.completion.shortlist import shortlist_size
from pairloom.pipeline.machines.folds import PARTS
from pairloom.pipeline.model.choice import n_trials
from pairloom.pipeline.report.errors import affordable_explanations, most_explained
from pairloom.pipeline.report.run_results import MOST_ERRORS
from pairloom.pipeline.run.costs import RunSizes, StageCost
from pairloom.pipeline.run.needs import probe_pairs
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.tiles import (
    default_draws_per_listed_slab,
    default_draws_per_slab,
    default_edges_per_tile,
    default_samples_per_prediction,
    order_by_blocks,
)

__all__ = [
    "FAMILIES",
    "Phase",
    "TouchedClasses",
    "Workload",
    "cost_of_stage",
    "imagined_sizes",
    "imagined_workload",
    "planned_sizes",
    "planned_workload",
]


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


def planned_workload(plan: Run) -> Workload:
    """The work of a plan. A run that grows has the waves of its plan; later ones are not known yet."""
    phases = tuple(_growing_phases(plan)) if plan.config.growth else tuple(_phases(plan, plan.keys, {}))
    return Workload(planned_sizes(plan), phases, _touched(plan))


def _phases(
    run: Run, keys: dict[str, tuple[str, ...]], before: dict[str, tuple[str, ...]]
) -> Iterator[Phase]:
    """The units that the driver would do: those whose keys are not in an earlier plan."""
    for stage in run.stages:
        old, new = before.get(stage.name, ()), keys[stage.name]
        changed = [unit for unit, key in enumerate(new) if unit >= len(old) or old[unit] != key]
        if changed:
            yield Phase(stage.name, stage.runs_in(run), changed[0], len(changed))


def _growing_phases(plan: Run) -> Iterator[Phase]:
    """Waves train, apply and score in turn; the stages after growth run once."""
    before: dict[str, tuple[str, ...]] = {}
    names = plan.stage_names
    waited: dict[str, tuple[str, ...]] = dict.fromkeys(names[names.index("growth") + 1 :], ())
    for wave in range(1, len(plan.waves) + 1):
        shape = plan.shape._replace(edges=plan.shape.edges[: plan.waves[wave - 1]])
        keys = replace(plan, shape=shape, waves=plan.waves[:wave]).keys
        yield from _phases(plan, keys | waited, before)
        before = keys | waited
    yield from _phases(plan, plan.keys, before)


def _touched(plan: Run) -> TouchedClasses:
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


def imagined_workload(plan: Run, *, family: str | None = None, seed: int = 0, **changes: Any) -> Workload:
    """The work of a run like a planned one, on data of other sizes: see `imagined_sizes`."""
    sizes = imagined_sizes(plan, family=family, **changes)
    complete = sizes.edges == sizes.classes * (sizes.classes - 1) // 2
    counted = ((stage, stage.cost.units(sizes)) for stage in plan.stages)
    phases = tuple(Phase(stage.name, stage.runs_in(plan), 0, units) for stage, units in counted if units)
    touched = _touched_by_all_pairs(sizes) if complete else _touched_by_some_pairs(sizes, seed)
    return Workload(sizes, phases, touched)


def _touched_by_all_pairs(sizes: RunSizes) -> TouchedClasses:
    """The blocks of classes that the tiles of all pairs read, without listing the pairs: there may be 238 million.

    The order is that of `order_by_blocks`: pairs of blocks, each with all its edges. Of a tile that covers several
    pairs of blocks only the first and the last count. Blocks are read whole.
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
    """The classes of the tiles of a random graph with as many pairs."""
    random, n = np.random.default_rng(seed), sizes.classes
    i = random.integers(0, n, sizes.edges)
    j = (i + random.integers(1, n, sizes.edges)) % n
    edges = np.sort(np.stack([i, j], axis=1), axis=1)
    return _touched_by(order_by_blocks(edges, sizes.edges_per_tile), sizes.edges_per_tile)


#: Families whose number of pairs is known without data. Many of the 20 nearest classes of a class also choose it: for
#: Gaussian classes, 3 hubs and 20 neighbours gave 16.5 pairs per class of 200 classes, 18.2 of 1000, and 19.0 of 4000.
FAMILIES = ("complete", "hub_neighbours", "star")
_HUB_NEIGHBOUR_PAIRS = 19


def cost_of_stage(name: str) -> StageCost:
    """The cost of the stage with this name. For an unknown stage only its measured times count."""
    return next((stage.cost for stage in stages.STAGES if stage.name == name), StageCost())


def planned_sizes(plan: Run) -> RunSizes:
    """The sizes of a planned run."""
    shape, settings, n = plan.shape, plan.settings, len(plan.shape.classes)
    return RunSizes(
        classes=n,
        rows=float(np.mean(shape.rows)),
        features=shape.numbers_per_row,
        itemsize=np.dtype(shape.dtype).itemsize,
        samples=shape.samples,
        draws=shape.draws,
        edges=shape.n_edges,
        edges_per_tile=shape.edges_per_tile,
        samples_per_slab=shape.samples_per_slab,
        draws_per_slab=shape.draws_per_slab,
        machines_per_edge=shape.machines_per_edge,
        folds=settings.folds,
        couplings=len(shape.couplings),
        listed=settings.shortlist_of(n) or n,
        trials=n_trials(plan.candidates),
        probe_pairs=probe_pairs(plan),
        whitenings=len(shape.whitenings),
        tensor_stored=shape.tensor_stored,
        classes_per_edge=shape.decomposition.classes_per_machine,
        explained=most_explained(plan, min(shape.samples, MOST_ERRORS), plan.shortlist)
        if shape.labelled
        else 0,
        learned=shape.learned,
        calibrations=len(shape.calibrations),
        sloped=shape.sloped,
        by_tasks=shape.train_source is not None,
        source_reads=0.0 if shape.train_source is None else shape.train_source.reads,
    )


def imagined_sizes(
    plan: Run,
    *,
    classes: int | None = None,
    rows: int | None = None,
    features: int | None = None,
    samples: int | None = None,
    family: str | None = None,
    edges_per_tile: int | None = None,
    samples_per_slab: int | None = None,
) -> RunSizes:
    """The sizes that a plan would have with other data: settings are kept, tiles and slabs are chosen again.

    The tensor is not stored.
    """
    like, model = planned_sizes(plan), plan.config.model
    n, r, d = classes or like.classes, rows or like.rows, features or like.features
    quotas = draws_by_class(np.full(n, int(r)), model.calibration_samples, like.folds, like.whitenings > 0)
    edges = _edges(family or plan.graph["family"], n, like)
    like = like._replace(classes_per_edge=2.0)
    tile = edges_per_tile or default_edges_per_tile(
        edges, 2 * r, d, like.folds, plan.config.growth is not None
    )
    n_samples, listed = samples or like.samples, shortlist_size(model.shortlist, n) or n
    draws = int(quotas.sum()) if like.draws else 0
    explained = min(MOST_ERRORS, n_samples, affordable_explanations(edges, d, listed))
    return like._replace(
        classes=n,
        rows=r,
        features=d,
        samples=n_samples,
        draws=draws,
        edges=edges,
        edges_per_tile=min(tile, edges),
        samples_per_slab=samples_per_slab or default_samples_per_prediction(n, d),
        draws_per_slab=default_draws_per_listed_slab(draws, like.folds * PARTS, n, d, like.calibrations)
        if listed < n
        else default_draws_per_slab(edges),
        listed=listed,
        tensor_stored=False,
        explained=explained if like.explained else 0,
    )


def _edges(family: str, n: int, like: RunSizes) -> int:
    if family not in FAMILIES:
        raise ValueError(
            f"--family must be one of {', '.join(FAMILIES)} for an imagined run, got {family!r}."
        )
    every = n * (n - 1) // 2
    return {"complete": every, "hub_neighbours": min(every, _HUB_NEIGHBOUR_PAIRS * n), "star": n - 1}[family]
