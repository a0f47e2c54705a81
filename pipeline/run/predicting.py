"""Prediction in a run whose tensor is virtual: slabs of test samples, straight from the machines.

Nothing is stored between the machines and the probabilities. A worker keeps the machines as one affine map, ranks the
classes of a sample, and applies the pairs that its shortlist needs, as an estimator does. Of machines with a kernel it
keeps the support vectors and a sparse matrix of coefficients.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.machines.logits import AffineLogits, calibrated
from pairloom.pipeline.model.affine_model import PREDICTION_BATCH, AffineModel
from pairloom.pipeline.model.curved_model import CurvedModel
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.calibrating import read_calibrations
from pairloom.pipeline.run.coupling import Coupled, write_probabilities
from pairloom.pipeline.run.feature_store import read_samples
from pairloom.pipeline.run.kernel_tiles import read_kernel_model
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_completion import completion_of
from pairloom.pipeline.run.training import collapsed_tile

__all__ = ["predict_samples", "release_machines"]

# The models of one run, as all slabs of a process use the same. Threads share them: they are as large as the machines.
_kept: dict[tuple[Path, str, str], dict[str, AffineModel | CurvedModel]] = {}
_lock = threading.Lock()


def predict_samples(run: Run, slab: slice) -> list[Path]:
    """Predict a slab of samples from the machines by every method."""
    X, calibrations = read_samples(run, slab), read_calibrations(run)
    models = _models(run, calibrations)
    coupled = {method: np.empty((len(X), len(run.shape.classes)), np.float32) for method in calibrations}
    for batch in pieces(len(X), PREDICTION_BATCH):
        found = _predicted(run, models, X[batch], calibrations, slab.start + batch.start)
        for method, p in found.items():
            coupled[method][batch] = p
    return write_probabilities(run, slab, coupled)


def release_machines() -> None:
    """Forget the machines that this process keeps."""
    with _lock:
        _kept.clear()


def _predicted(
    run: Run,
    models: Mapping[str, AffineModel | CurvedModel],
    X: NDArray[np.floating],
    calibrations: Mapping[str, CoupledCalibration],
    first: int,
) -> Coupled:
    """Probabilities of a batch of normalised samples by each method. ``first`` is the number of the first sample."""
    limits = (run.shortlist, run.memory_limit, first)
    if run.shape.edges_calibrated:
        return {method: model.samples(X, *limits).couple(method) for method, model in models.items()}
    samples = models[run.shape.couplings[0]].samples(X, *limits)
    return {method: samples.couple(method, found.scale) for method, found in calibrations.items()}


def _models(run: Run, calibrations: Mapping[str, CoupledCalibration]) -> dict[str, AffineModel | CurvedModel]:
    """The machines of the run as one map for each method: one for all, unless edges have slopes of their own."""
    key = (run.directory, run.keys.machines, run.keys.calibration)
    with _lock:
        if key not in _kept:
            _kept.clear()
            _kept[key] = _models_of(run, calibrations)
        return _kept[key]


def _models_of(
    run: Run, calibrations: Mapping[str, CoupledCalibration]
) -> dict[str, AffineModel | CurvedModel]:
    if run.settings.kernel is not None:
        return _curved_models(run, calibrations)
    raw = _collapsed(run)
    if not run.shape.edges_calibrated:
        return dict.fromkeys(calibrations, raw)
    return {
        method: AffineModel(calibrated(raw.logits, found.slope, found.shift), raw.completion)
        for method, found in calibrations.items()
    }


def _curved_models(
    run: Run, calibrations: Mapping[str, CoupledCalibration]
) -> dict[str, AffineModel | CurvedModel]:
    """The same of machines with a kernel: support vectors, and a sparse matrix of their coefficients."""
    shape, order = run.shape, graphs.edge_order(run.shape.edges)
    model = read_kernel_model(run, pieces(len(order), shape.edges_per_tile))
    sorted_edges = model._replace(machines=model.machines.of_edges(order))
    raw = sorted_edges.collapsed(run.settings.machines().scheme.shares)
    completion = completion_of(shape.edges, len(shape.classes))
    if not shape.edges_calibrated:
        return dict.fromkeys(calibrations, CurvedModel(raw, completion))
    return {
        method: CurvedModel(raw.calibrated(found.slope, found.shift), completion)
        for method, found in calibrations.items()
    }


def _collapsed(run: Run) -> AffineModel:
    """Collapse the machines tile by tile, into the order of the sorted edges."""
    shape = run.shape
    place = np.argsort(graphs.edge_order(shape.edges))
    weights, bias = np.empty((len(place), shape.features), np.float32), np.empty(len(place), np.float32)
    for tile in pieces(len(place), shape.edges_per_tile):
        weights[place[tile]], bias[place[tile]] = collapsed_tile(run, tile)
    return AffineModel(AffineLogits(weights, bias), completion_of(shape.edges, len(shape.classes)))
