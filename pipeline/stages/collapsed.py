"""Collapsed: the machines of each edge as one affine map, tile by tile, if they are too large for every worker.

Prediction needs nothing else of linear machines, and the maps are a quarter of their size. There are no units if the
maps are small: each worker then computes all of them and keeps them in memory.
"""

from __future__ import annotations

from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.run.collapsed_store import write_collapsed
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.needs import FLOAT, tile_bytes
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Collapsed"]


class Collapsed(Stage):
    """Collapse the machines of a tile."""

    name = "collapsed"
    folders = ("machines.zarr",)
    # Opening and reading a tile takes about 7 ms, the time of 7e7 products.
    cost = StageCost(
        "tile",
        seconds=(0.01, 1e-2),
        work=lambda s: s.collapsing_work,
        absent=lambda s: not s.collapsed,
        reads=lambda s: s.edges * s.machine_bytes,
        writes=lambda s: 4.0 * s.edges * (s.features + 1),
        memory=lambda s: 3 * s.edges_per_tile * s.machine_bytes,
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on the machines of the tile, and on the calibration that was chosen."""
        if not run.shape.collapsed:
            return ()
        return tuple(digest_of([machines, earlier["calibration"][0]]) for machines in earlier["machines"])

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Collapse and write a tile."""
        return write_collapsed(run, run.tiles[unit])

    def task_bytes(self, run: Run) -> int:
        """The machines of a tile, as they are stored and unpacked, and the whitening."""
        D = run.shape.features
        return 4 * tile_bytes(run) + FLOAT * 3 * D * (D + run.shape.edges_per_tile)
