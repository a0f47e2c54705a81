"""What the stages of a run cost: the one table that says how work, bytes and memory depend on the sizes of a run.

Whoever adds or changes a stage adds or changes its row. A stage without a row is simulated with its measured times and
moves no bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pairloom.cluster.simulator.run_sizes import RunSizes
from pairloom.pipeline.model.affine_model import applies_listed_pairs
from pairloom.pipeline.run.run_directory import rows_per_file

__all__ = ["STAGE_COSTS", "StageCost", "cost_of_stage", "count_units"]

Amount = Callable[[RunSizes], float]
# A sample is ranked by all its edges, and its k classes are coupled in some thirty sweeps over k x k logits.
_SWEEPS = 30
# A product of matrices does so many times the work of a loop over samples in the same time.
_BATCHED = 6


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

    per: Literal["row block", "class part", "slab", "draw slab", "tile", "coupling", "trial", "one"]
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
    """Coupling of the samples; and without stored logits, the ranking, the pairs of the shortlists, the machines."""
    coupled = s.samples * (_coupling(s) + s.tensor_stored * s.classes**2)
    if s.logits_stored:
        return coupled
    listed = s.listed < s.classes and applies_listed_pairs(s.classes, s.edges, s.listed)
    pairs = s.listed * s.edges / s.classes if listed else s.edges / _BATCHED
    ranked = s.classes / _BATCHED
    return coupled + s.features * (s.samples * (pairs + ranked) + s.edges * s.machines_per_edge)


def _held_out_bytes(s: RunSizes) -> float:
    """Shortlists and rankings of the drawn samples, or the logits of all edges."""
    kept = s.listed**2 + s.classes if s.listed < s.classes else s.edges
    return 4.0 * s.draws * kept


def _slab_memory(s: RunSizes) -> float:
    if not s.logits_stored:
        return 4.0 * (s.edges * s.features + s.samples_per_slab * (s.classes + s.features))
    return 4.0 * s.samples_per_slab * (2 * s.edges + 3 * s.listed**2)


STAGE_COSTS: dict[str, StageCost] = {
    "features": StageCost(
        "row block", work=_rows, writes=lambda s: s.itemsize * _rows(s), operations=lambda s: 3.0
    ),
    "samples": StageCost(
        "slab", work=lambda s: s.samples * s.features, writes=lambda s: 4.0 * s.samples * s.features
    ),
    "draws": StageCost(
        "one", work=lambda s: s.draws * s.features, writes=lambda s: 4.0 * s.draws * s.features
    ),
    "statistics": StageCost(
        "class part",
        work=lambda s: _rows(s) * (8 + s.features * bool(s.whitenings)),
        reads=lambda s: s.itemsize * _rows(s),
        writes=lambda s: 8.0 * s.class_parts * s.features**2 * bool(s.whitenings),
    ),
    "whitening": StageCost(
        "one",
        work=lambda s: s.features + s.whitenings * s.features**2 * (10 * s.features + s.class_parts),
        reads=lambda s: 8.0 * s.class_parts * s.features**2 * bool(s.whitenings),
        writes=lambda s: 4.0 * s.whitenings * s.features**2,
    ),
    # The probe has at most 70 classes, or a few more, and at most 256 rows of each.
    "candidates": StageCost(
        "trial",
        work=lambda s: max(1, s.probe_pairs) * min(s.rows, 256) * s.features,
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
    "held_out": StageCost(
        "draw slab",
        work=lambda s: s.draws * s.edges * s.features,
        reads=lambda s: s.draw_slabs * s.edges * s.machine_bytes,
        writes=_held_out_bytes,
        shared=lambda s: 4.0 * s.draws * s.features,
        operations=lambda s: 3.0 * s.tiles,
        memory=lambda s: 12.0 * s.edges * s.draws_per_slab,
    ),
    "growth": StageCost(
        "one", work=lambda s: s.draws * _coupling(s), reads=_held_out_bytes, memory=_held_out_bytes
    ),
    "calibration": StageCost(
        "coupling",
        work=lambda s: s.draws * s.couplings * _SWEEPS * s.listed**2,
        reads=lambda s: s.couplings * _held_out_bytes(s),
        operations=lambda s: 5.0 * s.draw_slabs,
        memory=lambda s: 4.0 * _held_out_bytes(s),
    ),
    "model": StageCost("one", work=lambda s: float(s.tiles), operations=lambda s: float(s.tiles)),
    "logits": StageCost(
        "tile",
        work=lambda s: s.edges * s.samples * s.features,
        reads=lambda s: s.edges * s.machine_bytes,
        writes=lambda s: 4.0 * s.edges * s.samples,
        shared=lambda s: 4.0 * s.samples * s.features,
        operations=lambda s: 20.0 + s.slabs,
    ),
    "probabilities": StageCost(
        "slab",
        work=_predicting,
        reads=lambda s: 4.0 * s.edges * s.samples if s.logits_stored else 4.0 * s.samples * s.features,
        # Without stored logits a worker reads all machines once, and keeps them as one affine map.
        shared=lambda s: 0.0 if s.logits_stored else s.edges * s.machine_bytes,
        writes=lambda s: 4.0 * s.samples * (s.couplings * s.classes + s.tensor_stored * s.classes**2),
        operations=lambda s: float(s.tiles),
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
        "held_out": not sizes.draws,
        "growth": True,
        "logits": not sizes.logits_stored,
    }
    if absent.get(stage, False):
        return 0
    return {
        "row block": -(-int(sizes.classes * sizes.rows) // rows_per_file(sizes.features)),
        "class part": sizes.class_parts,
        "slab": sizes.slabs,
        "draw slab": sizes.draw_slabs,
        "tile": sizes.tiles,
        "coupling": sizes.couplings,
        "trial": sizes.trials,
        "one": 1,
    }[cost_of_stage(stage).per]
