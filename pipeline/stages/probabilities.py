"""Probabilities: slabs of test samples, coupled by every method.

They are computed from the tensor if it is stored. If it is virtual, nothing is stored between the machines and the
probabilities: a worker keeps the machines as one map, ranks the classes of a sample, and applies the pairs that its
shortlist needs, as an estimator does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.coupled_calibration import CoupledCalibration
from pairloom.pipeline.completion.couplers import ScoredSamples
from pairloom.pipeline.completion.laplacian import solver_bytes
from pairloom.pipeline.completion.shortlist import with_mass
from pairloom.pipeline.completion.slab import couple_slab
from pairloom.pipeline.coupling.model_coupling import normalised, prior_odds
from pairloom.pipeline.display.top_probabilities import TopProbabilities
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.model.fitted_model import PREDICTION_BATCH, Predictor, applies_listed_pairs
from pairloom.pipeline.run.collapsed_store import collapsed_machines, release_machines, stored_shortlists
from pairloom.pipeline.run.costs import RunSizes, StageCost
from pairloom.pipeline.run.feature_store import read_labels, read_samples
from pairloom.pipeline.run.machine_store import TILES_AT_ONCE, coupler_of_run
from pairloom.pipeline.run.needs import (
    FLOAT,
    completion_bytes,
    listed_at_once_bytes,
    machine_read_bytes,
    row_bytes,
    support_bytes,
    weight_bytes,
)
from pairloom.pipeline.run.probability_store import Kept, read_tensor, write_probabilities
from pairloom.pipeline.run.results import chosen_shortlist, methods_of, remaining_calibrations
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.storage.digests import digest_of
from pairloom.pipeline.storage.location import Location
from pairloom.pipeline.threads import pieces

__all__ = ["Probabilities", "release_predictors"]

#: Probabilities (sample, class) by coupling method.
Coupled = dict[str, NDArray[np.float32]]


def _memory(s: RunSizes) -> float:
    """Rough estimate: the tensor of a slab; the maps of all edges; or, if these are stored, the ranking of a slab."""
    solver = solver_bytes(s.classes, s.edges)
    if s.tensor_stored:
        return 4.0 * s.samples_per_slab * (2 * s.edges + 3 * s.classes**2)
    if s.collapsed:
        return 4.0 * (s.samples_per_slab + 9 * PREDICTION_BATCH) * s.classes + 150.0 * s.edges + solver
    return 4.0 * s.edges * (s.features + 96) + solver


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
        reads=lambda s: (
            4.0 * s.samples * (s.classes**2 if s.tensor_stored else s.features)
            + (4.0 * s.slabs * s.edges * s.features if s.collapsed else 0)
        ),
        writes=lambda s: 4.0 * s.samples * s.couplings * s.classes,
        operations=lambda s: 20.0,
        once=lambda s: 0.0 if s.tensor_stored or s.collapsed else s.edges * s.machine_bytes,
        once_operations=lambda s: 0.0 if s.tensor_stored or s.collapsed else 2.0 * s.tiles,
        once_work=lambda s: 1.0 if s.tensor_stored or s.collapsed else s.collapsing_work,
        memory=_memory,
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on the logits or the machines, the calibration, the couplings and the priors."""
        inputs = earlier["logits"] or [earlier["machines"], earlier["samples"]]
        if run.shape.collapsed:
            inputs = [earlier["collapsed"], earlier["ranking"], earlier["samples"]]
        facts = [run.shape.couplings, run.shape.tensor_stored, run.config.model.priors]
        facts.append(run.settings.read_in("listing"))
        facts += [["kept", run.shape.kept, run.shape.labelled]] if run.shape.kept else []
        return (digest_of([inputs, earlier["calibration"], *facts, *earlier["learning"]]),) * len(run.slabs)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Couple and write a slab."""
        slab = run.slabs[unit]
        kept = _to_keep(run, slab, _batches(run, slab))
        return [
            path
            for name, method in methods_of(run).items()
            for path in write_probabilities(run, name, slab.start, kept[method])
        ]

    def task_bytes(self, run: Run) -> int:
        """The tensor of a slab with working copies, and the logits of all edges; without a tensor, the machines."""
        if not run.shape.tensor_stored:
            return _prediction_bytes(run)
        N, slab = len(run.shape.classes), run.shape.samples_per_slab
        return FLOAT * slab * (3 * N**2 + 2 * run.most_pairs) + completion_bytes(run)


def _prediction_bytes(run: Run) -> int:
    """The machines as one affine map, the ranking as another, and a batch of samples at work."""
    shape, limit = run.shape, run.memory_limit
    if shape.collapsed:
        return _stored_prediction_bytes(run)
    N, D, E, k = len(shape.classes), shape.features, run.most_pairs, run.longest_list
    maps = 1 + shape.edges_calibrated * len(shape.couplings)
    ranking = 0 if shape.sparse is not None else FLOAT * 3 * N * D
    affine = maps * support_bytes(run, E) or maps * weight_bytes(run, E) + FLOAT * E * 64 + ranking
    blocks = 0 if shape.code is not None else 2 * PREDICTION_BATCH * (k or N) ** 2
    applied = k**2 if k and applies_listed_pairs(N, E, k) else 2 * E
    batch = FLOAT * PREDICTION_BATCH * (applied + 4 * N) + min(limit // 2, FLOAT * blocks)
    stored = shape.samples_per_slab * (3 * shape.kept or N) * (len(shape.couplings) + 2)
    couplings = PREDICTION_BATCH * N * (len(shape.couplings) + 4) if shape.kept else 0
    slab = 4 * row_bytes(run, "samples") + FLOAT * (stored + couplings)
    return affine + batch + slab + machine_read_bytes(run) + completion_bytes(run)


def _stored_prediction_bytes(run: Run) -> int:
    """A ranking, the potentials of a slab by each map, the logits that its lists need, tiles, and a batch."""
    shape, slab = run.shape, run.shape.samples_per_slab
    N, D, k, M = len(shape.classes), shape.features, run.longest_list or 0, len(shape.couplings)
    maps = M if shape.edges_calibrated else 1
    lists = (maps + 1) * slab * (N + k**2)
    tiles = 2 * (TILES_AT_ONCE + 2) * shape.edges_per_tile * (D + 1)
    batch = PREDICTION_BATCH * N * (M + 8) + (0 if shape.kept else M * slab * N)
    calibrations = 4 * M * run.most_pairs
    needed = listed_at_once_bytes(run, k, slab) + completion_bytes(run)
    return FLOAT * (lists + tiles + batch + calibrations + 4 * slab * D + 2 * N * D) + needed


def _batches(run: Run, slab: slice) -> Iterator[tuple[slice, Coupled]]:
    """Probabilities (sample, class) of a slab by each method, batch by batch."""
    if run.shape.tensor_stored:
        return _from_tensor(run, slab)
    return _from_store(run, slab) if run.shape.collapsed else _from_machines(run, slab)


def _to_keep(run: Run, slab: slice, batches: Iterable[tuple[slice, Coupled]]) -> dict[str, Kept]:
    """The probabilities of a slab in the form in which they are stored, collected batch by batch."""
    k, N, n_samples = run.shape.kept, len(run.shape.classes), slab.stop - slab.start
    methods = dict.fromkeys(methods_of(run).values())
    if not k:
        dense = {method: np.empty((n_samples, N), np.float32) for method in methods}
        for batch, coupled in batches:
            for method, p in coupled.items():
                dense[method][batch] = _with_priors(run, p)
        return {**dense}
    labels = _labels(run, slab)
    lists: dict[str, list[TopProbabilities]] = {method: [] for method in methods}
    likelihood = {method: np.empty(n_samples, np.float32) for method in lists}
    for batch, coupled in batches:
        for method, p in coupled.items():
            adjusted = _with_priors(run, p)
            lists[method].append(TopProbabilities.of(adjusted, k))
            if labels is not None:
                likelihood[method][batch] = adjusted[np.arange(len(adjusted)), labels[batch]]
    return {
        method: (TopProbabilities.joined(tops), None if labels is None else likelihood[method])
        for method, tops in lists.items()
    }


def _labels(run: Run, slab: slice) -> NDArray[np.int32] | None:
    if not run.shape.labelled:
        return None
    return read_labels(run.directory, slab)


def _with_priors(run: Run, p: NDArray[np.float32]) -> NDArray[np.float32]:
    if run.priors is None:
        return p
    shares = run.totals / run.totals.sum()
    return normalised(p, prior_odds(run.priors, run.shape.classes, shares, "model.priors")).astype(np.float32)


def _from_tensor(run: Run, slab: slice) -> Iterator[tuple[slice, Coupled]]:
    """Probabilities (sample, class) by each method, all in one batch."""
    yield slice(0, slab.stop - slab.start), _coupled_tensor(run, slab)


def _coupled_tensor(run: Run, slab: slice) -> Coupled:
    """Probabilities (sample, class) by each method, from the logits of the edges in the stored tensor."""
    shape, limit = run.shape, run.memory_limit
    logits, coupler = _read_edge_logits(run, slab), coupler_of_run(run)
    calibrations, length = remaining_calibrations(run), chosen_shortlist(run)
    if not shape.edges_calibrated and length is None:
        scales = {method: calibration.scale for method, calibration in calibrations.items()}
        return couple_slab(logits, coupler.completion, list(scales), scales=scales, memory_limit=limit)
    if not shape.edges_calibrated:
        return _coupled(coupler.scored(logits, length, limit), calibrations)
    coupled: Coupled = {}
    for method, calibration in calibrations.items():
        adjusted = (logits * calibration.slope[:, None] + calibration.shift[:, None]).astype(np.float32)
        samples = coupler.scored(adjusted, length, limit)
        coupled[method] = with_mass(samples, calibration.mass).couple(method)
    return coupled


def _coupled(samples: ScoredSamples, calibrations: Mapping[str, CoupledCalibration]) -> Coupled:
    """Probabilities by each method, for methods that differ only by their scale and the mass of their lists."""
    return {
        method: with_mass(samples, calibration.mass).couple(method, calibration.scale)
        for method, calibration in calibrations.items()
    }


def _read_edge_logits(run: Run, slab: slice) -> NDArray[np.float32]:
    """(E, r) logits of the sorted edges for a slab of test samples: the entries of the tensor at trained pairs."""
    tensor = read_tensor(run, slab)
    i, j = run.shape.edges[graphs.edge_order(run.shape.edges)].T
    return np.ascontiguousarray(tensor[i, j])


def _from_machines(run: Run, slab: slice) -> Iterator[tuple[slice, Coupled]]:
    """Probabilities (sample, class) by each method, in the batches of an estimator."""
    X, calibrations = read_samples(run, slab), remaining_calibrations(run)
    models, limits = _models(run, calibrations), (chosen_shortlist(run), run.memory_limit)
    for batch in pieces(X.shape[0], PREDICTION_BATCH):
        yield batch, _predicted(run, models, X[batch], calibrations, (*limits, slab.start + batch.start))


def _from_store(run: Run, slab: slice) -> Iterator[tuple[slice, Coupled]]:
    """Probabilities by each method, from the stored maps of the pairs that the shortlists of the slab need."""
    X, calibrations, apart = read_samples(run, slab), remaining_calibrations(run), run.shape.edges_calibrated
    lists, methods = {}, list(methods_of(run).values())
    for at, (method, calibration) in enumerate(calibrations.items()):
        if at == 0 or apart:
            number = methods.index(method) if apart else 0
            found = stored_shortlists(run, X, number, calibration if apart else None, slab.start)
        lists[method] = found._replace(mass=calibration.mass)
    for batch in pieces(X.shape[0], PREDICTION_BATCH):
        yield (
            batch,
            {
                method: lists[method].of_samples(batch).couple(method, 1.0 if apart else calibration.scale)
                for method, calibration in calibrations.items()
            },
        )


def _predicted(
    run: Run,
    models: Mapping[str, Predictor],
    X: NDArray[np.floating],
    calibrations: Mapping[str, CoupledCalibration],
    limits: tuple[int | None, int, int],
) -> Coupled:
    """Probabilities of a batch of normalised samples by each method.

    ``limits`` are the length of the shortlist, the memory, and the number of the first sample.
    """
    if _is_calibrated_apart(run):
        return {method: model.samples(X, *limits).couple(method) for method, model in models.items()}
    return _coupled(next(iter(models.values())).samples(X, *limits), calibrations)


# The models of one run whose edges have their own slopes, one per method. Threads of a worker share them.
_kept: dict[tuple[Location, str, str, str], dict[str, Predictor]] = {}
_lock = threading.Lock()


def release_predictors() -> None:
    """Drop the machines that this process keeps in memory."""
    release_machines()
    with _lock:
        _kept.clear()


def _is_calibrated_apart(run: Run) -> bool:
    """Whether methods differ by more than a scale and a mass, so that each needs its own affine map."""
    return run.shape.edges_calibrated or run.shape.code is not None


def _models(run: Run, calibrations: Mapping[str, CoupledCalibration]) -> dict[str, Predictor]:
    """The machines of the run as one map per method; all methods share one unless edges have their own slopes."""
    if not _is_calibrated_apart(run):
        return dict.fromkeys(calibrations, collapsed_machines(run))
    key = (run.directory, run.digest("machines"), run.digest("calibration"), run.digest("learning"))
    with _lock:
        if key not in _kept:
            _kept.clear()
            raw = collapsed_machines(run)
            _kept[key] = {method: raw.calibrated(c) for method, c in calibrations.items()}
        return _kept[key]
