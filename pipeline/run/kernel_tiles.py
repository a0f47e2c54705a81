"""Machines with a kernel in a run: tiles of dual coefficients on disk, and support vectors in the feature store.

The coefficients of an edge are stored on all rows of its classes, class after class, and zeros up to the edge with the
most rows. Most of them are zero, and compressed. An edge is a pair of classes, or a column of a code.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.machines.dealt_class import dealt_class
from pairloom.pipeline.machines.gram_blocks import GramBlocks
from pairloom.pipeline.machines.kernel_machines import (
    KernelMachines,
    machines_followed_by,
    train_kernel_columns,
    train_kernel_edges,
)
from pairloom.pipeline.machines.kernel_model import KernelModel
from pairloom.pipeline.run.choosing import chosen_candidate, sample_weights
from pairloom.pipeline.run.feature_store import read_class_rows
from pairloom.pipeline.run.machine_store import packed, unpacked
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["read_kernel_model", "stored_kernel_machines", "train_kernel_tile"]


def train_kernel_tile(run: Run, tile: slice) -> list[Path]:
    """Train the machines of a tile of edges, and write them."""
    assert run.settings.kernel is not None
    chosen, shape = chosen_candidate(run), run.shape
    settings = run.settings.machines(chosen.C, chosen.calibration)
    rows = read_class_rows(run, shape.classes_of(tile))
    weights = sample_weights(run, rows)
    classes = {
        c: dealt_class(
            run.starts[c] + np.arange(len(own)), c, settings, None if weights is None else weights[c]
        )
        for c, own in rows.items()
    }
    grams = GramBlocks.of_rows(run.settings.kernel, rows, settings.tol)
    if shape.code is None:
        machines = train_kernel_edges(grams, shape.edges[tile], classes, settings)
    else:
        machines = train_kernel_columns(grams, shape.code[:, tile], classes, settings)
    return _write(run, tile, machines)


def _write(run: Run, tile: slice, machines: KernelMachines) -> list[Path]:
    group = open_group(run.directory, "machines.zarr", write=True)
    parameters = np.concatenate([packed(machines), machines.norm[..., None]], axis=2)
    return [
        *write_whole(group["beta"], (tile.start, 0, 0), _dense(run, tile, machines)),
        *write_whole(group["parameters"], (tile.start, 0, 0), parameters),
    ]


def _dense(run: Run, tile: slice, machines: KernelMachines) -> NDArray[np.float64]:
    """(E, M, n) coefficients of the edges of a tile, on the rows of their classes."""
    beta = np.zeros((*machines.intercept.shape, run.shape.kernel_rows))
    for e, rows in enumerate(_rows_of_edges(run.rows, run.shape.members_of(tile))):
        own = slice(*machines.start[e : e + 2])
        ascending = np.argsort(rows)
        place = ascending[np.searchsorted(rows, machines.row[own], sorter=ascending)]
        beta[e][:, place] = machines.beta[own].T
    return beta


def _rows_of_edges(sizes: NDArray[np.int64], members: Sequence[NDArray[np.intp]]) -> list[NDArray[np.int64]]:
    """The training rows of each edge, class after class, as they are counted in the feature store."""
    starts = np.cumsum(sizes) - sizes
    return [np.concatenate([np.arange(starts[c], starts[c] + sizes[c]) for c in own]) for own in members]


def stored_kernel_machines(
    beta: NDArray[np.float64],
    parameters: NDArray[np.float64],
    members: Sequence[NDArray[np.intp]],
    sizes: NDArray[np.int64],
) -> KernelMachines:
    """The machines whose stored arrays these are: the classes of each, and the number of rows of every class."""
    rows = _rows_of_edges(sizes, members)
    used = [np.flatnonzero(of_edge.any(axis=0)) for of_edge in beta]
    plain = unpacked(np.empty((*beta.shape[:2], 0), np.float32), parameters[..., :-1])
    return KernelMachines(
        start=np.cumsum([0, *map(len, used)]),
        row=np.concatenate([own[kept] for own, kept in zip(rows, used, strict=True)]),
        beta=np.concatenate([of_edge[:, kept].T for of_edge, kept in zip(beta, used, strict=True)]),
        norm=parameters[..., -1],
        **{name: values for name, values in plain._asdict().items() if name != "coef"},
    )


def read_kernel_model(run: Run, tiles: Sequence[slice]) -> KernelModel:
    """The stored machines of some tiles, with their support vectors. Only one tile is held with all its zeros."""
    assert run.settings.kernel is not None
    group = open_group(run.directory, "machines.zarr")
    machines = machines_followed_by(
        [
            stored_kernel_machines(
                read_whole(group["beta"], tile),
                read_whole(group["parameters"], tile),
                run.shape.members_of(tile),
                run.rows,
            )
            for tile in tiles
        ]
    )
    return KernelModel(run.settings.kernel, machines, _support_vectors(run, machines))


def _support_vectors(run: Run, machines: KernelMachines) -> NDArray[np.floating]:
    """The rows of the feature store on which machines have coefficients, each once, normalised."""
    support = np.unique(machines.row)
    class_of = np.searchsorted(run.starts, support, side="right") - 1
    vectors = [
        read_class_rows(run, [c])[c][support[class_of == c] - run.starts[c]]
        for c in np.unique(class_of).tolist()
    ]
    return np.concatenate(vectors)
