"""Machines: tiles of edges, or of columns of a code, trained from the stored features."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.machines.kernel_function import GramBlocks
from pairloom.pipeline.machines.kernel_machines import train_kernel_tile
from pairloom.pipeline.machines.linear_machines import train_tile
from pairloom.pipeline.machines.settings import split_class
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.feature_store import read_class_rows, read_classes
from pairloom.pipeline.run.machine_store import write_kernel_machines, write_machines
from pairloom.pipeline.run.needs import BYTES_PER_ENTRY, FLOAT, gram_bytes, tile_bytes
from pairloom.pipeline.run.results import chosen_candidate, sample_weights
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.run.run_directory import SparseSizes
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Machines", "machine_key", "training_facts"]


class Machines(Stage):
    """Train the machines of a tile."""

    name = "machines"
    folders = ("machines.zarr",)
    waves = True
    trains = True
    advice = ", or lower run.edges_per_tile"
    cost = StageCost(
        "tile",
        seconds=(0.02, 2.1e-9),
        work=lambda s: s.edges * s.classes_per_edge * s.rows * s.features * s.folds,
        trains=True,
        writes=lambda s: s.edges * s.machine_bytes,
        reads_classes=True,
        operations=lambda s: 15.0 + 2 * s.edges_per_tile**0.5,
        memory=lambda s: (
            3 * s.edges_per_tile * s.machine_bytes + (2 * s.edges_per_tile**0.5 + 4) * s.class_bytes
        ),
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """A tile depends on its own edges, and on the inputs of all machines."""
        machine = machine_key(run, earlier)
        return tuple(digest_of([machine, run.shape.described(tile)]) for tile in run.tiles)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Train the machines of a tile, and write them."""
        tile = run.tiles[unit]
        return _train_linear(run, tile) if run.kernel is None else _train_with_kernel(run, tile)

    def task_bytes(self, run: Run) -> int:
        """The rows of the classes of a tile, with working copies of one; the machines, with a copy to be written."""
        shape = run.shape
        if shape.sparse is not None:
            return _sparse_bytes(run, shape.sparse)
        of_class = np.array(shape.rows)
        touched = max((int(of_class[shape.classes_of(tile)].sum()) for tile in run.tiles), default=0)
        if shape.code is not None:
            touched += 2 * int((of_class @ (shape.code != 0)).max())  # the stacked rows of one machine, twice
        rows = (touched + 4 * max(shape.rows)) * shape.features
        if shape.kernel_rows:
            return 2 * FLOAT * rows + gram_bytes(run, shape.kernel_rows) + 3 * tile_bytes(run)
        return FLOAT * (rows + shape.features**2) + 3 * tile_bytes(run)


def _sparse_bytes(run: Run, sizes: SparseSizes) -> int:
    """The rows of the classes of a tile, the stacked rows of a machine, twice, its Gram matrix; and the machines."""
    shape, of_class = run.shape, np.array(sizes.entries)
    touched = max((int(of_class[shape.classes_of(tile)].sum()) for tile in run.tiles), default=0)
    stacked = 2 * max(int(of_class[classes].sum()) for classes in shape.decomposition.members())
    return BYTES_PER_ENTRY * (touched + 2 * max(sizes.entries) + stacked) + 2**26 + 3 * tile_bytes(run)


def training_facts(run: Run) -> list[object]:
    """All settings that determine the machines, except the choice among candidates."""
    kernel = [] if run.kernel is None else [asdict(run.kernel), run.shape.kernel_rows]
    return [run.settings.read_in("training"), run.class_weights, run.shape.calibrations, *kernel]


def machine_key(run: Run, earlier: Keys) -> str:
    """The digest of everything that all machines depend on."""
    chosen = earlier["candidates"] or list(run.candidates[0])
    return digest_of([earlier["whitening"][0], training_facts(run), chosen, run.shape.edges_per_tile])


def _train_linear(run: Run, tile: slice) -> list[str]:
    chosen, shape = chosen_candidate(run), run.shape
    rows = read_classes(run, shape.classes_of(tile), chosen.whiten)
    settings, weight = run.settings.machines_for_calibrations(chosen.C), sample_weights(run, rows)
    machines = train_tile(rows, shape.decomposition.part(tile), settings, sample_weight=weight)
    return write_machines(run.directory, tile.start, machines)


def _train_with_kernel(run: Run, tile: slice) -> list[str]:
    assert run.kernel is not None
    chosen, shape = chosen_candidate(run), run.shape
    settings = run.settings.machines_for_calibrations(chosen.C)
    rows = read_class_rows(run, shape.classes_of(tile))
    weights = sample_weights(run, rows)
    classes = {
        c: split_class(
            run.starts[c] + np.arange(len(of_class)), c, settings, None if weights is None else weights[c]
        )
        for c, of_class in rows.items()
    }
    grams = GramBlocks.of_rows(run.kernel, rows, settings.tol)
    machines = train_kernel_tile(grams, shape.decomposition.part(tile), classes, settings)
    return write_kernel_machines(run, tile, machines)
