"""The stages of a run: each reads arrays of the run directory, computes, and writes chunks of its own.

Every function here is one unit of work: it is given the run directory, the shape of the run and which piece,
and returns the files it wrote. It can run anywhere, in any order within its stage (but for judgements, which follow
one another), twice, and twice at once: it writes the same bytes.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.coupled import choose_scale
from pairloom.pipeline.calibration.drawn_samples import DrawnSamples
from pairloom.pipeline.completion.complete import Completion, complete_slab, plan_completion
from pairloom.pipeline.coupling import couple
from pairloom.pipeline.features.feature_set import FeatureSet
from pairloom.pipeline.growth.wave import GrowthCost, Wave, judge_wave
from pairloom.pipeline.machines.linear_machines import Machines, MachineSettings, train_edges
from pairloom.pipeline.machines.linear_model import LinearModel
from pairloom.pipeline.machines.logits import collapse, out_of_fold_edge_logits
from pairloom.pipeline.machines.whitening import fit_whitening
from pairloom.pipeline.run.feature_store import (
    FeatureKeys,
    read_classes,
    read_draws,
    read_samples,
    read_whitening,
)
from pairloom.pipeline.run.run_directory import RunShape, open_group, write_chunks, write_whole
from pairloom.pipeline.storage.atomic_file import write_atomically
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = [
    "apply_tile",
    "apply_tile_to_draws",
    "choose_method_scale",
    "couple_logits",
    "couple_samples",
    "judge_model",
    "model_graph",
    "read_machines",
    "read_wave",
    "remove_waves",
    "store_classes",
    "store_draws",
    "store_samples",
    "store_whitening",
    "train_tile",
]


def store_classes(directory: Path, data: FeatureSet, classes: slice) -> list[Path]:
    """Put the training rows of some classes into the store, in chunks of one class each."""
    train = open_group(directory, "features.zarr", write=True)["train"]
    files = []
    for c in range(classes.start, classes.stop):
        rows = _padded(data.X_train[data.y_train == c], train.chunks[1], train.shape[1])
        files += write_chunks(train, (c, 0, 0), rows[None])
    return files


def _padded(rows: NDArray[np.float32], chunk: int, most: int) -> NDArray[np.float32]:
    """Add rows of NaN until the chunk, or the array, is full."""
    length = min(most, -(-len(rows) // chunk) * chunk)
    return np.pad(rows, ((0, length - len(rows)), (0, 0)), constant_values=np.nan)


def store_samples(directory: Path, data: FeatureSet, samples: slice) -> list[Path]:
    """Put some test samples, and their labels if they have any, into the store."""
    group = open_group(directory, "features.zarr", write=True)
    files = write_whole(group["test"], (samples.start, 0), data.X_test[samples])
    if data.y_test is not None:
        files += write_whole(group["label"], (samples.start,), data.y_test[samples].astype(np.int32))
    return files


def store_draws(directory: Path, data: FeatureSet, drawn: DrawnSamples) -> list[Path]:
    """Put the training samples that calibrate the coupled model into the store."""
    group = open_group(directory, "features.zarr", write=True)
    return [
        *write_whole(group["drawn"], (0, 0), data.X_train[drawn.rows]),
        *write_whole(group["drawn_class"], (0,), drawn.classes.astype(np.int32)),
        *write_whole(group["drawn_fold"], (0,), drawn.folds.astype(np.int32)),
    ]


def store_whitening(
    directory: Path, data: FeatureSet, shrinkage: float | Literal["none"], left_out: NDArray[np.int64] | None
) -> list[Path]:
    """Put the transform under which machines are trained into the store; drawn rows are left out of its
    covariance."""
    group = open_group(directory, "features.zarr", write=True)
    X, y = data.X_train, data.y_train
    if shrinkage != "none" and left_out is not None:
        X, y = np.delete(X, left_out, axis=0), np.delete(y, left_out)
    whitening = fit_whitening(X, y, None if shrinkage == "none" else shrinkage)
    files = write_whole(group["mean"], (0,), whitening.mean)
    if whitening.factor.size:
        files += write_whole(group["factor"], (0, 0), whitening.factor)
    return files


def train_tile(
    directory: Path, shape: RunShape, keys: FeatureKeys, settings: MachineSettings, tile: slice
) -> list[Path]:
    """Train the machines of a tile of edges."""
    edges = shape.edges[tile]
    rows = read_classes(directory, shape, keys, np.unique(edges))
    machines = train_edges(rows, edges, settings)
    group = open_group(directory, "machines.zarr", write=True)
    return [
        path
        for name, values in machines._asdict().items()
        for path in write_whole(group[name], (tile.start, *(0,) * (values.ndim - 1)), values)
    ]


def read_machines(directory: Path, edges: slice = slice(None)) -> Machines:
    """The stored machines of some edges."""
    group = open_group(directory, "machines.zarr")
    return Machines(**{name: read_whole(group[name], edges) for name in Machines._fields})


def apply_tile(
    directory: Path,
    shape: RunShape,
    keys: FeatureKeys,
    settings: MachineSettings,
    tile: slice,
    slabs: list[slice],
) -> list[Path]:
    """Write what the machines of a tile say of every test sample, a slab at a time."""
    machines, whitening = read_machines(directory, tile), read_whitening(directory, shape, keys)
    logits = collapse(machines, settings.scheme.shares, whitening)
    edges = open_group(directory, "logits.zarr", write=True)["edges"]
    return [
        path
        for slab in slabs
        for path in write_whole(edges, (tile.start, slab.start), logits(read_samples(directory, keys, slab)))
    ]


def apply_tile_to_draws(
    directory: Path, shape: RunShape, keys: FeatureKeys, settings: MachineSettings, tile: slice
) -> list[Path]:
    """Write what the machines of a tile say of the drawn samples, each by machines that have not seen it."""
    edges, machines = shape.edges[tile], read_machines(directory, tile)
    # As many rows as a whole tile has: a growing run fills its last tile up later, and a product of another shape
    # would round the logits of these edges another way, and the judgement of a wave with them.
    filled = np.arange(shape.edges_per_tile) % len(edges)
    whitening = read_whitening(directory, shape, keys)
    model = LinearModel(Machines(*(values[filled] for values in machines)), whitening)
    logits = out_of_fold_edge_logits(
        model.logits, edges[filled], settings.scheme, *read_draws(directory, keys)
    )
    drawn = open_group(directory, "logits.zarr", write=True)["drawn"]
    return write_whole(drawn, (tile.start, 0), logits[: len(edges)])


def choose_method_scale(directory: Path, shape: RunShape, method: int) -> list[Path]:
    """Choose the scale of one coupling method, by its number, from the logits of the drawn samples."""
    scale = open_group(directory, "probabilities.zarr", write=True)["scale"]
    chosen = _likeliest_scale(directory, shape, shape.methods[method]) if shape.draws else 1.0
    return write_whole(scale, (method,), np.array([chosen]))


def _likeliest_scale(directory: Path, shape: RunShape, method: str) -> float:
    classes = read_whole(open_group(directory, "features.zarr")["drawn_class"])
    logits = read_whole(open_group(directory, "logits.zarr")["drawn"])[_sorted_order(shape.edges)]
    return float(choose_scale(logits, classes, _completion(shape), method).scale)


def judge_model(
    directory: Path,
    shape: RunShape,
    wave: int,
    *,
    pairs: int,
    method: str,
    cost: GrowthCost,
    most: int,
    seed: int,
) -> list[Path]:
    """Judge the model of the first ``pairs`` edges after a wave, and propose ``most`` more."""
    edges = shape.edges[:pairs]
    classes = read_whole(open_group(directory, "features.zarr")["drawn_class"])
    logits = read_whole(open_group(directory, "logits.zarr")["drawn"], slice(pairs))[_sorted_order(edges)]
    graph = _graph(edges, len(shape.classes))
    near = read_wave(directory, wave - 1).scale if wave else None
    found = judge_wave(logits, classes, graph, method, cost, most, seed=seed, near=near)
    path = wave_file(directory, wave)
    write_atomically(path, (json.dumps(found._asdict()) + "\n").encode())
    return [path]


def read_wave(directory: Path, wave: int) -> Wave:
    """What `judge_model` found."""
    content = json.loads(wave_file(directory, wave).read_bytes())
    return Wave(**content | {"proposed": [(i, j) for i, j in content["proposed"]]})


def remove_waves(directory: Path, first: int) -> None:
    """Remove the judgements of waves that a run no longer has."""
    for path in (directory / "growth").glob("*.json"):
        if path.stem.isdecimal() and int(path.stem) >= first:
            path.unlink(missing_ok=True)


def wave_file(directory: Path, wave: int) -> Path:
    """Where the judgement of a wave lies."""
    return directory / "growth" / f"{wave:06d}.json"


def couple_samples(directory: Path, shape: RunShape, slab: slice) -> list[Path]:
    """Complete and couple a slab of samples by every method; store the tensor if the run does."""
    group = open_group(directory, "logits.zarr", write=True)
    probabilities = open_group(directory, "probabilities.zarr", write=True)
    scales = dict(zip(shape.methods, read_whole(probabilities["scale"]).tolist(), strict=True))
    N = len(shape.classes)
    tensor = np.empty((N, N, slab.stop - slab.start), np.float32) if shape.tensor_stored else None
    coupled = couple_logits(read_whole(group["edges"], (slice(None), slab)), shape, scales, tensor)
    files = [
        path
        for method, p in coupled.items()
        for path in write_whole(probabilities[method], (slab.start, 0), p)
    ]
    if tensor is not None:
        files += write_whole(group["tensor"], (0, 0, slab.start), tensor)
    return files


def couple_logits(
    logits: NDArray[np.float32],
    shape: RunShape,
    scales: Mapping[str, float],
    tensor: NDArray[np.float32] | None = None,
) -> dict[str, NDArray[np.float32]]:
    """Probabilities (sample, class) by each method, from logits in the order of the tiles.

    Parameters
    ----------
    logits
        (E, samples), as the machines say them.
    scales
        What the logits are multiplied by, for each method.
    tensor
        (N, N, samples), where the completed logits are written if they are wanted. They are not scaled.
    """
    N = len(shape.classes)
    completed = np.empty((N, N, logits.shape[1]), np.float32) if tensor is None else tensor
    complete_slab(logits[_sorted_order(shape.edges)], _completion(shape), completed)
    # Completion is linear: to scale what it gives is to scale what it is given, once for all methods.
    return {method: couple(np.float32(scale) * completed, method) for method, scale in scales.items()}


def _sorted_order(edges: NDArray[np.int64]) -> NDArray[np.intp]:
    """Permutation from the order of the tiles to that of a graph's sorted edges."""
    return np.lexsort((edges[:, 1], edges[:, 0]))


def _completion(shape: RunShape) -> Completion:
    return _completion_of(shape.edges.tobytes(), len(shape.classes))


@functools.lru_cache(maxsize=4)
def _completion_of(edges: bytes, classes: int) -> Completion:
    """The completion of a graph given by its edges; found once in a process, not once a slab."""
    return plan_completion(_graph(np.frombuffer(edges, np.int64).reshape(-1, 2), classes))


def model_graph(shape: RunShape) -> nx.Graph:
    """The model graph of the run."""
    return _graph(shape.edges, len(shape.classes))


def _graph(edges: NDArray[np.int64], classes: int) -> nx.Graph:
    graph = nx.empty_graph(classes)
    graph.add_edges_from(edges.tolist())
    return graph
