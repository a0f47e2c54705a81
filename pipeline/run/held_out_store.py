"""Held-out samples of a run: slabs of drawn training samples, scored by the machines that were trained without them.

A task scores a slab by all edges, so it can rank the classes and complete the shortlists at once. Only data that
calibration and growth need are stored: the shortlists or, where all pairs are coupled or something is learned from the
edges themselves, the logits of the edges. Samples with shortlists are sorted by fold and part, so that most samples of
a slab share the machines and parameters that were found without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.held_out import (
    HeldOutSamples,
    out_of_fold_edge_logits,
    typical_sizes,
    unit_of,
)
from pairloom.pipeline.calibration.out_of_fold_lists import (
    Listed,
    Unseen,
    listed_out_of_fold,
    lists_of_ranking,
)
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.shortlist import Shortlists, joined, shortlists
from pairloom.pipeline.machines.kernel_machines import KernelModel
from pairloom.pipeline.machines.linear_machines import LinearModel, Machines
from pairloom.pipeline.machines.normalisation import centred_at, is_whitened, unwhitened
from pairloom.pipeline.machines.pair_calibration import Slopes
from pairloom.pipeline.machines.settings import Calibration
from pairloom.pipeline.run.feature_store import Draws, read_draws, read_whitening
from pairloom.pipeline.run.machine_store import coupler_of_run, read_kernel_model, read_tiles
from pairloom.pipeline.run.needs import listed_at_once
from pairloom.pipeline.run.results import chosen_candidate, class_weights_of, read_slopes
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.zarr_layout import read_whole
from pairloom.pipeline.threads import pieces

__all__ = ["read_held_out", "write_slab"]


def write_slab(run: Run, draws: slice) -> list[str]:
    """Score a slab of drawn samples by all edges, and write the scores for calibration and growth."""
    slab, pairs = _Slab(run, draws, run.shape.n_edges), run.shape.n_edges
    if not run.shape.listed:
        held_out = open_group(run.directory, "logits.zarr", write=True)["held_out"]
        numbered = enumerate(_all_logits(slab, pairs).values())
        written = (write_whole(held_out, (n, 0, draws.start), logits.T[None]) for n, logits in numbered)
    else:
        numbered_lists = enumerate(_listed(run, slab, pairs).values())
        written = (_write_lists(run, draws, n, *listed) for n, listed in numbered_lists)
    return [file for files in written for file in files]


def _write_lists(
    run: Run, draws: slice, number: int, lists: Shortlists, sizes: NDArray[np.float32]
) -> list[str]:
    """Write the shortlists of a slab of drawn samples by calibration ``number``."""
    group = open_group(run.directory, "logits.zarr", write=True)
    return [
        *write_whole(group["listed"], (number, draws.start, 0), lists.classes[None].astype(np.int32)),
        *write_whole(group["blocks"], (number, 0, 0, draws.start), lists.tensor[None]),
        *write_whole(group["ranking"], (number, draws.start, 0), lists.potentials[None]),
        *write_whole(group["size"], (number, draws.start), sizes[None]),
    ]


def read_held_out(
    run: Run, pairs: int, calibration: Calibration | None = None, length: int | None = None
) -> HeldOutSamples:
    """The drawn samples, ready to be coupled by the model of the first ``pairs`` edges of the run.

    With machines on sets of classes, ``pairs`` must be their number. ``calibration`` is by default the first, and
    ``length`` that of the stored shortlists. Lists of another length are found anew, by the stored ranking.
    """
    calibration = run.shape.calibrations[0] if calibration is None else calibration
    number = run.shape.calibrations.index(calibration)
    drawn = read_draws(run, is_whitened(chosen_candidate(run).whiten))
    weight = class_weights_of(run, drawn.classes)
    if run.shape.listed:
        found, sizes = _read_listed(run, pairs, number, length or run.shape.listed)
        # Positions of the samples in the order of the slabs.
        chosen = np.argsort(_by_slab(run, read_draws(run, run.draws_whitened)))[drawn.chosen]
        lists = Shortlists(
            found.classes[chosen],
            np.ascontiguousarray(found.tensor[:, :, chosen]),
            found.potentials[chosen],
            coupler_of_run(run, pairs).weights,
        )
        unit = unit_of(sizes[chosen], calibration)
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
        shortlist=length or run.shortlist,
        memory_limit=run.memory_limit,
    )


def _read_listed(run: Run, pairs: int, number: int, length: int) -> Listed:
    """The stored shortlists. Those of an earlier, smaller graph are not stored but computed again."""
    if pairs == run.shape.n_edges:
        group = open_group(run.directory, "logits.zarr")
        potentials, sizes = (read_whole(group[name], number) for name in ("ranking", "size"))
        if length != run.shape.listed:
            return Listed(_lists_of_length(run, number, potentials, length), sizes)
        classes, tensor = (read_whole(group[name], number) for name in ("listed", "blocks"))
        return Listed(Shortlists(classes.astype(np.int64), tensor, potentials), sizes)
    calibration = run.shape.calibrations[number]
    slabs = [_listed(run, _Slab(run, draws, pairs), pairs)[calibration] for draws in run.draw_slabs]
    return Listed(joined([slab.lists for slab in slabs]), np.concatenate([slab.sizes for slab in slabs]))


def _lists_of_length(run: Run, number: int, potentials: NDArray[np.float32], length: int) -> Shortlists:
    """The shortlists of all drawn samples by their stored ranking; only the logits that they need are computed."""
    calibration, found = run.shape.calibrations[number], list[Shortlists]()
    completion = coupler_of_run(run).completion
    ranked_first, pairs, order = _ranked_first(run), run.shape.n_edges, run.shape.order
    at_once = listed_at_once(run, length) if ranked_first else run.shape.draws_per_slab
    for draws in pieces(run.shape.draws, at_once):
        slab, ranking = _Slab(run, draws, pairs, (calibration,)), potentials[draws]
        if ranked_first:
            rows, unseen, ranked = slab.whitened_rows(), slab.unseen(), {calibration: ranking}
            lists = lists_of_ranking(ranked, unseen, rows, slab.machines, completion, order, length)
            found.append(lists[calibration])
        else:
            logits = np.ascontiguousarray(_all_logits(slab, pairs)[calibration][:, order])
            found.append(shortlists(logits, ranking, completion, length))
    return joined(found)


def _by_slab(run: Run, drawn: Draws) -> NDArray[np.intp]:
    """The permutation of all stored draws into the order of the slabs: by fold and part if they have shortlists."""
    if not run.shape.listed:
        return np.arange(len(drawn.folds))
    return np.lexsort((drawn.parts, drawn.folds))


def _listed(run: Run, slab: _Slab, pairs: int) -> dict[Calibration, Listed]:
    """The shortlists of a slab by each calibration, from the first ``pairs`` edges of the run."""
    completion, order = coupler_of_run(run, pairs).completion, _order(run, pairs)
    if _ranked_first(run):
        rows, unseen = slab.whitened_rows(), slab.unseen()
        return listed_out_of_fold(unseen, rows, slab.machines, completion, order, run.shape.listed)
    return _listed_by_all_edges(slab, completion, order, run.shape.listed)


def _ranked_first(run: Run) -> bool:
    """Whether samples are ranked by machines that are joined first: linear ones on dense rows."""
    return run.kernel is None and run.shape.sparse is None


def _listed_by_all_edges(
    slab: _Slab, completion: Completion, order: NDArray[np.intp], k: int
) -> dict[Calibration, Listed]:
    """As `_listed`, from the logits of all edges: for machines with a kernel or on sparse rows."""
    by_calibration = {}
    for calibration, logits in _all_logits(slab, len(order)).items():
        by_sample = np.ascontiguousarray(logits[:, order])
        potentials = completion.ranking.of_samples(by_sample)
        lists = shortlists(by_sample, potentials, completion, k)
        by_calibration[calibration] = Listed(lists, typical_sizes(by_sample.T))
    return by_calibration


def _all_logits(slab: _Slab, pairs: int) -> dict[Calibration, NDArray[np.float32]]:
    """(r, E) logits of a slab by all edges, by calibration."""
    logits = {by: np.empty((slab.n_samples, pairs), np.float32) for by in slab.calibrations}
    for tile, by_calibration in slab.tiles():
        for by, of_tile in by_calibration.items():
            logits[by][:, tile] = of_tile
    return logits


def _order(run: Run, pairs: int) -> NDArray[np.intp]:
    """The permutation that sorts the first ``pairs`` edges."""
    return run.shape._replace(edges=run.shape.edges[:pairs]).order


class _Slab:
    """A slab of the drawn samples, and their out-of-fold logits by the first edges of a run, tile by tile.

    All calibrations derive from Platt's or from distances. Machines are read once for both. ``calibrations`` are by
    default those of the run.
    """

    def __init__(
        self, run: Run, draws: slice, pairs: int, calibrations: tuple[Calibration, ...] = ()
    ) -> None:
        # All stored draws: a task that reads the slab selects those that calibrate the chosen candidate.
        drawn = read_draws(run, run.draws_whitened)
        own = _by_slab(run, drawn)[draws]
        self._X, self._folds, self._parts = drawn.X[own], drawn.folds[own], drawn.parts[own]
        self._run, self._pairs = run, pairs
        self._scheme = run.settings.machines().scheme
        self.calibrations: tuple[Calibration, ...] = calibrations or run.shape.calibrations

    @property
    def n_samples(self) -> int:
        """r, the number of samples of the slab."""
        return len(self._folds)

    def machines(self) -> Iterator[tuple[slice, Machines]]:
        """The machines of each tile of edges."""
        return read_tiles(self._run.directory, self._pairs, self._run.shape.edges_per_tile)

    def whitened_rows(self) -> NDArray[np.float32]:
        """(r, D) the samples as linear machines are given them."""
        whitening = read_whitening(self._run, chosen_candidate(self._run).whiten)
        return np.ascontiguousarray(whitening(self._X), np.float32)

    def unseen(self) -> dict[Calibration, Unseen]:
        """The machines trained without the samples, by calibration."""
        slopes = self._slopes()
        return {
            by: Unseen.of(
                self._scheme,
                self._folds,
                self._parts,
                by_part=by != "distance",
                turned=self._run.settings.turns_into_distances(by),
                slopes=slopes if by == "slopes" else None,
            )
            for by in self.calibrations
        }

    def _slopes(self) -> Slopes | None:
        """The slopes of all edges, in the order of the tiles, where one of the calibrations has them."""
        if "slopes" not in self.calibrations:
            return None
        return read_slopes(self._run.directory, np.arange(self._run.shape.n_edges)).slopes

    def tiles(self) -> Iterator[tuple[slice, dict[Calibration, NDArray[np.float32]]]]:
        """Each tile of edges, and the logits (r, edges) of the slab by each calibration."""
        slopes = self._slopes()
        for tile, model, rows in self._models():
            yield tile, self._logits(tile, model, rows, slopes)

    def _models(self) -> Iterator[tuple[slice, LinearModel | KernelModel, Any]]:
        """The machines of each tile, and the samples as their input."""
        run = self._run
        if run.settings.kernel is not None:
            # A run with a kernel does not grow, so its tiles are whole.
            for tile in pieces(self._pairs, run.shape.edges_per_tile):
                yield tile, read_kernel_model(run, [tile]), self._X
            return
        # Whitened here, once for all tiles.
        rows: Any = self._X if run.shape.sparse is not None else self.whitened_rows()
        as_they_are = unwhitened() if run.shape.sparse is not None else centred_at(np.zeros(rows.shape[1]))
        for tile, machines in self.machines():
            # Pad to a whole tile: a growing run fills its last tile later, and a product of another shape would round
            # the logits of these edges differently, and so change the score of a wave.
            filled = np.arange(run.shape.edges_per_tile) % (tile.stop - tile.start)
            yield tile, LinearModel(machines.of_edges(filled), as_they_are), rows

    def _logits(
        self,
        tile: slice,
        model: LinearModel | KernelModel,
        rows: Any,
        slopes: Slopes | None,
    ) -> dict[Calibration, NDArray[np.float32]]:
        """(r, edges) logits by the machines of a tile, by calibration."""
        length, views = tile.stop - tile.start, dict[Calibration, NDArray[np.float32]]()
        for view in dict.fromkeys("distance" if one == "slopes" else one for one in self.calibrations):
            turned = self._run.settings.turns_into_distances(view)
            machines = model.by_distance(self._scheme) if turned else model
            of_tile = out_of_fold_edge_logits(machines, self._scheme, rows, self._folds, self._parts)
            views[view] = np.ascontiguousarray(of_tile[:length].T)
        if slopes is not None:
            slopes_of_tile = slopes.at(np.arange(tile.start, tile.stop))
            views["slopes"] = slopes_of_tile.of_parts(views["distance"].T, self._parts).T
        return {by: views[by] for by in self.calibrations}
