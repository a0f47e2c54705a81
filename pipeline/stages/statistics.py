"""Statistics: checksums of the classes and, for whitening, their means and scatter without the drawn samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.held_out import DrawnSamples
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.machines.normalisation import class_scatter, rows_per_batch
from pairloom.pipeline.model.fitted_model import checksum
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.feature_store import drawn_samples, read_normalisation, read_stored_rows
from pairloom.pipeline.run.needs import BYTES_PER_ENTRY
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.stages.draws import BLOCKS_AT_ONCE
from pairloom.pipeline.stages.features import block_bytes
from pairloom.pipeline.storage.digests import digest_of
from pairloom.pipeline.threads import pieces

__all__ = ["Statistics"]


class Statistics(Stage):
    """Find the statistics of consecutive classes, part by part."""

    name = "statistics"
    folders = ("features.zarr",)
    cost = StageCost(
        "class part",
        seconds=(0.025, 6e-11),
        work=lambda s: s.training_numbers * (8 + s.features * bool(s.whitenings)),
        reads=lambda s: s.itemsize * s.training_numbers,
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on the rows and, with whitening, on the choice of held-out rows."""
        held_out = run.settings.read_in("drawing") if run.shape.whitenings else None
        return (digest_of([earlier["features"][0], held_out]),) * len(run.class_parts)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Store the checksums of some classes and, for whitening, their means and their scatter."""
        shape, classes = run.shape, run.class_parts[unit]
        group = open_group(run.directory, "features.zarr", write=True)
        reader = _ClassReader(run, drawn_samples(run, whitened=True), classes)
        files = []
        if shape.whitenings:
            scatter = class_scatter(reader.kept_rows, classes, run.rows, shape.features)
            files += write_whole(group["kept_mean"], (classes.start, 0), scatter.means)
            files += write_whole(group["scatter"], (unit, 0, 0), scatter.scatter[None])
        else:
            reader.read_all(classes)
        sums = np.array([reader.checksums[c] for c in range(classes.start, classes.stop)], np.int64)
        return files + write_whole(group["checksum"], (classes.start,), sums)

    def task_bytes(self, run: Run) -> int:
        """Rows read ahead, normalised, and as deviations, twice; their product, and its sum."""
        shape, D = run.shape, run.shape.features
        if shape.sparse is not None:
            return BYTES_PER_ENTRY * 3 * max(shape.sparse.entries) + BLOCKS_AT_ONCE * block_bytes(shape)
        stored = int(np.dtype(shape.dtype).itemsize)
        batch = D * min(rows_per_batch(D), sum(shape.rows))
        return (4 * stored + 8) * batch + BLOCKS_AT_ONCE * block_bytes(shape) + 3 * 8 * D**2


class _ClassReader:
    """Reads classes from the store, from first to last row, and computes their checksums."""

    def __init__(self, run: Run, held_out: DrawnSamples, classes: slice) -> None:
        self._run, self._held_out = run, held_out
        self._normalise = read_normalisation(run)
        self._end = int(run.starts[classes.stop - 1] + run.rows[classes.stop - 1])
        self._ahead, self._first = np.empty((0, run.shape.features), run.shape.dtype), 0
        self.checksums: dict[int, int] = {}

    def kept_rows(self, c: int, rows: slice) -> NDArray[np.floating]:
        """Normalised rows of class c, except those that are held out."""
        first, last = np.searchsorted(self._held_out.classes, [c, c + 1])
        held_out = self._held_out.rows[first:last] - rows.start
        kept = np.ones(rows.stop - rows.start, bool)
        kept[held_out[(held_out >= 0) & (held_out < len(kept))]] = False
        normalised: NDArray[np.floating] = self._normalise(self._read(c, rows)[kept])
        return normalised

    def read_all(self, classes: slice) -> None:
        """Read whole classes, only for their checksums."""
        for c in range(classes.start, classes.stop):
            if self._run.shape.sparse is not None:
                start = int(self._run.starts[c])
                self.checksums[c] = checksum(
                    read_stored_rows(self._run, start, start + int(self._run.rows[c]))
                )
                continue
            for rows in pieces(int(self._run.rows[c]), rows_per_batch(self._run.shape.features)):
                self._read(c, rows)

    def _read(self, c: int, rows: slice) -> NDArray[np.floating]:
        start = int(self._run.starts[c])
        raw = self._stored(start + rows.start, start + rows.stop)
        self.checksums[c] = checksum(raw, self.checksums.get(c, 0) if rows.start else 0)
        return raw

    def _stored(self, start: int, stop: int) -> NDArray[np.floating]:
        """Stored rows. Small classes are read many at once: opening the store takes as long as reading many rows."""
        if start < self._first or stop > self._first + len(self._ahead):
            ahead = min(self._end, start + rows_per_batch(self._run.shape.features))
            self._ahead, self._first = read_stored_rows(self._run, start, max(stop, ahead)), start
        return self._ahead[start - self._first : stop - self._first]
