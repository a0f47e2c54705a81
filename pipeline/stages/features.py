"""Features: the training rows, sorted by class, with their mean. Later stages read only what is stored here.

Tasks read the rows from their source if they can: a zarr group, a folder of ``.npy`` files, a Parquet file, or a set
that is generated. Otherwise the driver reads and stores them: ``.npz`` and CSV files, sparse rows, and what a program
has in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.features.row_sources import PIECE_BYTES
from pairloom.pipeline.machines.normalisation import normalised_moments
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.feature_store import write_csr
from pairloom.pipeline.run.needs import BYTES_PER_ENTRY
from pairloom.pipeline.run.run import FORMAT, Keys, Run, Stage, Where
from pairloom.pipeline.run.run_directory import RunShape, open_group, rows_per_file, write_whole
from pairloom.pipeline.run.source_rows import read_source_rows, source_read_bytes
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Features", "block_bytes", "driver_bytes", "store_moments"]


class Features(Stage):
    """Store the training rows, one or more blocks per unit."""

    name = "features"
    where = "driver"
    needs_data = True
    folders = ("features.zarr",)
    cost = StageCost(
        "row block",
        seconds=(0.005, 2.5e-8),
        work=lambda s: s.training_numbers,
        reads=lambda s: s.source_reads * s.itemsize * s.training_numbers,
        writes=lambda s: s.itemsize * s.training_numbers,
    )

    def runs_in(self, run: Run) -> Where:
        """In tasks, if they can read the source."""
        return "driver" if run.shape.train_source is None else "cluster"

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on the data, and on whether their standard deviations are stored beside the rows."""
        standardised = ["standardised"] if run.shape.standardised else []
        # The bytes are the same, but not the files that a unit has written.
        source = run.shape.train_source
        by_tasks = [] if source is None else ["by tasks", source.blocks]
        key = digest_of(
            [FORMAT, run.versions["pairloom"], run.fingerprints["train"], *standardised, *by_tasks]
        )
        return (key,) * len(run.row_units)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Store some blocks of rows and their classes.

        The driver stores the mean and the standard deviation with the first block, unless the stage "order" has them.
        """
        blocks, group = run.row_units[unit], open_group(run.directory, "features.zarr", write=True)
        files: list[str] = []
        for block, X in _rows_of(run, blocks) if data is None else _rows_in(data, run, blocks):
            if run.shape.sparse is not None:
                files += write_csr(group, "train", block.start, X)
            else:
                files += write_whole(group["train"], (block.start, 0), X)
            files += write_whole(group["train_class"], (block.start,), _classes_of(run, block))
        if blocks[0].start == 0 and run.shape.train_source is None:
            assert data is not None
            files += store_moments(run, data)
        return files

    def task_bytes(self, run: Run) -> int:
        """All blocks of a unit, as they are read, and one of them as it is compressed; see also `driver_bytes`."""
        source, block = run.shape.train_source, block_bytes(run.shape)
        if source is None:
            return driver_bytes(run.shape)
        rows = min(sum(run.shape.rows), source.blocks * rows_per_file(run.shape.features))
        return (source.blocks + 3) * block + source_read_bytes(run.shape, "train", rows)


def _rows_of(run: Run, blocks: list[slice]) -> Iterator[tuple[slice, NDArray[np.floating]]]:
    """Blocks of rows from their source, which is read once for all of them."""
    first = blocks[0].start
    X = read_source_rows(run, "train", slice(first, blocks[-1].stop))
    yield from ((block, X[block.start - first : block.stop - first]) for block in blocks)


def _rows_in(data: OpenFeatures, run: Run, blocks: list[slice]) -> Iterator[tuple[slice, Any]]:
    """Blocks of rows that the driver reads."""
    rows = data.by_class(_scratch(run))
    yield from ((block, rows.read(block)) for block in blocks)


def store_moments(run: Run, data: OpenFeatures) -> list[str]:
    """Store the mean of the features and, where they are standardised, their standard deviation."""
    group = open_group(run.directory, "features.zarr", write=True)
    normalisation = normalised_moments(
        data.moments, "data.features: X_train", standardise=run.shape.standardised
    ).normalisation
    files = write_whole(group["centre"], (0,), normalisation.centre)
    if normalisation.deviation is not None:
        files += write_whole(group["deviation"], (0,), normalisation.deviation)
    return files


def _classes_of(run: Run, block: slice) -> NDArray[np.int32]:
    """The classes of a block of sorted rows."""
    ends = np.cumsum(run.rows)
    return np.searchsorted(ends, np.arange(block.start, block.stop), side="right").astype(np.int32)


def block_bytes(shape: RunShape) -> int:
    """Bytes of a block of training rows."""
    if shape.sparse is not None:
        return BYTES_PER_ENTRY * shape.sparse.block
    D = shape.features
    return int(np.dtype(shape.dtype).itemsize) * D * min(rows_per_file(D), sum(shape.rows))


def driver_bytes(shape: RunShape) -> int:
    """Memory of the driver while it stores rows or samples, beside the interpreter and its libraries.

    A block as read, converted and compressed; labels, ids and their order; the sums of the classes. A chunk of a zarr
    source that is larger than `row_sources.PIECE_BYTES` needs additional memory.
    """
    D = shape.features
    piece = PIECE_BYTES + int(np.dtype(shape.sample_dtype).itemsize) * D
    class_sums = 8 * D * len(shape.classes)
    if shape.sparse is not None:
        # A piece in two forms; sums of the classes, which have at most as many entries as the training rows.
        piece = 4 * PIECE_BYTES + BYTES_PER_ENTRY * shape.sparse.slab
        class_sums = 3 * BYTES_PER_ENTRY * sum(shape.sparse.entries) + 6 * 8 * D
    ids = _bytes_of_id(shape.row_ids) * sum(shape.rows) + _bytes_of_id(shape.sample_ids) * shape.samples
    return (
        4 * max(block_bytes(shape), piece) + 32 * sum(shape.rows) + 16 * shape.samples + ids + 2 * class_sums
    )


def _bytes_of_id(kind: str) -> int:
    """An id, and its copy in the order of the classes. Text is assumed to be short."""
    return 2 * (64 if kind == "string" else 8)


def _scratch(run: Run) -> Path:
    """A folder for a copy of the rows in another order: the run directory, or this host's temporary folder."""
    return run.directory if isinstance(run.directory, Path) else Path(tempfile.gettempdir())
