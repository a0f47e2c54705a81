"""The tensor of a run that stores it: slabs of test samples, scored by all machines and completed to all pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.completion.complete import Completion, complete_slab
from pairloom.pipeline.run.collapsed_machines import collapsed_machines
from pairloom.pipeline.run.feature_store import read_samples
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["read_edge_logits", "store_tensor"]


def store_tensor(run: Run, slab: slice) -> list[Path]:
    """Apply all machines to a slab of test samples, complete their logits, and write the tensor."""
    model, N = collapsed_machines(run), len(run.shape.classes)
    tensor = np.empty((N, N, slab.stop - slab.start), np.float32)
    assert isinstance(model.wiring, Completion), "of machines on sets of classes there is no tensor"
    complete_slab(model.logits(read_samples(run, slab)), model.wiring, tensor)
    group = open_group(run.directory, "logits.zarr", write=True)
    return write_whole(group["tensor"], (0, 0, slab.start), tensor)


def read_edge_logits(run: Run, slab: slice) -> NDArray[np.float32]:
    """(E, r) stored logits of the sorted edges for a slab of test samples: the tensor where it was trained."""
    everything = slice(None)
    tensor = read_whole(open_group(run.directory, "logits.zarr")["tensor"], (everything, everything, slab))
    i, j = run.shape.edges[graphs.edge_order(run.shape.edges)].T
    return np.ascontiguousarray(tensor[i, j])
