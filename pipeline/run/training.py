"""The machines of a run: train tiles of edges, and apply them to the test samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pairloom.pipeline.machines.kernel_model import KernelLogits
from pairloom.pipeline.machines.linear_machines import train_edges
from pairloom.pipeline.machines.logits import AffineLogits, collapse
from pairloom.pipeline.run.choosing import chosen_candidate, sample_weights
from pairloom.pipeline.run.feature_store import read_classes, read_samples, read_whitening
from pairloom.pipeline.run.kernel_tiles import read_kernel_model, train_kernel_tile
from pairloom.pipeline.run.machine_store import read_machines, write_machines
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group, write_whole

__all__ = ["apply_tile", "collapsed_tile", "train_tile"]


def train_tile(run: Run, tile: slice) -> list[Path]:
    """Train the machines of a tile of edges."""
    if run.settings.kernel is not None:
        return train_kernel_tile(run, tile)
    chosen, edges = chosen_candidate(run), run.shape.edges[tile]
    rows = read_classes(run, np.unique(edges), chosen.whiten)
    settings = run.settings.machines(chosen.C, chosen.calibration)
    machines = train_edges(rows, edges, settings, sample_weight=sample_weights(run, rows))
    return write_machines(run.directory, tile.start, machines)


def apply_tile(run: Run, tile: slice, slabs: list[slice]) -> list[Path]:
    """Apply the machines of a tile to all test samples, slab by slab, and write the logits."""
    logits = _logits_of_tile(run, tile)
    edges = open_group(run.directory, "logits.zarr", write=True)["edges"]
    return [
        path
        for slab in slabs
        for path in write_whole(edges, (tile.start, slab.start), logits(read_samples(run, slab)))
    ]


def _logits_of_tile(run: Run, tile: slice) -> AffineLogits | KernelLogits:
    if run.settings.kernel is None:
        return collapsed_tile(run, tile)
    return read_kernel_model(run, [tile]).collapsed(run.settings.machines().scheme.shares)


def collapsed_tile(run: Run, tile: slice) -> AffineLogits:
    """The machines of a tile as one affine map of normalised samples."""
    whitening = read_whitening(run, chosen_candidate(run).whiten)
    shares = run.settings.machines().scheme.shares
    return collapse(read_machines(run.directory, tile), shares, whitening)
