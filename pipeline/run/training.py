"""The machines of a run: tiles of edges, or of columns of a code, trained from the stored features."""

from __future__ import annotations

from pathlib import Path

from pairloom.pipeline.machines.linear_machines import train_columns, train_edges
from pairloom.pipeline.run.choosing import chosen_candidate, sample_weights
from pairloom.pipeline.run.feature_store import read_classes
from pairloom.pipeline.run.kernel_tiles import train_kernel_tile
from pairloom.pipeline.run.machine_store import write_machines
from pairloom.pipeline.run.run import Run

__all__ = ["train_tile"]


def train_tile(run: Run, tile: slice) -> list[Path]:
    """Train the machines of a tile."""
    if run.settings.kernel is not None:
        return train_kernel_tile(run, tile)
    chosen, shape = chosen_candidate(run), run.shape
    rows = read_classes(run, shape.classes_of(tile), chosen.whiten)
    settings, weight = run.settings.machines(chosen.C, chosen.calibration), sample_weights(run, rows)
    if shape.code is None:
        machines = train_edges(rows, shape.edges[tile], settings, sample_weight=weight)
    else:
        machines = train_columns(rows, shape.code[:, tile], settings, sample_weight=weight)
    return write_machines(run.directory, tile.start, machines)
