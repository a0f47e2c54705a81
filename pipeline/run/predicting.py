"""Prediction in a run whose tensor is virtual: slabs of test samples, straight from the machines.

Nothing is stored between the machines and the probabilities. A worker keeps the machines as one affine map, ranks the
classes of a sample, and applies the pairs that its shortlist needs, as an estimator does. Machines on sets of classes
are all applied; of those with a kernel it keeps the support vectors and a sparse matrix of coefficients.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.machines.logits import calibrated
from pairloom.pipeline.model.affine_model import PREDICTION_BATCH, AffineModel
from pairloom.pipeline.model.curved_model import CurvedModel
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.collapsed_machines import collapsed_machines, release_machines
from pairloom.pipeline.run.coupling import Coupled, write_probabilities
from pairloom.pipeline.run.feature_store import read_samples
from pairloom.pipeline.run.learning import remaining_calibrations
from pairloom.pipeline.run.run import Run

__all__ = ["predict_samples", "release_predictors"]

# The models of one run whose edges have slopes of their own, one for each method.
_kept: dict[tuple[Path, str, str, str], dict[str, AffineModel | CurvedModel]] = {}
_lock = threading.Lock()


def predict_samples(run: Run, slab: slice) -> list[Path]:
    """Predict a slab of samples from the machines by every method."""
    X, calibrations = read_samples(run, slab), remaining_calibrations(run)
    models = _models(run, calibrations)
    coupled = {method: np.empty((len(X), len(run.shape.classes)), np.float32) for method in calibrations}
    for batch in pieces(len(X), PREDICTION_BATCH):
        found = _predicted(run, models, X[batch], calibrations, slab.start + batch.start)
        for method, p in found.items():
            coupled[method][batch] = p
    return write_probabilities(run, slab, coupled)


def release_predictors() -> None:
    """Forget the machines that this process keeps."""
    release_machines()
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
    if _is_calibrated_apart(run):
        return {method: model.samples(X, *limits).couple(method) for method, model in models.items()}
    samples = models[run.shape.couplings[0]].samples(X, *limits)
    return {method: samples.couple(method, found.scale) for method, found in calibrations.items()}


def _is_calibrated_apart(run: Run) -> bool:
    """Whether methods differ by more than a scale, so that each has an affine map of its own."""
    return run.shape.edges_calibrated or run.shape.code is not None


def _models(run: Run, calibrations: Mapping[str, CoupledCalibration]) -> dict[str, AffineModel | CurvedModel]:
    """The machines of the run as one map for each method: one for all, unless edges have slopes of their own."""
    if not _is_calibrated_apart(run):
        return dict.fromkeys(calibrations, collapsed_machines(run))
    key = (run.directory, run.keys.machines, run.keys.calibration, run.keys.learning)
    with _lock:
        if key not in _kept:
            _kept.clear()
            raw = collapsed_machines(run)
            _kept[key] = {method: _calibrated(raw, found) for method, found in calibrations.items()}
        return _kept[key]


def _calibrated(raw: AffineModel | CurvedModel, found: CoupledCalibration) -> AffineModel | CurvedModel:
    if isinstance(raw, CurvedModel):
        return CurvedModel(raw.logits.calibrated(found.slope, found.shift), raw.wiring)
    return AffineModel(calibrated(raw.logits, found.slope, found.shift), raw.wiring)
