"""Held-out samples of a run: slabs of the drawn training samples, scored by all machines that had no part in them.

A slab of samples meets every edge at once, so it is ranked and its shortlists are completed where it is scored. What is
stored is all that calibration and growth need: the shortlists, or where all pairs are coupled or something is learned
from the edges themselves, the logits of the edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.held_out import (
    HeldOutSamples,
    out_of_fold_edge_logits,
    typical_sizes,
    unit_of,
)
from pairloom.pipeline.completion.shortlist import Shortlists, shortlists
from pairloom.pipeline.machines.kernel_machines import KernelModel
from pairloom.pipeline.machines.linear_machines import LinearModel
from pairloom.pipeline.machines.settings import Calibration
from pairloom.pipeline.machines.whitening import centred_at, is_whitened
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.feature_store import read_draws, read_whitening
from pairloom.pipeline.run.machine_store import coupler_of_run, read_kernel_model, read_tiles
from pairloom.pipeline.run.results import chosen_candidate, class_weights_of, read_slopes
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["read_held_out", "write_slab"]


class _Listed(NamedTuple):
    """The shortlists of some drawn samples, and the typical size of their logits."""

    lists: Shortlists
    sizes: NDArray[np.float32]


def write_slab(run: Run, draws: slice) -> list[str]:
    """Score a slab of drawn samples by all edges, and write what calibration and growth need of it."""
    scored = _ScoredSlab(run, draws, run.shape.n_edges)
    files = []
    for number, calibration in enumerate(run.shape.calibrations):
        files += _write_logits(run, draws, number, scored.by(calibration))
    return files


def _write_logits(run: Run, draws: slice, number: int, logits: NDArray[np.float32]) -> list[str]:
    """Write a slab of drawn samples, given their logits by all edges with the calibration of this number."""
    group = open_group(run.directory, "logits.zarr", write=True)
    if not run.shape.listed:
        return write_whole(group["held_out"], (number, 0, draws.start), logits[None])
    lists, sizes = _listed(run, logits, run.shape.n_edges)
    return [
        *write_whole(group["listed"], (number, draws.start, 0), lists.classes[None].astype(np.int32)),
        *write_whole(group["blocks"], (number, 0, 0, draws.start), lists.tensor[None]),
        *write_whole(group["ranking"], (number, draws.start, 0), lists.potentials[None]),
        *write_whole(group["size"], (number, draws.start), sizes[None]),
    ]


def read_held_out(run: Run, pairs: int, calibration: Calibration | None = None) -> HeldOutSamples:
    """The drawn samples, ready to be coupled by the model of the first ``pairs`` edges of the run.

    Of machines on sets of classes these must be all. By default they are calibrated by the first of the calibrations.
    """
    calibration = run.shape.calibrations[0] if calibration is None else calibration
    number = run.shape.calibrations.index(calibration)
    drawn = read_draws(run, is_whitened(chosen_candidate(run).whiten))
    weight = class_weights_of(run, drawn.classes)
    if run.shape.listed:
        found, sizes = _read_listed(run, pairs, number)
        lists = Shortlists(
            found.classes[drawn.chosen],
            np.ascontiguousarray(found.tensor[:, :, drawn.chosen]),
            found.potentials[drawn.chosen],
            coupler_of_run(run, pairs).weights,
        )
        unit = unit_of(sizes[drawn.chosen], calibration)
        return HeldOutSamples(lists, drawn.classes, weight, unit, totals=run.totals)
    stored = read_whole(open_group(run.directory, "logits.zarr")["held_out"], (number, slice(pairs)))
    logits = np.ascontiguousarray(stored[_order(run, pairs)][:, drawn.chosen])
    return HeldOutSamples.of_edges(
        logits,
        drawn.classes,
        coupler_of_run(run, pairs),
        calibration=calibration,
        weight=weight,
        totals=run.totals,
        shortlist=run.shortlist,
        memory_limit=run.memory_limit,
    )


def _read_listed(run: Run, pairs: int, number: int) -> _Listed:
    """The stored shortlists; of a smaller graph than the run has now, which are not stored, they are made again."""
    if pairs == run.shape.n_edges:
        group = open_group(run.directory, "logits.zarr")
        classes, tensor, potentials, sizes = (
            read_whole(group[name], number) for name in ("listed", "blocks", "ranking", "size")
        )
        return _Listed(Shortlists(classes.astype(np.int64), tensor, potentials), sizes)
    calibration = run.shape.calibrations[number]
    slabs = [_listed(run, _ScoredSlab(run, draws, pairs).by(calibration), pairs) for draws in run.draw_slabs]
    lists = Shortlists(
        np.concatenate([slab.lists.classes for slab in slabs]),
        np.concatenate([slab.lists.tensor for slab in slabs], axis=2),
        np.concatenate([slab.lists.potentials for slab in slabs]),
    )
    return _Listed(lists, np.concatenate([slab.sizes for slab in slabs]))


def _listed(run: Run, logits: NDArray[np.float32], pairs: int) -> _Listed:
    """The shortlists of samples, given their logits by the first edges in the run's order."""
    completion = coupler_of_run(run, pairs).completion
    by_sample = np.ascontiguousarray(logits.T[:, _order(run, pairs)])
    potentials = completion.ranking.of_samples(by_sample)
    lists = shortlists(by_sample, potentials, completion, run.shape.listed)
    return _Listed(lists, typical_sizes(by_sample.T))


def _order(run: Run, pairs: int) -> NDArray[np.intp]:
    """The permutation that sorts the first ``pairs`` edges."""
    return run.shape._replace(edges=run.shape.edges[:pairs]).order


class _ScoredSlab:
    """Out-of-fold logits of a slab of the drawn samples by the first edges of a run, tile by tile.

    All calibrations are made of two: Platt's, and distances. Machines are read once for both.
    """

    def __init__(self, run: Run, draws: slice, pairs: int) -> None:
        # All stored draws: which of them calibrate the model depends on the candidate that was chosen.
        drawn = read_draws(run, run.draws_whitened)
        self._X, self._folds, self._parts = drawn.X[draws], drawn.folds[draws], drawn.parts[draws]
        self._run, self._pairs = run, pairs
        self._scheme = run.settings.machines().scheme
        views = dict.fromkeys("distance" if one == "slopes" else one for one in run.shape.calibrations)
        self._logits: dict[Calibration, NDArray[np.float32]] = {
            view: np.empty((len(self._folds), pairs), np.float32) for view in views
        }
        self._score()

    def by(self, calibration: Calibration) -> NDArray[np.float32]:
        """(E, r) logits with a calibration, in memory sample by sample."""
        if calibration != "slopes":
            return self._logits[calibration].T
        run = self._run
        slopes = read_slopes(run.directory, np.arange(run.shape.n_edges)).slopes.at(np.arange(self._pairs))
        return slopes.of_parts(self._logits["distance"].T, self._parts)

    def _score(self) -> None:
        if self._run.settings.kernel is None:
            self._score_linear()
        else:
            self._score_with_kernel()

    def _score_linear(self) -> None:
        run = self._run
        # Whitened here, once for all tiles.
        rows = np.ascontiguousarray(read_whitening(run, chosen_candidate(run).whiten)(self._X), np.float32)
        as_they_are = centred_at(np.zeros(rows.shape[1]))
        for tile, machines in read_tiles(run.directory, self._pairs, run.shape.edges_per_tile):
            # Pad to a whole tile: a growing run fills its last tile later, and a product of another shape would round
            # the logits of these edges differently, and so change the score of a wave.
            filled = np.arange(run.shape.edges_per_tile) % (tile.stop - tile.start)
            self._score_tile(tile, LinearModel(machines.of_edges(filled), as_they_are), rows)

    def _score_with_kernel(self) -> None:
        # Such a run does not grow, so its tiles are whole.
        for tile in pieces(self._pairs, self._run.shape.edges_per_tile):
            self._score_tile(tile, read_kernel_model(self._run, [tile]), self._X)

    def _score_tile(self, tile: slice, model: LinearModel | KernelModel, rows: NDArray[np.floating]) -> None:
        for view, logits in self._logits.items():
            machines = model.by_distance() if self._run.settings.turns_into_distances(view) else model
            of_tile = out_of_fold_edge_logits(machines, self._scheme, rows, self._folds, self._parts)
            logits[:, tile] = of_tile[: tile.stop - tile.start].T
