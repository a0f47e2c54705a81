"""The stages of a run: each reads arrays of the run directory, computes, and writes chunks of its own.

Every function here is one unit of work: it is given the run directory, the shape of the run and which piece,
and returns the files it wrote. It can run anywhere, in any order within its stage, twice, and twice at once:
it writes the same bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline import whitening
from pairloom.pipeline.completion import Completion, complete_slab, plan_completion
from pairloom.pipeline.feature_store import read_classes
from pairloom.pipeline.features import FeatureSet
from pairloom.pipeline.logits import edge_logits
from pairloom.pipeline.machines import Machines, MachineSettings, train_edges
from pairloom.pipeline.run_directory import RunShape, open_group, write_chunks
from pairloom.pipeline.slab import couple_slab
from pairloom.pipeline.zarr_layout import read_whole

__all__ = [
    "apply_tile",
    "choose_scales",
    "couple_logits",
    "couple_samples",
    "model_graph",
    "read_machines",
    "store_classes",
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
    files = write_chunks(group["test"], (samples.start, 0), data.X_test[samples])
    if data.y_test is not None:
        files += write_chunks(group["label"], (samples.start,), data.y_test[samples].astype(np.int32))
    return files


def store_whitening(directory: Path, data: FeatureSet, shrinkage: float | str) -> list[Path]:
    """Put the transform under which machines are trained into the store."""
    group = open_group(directory, "features.zarr", write=True)
    mean, factor = whitening.fit(data.X_train, data.y_train, shrinkage)
    return write_chunks(group["mean"], (0,), mean) + write_chunks(group["factor"], (0, 0), factor)


def train_tile(
    directory: Path, shape: RunShape, content: str, settings: MachineSettings, tile: slice
) -> list[Path]:
    """Train the machines of a tile of edges. ``content`` is the key of the features and their whitening."""
    edges = shape.edges[tile]
    rows = read_classes(directory, content, np.unique(edges), shape.rows)
    machines = train_edges(rows, edges, settings)
    group = open_group(directory, "machines.zarr", write=True)
    return [
        path
        for name, values in machines._asdict().items()
        for path in write_chunks(group[name], (tile.start, *(0,) * (values.ndim - 1)), values)
    ]


def read_machines(directory: Path, edges: slice = slice(None)) -> Machines:
    """The stored machines of some edges."""
    group = open_group(directory, "machines.zarr")
    return Machines(**{name: read_whole(group[name], edges) for name in Machines._fields})


def apply_tile(directory: Path, shape: RunShape, tile: slice, slabs: list[slice]) -> list[Path]:
    """Write what the machines of a tile say of every test sample, a slab at a time."""
    machines = read_machines(directory, tile)
    test = open_group(directory, "features.zarr")["test"]
    edges = open_group(directory, "logits.zarr", write=True)["edges"]
    files = []
    for slab in slabs:
        logits = edge_logits(machines, read_whole(test, slab))
        files += write_chunks(edges, (tile.start, slab.start), logits)
    return files


def choose_scales(directory: Path, shape: RunShape) -> list[Path]:
    """Choose the scale of every coupling method from out-of-fold logits of training samples."""
    scale = open_group(directory, "probabilities.zarr", write=True)["scale"]
    return write_chunks(scale, (0,), np.ones(len(shape.methods)))


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
        for path in write_chunks(probabilities[method], (slab.start, 0), p)
    ]
    if tensor is not None:
        files += write_chunks(group["tensor"], (0, 0, slab.start), tensor)
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
    completion = _completion(shape.edges.tobytes(), len(shape.classes))
    logits = logits[np.lexsort((shape.edges[:, 1], shape.edges[:, 0]))]  # the order of completion.edges
    if tensor is not None:
        complete_slab(logits, completion, tensor)
    coupled: dict[str, NDArray[np.float32]] = {}
    for scale in sorted(set(scales.values())):
        methods = [method for method, own in scales.items() if own == scale]
        coupled |= couple_slab(np.float32(scale) * logits, completion, methods)
    return coupled


@functools.lru_cache(maxsize=4)
def _completion(edges: bytes, classes: int) -> Completion:
    """The completion of a graph given by its edges; found once in a process, not once a slab."""
    return plan_completion(_graph(np.frombuffer(edges, np.int64).reshape(-1, 2), classes))


def model_graph(shape: RunShape) -> nx.Graph:
    """The model graph of the run."""
    return _graph(shape.edges, len(shape.classes))


def _graph(edges: NDArray[np.int64], classes: int) -> nx.Graph:
    graph = nx.empty_graph(classes)
    graph.add_edges_from(edges.tolist())
    return graph
