"""Read the rows of a run from their source, as its tasks do.

The driver has read and checked the source. It stored where the rows are in it, in the order of the run, and their
checksums, and a task compares what it reads with these.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.config.config import Config
from pairloom.pipeline.features.feature_set import reopened_rows
from pairloom.pipeline.features.row_sources import (
    PIECE_BYTES,
    Origin,
    PlacedRows,
    Rows,
    ZarrRows,
    check_unchanged,
)
from pairloom.pipeline.features.source_files import MissingChunks, shown
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import RunShape, SourceOfRows, open_group
from pairloom.pipeline.storage.digests import digest_of
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = ["planned_source", "read_source_rows", "source_problem", "source_read_bytes"]

Part = Literal["train", "test"]

#: Most bytes of the rows that one unit stores, and of the rows of the source that it must read for one of them.
_UNIT_BYTES, _TOGETHER_BYTES = 256 * 2**20, 64 * 2**20
#: Rows of a source are read this often where that needs no more memory than a block.
_FEW_READS = 2.0
#: Tasks may read the whole source this many times per worker. The driver reads it once more than they do, writes a
#: copy in the order of the classes, and stores that alone, so that it takes as long.
_READS_PER_WORKER = 4


def planned_source(
    placed: PlacedRows | None,
    blocks: Sequence[slice],
    row_bytes: int,
    workers: int,
    memory: int,
    *,
    together: bool,
) -> SourceOfRows | None:
    """How tasks read rows and store them in these blocks; None if the driver must do it.

    If neighbours in the store are far from each other in a source that is read in chunks, a unit stores many blocks, if
    it may (``together``), so that the source is read a few times and not once for every block. ``memory`` is the limit
    of a task, of which a unit takes half at most.
    """
    if placed is None or placed.checksums is None or not len(placed.places):
        return None
    if placed.together * row_bytes > _TOGETHER_BYTES and not placed.streamed:
        return None
    size, block = 1, row_bytes * max(part.stop - part.start for part in blocks)
    most = min(_UNIT_BYTES, memory // 8)
    while (reads := _reads(placed, blocks, size)) > _FEW_READS and together:
        if 2 * size * block > most or size >= len(blocks):
            break
        size *= 2
    held = 0 if placed.streamed else placed.together
    piece = min(PIECE_BYTES + (1 + held) * row_bytes, placed.of * row_bytes)
    needed = (size * (3 if placed.streamed else 1) + 3) * block + 4 * piece
    if reads > _READS_PER_WORKER * max(2, workers) or needed > memory // 2:
        return None
    columns = () if placed.columns is None else tuple(placed.columns.tolist())
    digest = digest_of([*placed.origin, columns, _digest(placed.places)])
    return SourceOfRows(*placed.origin, columns, size, held, placed.of, reads, digest)


def _reads(placed: PlacedRows, blocks: Sequence[slice], size: int) -> float:
    """How many rows of the source all units read, per row that they store, if each stores ``size`` blocks."""
    n = len(placed.places)
    if placed.together == 1 or not n:
        return 1.0
    unit = np.repeat(np.arange(len(blocks)) // size, [part.stop - part.start for part in blocks])
    number = placed.places // placed.together
    touched = np.unique(unit * (number.max() + 1) + number)
    return len(touched) * min(placed.together, placed.of) / n


def _digest(places: NDArray[np.int64]) -> str:
    return hashlib.sha256(np.ascontiguousarray(places).data).hexdigest()


def source_read_bytes(shape: RunShape, part: Part, rows: int) -> int:
    """Memory to read so many rows, beside the rows themselves.

    It is for what is read at once, as it comes, as rows and in their order; and for the numbers of the rows.
    """
    source = _parts(shape)[part].source
    dtype = shape.dtype if part == "train" else shape.sample_dtype
    row = int(np.dtype(dtype).itemsize) * shape.features
    piece = min(PIECE_BYTES + (1 + source.together) * row, source.of * row)
    return 4 * piece + 64 * rows + (0 if source.together else 2 * rows * row)


def read_source_rows(run: Run, part: Part, rows: slice) -> NDArray[np.floating]:
    """Training rows, sorted by class, or test samples, from their source. Raises if they are not those of the plan."""
    placed = _placed(run, part, rows)
    try:
        return _read(_opened(run, part), placed, run.config)
    except (ValueError, OSError):
        # This process may have opened a file that has been replaced by another with the same rows.
        _open.cache_clear()
        return _read(_opened(run, part), placed, run.config)


def source_problem(run: Run) -> str | None:
    """Why this process does not read the same rows from the source as the driver, by the first and the last row."""
    try:
        for part, of in _parts(run.shape).items():
            for row in {0, of.rows - 1} if of.rows else ():
                read_source_rows(run, part, slice(row, row + 1))
    except Exception as error:  # whatever it is, the driver can read the rows
        return f"{type(error).__name__}: {error}"
    return None


class _PartOfRun(NamedTuple):
    source: SourceOfRows
    rows: int


def _parts(shape: RunShape) -> dict[Part, _PartOfRun]:
    """The parts whose rows tasks read from their source."""
    sizes: dict[Part, tuple[SourceOfRows | None, int]] = {
        "train": (shape.train_source, sum(shape.rows)),
        "test": (shape.test_source, shape.samples),
    }
    return {part: _PartOfRun(of, rows) for part, (of, rows) in sizes.items() if of is not None}


def _placed(run: Run, part: Part, rows: slice) -> PlacedRows:
    """Where some rows are in their source, as the driver has stored it."""
    source, group = _parts(run.shape)[part].source, open_group(run.directory, "source.zarr")
    places, checksums = (read_whole(group[f"{part}_{name}"], rows) for name in ("place", "check"))
    columns = np.array(source.columns, np.intp) if source.columns else None
    origin = Origin(source.parameter, source.array)
    return PlacedRows(origin, places, columns, checksums.astype(np.uint32), source.together, source.of)


def _read(source: Rows, placed: PlacedRows, config: Config) -> NDArray[np.floating]:
    """The rows in their order, read from the source in ascending order, a few pieces of it at a time."""
    assert placed.checksums is not None
    order = np.argsort(placed.places, kind="stable")
    places, width = placed.places[order], source.shape[1] if placed.columns is None else len(placed.columns)
    X = np.empty((len(order), width), source.dtype)
    size = source.rows_per_piece
    cuts = np.flatnonzero(np.diff(places // size)) + 1
    name = f"{shown(_location(config, placed.origin))}: {placed.origin.array}"
    for some in np.split(np.arange(len(order)), cuts):
        values = source.read(places[some])
        if placed.columns is not None:
            values = np.ascontiguousarray(values[:, placed.columns])
        check_unchanged(values, placed.checksums[order[some]], places[some], name)
        X[order[some]] = values
    if isinstance(source, ZarrRows):
        source.release()
    return X


def _location(config: Config, origin: Origin) -> str:
    """The source that a configuration names."""
    test = config.data.test if origin.parameter == "data.test" else None
    return test or config.data.features


def _opened(run: Run, part: Part) -> Rows:
    source = _parts(run.shape)[part].source
    origin, data = Origin(source.parameter, source.array), run.config.data
    names, rows = run.shape.feature_names, run.digest("order")
    return _open(_location(run.config, origin), origin, names, data.missing_chunks, rows)


@functools.lru_cache(maxsize=2)
def _open(
    source: str, origin: Origin, features: tuple[str, ...], missing_chunks: MissingChunks, rows: str
) -> Rows:
    """A source, opened once per process: the files of all chunks are looked up then. ``rows`` identifies its rows."""
    return reopened_rows(source, origin, features, missing_chunks)
