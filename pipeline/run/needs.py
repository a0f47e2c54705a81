"""Resources of a run: memory of a task in each stage and of a worker, disk space, and the number of files.

They are upper bounds, from the sizes of the arrays that a task holds at once, and are checked before anything is
written. The bound of a stage is in its file; here are the parts that several stages share.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from pairloom.graphs import decomposition_of
from pairloom.pipeline.calibration.held_out_scores import n_columns
from pairloom.pipeline.calibration.novelty_signals import SAMPLES_AT_ONCE
from pairloom.pipeline.completion.laplacian import solver_bytes
from pairloom.pipeline.config.cluster_config import PROCESS_BYTES
from pairloom.pipeline.machines.folds import PARTS
from pairloom.pipeline.machines.kernel_function import KEPT_BYTES, gram_type
from pairloom.pipeline.machines.kernel_machines import VECTORS_AT_ONCE
from pairloom.pipeline.machines.pair_calibration import PROFILE_SIZE
from pairloom.pipeline.model.fitted_model import PREDICTION_BATCH
from pairloom.pipeline.run.feature_store import CACHE_BYTES
from pairloom.pipeline.run.machine_store import TILES_AT_ONCE
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import chunk_count, run_groups

__all__ = [
    "BYTES_PER_ENTRY",
    "FLOAT",
    "completion_bytes",
    "disk_bytes",
    "edge_machine_bytes",
    "file_count",
    "gram_bytes",
    "listed_at_once",
    "listed_at_once_bytes",
    "machine_read_bytes",
    "most_needed",
    "numbers_per_machine",
    "probe_pairs",
    "row_bytes",
    "support_bytes",
    "support_distance_bytes",
    "task_bytes",
    "tile_bytes",
    "weight_bytes",
    "with_process",
    "worker_bytes",
]

#: Bytes of a float32.
FLOAT = 4
#: Bytes per entry of sparse rows while they are read, checked and normalised: a value and its column, in two types.
BYTES_PER_ENTRY = 24
#: Bytes per edge that a shortlist needs, while its logit is found: sample, edge, place, their order, and the logit.
_NEEDED_EDGE_BYTES = 48
#: Memory for the edges that shortlists need, at least for one sample.
_NEEDED_BYTES = 2**28
#: run.json, model.json, forecast.json, log.txt, the record of the driver, and the six files of the report.
_OTHER_FILES = 11


def worker_bytes(run: Run) -> int:
    """Peak memory of a worker with one thread: the process, its cache of features, and the largest task.

    A tenth is added for memory that the allocator does not return.
    """
    return with_process(max(task_bytes(run).values()))


def with_process(needed: int) -> int:
    """Memory of a worker whose task needs ``needed`` bytes."""
    return int(1.1 * (PROCESS_BYTES + CACHE_BYTES + needed))


def task_bytes(run: Run) -> dict[str, int]:
    """Peak memory of one task, by stage, without stages of the driver and stages without work."""
    return {
        stage.name: stage.task_bytes(run)
        for stage in run.stages
        if stage.runs_in(run) != "driver" and run.units(stage.name)
    }


def probe_pairs(run: Run) -> int:
    """Number of pairs, or pairs of sets, on which the machines of the probe are trained."""
    if run.probe is None:
        return 0
    return decomposition_of(run.probe.graph).n_machines


def gram_bytes(run: Run, rows: int) -> int:
    """The Gram matrix of an edge with ``rows`` rows, a block of it being computed, and the cached blocks of classes."""
    if not run.shape.kernel_rows:
        return 0
    stored = int(np.dtype(gram_type(run.config.model.tol)).itemsize)
    classes = sum(n**2 for n in run.shape.rows)
    return (stored + 4) * rows**2 + min(KEPT_BYTES, stored * classes)


def numbers_per_machine(run: Run) -> int:
    """float32 numbers per machine besides its parameters: weights, or dual coefficients, which are float64.

    On sparse rows its share of the column numbers counts, too.
    """
    if run.shape.sparse is not None:
        return 2 * run.shape.sparse.pair
    return 2 * run.shape.kernel_rows or run.shape.features


def support_bytes(run: Run, edges: int) -> int:
    """The support vectors of this many edges, at most all rows, and a sparse matrix of their coefficients, twice.

    Zero if machines are linear.
    """
    shape = run.shape
    if not shape.kernel_rows:
        return 0
    vectors = 8 * shape.features * min(sum(shape.rows), edges * shape.kernel_rows)
    coefficients = edges * shape.kernel_rows * (8 * shape.machines_per_edge + 3 * 16)
    values = 4 * 8 * VECTORS_AT_ONCE * max(PREDICTION_BATCH, shape.samples_per_slab, shape.draws_per_slab)
    return vectors + coefficients + values


def support_distance_bytes(run: Run) -> int:
    """The support vectors of all machines, and which of them are the drawn samples or of their classes.

    Zero if machines are linear.
    """
    shape = run.shape
    if not shape.kernel_rows:
        return 0
    vectors = min(sum(shape.rows), shape.n_edges * shape.kernel_rows)
    distances = vectors * (2 * shape.draws + 2 * 8 * SAMPLES_AT_ONCE)
    return support_bytes(run, shape.n_edges) + machine_read_bytes(run) + row_bytes(run, "draws") + distances


def tile_bytes(run: Run) -> int:
    """The machines of a tile."""
    shape, sparse = run.shape, run.shape.sparse
    if sparse is not None:
        weights = FLOAT * (1 + shape.machines_per_edge) * sparse.tile
        return weights + shape.edges_per_tile * _parameter_bytes(run)
    return shape.edges_per_tile * edge_machine_bytes(run)


def machine_read_bytes(run: Run) -> int:
    """The tiles that are read at once, as stored and unpacked, and one in use."""
    return (2 * TILES_AT_ONCE + 2) * tile_bytes(run)


def edge_machine_bytes(run: Run) -> int:
    return run.shape.machines_per_edge * FLOAT * numbers_per_machine(run) + _parameter_bytes(run)


def _parameter_bytes(run: Run) -> int:
    """All numbers of the machines of an edge except their weights."""
    shape = run.shape
    profile = FLOAT * PARTS * PROFILE_SIZE if shape.sloped else 0
    return shape.machines_per_edge * 8 * len(shape.machine_parameters) + profile


def weight_bytes(run: Run, edges: int) -> int:
    """The affine maps of this many edges; on sparse rows columns and weights, with a copy in another order."""
    shape = run.shape
    if shape.sparse is None:
        return FLOAT * edges * shape.features
    columns = shape.sparse.columns + max(0, edges - shape.n_edges) * shape.sparse.pair
    return 4 * 2 * FLOAT * columns


def row_bytes(run: Run, of: Literal["samples", "draws"]) -> int:
    """The rows of a slab of test samples, or all draws, as float32 or as CSR."""
    shape = run.shape
    if shape.sparse is not None:
        return BYTES_PER_ENTRY * (shape.sparse.slab if of == "samples" else shape.sparse.drawn)
    return FLOAT * shape.features * (shape.samples_per_slab if of == "samples" else shape.draws)


def completion_bytes(run: Run) -> int:
    """A code; or the edges, neighbours and ranking of a graph and, where all pairs are coupled, matrices too."""
    if run.shape.code is not None:
        return 64 * run.shape.code.size
    N, E = len(run.shape.classes), run.most_pairs
    all_pairs = 0 if run.shortlist else N**2 * (1 + 3 * 8)
    return all_pairs + solver_bytes(N, E) + E * 16 * 8


def most_needed(run: Run, listed: int) -> int:
    """Upper bound of the mean number of edges that a list of ``listed`` classes needs: among them and to neighbours."""
    degree = -(-2 * run.most_pairs // len(run.shape.classes))
    return min(run.most_pairs, listed * degree + listed**2)


def listed_at_once(run: Run, length: int) -> int:
    """The number of samples whose shortlists of this length are completed at once: each pass reads all machines."""
    return max(1, _NEEDED_BYTES // (_NEEDED_EDGE_BYTES * most_needed(run, length)))


def listed_at_once_bytes(run: Run, length: int, samples: int) -> int:
    """The edges that the shortlists of so many samples need, pass by pass."""
    return _NEEDED_EDGE_BYTES * most_needed(run, length) * min(samples, listed_at_once(run, length))


def disk_bytes(run: Run) -> dict[str, int]:
    """Upper bounds of the disk usage of each zarr group, before compression."""
    shape = run.shape
    E, N, R, S = run.most_pairs, len(shape.classes), shape.samples, shape.draws
    held_out = S * (shape.listed**2 + shape.listed + N + 1) if shape.listed else S * E
    held_out *= len(shape.calibrations)
    tensor = R * N**2 if shape.tensor_stored else 0
    extra = shape.learned + shape.collapsed
    of_sample = 2 * shape.kept + 2 if shape.kept else N
    machines = E * (edge_machine_bytes(run) + extra * FLOAT * (shape.features + 1))
    if shape.sparse is not None:
        columns = shape.sparse.columns + (E - shape.n_edges) * shape.sparse.pair
        machines = FLOAT * (1 + shape.machines_per_edge) * columns + E * _parameter_bytes(run)
    read_by_tasks = sum(shape.rows) * (shape.train_source is not None) + R * (shape.test_source is not None)
    return {
        "source.zarr": 16 * read_by_tasks,
        "features.zarr": _bytes_of_features(run),
        "machines.zarr": machines,
        "logits.zarr": FLOAT * (held_out + tensor),
        "probabilities.zarr": len(shape.couplings) * (FLOAT * R * of_sample + 8 * S * n_columns(N))
        + _bytes_of_ids(shape.sample_ids, R),
    }


def _bytes_of_features(run: Run) -> int:
    shape = run.shape
    D, stored = shape.features, np.dtype(shape.dtype).itemsize
    rows = stored * D * (sum(shape.rows) + shape.draws)
    samples = np.dtype(shape.sample_dtype).itemsize * D * shape.samples
    whitenings = FLOAT * D * (D * len(shape.whitenings) + len(shape.shrinkages) + 2)
    statistics = 8 * D * (D * len(run.class_parts) + len(shape.classes)) if shape.whitenings else 0
    directions = min(len(shape.classes) - 1, D)
    if shape.placed:
        whitenings += FLOAT * (D + len(shape.classes) + 1) * (directions + 1)
    ids = _bytes_of_ids(shape.row_ids, sum(shape.rows)) + _bytes_of_ids(shape.sample_ids, shape.samples)
    if shape.sparse is not None:
        entries = sum(shape.sparse.entries) + shape.sparse.drawn + shape.sparse.samples
        n = 2 * sum(shape.rows) + shape.draws + shape.samples
        return (4 + np.dtype(shape.dtype).itemsize) * entries + 4 * n + 3 * 8 * D + ids
    return rows + 4 * sum(shape.rows) + samples + ids + whitenings + statistics


def _bytes_of_ids(kind: str, count: int) -> int:
    """Text ids are assumed to have at most sixty characters."""
    return count * (64 if kind == "string" else 8)


def file_count(run: Run) -> int:
    """Number of files of the finished run: chunks, ledger, metadata, waves, candidates and losses, and the report."""
    edges = np.zeros((run.most_pairs, 2), np.int64)
    groups = sum(map(len, run_groups(run.shape).values()))
    ledger = sum(map(run.units, run.keys)) + -(-run.most_pairs // run.shape.edges_per_tile) - len(run.tiles)
    single = sum(map(run.units, ("candidates", "growth", "slopes", "calibration", "learning")))
    return chunk_count(run.shape._replace(edges=edges)) + groups + ledger + single + _OTHER_FILES
