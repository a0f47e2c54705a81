"""The machines of a run on disk: the weights of each tile in one file, all other numbers of its machines in another.

Where pairs may have their own slopes, their profiles are a third file. One array per field of `Machines` would make
nine files per tile, thousands of files for a thousand classes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.novelty_signals import Distances
from pairloom.pipeline.completion.complete import Completion, completion_over
from pairloom.pipeline.completion.couplers import CodeCoupler, Coupler, PairCoupler
from pairloom.pipeline.machines.folds import PARTS
from pairloom.pipeline.machines.kernel_machines import KernelMachines, KernelModel, machines_followed_by
from pairloom.pipeline.machines.linear_machines import Machines, no_profiles
from pairloom.pipeline.machines.sparse_machines import SparseWeights
from pairloom.pipeline.run.feature_store import drawn_samples, read_class_rows, read_draws
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import (
    MACHINE_PARAMETERS,
    StoredGroup,
    open_group,
    write_ragged,
    write_whole,
)
from pairloom.pipeline.storage.location import Location
from pairloom.pipeline.storage.zarr_layout import read_whole
from pairloom.pipeline.threads import pieces

__all__ = [
    "TILES_AT_ONCE",
    "completion_of",
    "coupler_of_run",
    "distances_to_support",
    "read_dprime",
    "read_kernel_machines",
    "read_kernel_model",
    "read_machines",
    "read_profiles",
    "read_tiles",
    "write_kernel_machines",
    "write_machines",
]


#: Number of tiles that `read_tiles` holds in memory.
TILES_AT_ONCE = 4
#: The place of the distance among the numbers of a machine.
_DPRIME = MACHINE_PARAMETERS.index("dprime")


def write_machines(directory: Location, first: int, machines: Machines) -> list[str]:
    """Write the machines of a tile; ``first`` is the number of its first edge."""
    group, numbers = open_group(directory, "machines.zarr", write=True), _packed(machines)
    if isinstance(machines.coef, SparseWeights):
        columns = np.diff(machines.coef.start).astype(np.float64)
        repeated = np.broadcast_to(columns[:, None, None], (*numbers.shape[:2], 1))
        numbers = np.concatenate([numbers, repeated], axis=2)
        tile = first // group["parameters"].chunks[0]
        written = write_ragged(group["weight"], tile, machines.coef.values)
        written += write_ragged(group["column"], tile, machines.coef.column)
    else:
        written = write_whole(group["coef"], (first, 0, 0), machines.coef)
    return [
        *written,
        *write_whole(group["parameters"], (first, 0, 0), numbers),
        *_write_profiles(group, first, machines.profile),
    ]


def _write_profiles(group: StoredGroup, first: int, profile: NDArray[np.float32]) -> list[str]:
    """Write the profiles of a tile, if its machines have any."""
    return write_whole(group["profile"], (first, 0, 0), profile) if profile.size else []


def read_profiles(directory: Location, edges: slice = slice(None)) -> NDArray[np.float32]:
    """(E, PARTS, PROFILE_SIZE) the stored profiles of some edges."""
    return read_whole(open_group(directory, "machines.zarr")["profile"], edges)


def read_machines(directory: Location, edges: slice = slice(None)) -> Machines:
    """The stored machines of some edges."""
    group = open_group(directory, "machines.zarr")
    stored = group["parameters"]
    if stored.shape[2] > len(MACHINE_PARAMETERS):
        return _read_sparse(group, edges, open_group(directory, "features.zarr")["centre"].shape[0])
    return _unpacked(read_whole(group["coef"], edges), read_whole(stored, edges))


def _read_sparse(group: StoredGroup, edges: slice, n_features: int) -> Machines:
    """The stored machines of some edges on sparse rows, tile by tile."""
    stored, weight, column = (group[name] for name in ("parameters", "weight", "column"))
    size, (start, stop, _) = int(stored.chunks[0]), edges.indices(stored.shape[0])
    tiles = []
    for tile in range(start // size, -(-stop // size)):
        first = tile * size
        numbers = read_whole(stored, slice(first, min(first + size, stored.shape[0])))
        ends = np.concatenate([[0], np.cumsum(numbers[:, 0, -1].astype(np.int64))])
        part = slice(max(start - first, 0), min(stop - first, len(numbers)))
        used = slice(int(ends[part.start]), int(ends[part.stop]))
        coef = SparseWeights(
            ends[part.start : part.stop + 1] - used.start,
            read_whole(column, (tile, used)),
            read_whole(weight, (tile, used)),
            n_features,
        )
        tiles.append(_unpacked(coef, numbers[part, :, :-1]))
    return Machines.concatenated(tiles)


def read_dprime(directory: Location) -> NDArray[np.float64]:
    """(E,) the distance d' between the two classes of each edge."""
    parameters = open_group(directory, "machines.zarr")["parameters"]
    # A few chunks at a time: a chunk has all parameters of all machines of its edges, and one number per edge is kept.
    several = pieces(parameters.shape[0], TILES_AT_ONCE * parameters.chunks[0])
    return np.concatenate([read_whole(parameters, some)[:, 0, _DPRIME] for some in several])


def read_tiles(directory: Location, n_edges: int, edges_per_tile: int) -> Iterator[tuple[slice, Machines]]:
    """The stored machines of the first edges, tile by tile. Several are read at once, which zarr does concurrently."""
    for several in pieces(n_edges, TILES_AT_ONCE * edges_per_tile):
        machines = read_machines(directory, several)
        for tile in pieces(several.stop - several.start, edges_per_tile):
            yield slice(several.start + tile.start, several.start + tile.stop), machines.of_edges(tile)


def _packed(machines: Machines | KernelMachines) -> NDArray[np.float64]:
    """(E, M, P) the parameters of the machines in the order of `MACHINE_PARAMETERS`; those per edge are repeated."""
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


def _unpacked(coef: NDArray[np.float32] | SparseWeights, parameters: NDArray[np.float64]) -> Machines:
    """The machines with these weights and packed parameters."""
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
        profile=no_profiles(dprime),
    )


def write_kernel_machines(run: Run, tile: slice, machines: KernelMachines) -> list[str]:
    """Write the machines of a tile: their coefficients on all rows of their edges, since zeros compress well."""
    group = open_group(run.directory, "machines.zarr", write=True)
    parameters = np.concatenate([_packed(machines), machines.norm[..., None]], axis=2)
    return [
        *write_whole(group["beta"], (tile.start, 0, 0), _dense(run, tile, machines)),
        *write_whole(group["parameters"], (tile.start, 0, 0), parameters),
        *_write_profiles(group, tile.start, machines.profile),
    ]


def _dense(run: Run, tile: slice, machines: KernelMachines) -> NDArray[np.float64]:
    """(E, M, n) coefficients of the edges of a tile, on the rows of their classes."""
    beta = np.zeros((*machines.intercept.shape, run.shape.kernel_rows))
    for e, rows in enumerate(_rows_of_edges(run.rows, run.shape.members_of(tile))):
        entries = slice(*machines.start[e : e + 2])
        ascending = np.argsort(rows)
        place = ascending[np.searchsorted(rows, machines.row[entries], sorter=ascending)]
        beta[e][:, place] = machines.beta[entries].T
    return beta


def _rows_of_edges(sizes: NDArray[np.int64], members: Sequence[NDArray[np.intp]]) -> list[NDArray[np.int64]]:
    """The numbers of the training rows of each edge in the feature store, class after class."""
    starts = np.cumsum(sizes) - sizes
    return [
        np.concatenate([np.arange(starts[c], starts[c] + sizes[c]) for c in classes]) for classes in members
    ]


def _stored_kernel_machines(
    beta: NDArray[np.float64],
    parameters: NDArray[np.float64],
    members: Sequence[NDArray[np.intp]],
    sizes: NDArray[np.int64],
) -> KernelMachines:
    """The machines with these stored arrays, given the classes of each machine and the rows of every class."""
    rows = _rows_of_edges(sizes, members)
    used = [np.flatnonzero(of_edge.any(axis=0)) for of_edge in beta]
    plain = _unpacked(np.empty((*beta.shape[:2], 0), np.float32), parameters[..., :-1])
    return KernelMachines(
        start=np.cumsum([0, *map(len, used)]),
        row=np.concatenate([rows_of_edge[kept] for rows_of_edge, kept in zip(rows, used, strict=True)]),
        beta=np.concatenate([of_edge[:, kept].T for of_edge, kept in zip(beta, used, strict=True)]),
        norm=parameters[..., -1],
        **{name: values for name, values in plain._asdict().items() if name != "coef"},
    )


def read_kernel_machines(
    directory: Location,
    tiles: Sequence[slice],
    members_of: Callable[[slice], Sequence[NDArray[np.intp]]],
    sizes: NDArray[np.int64],
) -> KernelMachines:
    """The stored machines of some tiles, given the classes of each machine and the rows of every class.

    Only one tile at a time is held as a dense array.
    """
    group = open_group(directory, "machines.zarr")
    return machines_followed_by(
        [
            _stored_kernel_machines(
                read_whole(group["beta"], tile),
                read_whole(group["parameters"], tile),
                members_of(tile),
                sizes,
            )
            for tile in tiles
        ]
    )


def read_kernel_model(run: Run, tiles: Sequence[slice]) -> KernelModel:
    """The stored machines of some tiles, with their support vectors."""
    assert run.kernel is not None
    machines = read_kernel_machines(run.directory, tiles, run.shape.members_of, run.rows)
    return KernelModel(run.kernel, machines, _support_vectors(run, machines))


def _support_vectors(run: Run, machines: KernelMachines) -> NDArray[np.floating]:
    """The normalised rows of the feature store that have coefficients, each once."""
    support = np.unique(machines.row)
    class_of = _classes_of(run, support)
    vectors = [
        read_class_rows(run, [c])[c][support[class_of == c] - run.starts[c]]
        for c in np.unique(class_of).tolist()
    ]
    return np.concatenate(vectors)


def _classes_of(run: Run, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The classes of rows of the feature store, which are sorted by class."""
    return np.searchsorted(run.starts, rows, side="right") - 1


def distances_to_support(run: Run, whitened: bool) -> Distances:
    """How far the samples of `read_draws` are from the support vectors of all machines."""
    model, draws = read_kernel_model(run, run.tiles), read_draws(run, whitened)
    support = np.unique(model.machines.row)
    drawn = drawn_samples(run, run.draws_whitened)
    rows = (run.starts[drawn.classes] + drawn.rows)[draws.chosen]
    return Distances.to_support(
        model.vectors, support, _classes_of(run, support), draws.X, rows, draws.classes
    )


def coupler_of_run(run: Run, pairs: int | None = None) -> Coupler:
    """The coupler of a run's machines; ``pairs`` limits a grown graph to its first edges."""
    counts = run.settings.counts_of(run.totals)
    if run.shape.code is not None:
        shape, key = run.shape.code.shape, None if counts is None else counts.tobytes()
        return _code_of(run.shape.code.tobytes(), shape, key)
    edges = run.shape.edges if pairs is None else run.shape.edges[:pairs]
    return PairCoupler(completion_of(edges, len(run.shape.classes), counts))


def completion_of(
    edges: NDArray[np.int64], n_classes: int, counts: NDArray[np.float64] | None = None
) -> Completion:
    """The completion of the graph with these edges, in any order; ``counts`` per class only if pairs are weighted."""
    return _completion_of(edges.tobytes(), n_classes, None if counts is None else counts.tobytes())


@functools.lru_cache(maxsize=1)
def _completion_of(edges: bytes, n_classes: int, counts: bytes | None) -> Completion:
    pairs = np.frombuffer(edges, np.int64).reshape(-1, 2)
    return completion_over(n_classes, pairs[graphs.edge_order(pairs)]).weighted_by(_counts(counts))


@functools.lru_cache(maxsize=1)
def _code_of(matrix: bytes, shape: tuple[int, int], counts: bytes | None) -> CodeCoupler:
    code = graphs.ModelCode(np.frombuffer(matrix, np.int8).reshape(shape), {"family": "run"})
    return CodeCoupler(code, _counts(counts))


def _counts(counts: bytes | None) -> NDArray[np.float64] | None:
    return None if counts is None else np.frombuffer(counts)
