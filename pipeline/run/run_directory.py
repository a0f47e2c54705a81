"""The zarr groups of a run directory: their arrays, chunks, and how tasks write them.

========================  ==================================================================================
features.zarr             train (row, feature) and train_class (row), sorted by class, and checksum (class);
                          test (sample, feature) and label (sample); row (row) and sample (sample), the ids of both;
                          drawn (draw, feature), drawn_class,
                          drawn_fold and drawn_part (draw), training samples that calibrate the coupled
                          model; centre (feature) and, where rows are standardised, deviation (feature);
                          mean (shrinkage, feature) and factor (whitening, feature, whitened), from kept_mean
                          (class, feature) and scatter (part, feature, other_feature), without the drawn;
                          place_origin, place_directions, place_means, place_between and place_shares, the places of
                          the classes, by which novelty is measured;
                          sparse rows are train_value and train_column (block, place), and train_entries (row), how
                          many entries each has; so are test and drawn, with a block per slab of samples and one
source.zarr               where tasks read rows from their source: train_place and train_check (row), test_place and
                          test_check (sample), the numbers of the rows there, in the order of features.zarr, and their
                          checksums
machines.zarr             coef (edge, machine, feature), or with a kernel beta (edge, machine, row_of_edge), the
                          coefficients on the rows of both classes, or on sparse rows weight (tile, place, machine)
                          and column (tile, place), edge after edge; parameters (edge, machine, parameter), all else;
                          where pairs may have slopes of their own, profile (edge, part, point) and slopes (edge,
                          without_part), that by all samples first;
                          learned_coef (edge, feature) and learned_intercept (edge), if weights are learned through the
                          coupling, with chunks if that has changed them; where they are many, weights (edge, feature)
                          and bias (edge), the machines of an edge as one map of samples, and ranking_weights (ranking,
                          class, feature) and ranking_bias (ranking, class), that of the classes
logits.zarr               where it is stored, tensor (class, other, sample), which holds the logits of the edges too;
                          out-of-fold logits of the drawn samples by each calibration: held_out (calibration, edge,
                          draw), or where shortlists are coupled, listed (calibration, draw, place), blocks
                          (calibration, place, other_place, draw) and ranking (calibration, draw, class); size
                          (calibration, draw), the typical size of the logits
probabilities.zarr        one array (sample, class) per coupling, here called m; of many classes, m (sample, place) and
                          m_class (sample, place), the likeliest classes of a sample, m_rest (sample), the probability
                          of all others, and m_likelihood (sample), that of the true class, if there are labels;
                          sample (sample), the ids of the samples;
                          scale (coupling) and list_mass (coupling, mass); where every edge is calibrated, slope
                          and shift (coupling, edge); held_out_scores (coupling, draw, score), what the model says
                          of the drawn samples, and novelty (coupling, value, signal), the weights of signals
========================  ==================================================================================

The labels of the classes and the two classes of each edge are coordinates: ``xarray.open_zarr`` reads each group. Where
machines are on sets of classes, an edge is a column of the code, and the coordinate ``side`` (edge, class) has it.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.calibration.held_out_scores import n_columns
from pairloom.pipeline.calibration.novelty_signals import MOST_SIGNALS, ClassPlaces, NoveltyWeights
from pairloom.pipeline.completion.shortlist import ListMass
from pairloom.pipeline.coupling.codes.couple_code import CODE_METHODS
from pairloom.pipeline.coupling.pairs.couple import METHODS
from pairloom.pipeline.features.feature_set import names_of
from pairloom.pipeline.machines.folds import PARTS
from pairloom.pipeline.machines.normalisation import Shrinkage, is_whitened, scatter_parts
from pairloom.pipeline.machines.pair_calibration import PROFILE_SIZE
from pairloom.pipeline.machines.settings import Calibration
from pairloom.pipeline.storage.folder import Folder, folder_of
from pairloom.pipeline.storage.location import Location
from pairloom.pipeline.storage.zarr_layout import (
    ChunkedArray,
    Coordinate,
    chunk_path,
    group_files,
    remove_outdated,
    stamp,
)

__all__ = [
    "KERNEL_MACHINE_PARAMETERS",
    "LIST_PARTS",
    "MACHINE_PARAMETERS",
    "SPARSE_MACHINE_PARAMETERS",
    "RunShape",
    "SourceOfRows",
    "SparseSizes",
    "StoredGroup",
    "chunk_count",
    "coordinate_labels",
    "group_members",
    "open_group",
    "rows_per_file",
    "run_groups",
    "stamp_groups",
    "write_chunks",
    "write_ragged",
    "write_whole",
]

GroupName = Literal["source.zarr", "features.zarr", "machines.zarr", "logits.zarr", "probabilities.zarr"]

# Training rows are contiguous, so that a large class causes no padding in others. A small class lies in one or two
# chunks, each of 128 KiB as float32. A unit of work writes a file of 128 chunks.
_NUMBERS_PER_CHUNK, _CHUNKS_PER_FILE = 2**15, 128
_IDS_PER_FILE = 2**18

#: The numbers of a machine besides its weights: the parameter axis of machines.zarr. Numbers of an edge, which has
#: several machines, are repeated for each of them.
MACHINE_PARAMETERS = (
    "intercept",
    *("A", "B"),
    *(f"{letter} without part {part}" for part in range(PARTS) for letter in "AB"),
    *("gap", "iterations", "threshold", "dprime"),
)

#: The same for machines with a kernel, and for machines on sparse rows: "columns" counts those that have weights.
KERNEL_MACHINE_PARAMETERS = (*MACHINE_PARAMETERS, "norm")
SPARSE_MACHINE_PARAMETERS = (*MACHINE_PARAMETERS, "columns")

#: Suffixes of the arrays with the lists of a coupling: probabilities, classes, the rest, and the true class.
LIST_PARTS = ("", "_class", "_rest", "_likelihood")

# Arrays that not every run has. A run whose configuration changes may lose them.
_OPTIONAL_ARRAYS: dict[str, tuple[str, ...]] = {
    "source.zarr": ("train_place", "train_check", "test_place", "test_check"),
    "features.zarr": (
        "label",
        "kept_mean",
        "scatter",
        "factor",
        *(f"place_{name}" for name in ClassPlaces._fields),
        "drawn",
        "drawn_class",
        "drawn_fold",
        "drawn_part",
        "deviation",
        *("train", "test", "mean"),
        *(f"{of}_{what}" for of in ("train", "test", "drawn") for what in ("value", "column", "entries")),
    ),
    "machines.zarr": (
        *("coef", "beta", "weight", "column", "profile", "slopes", "learned_coef", "learned_intercept"),
        *("weights", "bias", "ranking_weights", "ranking_bias"),
    ),
    "logits.zarr": ("edges", "tensor", "held_out", "listed", "blocks", "ranking", "size"),
    "probabilities.zarr": (
        *(method + part for method in (*METHODS, *CODE_METHODS, "auto") for part in LIST_PARTS),
        *("slope", "shift", "held_out_scores", "novelty"),
    ),
}


class SparseSizes(NamedTuple):
    """Sizes of the arrays of a run on sparse rows.

    Attributes
    ----------
    entries : number of entries of the training rows of each class
    block, slab, drawn : maximum number of entries of a block of training rows, of a slab of test samples, of the draws
    samples : number of entries of all test samples
    columns : number of columns with weights, summed over the pairs of the initial graph
    tile, pair : maximum number of columns with weights of a tile and of a pair
    """

    entries: tuple[int, ...]
    block: int
    slab: int
    drawn: int
    samples: int
    columns: int
    tile: int
    pair: int


class SourceOfRows(NamedTuple):
    """How tasks read rows from their source.

    Attributes
    ----------
    parameter, array : the parameter that names the source, and the array of the rows in it
    columns : the columns of that array; none for all
    blocks : number of consecutive blocks of rows that one unit of work stores
    together, of : number of consecutive rows of the source that are in memory at once, and of all its rows; 0 if a
        unit of work reads all its rows at once, in pieces
    reads : how many bytes all units read together, as a multiple of the bytes of the rows; 0 if rows are generated
    digest : digest of the numbers of the rows in the source
    """

    parameter: str
    array: str
    columns: tuple[int, ...]
    blocks: int
    together: int
    of: int
    reads: float
    digest: str


class RunShape(NamedTuple):
    """Everything that determines the layout of the groups.

    Attributes
    ----------
    labels, rows : labels of the classes, sorted, in the type of the source, and number of training rows per class
    features, dtype : number of features, and type of the stored training rows
    samples, sample_dtype, labelled : number of test samples, their type, and whether their labels are known
    edges : (E, 2) pairs in the order of the tiles; none if machines are on sets of classes
    machines_per_edge : int
    shrinkages : shrinkages of all candidate whitenings
    draws : number of training samples that calibrate the coupled model
    listed : number of classes per drawn sample whose logits are stored, or 0 where the logits of all edges are
    edges_per_tile, samples_per_slab, draws_per_slab : chunk sizes along the axes of edges and samples
    couplings : coupling methods, that of the model first
    edges_calibrated : whether every edge has, or may have, its own calibration
    tensor_stored : whether the completed tensor is stored
    synthetic : whether the features are generated rather than measured
    code : (N, E) code of machines on sets of classes, else None
    kernel_rows : maximum number of training rows of a machine if machines have a kernel, else 0
    standardised : whether columns are divided by their standard deviation
    feature_names : names of the features, if they have any
    learned : whether weights are learned through the coupling
    calibrations : the calibrations of the machines that the run chooses from
    row_ids, sample_ids : types of the ids of training rows and test samples: "int64" or "string"
    kept : number of likeliest classes stored per test sample, or 0 where the probabilities of all classes are
    collapsed : whether the machines of each edge are stored as one affine map, for prediction
    sparse : sizes of the arrays of sparse rows; None where rows are dense
    train_source, test_source : how tasks read the rows from their source; None where the driver reads and stores them
    """

    labels: NDArray[Any]
    rows: tuple[int, ...]
    features: int
    dtype: str
    samples: int
    sample_dtype: str
    labelled: bool
    edges: NDArray[np.int64]
    machines_per_edge: int
    shrinkages: tuple[Shrinkage, ...]
    draws: int
    listed: int
    edges_per_tile: int
    samples_per_slab: int
    draws_per_slab: int
    couplings: tuple[str, ...]
    edges_calibrated: bool
    tensor_stored: bool
    synthetic: bool
    code: NDArray[np.int8] | None = None
    kernel_rows: int = 0
    standardised: bool = False
    feature_names: tuple[str, ...] = ()
    learned: bool = False
    calibrations: tuple[Calibration, ...] = ("platt",)
    row_ids: str = "int64"
    sample_ids: str = "int64"
    kept: int = 0
    collapsed: bool = False
    sparse: SparseSizes | None = None
    train_source: SourceOfRows | None = None
    test_source: SourceOfRows | None = None

    @property
    def numbers_per_row(self) -> int:
        """Number of features, or of entries of an average training row if rows are sparse."""
        if self.sparse is None:
            return self.features
        return max(1, round(sum(self.sparse.entries) / sum(self.rows)))

    @property
    def sloped(self) -> bool:
        """Whether pairs may have their own slopes."""
        return "slopes" in self.calibrations

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes: their labels as text."""
        return names_of(self.labels)

    @property
    def decomposition(self) -> graphs.Decomposition:
        """The classes that each machine is trained on, in the order of the tiles."""
        if self.code is None:
            return graphs.Pairs(self.edges, len(self.labels))
        return graphs.ModelCode(self.code, {"family": "run"})

    @property
    def n_edges(self) -> int:
        """E, the number of pairs, or of pairs of sets of classes, that are trained."""
        return self.decomposition.n_machines

    @property
    def order(self) -> NDArray[np.intp]:
        """The permutation that brings machines from the order of the tiles into that of a model."""
        return self.decomposition.order

    @property
    def rows_per_edge(self) -> float:
        """Number of training rows of an average pair, or pair of sets."""
        return self.decomposition.rows_per_machine(self.rows)

    def classes_of(self, tile: slice) -> NDArray[np.intp]:
        """The classes that the machines of a tile are trained on, ascending."""
        return self.decomposition.part(tile).classes

    def members_of(self, tile: slice) -> list[NDArray[np.intp]]:
        """The classes that each machine of a tile is trained on, those of its positive side first."""
        return self.decomposition.part(tile).members()

    def described(self, tile: slice) -> list[Any]:
        """The pairs of a tile, or its columns of the code, as JSON values."""
        return self.decomposition.part(tile).described()

    @property
    def machine_parameters(self) -> tuple[str, ...]:
        """The names along the parameter axis of machines.zarr."""
        if self.sparse is not None:
            return SPARSE_MACHINE_PARAMETERS
        return KERNEL_MACHINE_PARAMETERS if self.kernel_rows else MACHINE_PARAMETERS

    @property
    def whitenings(self) -> tuple[Shrinkage, ...]:
        """The shrinkages that whiten. Each has a whitening matrix."""
        return tuple(t for t in self.shrinkages if is_whitened(t))

    @property
    def placed(self) -> bool:
        """Whether the places of the classes are stored, from which novelty is measured."""
        return bool(self.whitenings and self.draws and not self.kernel_rows)


def rows_per_file(numbers_per_row: int) -> int:
    """Number of training rows that one unit of work stores."""
    return _CHUNKS_PER_FILE * _rows_per_chunk(numbers_per_row)


def _rows_per_chunk(numbers_per_row: int) -> int:
    return max(1, _NUMBERS_PER_CHUNK // numbers_per_row)


def run_groups(shape: RunShape) -> dict[str, dict[str, bytes]]:
    """The files of each group, before any chunk is written."""
    coordinates, about = _coordinates(shape), {"synthetic": shape.synthetic}
    return {group: group_files(arrays, coordinates[group], about) for group, arrays in _arrays(shape).items()}


def group_members(shape: RunShape) -> dict[str, set[str]]:
    """The names in each group that belong to the run: its arrays, and those of earlier configurations."""
    return {
        group: {*_OPTIONAL_ARRAYS[group], *(path.split("/")[0] for path in files)}
        for group, files in run_groups(shape).items()
    }


def chunk_count(shape: RunShape) -> int:
    """The number of files that hold the chunks of all arrays of a finished run."""
    return sum(math.prod(array.grid) for arrays in _arrays(shape).values() for array in arrays)


def stamp_groups(directory: Location, shape: RunShape, *, growing: bool = False) -> list[str]:
    """Write missing or damaged metadata and coordinates of every group; return their paths.

    Arrays that the run no longer has, such as those of a removed coupling, are deleted. Chunks beyond the end of an
    array are deleted too, unless the run is growing: it may grow to include them.
    """
    arrays, folder, stamped = _arrays(shape), Folder(directory), []
    for group, files in run_groups(shape).items():
        members = {path.split("/")[0] for path in files}
        remove_outdated(folder, group, [] if growing else arrays[group], members, _OPTIONAL_ARRAYS[group])
        stamped += stamp(folder, {f"{group}/{path}": data for path, data in files.items()})
    return stamped


@dataclass(frozen=True)
class StoredGroup:
    """A zarr group of a run directory. Its arrays are opened by name."""

    folder: Folder
    name: GroupName
    write: bool

    def __getitem__(self, array: str) -> Any:
        """The array with this name."""
        return self.folder.array(f"{self.name}/{array}", write=self.write)


def open_group(directory: Location, group: GroupName, *, write: bool = False) -> StoredGroup:
    """Open a group of a run directory."""
    return StoredGroup(Folder(directory), group, write)


def write_chunks(array: Any, start: tuple[int, ...], values: NDArray[Any]) -> list[str]:
    """Write whole files from ``start`` on and return their paths inside the folder of the array.

    zarr writes part of a file by reading, changing and rewriting it, so two tasks that do this at once would lose data.
    Hence ``start`` must lie on the grid of files, and the end on the grid or at the end of the array.
    """
    ends = tuple(s + n for s, n in zip(start, values.shape, strict=True))
    size_of_file = array.shards or array.chunks
    for s, e, chunk, length in zip(start, ends, size_of_file, array.shape, strict=True):
        if s % chunk or (e % chunk and e != length):
            raise ValueError(f"{array.path}: rows {s} to {e} are not whole chunks of {chunk}.")
    grid = [range(s // c, -(-e // c)) for s, e, c in zip(start, ends, size_of_file, strict=True)]
    files = [chunk_path(array, index) for index in product(*grid)]
    if array.shards is not None:
        # The last shard of an array is not full, so zarr would read an older file first, which may be damaged.
        for file in files:
            folder_of(array).delete(file)
    array[tuple(map(slice, start, ends))] = values
    return files


def write_whole(array: Any, start: tuple[int, ...], values: NDArray[Any]) -> list[str]:
    """Write whole chunks of finite values. `zarr_layout.read_whole` takes NaN for a missing chunk."""
    _check_finite(array, values)
    return write_chunks(array, start, values)


def _check_finite(array: Any, values: NDArray[Any]) -> None:
    if not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).sum())
        raise ValueError(
            f"{array.path}: results must be finite, got {bad} of {values.size} values that are NaN or infinite."
        )


def write_ragged(array: Any, number: int, values: NDArray[Any]) -> list[str]:
    """Write a row of an array (row, place, ...) and use only its first places.

    The others have the fill value of the array. Chunks of fill values are left out of the file, so they take no space.
    """
    _check_finite(array, values)
    filled = np.full(array.shape[1:], array.fill_value, array.dtype)
    filled[: len(values)] = values
    return write_chunks(array, (number,) + (0,) * (filled.ndim), filled[None])


def _arrays(shape: RunShape) -> dict[str, list[ChunkedArray]]:
    sources = {"source.zarr": found} if (found := _source_arrays(shape)) else {}
    return sources | {
        "features.zarr": _feature_arrays(shape),
        "machines.zarr": _machine_arrays(shape),
        "logits.zarr": _logit_arrays(shape),
        "probabilities.zarr": _probability_arrays(shape),
    }


def _coordinates(shape: RunShape) -> dict[str, list[Coordinate]]:
    labels = coordinate_labels(shape.labels)
    classes, other = (Coordinate(name, (name,), labels) for name in ("class", "other"))
    rows = Coordinate("rows", ("class",), np.array(shape.rows, dtype=np.int64))
    ends = [Coordinate(name, *of_machines) for name, of_machines in shape.decomposition.coordinates().items()]
    parameters = Coordinate("parameter", ("parameter",), np.array(shape.machine_parameters))
    calibrations = Coordinate("calibration", ("calibration",), np.array(shape.calibrations))
    return {
        "source.zarr": [],
        "features.zarr": [classes, rows],
        "machines.zarr": [classes, *ends, parameters],
        "logits.zarr": [classes, other, *ends, calibrations],
        "probabilities.zarr": [
            classes,
            Coordinate("coupling", ("coupling",), np.array(shape.couplings)),
            Coordinate("mass", ("mass",), np.array(ListMass._fields)),
        ],
    }


def coordinate_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as a coordinate of a zarr group. Times become text, because zarr has no stable type for them."""
    return np.array(names_of(labels)) if labels.dtype.kind in "mM" else labels


#: An array of numbers that do not compress.
_noise = functools.partial(ChunkedArray, compressed=False)


def _feature_arrays(shape: RunShape) -> list[ChunkedArray]:
    N, D, R, n = len(shape.classes), shape.features, shape.samples, sum(shape.rows)
    parts = scatter_parts(N, D)
    classes = parts[0].stop
    r, S, W = shape.samples_per_slab, len(shape.shrinkages), len(shape.whitenings)
    arrays = [
        *(_dense_rows(shape) if shape.sparse is None else _sparse_rows(shape, shape.sparse)),
        ChunkedArray("train_class", ("row",), (n,), (rows_per_file(shape.numbers_per_row),), "int32"),
        ChunkedArray("checksum", ("class",), (N,), (classes,), "int64"),
        ChunkedArray("row", ("row",), (n,), (_IDS_PER_FILE,), shape.row_ids),
        ChunkedArray("sample", ("sample",), (R,), (_IDS_PER_FILE,), shape.sample_ids),
        ChunkedArray("centre", ("feature",), (D,), (D,), "float64"),
    ]
    if shape.sparse is None:
        arrays.append(ChunkedArray("mean", ("shrinkage", "feature"), (S, D), (1, D)))
    if shape.standardised:
        arrays.append(ChunkedArray("deviation", ("feature",), (D,), (D,), "float64"))
    if shape.labelled:
        arrays.append(ChunkedArray("label", ("sample",), (R,), (r,), "int32"))
    if W:
        square = (len(parts), D, D)
        arrays.append(_noise("kept_mean", ("class", "feature"), (N, D), (classes, D), "float64"))
        arrays.append(_noise("scatter", ("part", "feature", "other_feature"), square, (1, D, D), "float64"))
        arrays.append(_noise("factor", ("whitening", "feature", "whitened"), (W, D, D), (1, D, D)))
    if shape.placed:
        K = min(N - 1, D)
        arrays += [
            _noise("place_origin", ("feature",), (D,), (D,)),
            _noise("place_directions", ("feature", "direction"), (D, K), (D, K)),
            _noise("place_means", ("class", "direction"), (N, K), (N, K)),
            _noise("place_between", ("direction",), (K,), (K,)),
            _noise("place_shares", ("class",), (N,), (N,)),
        ]
    if shape.draws:
        S = shape.draws
        if shape.sparse is None:
            arrays.append(ChunkedArray("drawn", ("draw", "feature"), (S, D), (S, D), shape.dtype))
        else:
            arrays += _ragged_rows("drawn", "draw", S, S, shape.sparse.drawn, shape.dtype)
        arrays += [
            ChunkedArray(f"drawn_{what}", ("draw",), (S,), (S,), "int32")
            for what in ("class", "fold", "part")
        ]
    return arrays


def _source_arrays(shape: RunShape) -> list[ChunkedArray]:
    """Where the rows are in a source that tasks read."""
    n, R = sum(shape.rows), shape.samples
    parts = (("train", "row", n, shape.train_source), ("test", "sample", R, shape.test_source))
    return [
        ChunkedArray(f"{part}_{what}", (axis,), (size,), (_IDS_PER_FILE,), "int64")
        for part, axis, size, source in parts
        if source is not None
        for what in ("place", "check")
    ]


def _dense_rows(shape: RunShape) -> list[ChunkedArray]:
    """The training rows and the test samples."""
    D, R, n, r = shape.features, shape.samples, sum(shape.rows), shape.samples_per_slab
    return [
        ChunkedArray(
            "train",
            ("row", "feature"),
            (n, D),
            (_rows_per_chunk(D), D),
            shape.dtype,
            chunks_per_file=(_CHUNKS_PER_FILE, 1),
        ),
        ChunkedArray("test", ("sample", "feature"), (R, D), (r, D), shape.sample_dtype),
    ]


def _sparse_rows(shape: RunShape, sizes: SparseSizes) -> list[ChunkedArray]:
    """The training rows and the test samples, if they are sparse."""
    n, of_block = sum(shape.rows), rows_per_file(shape.numbers_per_row)
    return [
        *_ragged_rows("train", "row", n, of_block, sizes.block, shape.dtype),
        *_ragged_rows(
            "test", "sample", shape.samples, shape.samples_per_slab, sizes.slab, shape.sample_dtype
        ),
    ]


def _ragged_rows(name: str, axis: str, n: int, rows: int, most: int, dtype: str) -> list[ChunkedArray]:
    """CSR rows in blocks of ``rows`` rows and up to ``most`` entries."""
    blocks, parts = -(-n // rows), (("value", dtype), ("column", "int32"))
    return [
        *(
            _ragged(f"{name}_{what}", (f"{name}_block", f"{name}_place"), (blocks, most), kind)
            for what, kind in parts
        ),
        ChunkedArray(f"{name}_entries", (axis,), (n,), (rows,), "int32"),
    ]


def _ragged(
    name: str, dimensions: tuple[str, ...], shape: tuple[int, ...], dtype: str = "float32"
) -> ChunkedArray:
    """An array (row, place, ...) with a file per row, which has only the chunks that are used."""
    places, *others = shape[1:]
    chunk = max(1, min(_NUMBERS_PER_CHUNK // math.prod(others), places))
    per_file = (1, max(1, -(-places // chunk)), *(1 for _ in others))
    return ChunkedArray(
        name, dimensions, shape, (1, chunk, *others), dtype, per_file, compressed=dtype == "int32"
    )


def _machine_arrays(shape: RunShape) -> list[ChunkedArray]:
    E, M, D, T = shape.n_edges, shape.machines_per_edge, shape.features, shape.edges_per_tile
    axes, P, n = ("edge", "machine"), len(shape.machine_parameters), shape.kernel_rows
    weights = _noise("coef", (*axes, "feature"), (E, M, D), (T, M, D))
    if n:  # most coefficients are zero, and compressed
        weights = ChunkedArray("beta", (*axes, "row_of_edge"), (E, M, n), (T, M, n), "float64")
    arrays = [
        *([weights] if shape.sparse is None else _sparse_weights(shape, shape.sparse)),
        _noise("parameters", (*axes, "parameter"), (E, M, P), (T, M, P), "float64"),
    ]
    if shape.sloped:
        profile = (PARTS, PROFILE_SIZE)
        arrays.append(_noise("profile", ("edge", "part", "point"), (E, *profile), (T, *profile)))
        slopes = (E, 1 + PARTS)
        arrays.append(_noise("slopes", ("edge", "without_part"), slopes, slopes, "float64"))
    if shape.learned:
        arrays.append(_noise("learned_coef", ("edge", "feature"), (E, D), (E, D)))
        arrays.append(_noise("learned_intercept", ("edge",), (E,), (E,)))
    if shape.collapsed:
        arrays += _collapsed_arrays(shape)
    return arrays


def _sparse_weights(shape: RunShape, sizes: SparseSizes) -> list[ChunkedArray]:
    """The weights of the tiles, edge after edge, on the columns that have weights."""
    tiles, M = -(-shape.n_edges // shape.edges_per_tile), shape.machines_per_edge
    return [
        _ragged("weight", ("tile", "place", "machine"), (tiles, sizes.tile, M)),
        _ragged("column", ("tile", "place"), (tiles, sizes.tile), "int32"),
    ]


def _collapsed_arrays(shape: RunShape) -> list[ChunkedArray]:
    """The affine maps of the edges, tile by tile, and the rankings computed from them."""
    E, D, T, N = shape.n_edges, shape.features, shape.edges_per_tile, len(shape.classes)
    M = len(shape.couplings) if shape.edges_calibrated else 1
    return [
        _noise("weights", ("edge", "feature"), (E, D), (T, D)),
        _noise("bias", ("edge",), (E,), (T,)),
        _noise("ranking_weights", ("ranking", "class", "feature"), (M, N, D), (1, N, D)),
        _noise("ranking_bias", ("ranking", "class"), (M, N), (1, N)),
    ]


def _logit_arrays(shape: RunShape) -> list[ChunkedArray]:
    N, R = len(shape.classes), shape.samples
    r = shape.samples_per_slab
    arrays = _held_out_arrays(shape) if shape.draws else []
    if shape.tensor_stored:
        arrays.append(_noise("tensor", ("class", "other", "sample"), (N, N, R), (N, N, r)))
    return arrays


def _held_out_arrays(shape: RunShape) -> list[ChunkedArray]:
    E, N, S, k, s = shape.n_edges, len(shape.classes), shape.draws, shape.listed, shape.draws_per_slab
    V, by = len(shape.calibrations), "calibration"
    if not k:
        return [_noise("held_out", (by, "edge", "draw"), (V, E, S), (1, E, s))]
    return [
        ChunkedArray("listed", (by, "draw", "place"), (V, S, k), (1, s, k), "int32"),
        _noise("blocks", (by, "place", "other_place", "draw"), (V, k, k, S), (1, k, k, s)),
        _noise("ranking", (by, "draw", "class"), (V, S, N), (1, s, N)),
        ChunkedArray("size", (by, "draw"), (V, S), (1, s)),
    ]


def _probability_arrays(shape: RunShape) -> list[ChunkedArray]:
    N, R, r = len(shape.classes), shape.samples, shape.samples_per_slab
    E, M = shape.n_edges, len(shape.couplings)
    if shape.kept:
        arrays = [array for method in shape.couplings for array in _list_arrays(shape, method)]
    else:
        arrays = [ChunkedArray(method, ("sample", "class"), (R, N), (r, N)) for method in shape.couplings]
    arrays.append(ChunkedArray("sample", ("sample",), (R,), (_IDS_PER_FILE,), shape.sample_ids))
    arrays.append(ChunkedArray("scale", ("coupling",), (M,), (1,), "float64"))
    arrays.append(ChunkedArray("list_mass", ("coupling", "mass"), (M, 2), (1, 2), "float64"))
    if shape.draws:
        scores = (shape.draws, n_columns(N))
        axes = ("coupling", "draw", "score")
        arrays.append(ChunkedArray("held_out_scores", axes, (M, *scores), (1, *scores), "float64"))
        weights, axes = (len(NoveltyWeights._fields), MOST_SIGNALS), ("coupling", "value", "signal")
        arrays.append(ChunkedArray("novelty", axes, (M, *weights), (1, *weights), "float64"))
    if shape.edges_calibrated:
        arrays += [
            ChunkedArray(name, ("coupling", "edge"), (M, E), (1, E), "float64") for name in ("slope", "shift")
        ]
    return arrays


def _list_arrays(shape: RunShape, method: str) -> list[ChunkedArray]:
    """The lists of the likeliest classes by a coupling method, in the order of `LIST_PARTS`."""
    R, r, k = shape.samples, shape.samples_per_slab, shape.kept
    of_list, of_sample = ("sample", "place"), ("sample",)
    p, classes, rest, likelihood = (method + part for part in LIST_PARTS)
    arrays = [
        ChunkedArray(p, of_list, (R, k), (r, k)),
        ChunkedArray(classes, of_list, (R, k), (r, k), "int32"),
        ChunkedArray(rest, of_sample, (R,), (r,)),
    ]
    return [*arrays, ChunkedArray(likelihood, of_sample, (R,), (r,))] if shape.labelled else arrays
