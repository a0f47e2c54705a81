"""Held out: slabs of the drawn samples, scored by all edges.

A wave of growth has them scored again: applying machines costs little beside training them.
"""

from __future__ import annotations

from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.held_out_store import write_slab
from pairloom.pipeline.run.needs import FLOAT, completion_bytes, machine_read_bytes, support_bytes
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["HeldOut"]


class HeldOut(Stage):
    """Score a slab of the drawn samples by all edges, and write what calibration and growth need of it."""

    name = "held_out"
    folders = ("logits.zarr",)
    waves = True
    # Every slab reads all machines; a logit takes some 60 ns.
    cost = StageCost(
        "draw slab",
        seconds=(0.01, 2.5e-3),
        work=lambda s: s.draw_slabs * s.collapsing_work + 8.6e-6 * s.calibrations * s.draws * s.edges,
        reads=lambda s: s.draw_slabs * s.edges * s.machine_bytes,
        writes=lambda s: s.held_out_bytes,
        shared=lambda s: 4.0 * s.draws * s.features,
        operations=lambda s: 20.0 + 2 * s.tiles,
        memory=lambda s: s.edges * (12.0 * min(s.draws_per_slab, s.draws) + 128) + 25.0 * s.classes**2,
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on all machines, their slopes and the drawn samples."""
        facts = [run.config.model.shortlist, run.shape.listed, run.shape.draws_per_slab]
        key = digest_of([earlier["machines"], earlier["slopes"], earlier["draws"], *facts])
        return (key,) * len(run.draw_slabs)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Score and write a slab."""
        return write_slab(run, run.draw_slabs[unit])

    def task_bytes(self, run: Run) -> int:
        """The logits of a slab of drawn samples by all edges and calibrations, with a copy, and their shortlists."""
        shape = run.shape
        slab = min(shape.draws_per_slab, shape.draws)
        logits = slab * (
            (2 + len(shape.calibrations)) * run.most_pairs + 4 * len(shape.classes) + 2 * shape.listed**2
        )
        draws = 3 * shape.draws * shape.features
        needed = FLOAT * (logits + draws) + machine_read_bytes(run) + completion_bytes(run)
        return needed + support_bytes(run, shape.edges_per_tile)
