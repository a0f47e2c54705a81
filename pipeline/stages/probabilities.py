"""Probabilities: slabs of test samples, coupled by every method.

They come from the tensor where it is stored. Where it is virtual, nothing is stored between the machines and the
probabilities: a worker keeps the machines as one map, ranks the classes of a sample, and applies the pairs that its
shortlist needs, as an estimator does.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.completion.couplers import ScoredSamples
from pairloom.pipeline.completion.shortlist import with_mass
from pairloom.pipeline.completion.slab import couple_slab
from pairloom.pipeline.coupling.model_coupling import normalised, prior_odds
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.model.predictor import PREDICTION_BATCH, Predictor, applies_listed_pairs
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.collapsed_machines import collapsed_machines, release_machines
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.feature_store import read_samples
from pairloom.pipeline.run.machine_store import coupler_of_run
from pairloom.pipeline.run.needs import FLOAT, completion_bytes, machine_read_bytes, support_bytes
from pairloom.pipeline.run.results import remaining_calibrations
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.digests import digest_of
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["Probabilities", "release_predictors"]

#: Probabilities (sample, class) by coupling method.
Coupled = dict[str, NDArray[np.float32]]


class Probabilities(Stage):
    """Couple a slab of test samples by every method, and write its probabilities."""

    name = "probabilities"
    folders = ("probabilities.zarr",)
    advice = ", or lower run.samples_per_slab"
    # Without a tensor, the first slab of a worker reads all machines and keeps them as one affine map.
    cost = StageCost(
        "slab",
        seconds=(0.005, 3e-9),
        work=lambda s: s.samples * (s.completing_work if s.tensor_stored else s.ranking_work),
        reads=lambda s: 4.0 * s.samples * (s.classes**2 if s.tensor_stored else s.features),
        writes=lambda s: 4.0 * s.samples * s.couplings * s.classes,
        operations=lambda s: 20.0,
        once=lambda s: 0.0 if s.tensor_stored else s.edges * s.machine_bytes,
        once_operations=lambda s: 0.0 if s.tensor_stored else 2.0 * s.tiles,
        once_work=lambda s: 1.0 if s.tensor_stored else s.collapsing_work,
        memory=lambda s: (
            4.0 * s.samples_per_slab * (2 * s.edges + 3 * s.classes**2)
            if s.tensor_stored
            else 4.0 * s.edges * (s.features + 96) + 25.0 * s.classes**2
        ),
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on the logits or the machines, the calibration, the couplings and the priors."""
        model = run.config.model
        inputs = earlier["logits"] or [earlier["machines"], earlier["samples"]]
        facts = [run.shape.couplings, run.shape.tensor_stored, model.priors, model.shortlist]
        return (digest_of([inputs, earlier["calibration"], *facts, *earlier["learning"]]),) * len(run.slabs)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Couple and write a slab."""
        slab = run.slabs[unit]
        coupled = _from_tensor(run, slab) if run.shape.tensor_stored else _from_machines(run, slab)
        group = open_group(run.directory, "probabilities.zarr", write=True)
        return [
            path
            for method, p in coupled.items()
            for path in write_whole(group[method], (slab.start, 0), _with_priors(run, p))
        ]

    def task_bytes(self, run: Run) -> int:
        """From the tensor: that of a slab and its working copies, and the logits of all edges."""
        if not run.shape.tensor_stored:
            return _prediction_bytes(run)
        N, slab = len(run.shape.classes), run.shape.samples_per_slab
        return FLOAT * slab * (3 * N**2 + 2 * run.most_pairs) + completion_bytes(run)


def _prediction_bytes(run: Run) -> int:
    """The machines as one affine map, the ranking as another, and a batch of samples in the making."""
    shape, limit = run.shape, run.memory_limit
    N, D, E, k = len(shape.classes), shape.features, run.most_pairs, run.shortlist
    maps = 1 + shape.edges_calibrated * len(shape.couplings)
    affine = maps * support_bytes(run, E) or FLOAT * (E * (maps * D + 64) + 3 * N * D)
    blocks = 0 if shape.code is not None else 2 * PREDICTION_BATCH * (k or N) ** 2
    applied = k**2 if k and applies_listed_pairs(N, E, k) else 2 * E
    batch = FLOAT * PREDICTION_BATCH * (applied + 4 * N) + min(limit // 2, FLOAT * blocks)
    slab = FLOAT * shape.samples_per_slab * (4 * D + N * (len(shape.couplings) + 2))
    return affine + batch + slab + machine_read_bytes(run) + completion_bytes(run)


def _with_priors(run: Run, p: NDArray[np.float32]) -> NDArray[np.float32]:
    if run.priors is None:
        return p
    shares = run.totals / run.totals.sum()
    return normalised(p, prior_odds(run.priors, shares, "model.priors")).astype(np.float32)


def _from_tensor(run: Run, slab: slice) -> Coupled:
    """Probabilities (sample, class) by each method, from the logits of the edges in the stored tensor."""
    shape, limit = run.shape, run.memory_limit
    logits, coupler = _read_edge_logits(run, slab), coupler_of_run(run)
    calibrations = remaining_calibrations(run)
    if not shape.edges_calibrated and run.shortlist is None:
        scales = {method: calibration.scale for method, calibration in calibrations.items()}
        return couple_slab(logits, coupler.completion, shape.couplings, scales=scales, memory_limit=limit)
    if not shape.edges_calibrated:
        return _coupled(coupler.scored(logits, run.shortlist, limit), calibrations)
    coupled: Coupled = {}
    for method, calibration in calibrations.items():
        adjusted = (logits * calibration.slope[:, None] + calibration.shift[:, None]).astype(np.float32)
        samples = coupler.scored(adjusted, run.shortlist, limit)
        coupled[method] = with_mass(samples, calibration.mass).couple(method)
    return coupled


def _coupled(samples: ScoredSamples, calibrations: Mapping[str, CoupledCalibration]) -> Coupled:
    """Probabilities by each method, where methods differ by their scale and the mass of their lists alone."""
    return {
        method: with_mass(samples, calibration.mass).couple(method, calibration.scale)
        for method, calibration in calibrations.items()
    }


def _read_edge_logits(run: Run, slab: slice) -> NDArray[np.float32]:
    """(E, r) stored logits of the sorted edges for a slab of test samples: the tensor where it was trained."""
    everything = slice(None)
    tensor = read_whole(open_group(run.directory, "logits.zarr")["tensor"], (everything, everything, slab))
    i, j = run.shape.edges[graphs.edge_order(run.shape.edges)].T
    return np.ascontiguousarray(tensor[i, j])


def _from_machines(run: Run, slab: slice) -> Coupled:
    """Probabilities (sample, class) by each method, in batches of the size that an estimator predicts."""
    X, calibrations = read_samples(run, slab), remaining_calibrations(run)
    models = _models(run, calibrations)
    coupled = {method: np.empty((len(X), len(run.shape.classes)), np.float32) for method in calibrations}
    for batch in pieces(len(X), PREDICTION_BATCH):
        predicted = _predicted(run, models, X[batch], calibrations, slab.start + batch.start)
        for method, p in predicted.items():
            coupled[method][batch] = p
    return coupled


def _predicted(
    run: Run,
    models: Mapping[str, Predictor],
    X: NDArray[np.floating],
    calibrations: Mapping[str, CoupledCalibration],
    first: int,
) -> Coupled:
    """Probabilities of a batch of normalised samples by each method. ``first`` is the number of the first sample."""
    limits = (run.shortlist, run.memory_limit, first)
    if _is_calibrated_apart(run):
        return {method: model.samples(X, *limits).couple(method) for method, model in models.items()}
    return _coupled(models[run.shape.couplings[0]].samples(X, *limits), calibrations)


# The models of one run whose edges have slopes of their own, one for each method. Threads of a worker share them.
_kept: dict[tuple[Path, str, str, str], dict[str, Predictor]] = {}
_lock = threading.Lock()


def release_predictors() -> None:
    """Forget the machines that this process keeps."""
    release_machines()
    with _lock:
        _kept.clear()


def _is_calibrated_apart(run: Run) -> bool:
    """Whether methods differ by more than a scale and a mass, so that each has an affine map of its own."""
    return run.shape.edges_calibrated or run.shape.code is not None


def _models(run: Run, calibrations: Mapping[str, CoupledCalibration]) -> dict[str, Predictor]:
    """The machines of the run as one map for each method: one for all, unless edges have slopes of their own."""
    if not _is_calibrated_apart(run):
        return dict.fromkeys(calibrations, collapsed_machines(run))
    key = (run.directory, run.digest("machines"), run.digest("calibration"), run.digest("learning"))
    with _lock:
        if key not in _kept:
            _kept.clear()
            raw = collapsed_machines(run)
            _kept[key] = {method: raw.calibrated(c) for method, c in calibrations.items()}
        return _kept[key]
