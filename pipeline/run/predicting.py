"""Prediction in a run whose tensor is virtual: slabs of test samples, straight from the machines.

Nothing is stored between the machines and the probabilities. A worker keeps the machines as one affine map, ranks the
classes of a sample, and applies the pairs that its shortlist needs, as an estimator does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.machines.logits import AffineLogits, calibrated
from pairloom.pipeline.model.affine_model import PREDICTION_BATCH, AffineModel
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.calibrating import read_calibrations
from pairloom.pipeline.run.coupling import Coupled, write_probabilities
from pairloom.pipeline.run.feature_store import read_samples
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_completion import completion_of
from pairloom.pipeline.run.training import collapsed_tile

__all__ = ["predict_samples"]

# The machines of one run, as all slabs of a process use the same.
_kept: dict[tuple[Path, str], AffineModel] = {}


def predict_samples(run: Run, slab: slice) -> list[Path]:
    """Predict a slab of samples from the machines by every method."""
    X, calibrations = read_samples(run, slab), read_calibrations(run)
    coupled = {method: np.empty((len(X), len(run.shape.classes)), np.float32) for method in calibrations}
    for batch in pieces(len(X), PREDICTION_BATCH):
        for method, p in _predicted(run, X[batch], calibrations, slab.start + batch.start).items():
            coupled[method][batch] = p
    return write_probabilities(run, slab, coupled)


def _predicted(
    run: Run, X: NDArray[np.floating], calibrations: Mapping[str, CoupledCalibration], first: int
) -> Coupled:
    """Probabilities of a batch of normalised samples by each method. ``first`` is the number of the first sample."""
    model, limits = _affine_model(run), (run.shortlist, run.memory_limit, first)
    if not run.shape.edges_calibrated:
        samples = model.samples(X, *limits)
        return {method: samples.couple(method, found.scale) for method, found in calibrations.items()}
    coupled: Coupled = {}
    for method, (_, _, slope, shift) in calibrations.items():
        own = AffineModel(calibrated(model.logits, slope, shift), model.completion)
        coupled[method] = own.samples(X, *limits).couple(method)
    return coupled


def _affine_model(run: Run) -> AffineModel:
    """The machines of the run as one affine map, uncalibrated."""
    key = (run.directory, run.keys.machines)
    model = _kept.get(key)
    if model is None:
        model = _collapsed(run)
        _kept.clear()
        _kept[key] = model
    return model


def _collapsed(run: Run) -> AffineModel:
    """Collapse the machines tile by tile, into the order of the sorted edges."""
    shape = run.shape
    place = np.argsort(graphs.edge_order(shape.edges))
    weights, bias = np.empty((len(place), shape.features), np.float32), np.empty(len(place), np.float32)
    for tile in pieces(len(place), shape.edges_per_tile):
        weights[place[tile]], bias[place[tile]] = collapsed_tile(run, tile)
    return AffineModel(AffineLogits(weights, bias), completion_of(shape.edges, len(shape.classes)))
