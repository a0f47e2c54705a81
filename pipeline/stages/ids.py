"""Ids: the names of the training rows and of the test samples, as their source has them."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.run import FORMAT, Keys, Run, Stage
from pairloom.pipeline.run.run_directory import open_group, write_chunks
from pairloom.pipeline.stages.features import driver_bytes
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Ids"]


class Ids(Stage):
    """Store the ids of all samples: those in the source, or else its row numbers.

    This is a separate stage so that naming a column of ids later recomputes nothing but the report.
    """

    name = "ids"
    where = "driver"
    needs_data = True
    folders = ("features.zarr", "probabilities.zarr")
    cost = StageCost(
        seconds=(0.01, 1e-8),
        work=lambda s: s.classes * s.rows + s.samples,
        writes=lambda s: 8.0 * (s.classes * s.rows + 2 * s.samples),
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on the source alone."""
        return (digest_of([FORMAT, run.fingerprints["ids"]]),)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Store the ids of the training rows, sorted by class, and of the test samples."""
        assert data is not None
        features, probabilities = (
            open_group(run.directory, group, write=True) for group in ("features.zarr", "probabilities.zarr")
        )
        return [
            *_stored(features["row"], data.ids_by_class),
            *_stored(features["sample"], data.ids_test),
            *_stored(probabilities["sample"], data.ids_test),
        ]

    def task_bytes(self, run: Run) -> int:
        """See `driver_bytes`."""
        return driver_bytes(run.shape)


def _stored(array: Any, ids: NDArray[Any]) -> list[str]:
    return write_chunks(array, (0,), ids) if len(ids) else []
