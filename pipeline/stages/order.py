"""Order: where the rows of a run are in their source, and their checksums, for the tasks that read them there."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.run import FORMAT, Keys, Run, Stage
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.stages.features import driver_bytes, store_moments
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Order"]


class Order(Stage):
    """Store what tasks need to read the rows from their source. No unit if the driver reads and stores all rows.

    These are two numbers per row, in the order of the store, and what the driver has found when it read the source:
    the mean and the standard deviation of the features, and the labels of the test samples.
    """

    name = "order"
    where = "driver"
    needs_data = True
    folders = ("source.zarr", "features.zarr")
    cost = StageCost(
        seconds=(0.02, 2e-8),
        work=lambda s: s.classes * s.rows + s.samples,
        absent=lambda s: not s.by_tasks,
        writes=lambda s: 16.0 * (s.classes * s.rows + s.samples),
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on the rows, their order in the source, and on what is stored of them here."""
        shape, found = run.shape, []
        if shape.train_source is not None:
            found += [run.fingerprints["train"], shape.train_source.digest, shape.standardised]
        if shape.test_source is not None:
            found += [run.fingerprints["test"], shape.test_source.digest, shape.samples_per_slab]
        return (digest_of([FORMAT, run.versions["pairloom"], *found]),) * bool(found)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Store the places and checksums of the rows, and the facts about them that the driver knows."""
        assert data is not None
        files: list[str] = []
        if run.shape.train_source is not None:
            files += [*_store_places(run, "train", data), *store_moments(run, data)]
        if run.shape.test_source is not None:
            files += _store_places(run, "test", data)
            if data.y_test is not None:
                features = open_group(run.directory, "features.zarr", write=True)
                files += write_whole(features["label"], (0,), data.y_test.astype(np.int32))
        return files

    def task_bytes(self, run: Run) -> int:
        """See `driver_bytes`."""
        return driver_bytes(run.shape)


def _store_places(run: Run, part: Literal["train", "test"], data: OpenFeatures) -> list[str]:
    placed = data.placed(part)
    if placed is None or placed.checksums is None:
        raise ValueError(
            f"data.features: tasks must be able to read the rows of {part} samples, as when the run was planned."
            " Plan it again with pairloom resume --update."
        )
    group = open_group(run.directory, "source.zarr", write=True)
    return [
        *write_whole(group[f"{part}_place"], (0,), placed.places),
        *write_whole(group[f"{part}_check"], (0,), placed.checksums.astype(np.int64)),
    ]
