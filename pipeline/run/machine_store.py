"""The machines of a run on disk: the weights of each tile in one file, all other numbers of its machines in another.

Eight arrays, one for each field of `Machines`, would be eight files per tile: thousands for a thousand classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.machines.folds import PARTS
from pairloom.pipeline.machines.kernel_machines import KernelMachines
from pairloom.pipeline.machines.linear_machines import Machines
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.run_directory import MACHINE_PARAMETERS, open_group, write_whole
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["TILES_AT_ONCE", "packed", "read_machines", "read_tiles", "unpacked", "write_machines"]

#: Tiles that `read_tiles` holds.
TILES_AT_ONCE = 4


def write_machines(directory: Path, first: int, machines: Machines) -> list[Path]:
    """Write the machines of a tile whose first edge has this number."""
    group = open_group(directory, "machines.zarr", write=True)
    return [
        *write_whole(group["coef"], (first, 0, 0), machines.coef),
        *write_whole(group["parameters"], (first, 0, 0), packed(machines)),
    ]


def read_machines(directory: Path, edges: slice = slice(None)) -> Machines:
    """The stored machines of some edges."""
    group = open_group(directory, "machines.zarr")
    return unpacked(*(read_whole(group[name], edges) for name in ("coef", "parameters")))


def read_tiles(directory: Path, n_edges: int, edges_per_tile: int) -> Iterator[tuple[slice, Machines]]:
    """The stored machines of the first edges, tile by tile. Several are read at once: zarr then reads side by side."""
    for several in pieces(n_edges, TILES_AT_ONCE * edges_per_tile):
        machines = read_machines(directory, several)
        for tile in pieces(several.stop - several.start, edges_per_tile):
            yield slice(several.start + tile.start, several.start + tile.stop), machines.of_edges(tile)


def packed(machines: Machines | KernelMachines) -> NDArray[np.float64]:
    """(E, M, P) the numbers of the machines in the order of `MACHINE_PARAMETERS`; those of an edge are repeated."""
    n_edges, n_machines = machines.intercept.shape
    of_machine = [machines.intercept, *np.moveaxis(machines.platt, 2, 0)]
    of_machine += [*np.moveaxis(machines.crossfit.reshape(n_edges, n_machines, 2 * PARTS), 2, 0)]
    of_machine += [machines.gap, machines.iterations]
    of_edge = [
        np.repeat(values[:, None], n_machines, axis=1) for values in (machines.threshold, machines.dprime)
    ]
    numbers = np.stack([*of_machine, *of_edge], axis=2, dtype=np.float64)
    assert numbers.shape[2] == len(MACHINE_PARAMETERS)
    return numbers


def unpacked(coef: NDArray[np.float32], parameters: NDArray[np.float64]) -> Machines:
    """The machines whose weights and packed numbers these are."""
    widths = np.cumsum([1, 2, 2 * PARTS, 1, 1, 1, 1])[:-1]
    intercept, platt, crossfit, gap, iterations, threshold, dprime = np.split(parameters, widths, axis=2)
    return Machines(
        coef=coef,
        intercept=intercept[..., 0],
        platt=np.ascontiguousarray(platt),
        crossfit=crossfit.reshape(*crossfit.shape[:2], PARTS, 2),
        threshold=threshold[:, 0, 0],
        dprime=dprime[:, 0, 0],
        gap=gap[..., 0],
        iterations=iterations[..., 0].astype(np.int64),
    )
