"""Draws: the training samples that calibrate the coupled model."""

from __future__ import annotations

import numpy as np

from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.feature_store import drawn_samples, read_raw_rows, write_csr
from pairloom.pipeline.run.needs import BYTES_PER_ENTRY
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.run.run_directory import open_group, write_whole
from pairloom.pipeline.stages.features import block_bytes
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["BLOCKS_AT_ONCE", "Draws"]

#: Blocks that zarr may hold in memory, compressed and decompressed, while it reads rows from them.
BLOCKS_AT_ONCE = 3


class Draws(Stage):
    """Store the drawn samples with their classes, folds and parts. No unit if nothing is calibrated or scored."""

    name = "draws"
    folders = ("features.zarr",)
    cost = StageCost(
        seconds=(0.3, 1e-8),
        work=lambda s: s.draws * s.features,
        writes=lambda s: 4.0 * s.draws * s.features,
        absent=lambda s: not s.draws,
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on the rows, on how many are drawn, and on the folds."""
        drawn = [run.shape.draws, run.settings.read_in("drawing")]
        return (digest_of([earlier["features"][0], *drawn]),) * bool(run.shape.draws)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Store as many samples as any candidate needs. Candidates that whiten use only the first of every class."""
        group = open_group(run.directory, "features.zarr", write=True)
        drawn = drawn_samples(run, run.draws_whitened)
        X = read_raw_rows(run, run.starts[drawn.classes] + drawn.rows)
        if run.shape.sparse is not None:
            stored = write_csr(group, "drawn", 0, X)
        else:
            stored = write_whole(group["drawn"], (0, 0), X)
        return [
            *stored,
            *write_whole(group["drawn_class"], (0,), drawn.classes.astype(np.int32)),
            *write_whole(group["drawn_fold"], (0,), drawn.folds.astype(np.int32)),
            *write_whole(group["drawn_part"], (0,), drawn.parts.astype(np.int32)),
        ]

    def task_bytes(self, run: Run) -> int:
        """The drawn rows as read, ordered and compressed, and the blocks they are read from."""
        stored = int(np.dtype(run.shape.dtype).itemsize)
        drawn = stored * run.shape.features * run.shape.draws
        if run.shape.sparse is not None:
            drawn = BYTES_PER_ENTRY * run.shape.sparse.drawn
        return 3 * drawn + BLOCKS_AT_ONCE * block_bytes(run.shape)
