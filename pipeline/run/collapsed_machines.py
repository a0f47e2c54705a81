"""The machines of a run as one map of normalised samples, kept once per process.

Every slab of samples is scored by all machines, so a worker reads them from the store for its first slab only.
"""

from __future__ import annotations

import threading

import numpy as np

from pairloom.pipeline.machines.linear_machines import AffineLogits, collapse
from pairloom.pipeline.model.predictor import Predictor
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.feature_store import read_whitening
from pairloom.pipeline.run.machine_store import coupler_of_run, read_kernel_model, read_tiles
from pairloom.pipeline.run.results import as_chosen, chosen_calibration, chosen_candidate, read_learned
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.storage.location import Location

__all__ = ["collapsed_machines", "release_machines"]

# The machines of one run. Threads share them: they are as large as all edges times all features, or with a kernel as
# all support vectors and their coefficients.
_kept: dict[tuple[Location, str, str, str, str], Predictor] = {}
_lock = threading.Lock()


def collapsed_machines(run: Run) -> Predictor:
    """The logits of the model's machines as one map, with their coupler.

    They are uncalibrated, or those that were learned through the coupling: see `learning.remaining_calibrations`.
    """
    stored = (run.digest("machines"), run.digest("learning"))
    key = (run.directory, *stored, run.settings.machine_weight, chosen_calibration(run))
    with _lock:
        if key not in _kept:
            _kept.clear()
            _kept[key] = _affine(run) if run.settings.kernel is None else _curved(run)
        return _kept[key]


def release_machines() -> None:
    """Forget the machines that this process keeps."""
    with _lock:
        _kept.clear()


def _affine(run: Run) -> Predictor:
    learned = read_learned(run)
    if learned is None or learned.logits is None:
        return _collapsed(run)
    return Predictor(learned.logits, coupler_of_run(run))


def _collapsed(run: Run) -> Predictor:
    """Collapse the machines tile by tile, into the order of the model's."""
    shape = run.shape
    whitening = read_whitening(run, chosen_candidate(run).whiten)
    shares = run.settings.machines().scheme.shares
    place = np.argsort(shape.order)
    weights, bias = np.empty((len(place), shape.features), np.float32), np.empty(len(place), np.float32)
    for tile, machines in read_tiles(run.directory, len(place), shape.edges_per_tile):
        logits = collapse(as_chosen(run, machines), shares, whitening)
        assert isinstance(logits, AffineLogits), "runs have dense features"
        weights[place[tile]], bias[place[tile]] = logits
    return Predictor(AffineLogits(weights, bias), coupler_of_run(run))


def _curved(run: Run) -> Predictor:
    """The same of machines with a kernel: support vectors, and a sparse matrix of their coefficients."""
    shape, order = run.shape, run.shape.order
    model = read_kernel_model(run, pieces(len(order), shape.edges_per_tile))
    by_edge = as_chosen(run, model._replace(machines=model.machines.of_edges(order)))
    logits = by_edge.collapsed(run.settings.machines().scheme.shares)
    return Predictor(logits, coupler_of_run(run))
