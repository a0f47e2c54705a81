"""Samples: the test samples, and their labels if they are known."""

from __future__ import annotations

import numpy as np

from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.feature_store import write_csr
from pairloom.pipeline.run.run import FORMAT, Keys, Run, Stage, Where
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.run.source_rows import read_source_rows, source_read_bytes
from pairloom.pipeline.stages.features import driver_bytes
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Samples"]


class Samples(Stage):
    """Store the test samples, slab by slab."""

    name = "samples"
    where = "driver"
    needs_data = True
    folders = ("features.zarr",)
    cost = StageCost(
        "slab",
        seconds=(0.003, 1e-8),
        work=lambda s: s.samples * s.features,
        reads=lambda s: 4.0 * (s.source_reads > 0) * s.samples * s.features,
        writes=lambda s: 4.0 * s.samples * s.features,
    )

    def runs_in(self, run: Run) -> Where:
        """In tasks, if they can read the source."""
        return "driver" if run.shape.test_source is None else "cluster"

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on the test samples and the size of a slab."""
        # The bytes are the same, but the driver stores the labels with them.
        by_tasks = [] if run.shape.test_source is None else ["by tasks"]
        key = digest_of([FORMAT, run.fingerprints["test"], run.shape.samples_per_slab, *by_tasks])
        return (key,) * len(run.slabs)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Store a slab of samples. The driver stores their labels, too, unless the stage "order" has them."""
        slab, group = run.slabs[unit], open_group(run.directory, "features.zarr", write=True)
        X = read_source_rows(run, "test", slab) if data is None else data.X_test.read(slab)
        if run.shape.sparse is not None:
            files = write_csr(group, "test", slab.start, X)
        else:
            files = write_whole(group["test"], (slab.start, 0), X)
        if run.shape.test_source is None and data is not None and data.y_test is not None:
            files += write_whole(group["label"], (slab.start,), data.y_test[slab].astype(np.int32))
        return files

    def task_bytes(self, run: Run) -> int:
        """A slab as it is read and compressed; see also `driver_bytes`."""
        if run.shape.test_source is None:
            return driver_bytes(run.shape)
        shape, rows = run.shape, min(run.shape.samples, run.shape.samples_per_slab)
        slab = int(np.dtype(shape.sample_dtype).itemsize) * shape.features * rows
        return 4 * slab + source_read_bytes(shape, "test", rows)
