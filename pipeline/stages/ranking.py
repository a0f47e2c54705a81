"""Ranking: the ranking of the classes as an affine map of samples, from the collapsed machines of all edges.

There are no units if each worker keeps the maps of all edges; it then computes the ranking itself.
"""

from __future__ import annotations

from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.run.collapsed_store import write_ranking
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.machine_store import TILES_AT_ONCE
from pairloom.pipeline.run.needs import FLOAT, completion_bytes
from pairloom.pipeline.run.results import methods_of, remaining_calibrations
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Ranking"]


class Ranking(Stage):
    """Compute the ranking for a coupling; all couplings share one unless edges have their own slopes."""

    name = "ranking"
    folders = ("machines.zarr",)
    cost = StageCost(
        "coupling",
        seconds=(0.1, 2e-9),
        work=lambda s: s.couplings * s.features * (s.edges + 60.0 * s.edges),
        absent=lambda s: not s.collapsed,
        reads=lambda s: 4.0 * s.couplings * s.edges * (s.features + 1),
        writes=lambda s: 4.0 * s.couplings * s.classes * (s.features + 1),
        operations=lambda s: 10.0 + 2.0 * s.tiles,
        memory=lambda s: 20.0 * s.classes * s.features + 250.0 * s.edges,
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on the maps of all edges, and on the calibration of each."""
        if not run.shape.collapsed:
            return ()
        maps = earlier["calibration"] if run.shape.edges_calibrated else earlier["calibration"][:1]
        return tuple(digest_of([earlier["collapsed"], calibration]) for calibration in maps)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Compute and write the ranking for a coupling."""
        if not run.shape.edges_calibrated:
            return write_ranking(run, unit, None)
        method = list(methods_of(run).values())[unit]
        return write_ranking(run, unit, remaining_calibrations(run)[method])

    def task_bytes(self, run: Run) -> int:
        """The sums over the edges of each class, in double precision; potentials; and the tiles being read."""
        shape, N = run.shape, len(run.shape.classes)
        tiles = (TILES_AT_ONCE + 4) * shape.edges_per_tile * (shape.features + 1)
        calibrations = 2 * 8 * len(shape.couplings) * run.most_pairs
        sums = 2 * N * (8 + FLOAT) * (shape.features + 1)
        return sums + FLOAT * 2 * tiles + calibrations + completion_bytes(run)
