"""Held out: slabs of the drawn samples, scored by all edges.

Every wave of growth scores them again, since applying machines costs little compared with training them.
"""

from __future__ import annotations

import math

from pairloom.pipeline.calibration.held_out import ENOUGH
from pairloom.pipeline.completion.laplacian import solver_bytes
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.machines.folds import PARTS
from pairloom.pipeline.run.costs import RunSizes, StageCost
from pairloom.pipeline.run.held_out_store import write_slab
from pairloom.pipeline.run.needs import (
    FLOAT,
    completion_bytes,
    machine_read_bytes,
    most_needed,
    row_bytes,
    support_bytes,
)
from pairloom.pipeline.run.run import Keys, Run, Stage
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["HeldOut"]


def _memory(s: RunSizes) -> float:
    """Rough estimate: the logits of a slab by all edges or, with shortlists, the rankings of its classes."""
    slab = min(s.draws_per_slab, s.draws)
    maps = 4.0 * s.classes * (s.rankings * s.features + slab * (1 + s.calibrations))
    return (
        (maps if s.passes == 2 else 12.0 * slab * s.edges)
        + 470.0 * s.edges
        + solver_bytes(s.classes, s.edges)
    )


class HeldOut(Stage):
    """Score a slab of the drawn samples by all edges, and write the scores for calibration and growth."""

    name = "held_out"
    folders = ("logits.zarr",)
    waves = True
    # Every slab reads all machines; a logit takes about 60 ns.
    cost = StageCost(
        "draw slab",
        seconds=(0.01, 2.5e-3),
        work=lambda s: s.unseen_work,
        reads=lambda s: s.passes * s.draw_slabs * s.edges * s.machine_bytes,
        writes=lambda s: s.held_out_bytes,
        shared=lambda s: 4.0 * s.draws * s.features,
        operations=lambda s: 20.0 + 2 * s.passes * s.tiles,
        memory=_memory,
    )

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """They depend on all machines, their slopes and the drawn samples."""
        facts = [
            run.settings.read_in("listing"),
            run.shape.listed,
            run.shape.draws_per_slab,
            "by fold and part",
        ]
        key = digest_of([earlier["machines"], earlier["slopes"], earlier["draws"], *facts])
        return (key,) * len(run.draw_slabs)

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Score and write a slab."""
        return write_slab(run, run.draw_slabs[unit])

    def task_bytes(self, run: Run) -> int:
        """The logits of a slab of drawn samples by all edges and calibrations, with a copy; or rankings for lists."""
        shape, V = run.shape, len(run.shape.calibrations)
        slab = min(shape.draws_per_slab, shape.draws)
        lists = 2 * shape.listed**2 + 4 * len(shape.classes)
        logits = slab * (lists + (2 + V) * run.most_pairs)
        if shape.listed and run.kernel is None and shape.sparse is None:
            logits = slab * V * (
                lists + 10 * (most_needed(run, shape.listed) + 2 * ENOUGH)
            ) + _ranking_numbers(run)
        slopes = 2 * 2 * (1 + PARTS) * run.most_pairs if shape.sloped else 0
        needed = (
            3 * row_bytes(run, "draws")
            + FLOAT * (logits + slopes)
            + machine_read_bytes(run)
            + completion_bytes(run)
        )
        return needed + support_bytes(run, shape.edges_per_tile)


def _ranking_numbers(run: Run) -> int:
    """Numbers in the rankings of a slab: for each calibration, one ranking per fold and part of its samples."""
    shape, folds = run.shape, run.settings.folds
    share = min(1.0, shape.draws_per_slab / max(1, shape.draws))
    by_part, by_fold = (min(n, math.ceil(n * share) + 1) for n in (folds * PARTS, folds))
    rankings = sum(by_fold if by == "distance" else by_part for by in shape.calibrations)
    shares = shape.edges_per_tile * shape.machines_per_edge
    return rankings * (len(shape.classes) * (shape.features + 1) + 2 * shares)
