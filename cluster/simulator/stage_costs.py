"""What the stages of a run cost: the one table that says how work, bytes and memory depend on the sizes of a run.

Whoever adds or changes a stage adds or changes its row. A stage without a row is simulated with its measured times and
moves no bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pairloom.cluster.simulator.run_sizes import RunSizes
from pairloom.pipeline.calibration.coupled_learning import FEW_SAMPLES, MOST_WORK, sample_limit
from pairloom.pipeline.completion.shortlist import USUAL_SIZE
from pairloom.pipeline.machines.class_scatter import scatter_parts
from pairloom.pipeline.report.explained_errors import explaining_work
from pairloom.pipeline.run.run_directory import rows_per_file

__all__ = ["STAGE_COSTS", "StageCost", "cost_of_stage", "count_units"]

Amount = Callable[[RunSizes], float]
# The k classes of a sample are coupled in some thirty sweeps over k x k logits. A product of two floats in a matrix
# product takes about a 128th of the time of one logit of a sweep.
_SWEEPS, _PRODUCT = 30, 1 / 128
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
    once, once_operations, once_work
        Bytes, operations and work of a worker's first unit, beyond those of the others: what it keeps from then on,
        however large.
    memory
        Bytes that one unit needs.
    """

    per: Literal["row block", "class part", "slab", "draw slab", "tile", "coupling", "trial", "one"]
    work: Amount = _constant
    reads: Amount = _nothing
    writes: Amount = _nothing
    shared: Amount = _nothing
    reads_classes: bool = False
    operations: Amount = lambda s: 10.0
    once: Amount = _nothing
    once_operations: Amount = _nothing
    once_work: Amount = _constant
    memory: Amount = _nothing


def _rows(s: RunSizes) -> float:
    return s.classes * s.rows * s.features


def _ranking(s: RunSizes) -> float:
    """Work of a sample: rank the classes, apply the pairs of its shortlist, and couple these by every method."""
    applied = s.features * _PRODUCT * (s.classes + min(s.edges, s.listed**2))
    return applied + _SWEEPS * s.couplings * s.listed**2


def _completing(s: RunSizes) -> float:
    """Work of a sample whose tensor is stored: all its logits are there."""
    return s.edges + s.classes**2 + _SWEEPS * s.couplings * s.listed**2


def _collapsing(s: RunSizes) -> float:
    """Work to read all machines and whiten their weights, in tiles: one takes about 7 ms to open and read, as long as
    7e7 products."""
    return s.tiles + s.edges * s.features**2 / 7e7


def _scoring(s: RunSizes) -> float:
    """Work of all held-out samples, in the same unit: every slab reads the machines; a logit takes some 60 ns."""
    return s.draw_slabs * _collapsing(s) + 8.6e-6 * s.draws * s.edges


def _held_out_bytes(s: RunSizes) -> float:
    """What is stored of the held-out samples."""
    kept = s.edges if s.listed == s.classes else s.listed**2 + s.classes
    return 4.0 * s.draws * kept


def _learned_from(s: RunSizes) -> float:
    """Samples that weights are learned from."""
    return min(sample_limit(s.edges), s.classes * s.rows)


def _learning(s: RunSizes) -> float:
    """Work of all steps: held-out samples stop most descents after some thirty, of which there are about two.

    Where few samples are held out no step is tried.
    """
    samples, listed = _learned_from(s), min(s.listed, USUAL_SIZE)
    steps = 60 * min(1.0, MOST_WORK / 30 / (samples * s.edges * s.features))
    steps = steps if samples / s.folds >= FEW_SAMPLES else 1
    return steps * samples * (2 * _PRODUCT * s.edges * s.features + _SWEEPS * listed**2)


def _page(s: RunSizes) -> float:
    """Seconds of work on the page of a report without its explanations: on 50 classes 0.2, on 1654 classes 0.8."""
    return 0.02 * math.sqrt(s.classes) + 2e-9 * s.samples * s.classes * s.couplings


STAGE_COSTS: dict[str, StageCost] = {
    "features": StageCost("row block", work=_rows, writes=lambda s: s.itemsize * _rows(s)),
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
    ),
    "whitening": StageCost("one", work=lambda s: s.features**3, writes=lambda s: 4.0 * s.features**2),
    # The probe has at most 70 classes, or a few more, and at most 256 rows of each.
    "candidates": StageCost(
        "trial",
        work=lambda s: max(1, s.probe_pairs) * s.classes_per_edge * min(s.rows, 256) * s.features,
        reads=lambda s: s.trials * min(s.classes, 70) * s.class_bytes,
    ),
    "machines": StageCost(
        "tile",
        work=lambda s: s.edges * s.classes_per_edge * s.rows * s.features * s.folds,
        writes=lambda s: s.edges * s.machine_bytes,
        reads_classes=True,
        operations=lambda s: 15.0 + 2 * s.edges_per_tile**0.5,
        memory=lambda s: (
            3 * s.edges_per_tile * s.machine_bytes + (2 * s.edges_per_tile**0.5 + 4) * s.class_bytes
        ),
    ),
    # Every slab reads all machines.
    "held_out": StageCost(
        "draw slab",
        work=_scoring,
        reads=lambda s: s.draw_slabs * s.edges * s.machine_bytes,
        writes=_held_out_bytes,
        shared=lambda s: 4.0 * s.draws * s.features,
        operations=lambda s: 20.0 + 2 * s.tiles,
        memory=lambda s: s.edges * (12.0 * min(s.draws_per_slab, s.draws) + 128) + 25.0 * s.classes**2,
    ),
    "growth": StageCost("one", work=lambda s: s.draws * _ranking(s), reads=_held_out_bytes),
    "calibration": StageCost(
        "coupling",
        work=lambda s: s.draws * _SWEEPS * s.couplings * s.listed**2,
        reads=lambda s: s.couplings * _held_out_bytes(s),
        operations=lambda s: 10.0 + 4 * s.draw_slabs / _AT_ONCE,
        memory=lambda s: 4 * _held_out_bytes(s),
    ),
    # All machines and all samples in one unit, and 24 numbers of eight bytes for each weight.
    "learning": StageCost(
        "one",
        work=_learning,
        reads=lambda s: s.edges * s.machine_bytes + s.itemsize * _learned_from(s) * s.features,
        writes=lambda s: 4.0 * s.edges * s.features,
        operations=lambda s: 20.0 + 2 * s.tiles / _AT_ONCE,
        memory=lambda s: (
            s.edges * (3 * s.machine_bytes + 192.0 * s.features)
            + 20.0 * _learned_from(s) * (s.edges + 2 * s.features)
        ),
    ),
    "model": StageCost("one", work=lambda s: float(s.tiles), operations=lambda s: float(s.tiles)),
    # The first slab of a worker reads all machines and keeps them as one affine map; without a tensor, that of the
    # probabilities does.
    "logits": StageCost(
        "slab",
        work=lambda s: s.samples * (s.edges * s.features + _completing(s)),
        reads=lambda s: 4.0 * s.samples * s.features,
        writes=lambda s: 4.0 * s.samples * s.classes**2,
        operations=lambda s: 20.0,
        once=lambda s: s.edges * s.machine_bytes,
        once_operations=lambda s: 2.0 * s.tiles,
        once_work=lambda s: _collapsing(s),
        memory=lambda s: (
            4.0 * s.edges * (s.features + 96) + 4.0 * s.samples_per_slab * (2 * s.edges + 3 * s.classes**2)
        ),
    ),
    "probabilities": StageCost(
        "slab",
        work=lambda s: s.samples * (_completing(s) if s.tensor_stored else _ranking(s)),
        reads=lambda s: 4.0 * s.samples * (s.classes**2 if s.tensor_stored else s.features),
        writes=lambda s: 4.0 * s.samples * s.couplings * s.classes,
        operations=lambda s: 20.0,
        once=lambda s: 0.0 if s.tensor_stored else s.edges * s.machine_bytes,
        once_operations=lambda s: 0.0 if s.tensor_stored else 2.0 * s.tiles,
        once_work=lambda s: 1.0 if s.tensor_stored else _collapsing(s),
        memory=lambda s: (
            4.0 * s.samples_per_slab * (2 * s.edges + 3 * s.classes**2)
            if s.tensor_stored
            else 4.0 * s.edges * (s.features + 96) + 25.0 * s.classes**2
        ),
    ),
    "report": StageCost(
        "one",
        work=lambda s: _page(s) + 1.2e-10 * s.explained * explaining_work(s.edges, s.features, s.listed),
        reads=lambda s: 4.0 * s.samples * s.classes * s.couplings,
        operations=lambda s: float(s.tiles + s.slabs + s.draw_slabs),
        memory=lambda s: 8.0 * s.samples * (4 * s.couplings + 6) + 80.0 * s.classes**2,
    ),
}


def cost_of_stage(stage: str) -> StageCost:
    """The row of a stage, or that of a stage about which nothing is known."""
    return STAGE_COSTS.get(stage, StageCost("one"))


def count_units(stage: str, sizes: RunSizes) -> int:
    """Units of a stage of an imagined run that does not grow. A plan knows its own."""
    absent = {
        "draws": not sizes.draws,
        "growth": True,
        "learning": not sizes.learned,
        "logits": not sizes.tensor_stored,
    }
    if absent.get(stage, False):
        return 0
    return {
        "row block": math.ceil(sizes.classes * sizes.rows / rows_per_file(sizes.features)),
        "class part": len(scatter_parts(sizes.classes, sizes.features)),
        "slab": sizes.slabs,
        "draw slab": sizes.draw_slabs,
        "tile": sizes.tiles,
        "coupling": sizes.couplings,
        "trial": sizes.trials,
        "one": 1,
    }[cost_of_stage(stage).per]
