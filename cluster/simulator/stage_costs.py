"""What the stages of a run cost: the one table that says how work, bytes and memory depend on the sizes of a run.

Whoever adds or changes a stage adds or changes its row. A stage without a row is simulated with its measured times and
moves no bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pairloom.cluster.simulator.run_sizes import RunSizes

__all__ = ["STAGE_COSTS", "StageCost", "cost_of_stage", "count_units"]

# The driver stores so many classes per unit.
_CLASSES_PER_BLOCK = 32
Amount = Callable[[RunSizes], float]
# A sample is ranked by all its edges, and its k classes are coupled in some thirty sweeps over k x k logits.
_SWEEPS = 30
# Chunks that zarr reads at once (its setting async.concurrency). Files that a unit writes are read again, for digests.
_AT_ONCE = 10


def _nothing(s: RunSizes) -> float:
    return 0.0


def _constant(s: RunSizes) -> float:
    return 1.0


@dataclass(frozen=True)
class StageCost:
    """What a stage costs, as functions of the sizes of a run.

    Attributes
    ----------
    per
        One unit per what.
    work
        Computation of all units together, in any unit: measured times are scaled by ratios of it.
    reads, writes
        Bytes of all units together.
    shared
        Bytes that all units read, and a worker keeps.
    reads_classes
        Whether units also read the rows of the classes of their edges, which a worker keeps.
    operations
        Operations of the store per unit: files read and written, those of the ledger included.
    memory
        Bytes that one unit needs.
    """

    per: Literal["class block", "slab", "tile", "coupling", "trial", "one"]
    work: Amount = _constant
    reads: Amount = _nothing
    writes: Amount = _nothing
    shared: Amount = _nothing
    reads_classes: bool = False
    operations: Amount = _constant
    memory: Amount = _nothing


def _rows(s: RunSizes) -> float:
    return s.classes * s.rows * s.features


def _coupling(s: RunSizes) -> float:
    return s.edges + _SWEEPS * s.couplings * s.listed**2


def _predicting(s: RunSizes) -> float:
    # A product of two floats takes about a 128th of the time of a logit that is ranked.
    applied = 0.0 if s.logits_stored else s.edges * s.features / 128
    return s.samples * (_coupling(s) + applied + s.tensor_stored * s.classes**2)


def _predicting_reads(s: RunSizes) -> float:
    if s.logits_stored:
        return 4.0 * s.edges * s.samples
    return s.slabs * s.edges * s.machine_bytes


def _slab_memory(s: RunSizes) -> float:
    return 4.0 * s.samples_per_slab * (2 * s.edges + 3 * s.listed**2)


STAGE_COSTS: dict[str, StageCost] = {
    "features": StageCost(
        "class block",
        work=_rows,
        writes=lambda s: s.itemsize * _rows(s),
        operations=lambda s: _CLASSES_PER_BLOCK,
    ),
    "samples": StageCost(
        "slab", work=lambda s: s.samples * s.features, writes=lambda s: 4.0 * s.samples * s.features
    ),
    "draws": StageCost(
        "one", work=lambda s: s.draws * s.features, writes=lambda s: 4.0 * s.draws * s.features
    ),
    "whitening": StageCost(
        "one", work=lambda s: _rows(s) * (8 + s.features * s.whitenings), writes=lambda s: 4.0 * s.features**2
    ),
    # The probe has at most 70 classes, or a few more, and at most 128 rows of each.
    "candidates": StageCost(
        "trial",
        work=lambda s: min(s.classes, 70) * min(s.rows, 256) * s.features,
        reads=lambda s: s.trials * min(s.classes, 70) * s.class_bytes,
    ),
    "machines": StageCost(
        "tile",
        work=lambda s: s.edges * 2 * s.rows * s.features * s.folds,
        writes=lambda s: s.edges * s.machine_bytes,
        reads_classes=True,
        operations=lambda s: 30.0,
        memory=lambda s: s.edges_per_tile * s.machine_bytes + 2 * s.edges_per_tile**0.5 * s.class_bytes,
    ),
    "draw_logits": StageCost(
        "tile",
        work=lambda s: s.edges * s.machines_per_edge * s.draws * s.features,
        reads=lambda s: s.edges * s.machine_bytes,
        writes=lambda s: 4.0 * s.edges * s.draws,
        shared=lambda s: 4.0 * s.draws * s.features,
        operations=lambda s: 20.0,
    ),
    "growth": StageCost(
        "one",
        work=lambda s: s.draws * _coupling(s),
        reads=lambda s: 4.0 * s.edges * s.draws,
        memory=lambda s: 12.0 * s.edges * s.draws,
    ),
    "calibration": StageCost(
        "coupling",
        work=lambda s: s.draws * _coupling(s),
        reads=lambda s: 4.0 * s.couplings * s.edges * s.draws,
        operations=lambda s: s.tiles / _AT_ONCE,
        memory=lambda s: 12.0 * s.edges * s.draws,
    ),
    "model": StageCost("one", work=lambda s: float(s.tiles), operations=lambda s: float(s.tiles)),
    "logits": StageCost(
        "tile",
        work=lambda s: s.edges * s.samples * s.features,
        reads=lambda s: s.edges * s.machine_bytes,
        writes=lambda s: 4.0 * s.edges * s.samples,
        shared=lambda s: 4.0 * s.samples * s.features,
        operations=lambda s: 20.0 + 2 * s.slabs,
    ),
    "probabilities": StageCost(
        "slab",
        work=_predicting,
        reads=_predicting_reads,
        writes=lambda s: 4.0 * s.samples * (s.couplings * s.classes + s.tensor_stored * s.classes**2),
        operations=lambda s: 20.0 + s.tiles / _AT_ONCE,
        memory=_slab_memory,
    ),
    "report": StageCost(
        "one",
        # Figures take as long as the numbers of some ten million probabilities.
        work=lambda s: 1e7 + s.samples * s.classes * s.couplings,
        operations=lambda s: float(s.tiles * (3 if s.logits_stored else 1) + s.slabs),
    ),
}


def cost_of_stage(stage: str) -> StageCost:
    """The row of a stage, or that of a stage about which nothing is known."""
    return STAGE_COSTS.get(stage, StageCost("one"))


def count_units(stage: str, sizes: RunSizes) -> int:
    """Units of a stage of an imagined run that does not grow. A plan knows its own."""
    absent = {
        "draws": not sizes.draws,
        "draw_logits": not sizes.draws,
        "growth": True,
        "logits": not sizes.logits_stored,
    }
    if absent.get(stage, False):
        return 0
    return {
        "class block": -(-sizes.classes // _CLASSES_PER_BLOCK),
        "slab": sizes.slabs,
        "tile": sizes.tiles,
        "coupling": sizes.couplings,
        "trial": sizes.trials,
        "one": 1,
    }[cost_of_stage(stage).per]
