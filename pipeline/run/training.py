"""The machines of a run: train tiles of edges and apply them to the drawn samples and the test samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pairloom.pipeline.calibration.out_of_fold import out_of_fold_edge_logits
from pairloom.pipeline.machines.linear_machines import Machines, train_edges
from pairloom.pipeline.machines.linear_model import LinearModel
from pairloom.pipeline.machines.logits import collapse
from pairloom.pipeline.run.choosing import chosen_candidate, sample_weights
from pairloom.pipeline.run.feature_store import read_classes, read_draws, read_samples, read_whitening
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["apply_tile", "apply_tile_to_draws", "read_machines", "train_tile"]


def train_tile(run: Run, tile: slice) -> list[Path]:
    """Train the machines of a tile of edges."""
    chosen, edges = chosen_candidate(run), run.shape.edges[tile]
    rows = read_classes(run, np.unique(edges), chosen.whiten)
    settings = run.settings.machines(chosen.C, chosen.calibration)
    machines = train_edges(rows, edges, settings, sample_weight=sample_weights(run, rows))
    group = open_group(run.directory, "machines.zarr", write=True)
    return [
        path
        for name, values in machines._asdict().items()
        for path in write_whole(group[name], (tile.start, *(0,) * (values.ndim - 1)), values)
    ]


def read_machines(directory: Path, edges: slice = slice(None)) -> Machines:
    """The stored machines of some edges."""
    group = open_group(directory, "machines.zarr")
    return Machines(**{name: read_whole(group[name], edges) for name in Machines._fields})


def apply_tile(run: Run, tile: slice, slabs: list[slice]) -> list[Path]:
    """Apply the machines of a tile to all test samples, slab by slab, and write the logits."""
    whitening = read_whitening(run, chosen_candidate(run).whiten)
    shares = run.settings.machines().scheme.shares
    logits = collapse(read_machines(run.directory, tile), shares, whitening)
    edges = open_group(run.directory, "logits.zarr", write=True)["edges"]
    return [
        path
        for slab in slabs
        for path in write_whole(edges, (tile.start, slab.start), logits(read_samples(run, slab)))
    ]


def apply_tile_to_draws(run: Run, tile: slice) -> list[Path]:
    """Write the out-of-fold logits of the drawn samples for a tile."""
    edges, machines = run.shape.edges[tile], read_machines(run.directory, tile)
    # Pad to a whole tile: a growing run fills its last tile later, and a product of another shape would round the
    # logits of these edges differently, and so change the score of a wave.
    filled = np.arange(run.shape.edges_per_tile) % len(edges)
    chosen = chosen_candidate(run)
    model = LinearModel(machines.of_edges(filled), read_whitening(run, chosen.whiten))
    scheme = run.settings.machines().scheme
    # All stored draws: the stages that read the logits select those that they need.
    drawn = read_draws(run, run.draws_whitened)
    logits = out_of_fold_edge_logits(model, scheme, drawn.X, drawn.folds, drawn.parts)
    array = open_group(run.directory, "logits.zarr", write=True)["drawn"]
    return write_whole(array, (tile.start, 0), logits[: len(edges)])
