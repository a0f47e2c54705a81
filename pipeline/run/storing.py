"""The first stages of a run: store the features, test samples, drawn samples, class statistics and whitenings.

Only `store_rows` and `store_samples` read the source of the data. The others are tasks that read the feature store.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.drawn_samples import DrawnSamples, draw_by_class
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.features.row_sources import PIECE_BYTES, Rows
from pairloom.pipeline.machines.class_scatter import (
    ClassScatter,
    class_scatter,
    rows_per_batch,
    scatter_parts,
)
from pairloom.pipeline.machines.normalisation import normalised_moments
from pairloom.pipeline.machines.whitening import centred_at, is_whitened, within_classes
from pairloom.pipeline.model.class_table import checksum
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.feature_store import read_normalisation, read_raw_rows, read_stored_rows
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import RunShape, open_group, rows_per_file, write_whole
from pairloom.pipeline.storage.zarr_layout import read_whole

__all__ = [
    "store_draws",
    "store_rows",
    "store_samples",
    "store_statistics",
    "store_whitenings",
    "storing_bytes",
]

# Blocks that zarr may hold, compressed and not, while it reads rows from them.
_BLOCKS_AT_ONCE = 3


def store_rows(run: Run, data: OpenFeatures, by_class: Rows, block: slice) -> list[Path]:
    """Store a block of training rows, which come sorted by class, and their classes.

    With the first, the mean is stored and, if rows are to be standardised, their standard deviation.
    """
    group = open_group(run.directory, "features.zarr", write=True)
    files = write_whole(group["train"], (block.start, 0), by_class.read(block))
    files += write_whole(group["train_class"], (block.start,), _classes_of(run, block))
    if block.start == 0:
        found = normalised_moments(
            data.moments, "data.features: X_train", standardise=run.shape.standardised
        ).normalisation
        files += write_whole(group["centre"], (0,), found.centre)
        if found.deviation is not None:
            files += write_whole(group["deviation"], (0,), found.deviation)
    return files


def _classes_of(run: Run, block: slice) -> NDArray[np.int32]:
    """The classes of a block of sorted rows."""
    ends = np.cumsum(run.rows)
    return np.searchsorted(ends, np.arange(block.start, block.stop), side="right").astype(np.int32)


def store_samples(run: Run, data: OpenFeatures, samples: slice) -> list[Path]:
    """Store a slab of test samples, and their labels if known."""
    group = open_group(run.directory, "features.zarr", write=True)
    files = write_whole(group["test"], (samples.start, 0), data.X_test.read(samples))
    if data.y_test is not None:
        files += write_whole(group["label"], (samples.start,), data.y_test[samples].astype(np.int32))
    return files


def store_draws(run: Run) -> list[Path]:
    """Store the training samples that calibrate the coupled model.

    These are as many as any candidate needs. Candidates that whiten use only the first of every class.
    """
    group = open_group(run.directory, "features.zarr", write=True)
    drawn = _drawn(run, run.draws_whitened)
    return [
        *write_whole(group["drawn"], (0, 0), read_raw_rows(run, run.starts[drawn.classes] + drawn.rows)),
        *write_whole(group["drawn_class"], (0,), drawn.classes.astype(np.int32)),
        *write_whole(group["drawn_fold"], (0,), drawn.folds.astype(np.int32)),
        *write_whole(group["drawn_part"], (0,), drawn.parts.astype(np.int32)),
    ]


def store_statistics(run: Run, part: int) -> list[Path]:
    """Store the checksums of some classes and, for whitening, their means and their scatter.

    Both are found without the drawn samples.
    """
    shape = run.shape
    classes = scatter_parts(len(shape.classes), shape.features)[part]
    group = open_group(run.directory, "features.zarr", write=True)
    reader = _ClassReader(run, _drawn(run, whitened=True), classes)
    files = []
    if shape.whitenings:
        found = class_scatter(reader.kept_rows, classes, run.rows, shape.features)
        files += write_whole(group["kept_mean"], (classes.start, 0), found.means)
        files += write_whole(group["scatter"], (part, 0, 0), found.scatter[None])
    else:
        reader.read_all(classes)
    sums = np.array([reader.checksums[c] for c in range(classes.start, classes.stop)], np.int64)
    return files + write_whole(group["checksum"], (classes.start,), sums)


class _ClassReader:
    """Reads classes from the store, from first to last row, and finds their checksums on the way."""

    def __init__(self, run: Run, held_out: DrawnSamples, classes: slice) -> None:
        self._run, self._held_out = run, held_out
        self._normalise = read_normalisation(run)
        self._end = int(run.starts[classes.stop - 1] + run.rows[classes.stop - 1])
        self._ahead, self._first = np.empty((0, run.shape.features), run.shape.dtype), 0
        self.checksums: dict[int, int] = {}

    def kept_rows(self, c: int, rows: slice) -> NDArray[np.floating]:
        """Normalised rows of class c, without those that are held out."""
        first, last = np.searchsorted(self._held_out.classes, [c, c + 1])
        held_out = self._held_out.rows[first:last] - rows.start
        kept = np.ones(rows.stop - rows.start, bool)
        kept[held_out[(held_out >= 0) & (held_out < len(kept))]] = False
        normalised: NDArray[np.floating] = self._normalise(self._read(c, rows)[kept])
        return normalised

    def read_all(self, classes: slice) -> None:
        """Read whole classes, for their checksums only."""
        for c in range(classes.start, classes.stop):
            for rows in pieces(int(self._run.rows[c]), rows_per_batch(self._run.shape.features)):
                self._read(c, rows)

    def _read(self, c: int, rows: slice) -> NDArray[np.floating]:
        start = int(self._run.starts[c])
        raw = self._stored(start + rows.start, start + rows.stop)
        self.checksums[c] = checksum(raw, self.checksums.get(c, 0) if rows.start else 0)
        return raw

    def _stored(self, start: int, stop: int) -> NDArray[np.floating]:
        """Stored rows. Small classes are read many at once: to open the store takes as long as to read many rows."""
        if start < self._first or stop > self._first + len(self._ahead):
            ahead = min(self._end, start + rows_per_batch(self._run.shape.features))
            self._ahead, self._first = read_stored_rows(self._run, start, max(stop, ahead)), start
        return self._ahead[start - self._first : stop - self._first]


def store_whitenings(run: Run) -> list[Path]:
    """Store all candidate whitenings."""
    group, shape = open_group(run.directory, "features.zarr", write=True), run.shape
    within = within_classes(_stored_scatter(run)) if shape.whitenings else None
    files = []
    for number, shrinkage in enumerate(shape.shrinkages):
        if within is None or not is_whitened(shrinkage):
            whitening = centred_at(read_normalisation(run).mean_of(np.dtype(shape.dtype)))
        else:
            whitening = within.whitening(float(shrinkage))
            place = shape.whitenings.index(shrinkage)
            files += write_whole(group["factor"], (place, 0, 0), whitening.factor[None])
        files += write_whole(group["mean"], (number, 0), whitening.mean[None])
    return files


def _stored_scatter(run: Run) -> Iterator[ClassScatter]:
    """The parts that `store_statistics` stored, one after the other."""
    group, shape = open_group(run.directory, "features.zarr"), run.shape
    counts = run.rows - np.bincount(_drawn(run, whitened=True).classes, minlength=len(run.rows))
    for number, classes in enumerate(scatter_parts(len(shape.classes), shape.features)):
        scatter = read_whole(group["scatter"], number)
        yield ClassScatter(counts[classes], read_whole(group["kept_mean"], classes), scatter)


def _drawn(run: Run, whitened: bool) -> DrawnSamples:
    settings = run.settings
    return draw_by_class(run.rows, settings.calibration_samples, settings.folds, settings.seed, whitened)


def storing_bytes(shape: RunShape) -> dict[str, int]:
    """The memory that a unit of each of these stages takes at most, in bytes, beside the interpreter and its libraries.

    For "features" and "samples", whose units run in the driver, the labels and the piece of the source that is being
    read are counted; a chunk of a zarr source that is larger than `row_sources.PIECE_BYTES` comes on top.
    """
    D, stored = shape.features, np.dtype(shape.dtype).itemsize
    piece = PIECE_BYTES + np.dtype(shape.sample_dtype).itemsize * D
    block = stored * D * min(rows_per_file(D), sum(shape.rows))
    batch = D * min(rows_per_batch(D), sum(shape.rows))
    square, classes = 8 * D**2, 8 * D * len(shape.classes)
    # Read, converted, compressed; labels and their order; the sums of the classes.
    driver = 4 * max(block, piece) + 32 * sum(shape.rows) + 16 * shape.samples + 2 * classes
    return {
        "features": driver,
        "samples": driver,
        "draws": 3 * stored * D * shape.draws + _BLOCKS_AT_ONCE * block,
        # Rows that were read ahead, normalised, and as deviations, twice; their product, and its sum.
        "statistics": (4 * stored + 8) * batch + _BLOCKS_AT_ONCE * block + 3 * square,
        # Scatter, its decomposition with LAPACK's workspace, the factor and its products; class means.
        "whitening": 10 * square + 3 * classes if shape.whitenings else 8 * D,
    }
