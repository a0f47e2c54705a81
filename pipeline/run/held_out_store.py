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
from pairloom.pipeline.machines.linear_machines import LinearModel
from pairloom.pipeline.machines.whitening import centred_at, is_whitened
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.feature_store import read_draws, read_whitening
from pairloom.pipeline.run.machine_store import coupler_of_run, read_kernel_model, read_tiles
from pairloom.pipeline.run.results import chosen_candidate, class_weights_of
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["read_held_out", "score_slab", "write_slab"]


class _Listed(NamedTuple):
    """The shortlists of some drawn samples, and the typical size of their logits."""

    lists: Shortlists
    sizes: NDArray[np.float32]


def write_slab(run: Run, draws: slice, logits: NDArray[np.float32]) -> list[str]:
    """Write what calibration and growth need of a slab of drawn samples, given their logits by all edges."""
    group = open_group(run.directory, "logits.zarr", write=True)
    if not run.shape.listed:
        return write_whole(group["held_out"], (0, draws.start), logits)
    lists, sizes = _listed(run, logits, run.shape.n_edges)
    return [
        *write_whole(group["listed"], (draws.start, 0), lists.classes.astype(np.int32)),
        *write_whole(group["blocks"], (0, 0, draws.start), lists.tensor),
        *write_whole(group["ranking"], (draws.start, 0), lists.potentials),
        *write_whole(group["size"], (draws.start,), sizes),
    ]


def read_held_out(run: Run, pairs: int) -> HeldOutSamples:
    """The drawn samples, ready to be coupled by the model of the first ``pairs`` edges of the run.

    Of machines on sets of classes these must be all.
    """
    chosen = chosen_candidate(run)
    drawn = read_draws(run, is_whitened(chosen.whiten))
    weight = class_weights_of(run, drawn.classes)
    if run.shape.listed:
        found, sizes = _read_listed(run, pairs)
        lists = Shortlists(
            found.classes[drawn.chosen],
            np.ascontiguousarray(found.tensor[:, :, drawn.chosen]),
            found.potentials[drawn.chosen],
            coupler_of_run(run, pairs).weights,
        )
        unit = unit_of(sizes[drawn.chosen], chosen.calibration)
        return HeldOutSamples(lists, drawn.classes, weight, unit, totals=run.totals)
    stored = read_whole(open_group(run.directory, "logits.zarr")["held_out"], slice(pairs))
    logits = np.ascontiguousarray(stored[_order(run, pairs)][:, drawn.chosen])
    return HeldOutSamples.of_edges(
        logits,
        drawn.classes,
        coupler_of_run(run, pairs),
        calibration=chosen.calibration,
        weight=weight,
        totals=run.totals,
        shortlist=run.shortlist,
        memory_limit=run.memory_limit,
    )


def _read_listed(run: Run, pairs: int) -> _Listed:
    """The stored shortlists; of a smaller graph than the run has now, which are not stored, they are made again."""
    if pairs == run.shape.n_edges:
        group = open_group(run.directory, "logits.zarr")
        classes, tensor, potentials, sizes = (
            read_whole(group[name]) for name in ("listed", "blocks", "ranking", "size")
        )
        return _Listed(Shortlists(classes.astype(np.int64), tensor, potentials), sizes)
    slabs = [_listed(run, score_slab(run, draws, pairs), pairs) for draws in run.draw_slabs]
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


def score_slab(run: Run, draws: slice, pairs: int) -> NDArray[np.float32]:
    """(E, r) out-of-fold logits of a slab of the drawn samples, tile by tile, in memory sample by sample."""
    # All stored draws: which of them calibrate the model depends on the candidate that was chosen.
    drawn = read_draws(run, run.draws_whitened)
    X, folds, parts = drawn.X[draws], drawn.folds[draws], drawn.parts[draws]
    if run.settings.kernel is not None:
        return _kernel_edge_logits(run, X, folds, parts)
    # Whitened here, once for all tiles.
    rows = np.ascontiguousarray(read_whitening(run, chosen_candidate(run).whiten)(X), np.float32)
    as_they_are, scheme = centred_at(np.zeros(rows.shape[1])), run.settings.machines().scheme
    logits = np.empty((len(folds), pairs), np.float32)
    for tile, machines in read_tiles(run.directory, pairs, run.shape.edges_per_tile):
        # Pad to a whole tile: a growing run fills its last tile later, and a product of another shape would round the
        # logits of these edges differently, and so change the score of a wave.
        filled = np.arange(run.shape.edges_per_tile) % (tile.stop - tile.start)
        of_tile = out_of_fold_edge_logits(
            LinearModel(machines.of_edges(filled), as_they_are), scheme, rows, folds, parts
        )
        logits[:, tile] = of_tile[: tile.stop - tile.start].T
    return logits.T


def _kernel_edge_logits(
    run: Run, X: NDArray[np.floating], folds: NDArray[np.int32], parts: NDArray[np.int32]
) -> NDArray[np.float32]:
    """The same by machines with a kernel. Such a run does not grow, so its tiles are whole."""
    scheme, n_edges = run.settings.machines().scheme, run.shape.n_edges
    logits = np.empty((len(folds), n_edges), np.float32)
    for tile in pieces(n_edges, run.shape.edges_per_tile):
        of_tile = out_of_fold_edge_logits(read_kernel_model(run, [tile]), scheme, X, folds, parts)
        logits[:, tile] = of_tile.T
    return logits.T
