"""The machines of a run: tiles of edges, trained from the stored features."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pairloom.pipeline.machines.linear_machines import train_edges
from pairloom.pipeline.run.choosing import chosen_candidate, sample_weights
from pairloom.pipeline.run.feature_store import read_classes
from pairloom.pipeline.run.kernel_tiles import train_kernel_tile
from pairloom.pipeline.run.machine_store import write_machines
from pairloom.pipeline.run.run import Run

__all__ = ["train_tile"]


def train_tile(run: Run, tile: slice) -> list[Path]:
    """Train the machines of a tile of edges."""
    if run.settings.kernel is not None:
        return train_kernel_tile(run, tile)
    chosen, edges = chosen_candidate(run), run.shape.edges[tile]
    rows = read_classes(run, np.unique(edges), chosen.whiten)
    settings = run.settings.machines(chosen.C, chosen.calibration)
    machines = train_edges(rows, edges, settings, sample_weight=sample_weights(run, rows))
    return write_machines(run.directory, tile.start, machines)
