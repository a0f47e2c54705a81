"""Collapsed machines of a run on disk, and prediction by those that the shortlists of the samples need.

The machines of an edge, one per fold, are one affine map at prediction. Large maps are stored, tile by tile, with the
ranking of the classes, a row of weights per class. Prediction ranks the classes for a slab of samples first. Then it
reads one tile after the other and applies only the pairs that some sample's shortlist needs. So neither all machines
nor the logits of all edges are ever in memory.

Small maps stay in the memory of each worker, which scores every slab by all machines and reads them for its first slab
only.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.completion.completion_kernels import apply_pairs
from pairloom.pipeline.completion.shortlist import NeededEdges, Shortlists, joined, top_classes
from pairloom.pipeline.machines.linear_machines import AffineLogits, collapse
from pairloom.pipeline.machines.sparse_machines import SparseLogits
from pairloom.pipeline.model.fitted_model import PREDICTION_BATCH, Predictor, check_finite
from pairloom.pipeline.run.feature_store import read_whitening
from pairloom.pipeline.run.machine_store import (
    TILES_AT_ONCE,
    coupler_of_run,
    read_kernel_model,
    read_machines,
    read_tiles,
)
from pairloom.pipeline.run.needs import listed_at_once
from pairloom.pipeline.run.results import as_chosen, chosen_candidate, chosen_shortlist, read_learned
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.location import Location
from pairloom.pipeline.storage.zarr_layout import read_whole
from pairloom.pipeline.threads import pieces

__all__ = [
    "collapsed_machines",
    "read_maps",
    "read_ranking",
    "release_machines",
    "stored_shortlists",
    "write_collapsed",
    "write_ranking",
]


def write_collapsed(run: Run, tile: slice) -> list[str]:
    """Collapse the machines of a tile and write them."""
    whitening = read_whitening(run, chosen_candidate(run).whiten)
    machines = as_chosen(run, read_machines(run.directory, tile))
    logits = collapse(machines, run.settings.machines().scheme.shares, whitening)
    assert isinstance(logits, AffineLogits), "maps of sparse rows are not stored"
    group = open_group(run.directory, "machines.zarr", write=True)
    return [
        *write_whole(group["weights"], (tile.start, 0), logits.weights),
        *write_whole(group["bias"], (tile.start,), logits.bias),
    ]


def _tiles(run: Run, calibration: CoupledCalibration | None) -> Iterator[tuple[slice, AffineLogits]]:
    """The stored maps, tile by tile, with the slope and shift of each edge applied. Several tiles are read at once."""
    size, place = run.shape.edges_per_tile, np.argsort(run.shape.order)
    for several in pieces(run.shape.n_edges, TILES_AT_ONCE * size):
        weights, bias = read_maps(run.directory, several)
        for piece in pieces(several.stop - several.start, size):
            tile = slice(several.start + piece.start, several.start + piece.stop)
            logits = AffineLogits(weights[piece], bias[piece])
            if calibration is not None:
                positions = place[tile]
                logits = logits.calibrated(calibration.slope[positions], calibration.shift[positions])
            yield tile, logits


def write_ranking(run: Run, number: int, calibration: CoupledCalibration | None) -> list[str]:
    """Compute the ranking of the classes as an affine map, from the stored maps of the edges, and write it."""
    N, D = len(run.shape.classes), run.shape.features
    sums = np.zeros((N, D + 1))
    for tile, (weights, bias) in _tiles(run, calibration):
        classes, incidence = _incidence(run.shape.edges[tile])
        sums[classes] += incidence @ np.column_stack([weights, bias]).astype(np.float64)
    potentials = coupler_of_run(run).completion.ranking.solved(sums)
    group = open_group(run.directory, "machines.zarr", write=True)
    return [
        *write_whole(group["ranking_weights"], (number, 0, 0), np.ascontiguousarray(potentials[None, :, :D])),
        *write_whole(group["ranking_bias"], (number, 0), np.ascontiguousarray(potentials[None, :, D])),
    ]


def _incidence(edges: NDArray[np.int64]) -> tuple[NDArray[np.int64], csr_array]:
    """The classes of some edges, and the incidence matrix (classes, edges): 1 at the first class, -1 at the second."""
    classes, place = np.unique(edges, return_inverse=True)
    E = len(edges)
    signs = np.tile([1.0, -1.0], E)
    matrix = csr_array((signs, (place.reshape(-1), np.repeat(np.arange(E), 2))), shape=(len(classes), E))
    return classes, matrix


def read_maps(directory: Location, edges: slice = slice(None)) -> AffineLogits:
    """The stored maps of some edges, in the order of the tiles."""
    group = open_group(directory, "machines.zarr")
    return AffineLogits(*(read_whole(group[name], edges) for name in ("weights", "bias")))


def read_ranking(directory: Location, number: int) -> AffineLogits:
    """The stored ranking of the classes for coupling ``number``."""
    group = open_group(directory, "machines.zarr")
    return AffineLogits(*(read_whole(group[name], number) for name in ("ranking_weights", "ranking_bias")))


def stored_shortlists(
    run: Run, X: NDArray[np.floating], number: int, calibration: CoupledCalibration | None, first: int
) -> Shortlists:
    """The shortlists of normalised samples, from the stored maps. ``first`` is the number of the first sample."""
    rows, completion = np.ascontiguousarray(X, np.float32), coupler_of_run(run).completion
    potentials, ranking = (
        np.empty((len(rows), completion.n_classes), np.float32),
        read_ranking(run.directory, number),
    )
    for batch in pieces(len(rows), PREDICTION_BATCH):
        potentials[batch] = ranking.by_sample(rows[batch])
    check_finite(potentials, first)
    length = chosen_shortlist(run)
    assert length is not None
    lists = []
    for some in pieces(len(rows), listed_at_once(run, length)):
        needed = NeededEdges.of(top_classes(potentials[some], length), completion)
        logits = _needed_logits(run, rows[some], needed, calibration)
        lists.append(needed.completed(logits, potentials[some], completion))
    return joined(lists)


def _needed_logits(
    run: Run, rows: NDArray[np.float32], needed: NeededEdges, calibration: CoupledCalibration | None
) -> NDArray[np.float32]:
    """The logits of the edges that shortlists need, each for its sample. Every tile is read once."""
    places, samples = run.shape.order[needed.edges], needed.samples
    logits, by_tile = np.empty(len(places), np.float32), np.argsort(places, kind="stable")
    for tile, (weights, bias) in _tiles(run, calibration):
        begin, end = np.searchsorted(places, [tile.start, tile.stop], sorter=by_tile)
        in_tile = by_tile[begin:end]
        found = np.empty(len(in_tile), np.float32)
        apply_pairs(weights, bias, rows, samples[in_tile], places[in_tile] - tile.start, found)
        logits[in_tile] = found
    return logits


# The machines of one run, shared by all threads because of their size: all edges times all features or, with a kernel,
# all support vectors and their coefficients.
_kept: dict[tuple[Location, str, str, str], Predictor] = {}
_lock = threading.Lock()


def collapsed_machines(run: Run) -> Predictor:
    """The machines of the model as one map from samples to logits, with their coupler.

    The logits are uncalibrated, unless they were learned through the coupling: see `results.remaining_calibrations`.
    """
    key = (run.directory, run.digest("machines"), run.digest("calibration"), run.digest("learning"))
    with _lock:
        if key not in _kept:
            _kept.clear()
            _kept[key] = _affine(run) if run.settings.kernel is None else _kernel_predictor(run)
        return _kept[key]


def release_machines() -> None:
    """Drop the machines that this process keeps in memory."""
    with _lock:
        _kept.clear()


def _affine(run: Run) -> Predictor:
    learned = read_learned(run)
    if learned is None or learned.logits is None:
        return _collapsed(run)
    return Predictor(learned.logits, coupler_of_run(run))


def _collapsed(run: Run) -> Predictor:
    """Collapse linear machines tile by tile, into the order of the model's edges."""
    shape = run.shape
    whitening = read_whitening(run, chosen_candidate(run).whiten)
    shares = run.settings.machines().scheme.shares
    if shape.sparse is not None:
        return Predictor(_sparse_logits(run, shares), coupler_of_run(run))
    place = np.argsort(shape.order)
    weights, bias = np.empty((len(place), shape.features), np.float32), np.empty(len(place), np.float32)
    for tile, machines in read_tiles(run.directory, len(place), shape.edges_per_tile):
        logits = collapse(as_chosen(run, machines), shares, whitening)
        assert isinstance(logits, AffineLogits), "rows are dense"
        weights[place[tile]], bias[place[tile]] = logits
    return Predictor(AffineLogits(weights, bias), coupler_of_run(run))


def _sparse_logits(run: Run, shares: NDArray[np.float64]) -> SparseLogits:
    """As `_collapsed`, for machines on sparse rows."""
    weights, bias = list[csr_array](), list[NDArray[np.float32]]()
    for _, machines in read_tiles(run.directory, run.shape.n_edges, run.shape.edges_per_tile):
        logits = collapse(as_chosen(run, machines), shares)
        assert isinstance(logits, SparseLogits), "machines on sparse rows have sparse weights"
        weights.append(logits.weights)
        bias.append(logits.bias)
    order = run.shape.order
    return SparseLogits(vstack(weights, "csr")[order], np.concatenate(bias)[order])


def _kernel_predictor(run: Run) -> Predictor:
    """As `_collapsed`, for machines with a kernel: support vectors, and a sparse matrix of their coefficients."""
    shape, order = run.shape, run.shape.order
    model = read_kernel_model(run, pieces(len(order), shape.edges_per_tile))
    by_edge = as_chosen(run, model._replace(machines=model.machines.of_edges(order)))
    logits = by_edge.collapsed(run.settings.machines().scheme.shares)
    return Predictor(logits, coupler_of_run(run))
