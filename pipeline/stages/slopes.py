"""Slopes: log odds per unit of distance, for each pair."""

from __future__ import annotations

from pairloom.pipeline.calibration.coupled_calibration import PairSlopes
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.machines.folds import PARTS
from pairloom.pipeline.machines.pair_calibration import PROFILE_SIZE, slope_prior, slopes_of
from pairloom.pipeline.run.costs import READS_AT_ONCE, StageCost
from pairloom.pipeline.run.machine_store import read_profiles
from pairloom.pipeline.run.needs import FLOAT
from pairloom.pipeline.run.results import write_slopes
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Slopes"]


class Slopes(Stage):
    """Find the slopes of all pairs from their profiles. No unit if pairs share one slope.

    The prior distribution of the slopes is fitted to the pairs of the initial graph, so waves do not change the slopes
    of earlier pairs.
    """

    name = "slopes"
    folders = ("machines.zarr", "slopes")
    waves = True
    cost = StageCost(
        seconds=(0.05, 2e-5),
        work=lambda s: s.edges,
        absent=lambda s: not s.sloped,
        reads=lambda s: 4.0 * s.edges * PARTS * PROFILE_SIZE,
        operations=lambda s: 10.0 + s.tiles / READS_AT_ONCE,
        memory=lambda s: 4.0 * s.edges * (PARTS * PROFILE_SIZE + 6 * (1 + PARTS)) + 2**27,
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on all machines."""
        return (digest_of([earlier["machines"], run.waves[0]]),) * run.shape.sloped

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Estimate the distribution of the slopes, and write the slope of every pair."""
        order, profile = run.shape.order, read_profiles(run.directory)
        prior = slope_prior(profile, order[order < run.waves[0]])
        return write_slopes(run, PairSlopes(slopes_of(profile, prior, order), prior))

    def task_bytes(self, run: Run) -> int:
        """The profiles, those of some pairs refined, and the slopes with copies in another order."""
        return run.most_pairs * (FLOAT * PARTS * PROFILE_SIZE + 3 * 8 * (1 + PARTS)) + 2**27
