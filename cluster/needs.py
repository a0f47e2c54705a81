"""What a run needs, by its plan: memory of a task in each stage, of a worker, disk, and the number of files.

Upper bounds, from the sizes of the arrays that a task holds at once. They are checked before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from dask.utils import parse_bytes

from pairloom.cluster.stages import stage_named
from pairloom.cluster.worker_memory import PROCESS_BYTES
from pairloom.graphs import ModelCode
from pairloom.pipeline.calibration.coupled_learning import sample_limit
from pairloom.pipeline.machines.gram_blocks import KEPT_BYTES, gram_type
from pairloom.pipeline.machines.kernel_model import VECTORS_AT_ONCE
from pairloom.pipeline.model.affine_model import PREDICTION_BATCH, applies_listed_pairs
from pairloom.pipeline.report.critical_machine import EXPLAINING_BYTES
from pairloom.pipeline.report.judged_samples import NUMBERS_AT_ONCE
from pairloom.pipeline.run.feature_store import CACHE_BYTES
from pairloom.pipeline.run.machine_store import TILES_AT_ONCE
from pairloom.pipeline.run.run_directory import chunk_count, run_groups
from pairloom.pipeline.run.storing import storing_bytes

if TYPE_CHECKING:
    from pairloom.cluster.plan import Plan

__all__ = ["disk_bytes", "file_count", "probe_pairs", "task_bytes", "worker_bytes"]

_FLOAT = 4
#: run.json, model.json, forecast.json, log.txt, what the driver says of itself, and the six files of the report.
_OWN_FILES = 11
#: L-BFGS keeps 15 numbers of a weight; the weights, their gradient and copies of both are the others.
_LEARNING_NUMBERS_PER_WEIGHT = 24
#: Nodes and edges of networkx are dictionaries.
_BYTES_PER_NX_EDGE = 800


def worker_bytes(plan: Plan) -> int:
    """Peak memory of a worker with one thread: the process, its cache of features, and the largest task.

    A tenth is added for what the allocator does not give back.
    """
    return int(1.1 * (PROCESS_BYTES + CACHE_BYTES + max(task_bytes(plan).values())))


def task_bytes(plan: Plan) -> dict[str, int]:
    """Peak memory of one task, by stage. Stages without work, and those of the driver, are left out."""
    by_stage: dict[str, Callable[[Plan], int]] = {
        "candidates": _candidates_bytes,
        "machines": _machines_bytes,
        "held_out": _held_out_bytes,
        "growth": _growth_bytes,
        "calibration": _calibration_bytes,
        "learning": _learning_bytes,
        "model": _description_bytes,
        "logits": _logits_bytes,
        "probabilities": _coupled_bytes if plan.shape.tensor_stored else _predicted_bytes,
        "report": _report_bytes,
    }
    needed = {stage: bound(plan) for stage, bound in by_stage.items()} | _stored_by_tasks(plan)
    return {stage: needed[stage] for stage in plan.keys if stage in needed and plan.units(stage)}


def _stored_by_tasks(plan: Plan) -> dict[str, int]:
    return {
        stage: needed
        for stage, needed in storing_bytes(plan.shape).items()
        if stage_named(stage).where != "driver"
    }


def _candidates_bytes(plan: Plan) -> int:
    """The rows of the probe, as read, normalised and whitened; its machines, and the logits of its samples."""
    if plan.probe is None:
        return 0
    shape, classes, pairs = plan.shape, plan.probe.classes, probe_pairs(plan)
    rows = sum(min(plan.probe.most_rows, shape.rows[int(c)]) for c in classes)
    machines = pairs * shape.machines_per_edge * (_numbers_per_machine(plan) + len(shape.machine_parameters))
    coupled = rows * (2 * pairs + 2 * len(classes) ** 2)
    needed = _FLOAT * (5 * rows * shape.features + 3 * machines + coupled + 4 * shape.features**2)
    of_machine = (2 if shape.code is None else len(classes)) * plan.probe.most_rows
    return needed + _gram_bytes(plan, min(of_machine, shape.kernel_rows))


def probe_pairs(plan: Plan) -> int:
    """How many pairs, or pairs of sets, the machines of the probe are trained on."""
    if plan.probe is None:
        return 0
    graph = plan.probe.graph
    return graph.n_machines if isinstance(graph, ModelCode) else int(graph.number_of_edges())


def _machines_bytes(plan: Plan) -> int:
    """The rows of the classes of a tile, one of them in the making, and the machines, with a copy to be written."""
    shape = plan.shape
    of_class = np.array(shape.rows)
    touched = max((int(of_class[shape.classes_of(tile)].sum()) for tile in plan.tiles), default=0)
    if shape.code is not None:
        touched += 2 * int((of_class @ (shape.code != 0)).max())  # the rows of one machine, stacked twice
    rows = (touched + 4 * max(shape.rows)) * shape.features
    if shape.kernel_rows:
        return 2 * _FLOAT * rows + _gram_bytes(plan, shape.kernel_rows) + 3 * _tile_bytes(plan)
    return _FLOAT * (rows + shape.features**2) + 3 * _tile_bytes(plan)


def _gram_bytes(plan: Plan, rows: int) -> int:
    """The Gram matrix of an edge with so many rows, a block of it in the making, and the blocks of classes."""
    if not plan.shape.kernel_rows:
        return 0
    stored = int(np.dtype(gram_type(plan.config.model.tol)).itemsize)
    classes = sum(n**2 for n in plan.shape.rows)
    return (stored + 4) * rows**2 + min(KEPT_BYTES, stored * classes)


def _numbers_per_machine(plan: Plan) -> int:
    """Floats of a machine besides its parameters: weights, or dual coefficients, of which each takes two."""
    return 2 * plan.shape.kernel_rows or plan.shape.features


def _support_bytes(plan: Plan, edges: int) -> int:
    """The support vectors of so many edges, at most all rows, and their coefficients in a sparse matrix with a copy."""
    shape = plan.shape
    vectors = 8 * shape.features * min(sum(shape.rows), edges * shape.kernel_rows)
    coefficients = edges * shape.kernel_rows * (8 * shape.machines_per_edge + 3 * 16)
    values = 4 * 8 * VECTORS_AT_ONCE * max(PREDICTION_BATCH, shape.samples_per_slab, shape.draws_per_slab)
    return vectors + coefficients + values


def _tile_bytes(plan: Plan) -> int:
    """The machines of a tile."""
    shape = plan.shape
    return shape.edges_per_tile * _machine_bytes_of_edge(plan)


def _read_bytes(plan: Plan) -> int:
    """The machines of the tiles that are read at once, as they are stored and unpacked, and one of them at work."""
    return (2 * TILES_AT_ONCE + 2) * _tile_bytes(plan)


def _machine_bytes_of_edge(plan: Plan) -> int:
    shape = plan.shape
    return shape.machines_per_edge * (_FLOAT * _numbers_per_machine(plan) + 8 * len(shape.machine_parameters))


def _of_curved(plan: Plan, edges: int) -> int:
    return _support_bytes(plan, edges) if plan.shape.kernel_rows else 0


def _completion_bytes(plan: Plan) -> int:
    """The edges and neighbours, and the matrix that ranks the classes, with a copy in the making; or a code."""
    if plan.shape.code is not None:
        return 64 * plan.shape.code.size
    N, E = len(plan.shape.classes), plan.most_pairs
    return N**2 * (1 + 3 * 8) + E * 16 * 8


def _held_out_bytes(plan: Plan) -> int:
    """The logits of a slab of drawn samples by all edges, with a copy, and their shortlists."""
    shape = plan.shape
    slab = min(shape.draws_per_slab, shape.draws)
    logits = slab * (3 * plan.most_pairs + 4 * len(shape.classes) + 2 * shape.listed**2)
    draws = 3 * shape.draws * shape.features
    needed = _FLOAT * (logits + draws) + _read_bytes(plan) + _completion_bytes(plan)
    return needed + _of_curved(plan, shape.edges_per_tile)


def _calibration_bytes(plan: Plan) -> int:
    """All held-out samples, completed, scaled, coupled."""
    shape, limit = plan.shape, parse_bytes(plan.config.run.memory_limit)
    N, k = len(shape.classes), shape.listed
    if shape.code is not None:
        by_machine = 4 * shape.n_edges + 4 * N + shape.features
        gradients = 64 * 8 * 4 * N * (N + shape.n_edges) if shape.edges_calibrated else 0
        return _FLOAT * shape.draws * by_machine + gradients + _completion_bytes(plan)
    if k:
        return _FLOAT * shape.draws * (4 * k**2 + 4 * N + shape.features)
    blocks = 3 * (plan.shortlist or N) ** 2
    completed = min(limit // 2, _FLOAT * shape.draws * blocks)
    by_edges = _FLOAT * shape.draws * (3 * plan.most_pairs + 3 * N + shape.features)
    return by_edges + completed + _completion_bytes(plan)


def _learning_bytes(plan: Plan) -> int:
    """All machines, as read and in order; the samples, with their logits and gradients; and the vectors of L-BFGS."""
    shape, E = plan.shape, plan.shape.n_edges
    samples = min(sample_limit(E), sum(shape.rows)) + len(shape.classes)
    machines = 3 * E * _machine_bytes_of_edge(plan)
    # Rows as they came and normalised; whitened, scaled and with a column of ones, of the folds apart and of all.
    rows = samples * (shape.features + 1) * (2 * np.dtype(shape.dtype).itemsize + 8 * _FLOAT)
    # Logits of the folds apart and of all, their gradient, and a copy in the making.
    logits = _FLOAT * samples * 5 * E
    weights = 8 * _LEARNING_NUMBERS_PER_WEIGHT * E * (shape.features + 1)
    return machines + rows + logits + weights + _FLOAT * 4 * shape.features**2 + _completion_bytes(plan)


def _growth_bytes(plan: Plan) -> int:
    """As calibration, and the graph and the matrix of costs by which pairs are proposed."""
    N, E = len(plan.shape.classes), plan.most_pairs
    return _calibration_bytes(plan) + _BYTES_PER_NX_EDGE * E + 8 * 4 * N**2


def _description_bytes(plan: Plan) -> int:
    """The edges and the digests of all files, as text."""
    return 600 * file_count(plan) + 200 * plan.most_pairs


def _logits_bytes(plan: Plan) -> int:
    """The machines as one map, the logits of a slab, and its tensor with a compressed copy."""
    shape, E = plan.shape, plan.most_pairs
    slab = shape.samples_per_slab * (2 * E + 3 * len(shape.classes) ** 2 + 3 * shape.features)
    affine = _of_curved(plan, E) or _FLOAT * E * (shape.features + 64)
    return affine + _FLOAT * slab + _read_bytes(plan) + _completion_bytes(plan)


def _coupled_bytes(plan: Plan) -> int:
    """The tensor of a slab and its working copies, and the logits of all edges."""
    N, slab = len(plan.shape.classes), plan.shape.samples_per_slab
    return _FLOAT * slab * (3 * N**2 + 2 * plan.most_pairs) + _completion_bytes(plan)


def _predicted_bytes(plan: Plan) -> int:
    """The machines as one affine map, the ranking as another, and a batch of samples in the making."""
    shape, limit = plan.shape, parse_bytes(plan.config.run.memory_limit)
    N, D, E, k = len(shape.classes), shape.features, plan.most_pairs, plan.shortlist
    affine = _FLOAT * (E * ((1 + shape.edges_calibrated * len(shape.couplings)) * D + 64) + 3 * N * D)
    if shape.kernel_rows:
        affine = (1 + shape.edges_calibrated * len(shape.couplings)) * _support_bytes(plan, E)
    blocks = 0 if shape.code is not None else 2 * PREDICTION_BATCH * (k or N) ** 2
    applied = k**2 if k and applies_listed_pairs(N, E, k) else 2 * E
    batch = _FLOAT * PREDICTION_BATCH * (applied + 4 * N) + min(limit // 2, _FLOAT * blocks)
    slab = _FLOAT * shape.samples_per_slab * (4 * D + N * (len(shape.couplings) + 2))
    return affine + batch + slab + _read_bytes(plan) + _completion_bytes(plan)


def _report_bytes(plan: Plan) -> int:
    """A part of the probabilities, the outcomes of all samples, matrices of the classes, edges, and the page."""
    shape, N, R = plan.shape, len(plan.shape.classes), plan.shape.samples
    probabilities = 3 * max(NUMBERS_AT_ONCE * _FLOAT, _FLOAT * shape.samples_per_slab * N)
    outcomes = 8 * R * (4 * len(shape.couplings) + 6)
    machines = 2 * plan.most_pairs * _machine_bytes_of_edge(plan) + _of_curved(plan, plan.most_pairs)
    explained = 2 * min(EXPLAINING_BYTES, machines) + _read_bytes(plan)
    page = 40 * 2**20
    return probabilities + outcomes + explained + 8 * 10 * N**2 + 8 * 16 * plan.most_pairs + page


def disk_bytes(plan: Plan) -> dict[str, int]:
    """Upper bounds of the disk usage, before compression."""
    shape = plan.shape
    E, N, R, S = plan.most_pairs, len(shape.classes), shape.samples, shape.draws
    held_out = S * (shape.listed**2 + shape.listed + N + 1) if shape.listed else S * E
    tensor = R * N**2 if shape.tensor_stored else 0
    return {
        "features.zarr": _bytes_of_features(plan),
        "machines.zarr": E * (_machine_bytes_of_edge(plan) + shape.learned * _FLOAT * (shape.features + 1)),
        "logits.zarr": _FLOAT * (held_out + tensor),
        "probabilities.zarr": _FLOAT * R * N * len(shape.couplings),
    }


def _bytes_of_features(plan: Plan) -> int:
    shape = plan.shape
    D, stored = shape.features, np.dtype(shape.dtype).itemsize
    rows = stored * D * (sum(shape.rows) + shape.draws)
    samples = np.dtype(shape.sample_dtype).itemsize * D * shape.samples
    whitenings = _FLOAT * D * (D * len(shape.whitenings) + len(shape.shrinkages) + 2)
    statistics = 8 * D * (D * len(plan.class_parts) + len(shape.classes)) if shape.whitenings else 0
    return rows + 4 * sum(shape.rows) + samples + whitenings + statistics


def file_count(plan: Plan) -> int:
    """Files of the finished run: chunks, the ledger, metadata, waves, candidates and losses, and the report."""
    edges = np.zeros((plan.most_pairs, 2), np.int64)
    groups = sum(map(len, run_groups(plan.shape).values()))
    ledger = (
        sum(map(plan.units, plan.keys)) + -(-plan.most_pairs // plan.shape.edges_per_tile) - len(plan.tiles)
    )
    single = sum(map(plan.units, ("candidates", "growth", "calibration", "learning")))
    return chunk_count(plan.shape._replace(edges=edges)) + groups + ledger + single + _OWN_FILES
