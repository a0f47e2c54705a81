"""Read the features of a run from its store.

Workers read classes and samples when a tile needs them, and cache them: consecutive tiles share classes, and every tile
is applied to the same samples. Rows are stored unchanged and normalised when they are read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import zict
from numpy.typing import NDArray
from scipy import sparse

from pairloom.pipeline.calibration.held_out import (
    DrawnSamples,
    draw_by_class,
    draws_by_class,
    first_of_each_class,
)
from pairloom.pipeline.calibration.novelty_signals import ClassPlaces, Distances
from pairloom.pipeline.features.sparse_features import canonical_csr
from pairloom.pipeline.machines.linear_machines import ClassFeatures, whitened_rows
from pairloom.pipeline.machines.normalisation import (
    Normalisation,
    Shrinkage,
    Whitening,
    is_whitened,
    unwhitened,
)
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import (
    StoredGroup,
    open_group,
    rows_per_file,
    write_ragged,
    write_whole,
)
from pairloom.pipeline.storage.location import Location
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = [
    "CACHE_BYTES",
    "Draws",
    "distances_of_draws",
    "drawn_samples",
    "read_checksums",
    "read_class",
    "read_class_means",
    "read_class_rows",
    "read_classes",
    "read_csr",
    "read_dense_rows",
    "read_draws",
    "read_ids",
    "read_labels",
    "read_moments",
    "read_normalisation",
    "read_places",
    "read_raw_rows",
    "read_raw_samples",
    "read_samples",
    "read_scatter",
    "read_stored_rows",
    "read_whitening",
    "read_whitening_arrays",
    "write_csr",
]

#: Size of the cache of rows, per process.
CACHE_BYTES = 256 * 2**20


def _bytes_of(value: Any) -> int:
    if sparse.issparse(value):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    return int(value.nbytes)


# One cache per process. Its keys include the digest of the stage that wrote the rows, so new data never meet old rows.
_kept: Any = zict.LRU(CACHE_BYTES, {}, weight=lambda key, values: sum(map(_bytes_of, values)))


class Draws(NamedTuple):
    """Training samples that calibrate the coupled model: normalised rows, their classes, folds and parts."""

    X: Any
    classes: NDArray[np.int32]
    folds: NDArray[np.int32]
    parts: NDArray[np.int32]
    chosen: NDArray[np.bool_]  # mask over all stored draws


def read_classes(run: Run, classes: Iterable[int], whiten: Shrinkage) -> dict[int, ClassFeatures]:
    """Whitened training rows of some classes, as linear machines are trained on them."""

    def read(c: int) -> tuple[ClassFeatures]:
        return (whitened_rows({c: read_class(run, c)}, read_whitening(run, whiten))[c],)

    return {
        c: _remembered(("class", run.digest("whitening"), whiten, c), functools.partial(read, c))[0]
        for c in map(int, classes)
    }


def read_class_rows(run: Run, classes: Iterable[int]) -> dict[int, NDArray[np.floating]]:
    """Normalised training rows of some classes, as machines with a kernel are trained on them."""

    def read(c: int) -> tuple[NDArray[np.floating]]:
        return (read_class(run, c),)

    return {
        c: _remembered(("rows", run.digest("whitening"), c), functools.partial(read, c))[0]
        for c in map(int, classes)
    }


def read_class(run: Run, c: int) -> Any:
    """Normalised training rows of a class."""
    start = int(run.starts[c])
    return read_normalisation(run)(read_stored_rows(run, start, start + run.shape.rows[c]))


def read_stored_rows(run: Run, start: int, stop: int) -> Any:
    """Consecutive training rows, sorted by class, without normalisation."""
    group = open_group(run.directory, "features.zarr")
    if run.shape.sparse is not None:
        return read_csr(group, "train", start, stop, run.shape.features)
    return read_whole(group["train"], slice(start, stop))


def write_csr(group: StoredGroup, of: Literal["train", "test", "drawn"], first: int, X: Any) -> list[str]:
    """Write a block of sparse rows; ``first`` is the number of its first row."""
    entries = group[f"{of}_entries"]
    block = first // entries.chunks[0]
    return [
        *write_ragged(group[f"{of}_value"], block, X.data),
        *write_ragged(group[f"{of}_column"], block, X.indices),
        *write_whole(entries, (first,), np.diff(X.indptr).astype(np.int32)),
    ]


def read_csr(
    group: StoredGroup, of: Literal["train", "test", "drawn"], start: int, stop: int, n_features: int
) -> sparse.csr_array:
    """Consecutive rows that `write_csr` has written."""
    stored, values, columns = (group[f"{of}_{what}"] for what in ("entries", "value", "column"))
    size, parts, sizes = int(stored.chunks[0]), list[tuple[NDArray[Any], ...]](), list[NDArray[np.int64]]()
    for block in range(start // size, -(-stop // size)):
        first = block * size
        entries = read_whole(stored, slice(first, min(first + size, stored.shape[0]))).astype(np.int64)
        ends = np.concatenate([[0], np.cumsum(entries)])
        rows = slice(max(start - first, 0), min(stop - first, len(entries)))
        used = slice(int(ends[rows.start]), int(ends[rows.stop]))
        parts.append(tuple(read_whole(array, (block, used)) for array in (values, columns)))
        sizes.append(entries[rows])
    data, indices = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    return canonical_csr(sparse.csr_array((data, indices, indptr), shape=(stop - start, n_features)))


def read_raw_rows(run: Run, rows: NDArray[np.int64]) -> Any:
    """Training rows, without normalisation, by their positions in the store."""
    if run.shape.sparse is None:
        return read_dense_rows(run.directory, rows)
    size, group = rows_per_file(run.shape.numbers_per_row), open_group(run.directory, "features.zarr")
    order, parts = np.argsort(rows, kind="stable"), []
    for block in np.unique(rows // size).tolist():
        in_block, first = rows[order][rows[order] // size == block], block * size
        stop = min(first + size, int(run.rows.sum()))
        parts.append(read_csr(group, "train", first, stop, run.shape.features)[in_block - first])
    return sparse.vstack(parts, "csr")[np.argsort(order)]


def read_dense_rows(directory: Location, rows: NDArray[np.int64]) -> NDArray[np.floating]:
    """As `read_raw_rows`, for dense rows. They are read file by file: zarr would hold all chunks of a selection."""
    stored = open_group(directory, "features.zarr")["train"]
    values = np.empty((len(rows), stored.shape[1]), stored.dtype)
    file_of = rows // rows_per_file(stored.shape[1])
    for file in np.unique(file_of).tolist():
        in_file = np.flatnonzero(file_of == file)
        ascending = in_file[np.argsort(rows[in_file])]
        values[ascending] = stored.oindex[rows[ascending], :]
    if np.isnan(values).any():
        raise ValueError(f"{stored.store_path}: chunks are missing.")
    return values


def read_normalisation(run: Run) -> Normalisation:
    """The normalisation of the features."""

    def read() -> tuple[NDArray[np.float64], ...]:
        return read_moments(run.directory, run.shape.standardised)

    centre, *deviation = _remembered(("centre", run.digest("whitening")), read)
    return run.settings.kind.normalisation(Normalisation(centre, run.exponent, *deviation))


def read_moments(directory: Location, standardised: bool) -> tuple[NDArray[np.float64], ...]:
    """The mean of the features and, where they are standardised, their standard deviation."""
    group, names = open_group(directory, "features.zarr"), ("centre", "deviation")
    return tuple(read_whole(group[name]) for name in names[: 1 + standardised])


def read_whitening(run: Run, whiten: Shrinkage) -> Whitening:
    """The whitening with this shrinkage."""

    if run.shape.sparse is not None:
        return unwhitened()

    def read() -> tuple[NDArray[np.float32], ...]:
        return read_whitening_arrays(run.directory, run.shape.shrinkages, whiten)

    return Whitening(*_remembered(("whitening", run.digest("whitening"), whiten), read))


def read_whitening_arrays(
    directory: Location, shrinkages: Sequence[Shrinkage], whiten: Shrinkage
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The mean and the factor of one of the stored whitenings; the factor is empty for no whitening."""
    group = open_group(directory, "features.zarr")
    mean = read_whole(group["mean"], shrinkages.index(whiten))
    if not is_whitened(whiten):
        return mean, np.empty((0, 0), np.float32)
    return mean, read_whole(group["factor"], [t for t in shrinkages if is_whitened(t)].index(whiten))


def read_checksums(directory: Location) -> NDArray[np.int64]:
    """(N,) the checksums of the training rows of the classes."""
    return read_whole(open_group(directory, "features.zarr")["checksum"])


def read_class_means(directory: Location, classes: slice = slice(None)) -> NDArray[np.float64]:
    """(n, D) the means of some classes, without the drawn samples."""
    return read_whole(open_group(directory, "features.zarr")["kept_mean"], classes)


def read_scatter(directory: Location, part: int) -> NDArray[np.float64]:
    """(D, D) the scatter of one part of the classes, without the drawn samples."""
    return read_whole(open_group(directory, "features.zarr")["scatter"], part)


def read_labels(directory: Location, samples: slice = slice(None)) -> NDArray[np.int32]:
    """The classes of test samples."""
    return read_whole(open_group(directory, "features.zarr")["label"], samples)


def read_places(directory: Location) -> ClassPlaces | None:
    """The places of the classes, as the stage "whitening" stored them; None if they have none."""
    group = open_group(directory, "features.zarr")
    places = ClassPlaces(*(read_whole(group[f"place_{name}"]) for name in ClassPlaces._fields))
    return places if places.shares.any() else None


def distances_of_draws(run: Run, whitened: bool) -> tuple[Distances, ClassPlaces] | tuple[None, None]:
    """Distances of the samples of `read_draws` from the classes, and these places; None if there are none."""
    if not run.shape.placed:
        return None, None
    places = read_places(run.directory)
    if places is None:
        return None, None
    drawn, settings = read_draws(run, whitened), run.settings
    first = draws_by_class(run.rows, settings.calibration_samples, settings.folds, whitened=True)
    judged = first_of_each_class(drawn.classes, first)
    return Distances.to_places(places, drawn.X, drawn.classes, judged), places


def drawn_samples(run: Run, whitened: bool) -> DrawnSamples:
    """The choice of the training samples that calibrate a model with whitened, or unwhitened, features."""
    settings = run.settings
    return draw_by_class(run.rows, settings.calibration_samples, settings.folds, settings.seed, whitened)


def read_draws(run: Run, whitened: bool) -> Draws:
    """The samples that calibrate a model with whitened, or unwhitened, features: the first stored draws per class."""

    def read() -> tuple[Any, ...]:
        group = open_group(run.directory, "features.zarr")
        of_sample = (read_whole(group[name]) for name in ("drawn_class", "drawn_fold", "drawn_part"))
        if run.shape.sparse is not None:
            X: Any = read_csr(group, "drawn", 0, run.shape.draws, run.shape.features)
        else:
            X = read_whole(group["drawn"])
        return read_normalisation(run)(X), *of_sample

    X, classes, folds, parts = _remembered(("draws", run.digest("draws"), run.digest("whitening")), read)
    quotas = draws_by_class(run.rows, run.settings.calibration_samples, run.settings.folds, whitened)
    chosen = first_of_each_class(classes, quotas)
    return Draws(X[chosen], classes[chosen], folds[chosen], parts[chosen], chosen)


def read_ids(directory: Location, of: Literal["row", "sample"], numbers: NDArray[np.integer]) -> NDArray[Any]:
    """The ids of training rows or of test samples, by their numbers in the store."""
    stored = open_group(directory, "features.zarr")[of]
    ids = np.asarray(stored.oindex[numbers] if len(numbers) else stored[:0])
    if (ids == stored.fill_value).any() and ids.dtype.kind == "T":
        raise ValueError(f"{stored.store_path}: chunks are missing.")
    return ids


def read_samples(run: Run, slab: slice) -> Any:
    """A slab of test samples, normalised."""

    def read() -> tuple[Any]:
        return (read_normalisation(run)(read_raw_samples(run, slab)),)

    key = ("samples", run.digest("samples"), run.digest("whitening"), slab.start, slab.stop)
    return _remembered(key, read)[0]


def read_raw_samples(run: Run, slab: slice) -> Any:
    """A slab of test samples, without normalisation."""
    group = open_group(run.directory, "features.zarr")
    if run.shape.sparse is not None:
        return read_csr(group, "test", slab.start, slab.stop, run.shape.features)
    return read_whole(group["test"], slab)


def _remembered(key: tuple[Any, ...], read: Callable[[], tuple[Any, ...]]) -> Any:
    kept = _kept.get(key)
    if kept is None:
        kept = _kept[key] = read()
    return kept
