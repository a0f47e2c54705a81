"""The cost of the stages of a run as functions of its sizes: work, bytes, operations of the store, memory.

Every stage has its own `StageCost`. The forecast of a run and the cluster simulator scale measured times by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pairloom.pipeline.machines.folds import PARTS
from pairloom.pipeline.machines.normalisation import scatter_parts
from pairloom.pipeline.machines.pair_calibration import PROFILE_SIZE
from pairloom.pipeline.run.run_directory import rows_per_file
from pairloom.pipeline.run.tiles import stores_collapsed

__all__ = ["PRODUCT", "READS_AT_ONCE", "SWEEPS", "RunSizes", "StageCost"]

#: Coupling the k classes of a sample takes about thirty sweeps over k x k logits. One multiplication in a matrix
#: product takes about 1/128 of the time of one logit in a sweep.
SWEEPS, PRODUCT = 30, 1 / 128
#: Chunks that zarr reads concurrently (its setting async.concurrency).
READS_AT_ONCE = 10


class RunSizes(NamedTuple):
    """Sizes of a run, named as in `RunShape` where it has them.

    ``rows`` is the number of rows of an average class; ``folds`` the folds per machine; ``listed`` the number of
    classes that are coupled per sample; ``couplings``, ``trials``, ``whitenings`` and ``calibrations`` are counts;
    ``classes_per_edge`` is 2 for pairs and more for machines on sets of classes; ``explained`` is the maximum number of
    errors that the report explains; ``learned`` says whether weights are learned through the coupling, ``sloped``
    whether pairs may have their own slopes, and ``by_tasks`` whether tasks read the rows from their source: all
    together ``source_reads`` times, or 0 if they generate them.
    """

    classes: int
    rows: float
    features: int
    itemsize: int
    samples: int
    draws: int
    edges: int
    edges_per_tile: int
    samples_per_slab: int
    draws_per_slab: int
    machines_per_edge: int
    folds: int
    couplings: int
    listed: int
    trials: int
    probe_pairs: int
    whitenings: int
    tensor_stored: bool
    classes_per_edge: float = 2.0
    explained: int = 0
    learned: bool = False
    calibrations: int = 1
    sloped: bool = False
    by_tasks: bool = False
    source_reads: float = 0.0

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return -(-self.edges // self.edges_per_tile)

    @property
    def slabs(self) -> int:
        """Number of slabs of test samples."""
        return -(-self.samples // self.samples_per_slab)

    @property
    def draw_slabs(self) -> int:
        """Number of slabs of drawn samples."""
        return -(-self.draws // self.draws_per_slab)

    @property
    def training_numbers(self) -> float:
        """Rows times features of the training set."""
        return self.classes * self.rows * self.features

    @property
    def class_bytes(self) -> float:
        """Bytes of the rows of a class, as workers keep them."""
        return 4 * self.rows * self.features

    @property
    def machine_bytes(self) -> float:
        """Bytes of the machines of an edge: weights, and about 200 bytes of parameters each."""
        profile = 4 * PARTS * PROFILE_SIZE if self.sloped else 0
        return self.machines_per_edge * (4 * self.features + 200) + profile

    @property
    def held_out_bytes(self) -> float:
        """Bytes stored for the held-out samples."""
        kept = self.edges if self.listed == self.classes else self.listed**2 + self.classes
        return 4.0 * self.calibrations * self.draws * kept

    @property
    def passes(self) -> int:
        """How often a slab of drawn samples reads all machines: see `calibration.out_of_fold_lists`."""
        return 2 if self.listed < self.classes else 1

    @property
    def rankings(self) -> float:
        """Number of rankings that an average slab of drawn samples needs: one per calibration, fold and part."""
        groups, r = self.folds * PARTS, min(self.draws_per_slab, self.draws)
        return self.calibrations * min(groups, math.ceil(groups * r / max(1, self.draws)) + 1)

    @property
    def unseen_work(self) -> float:
        """Work to score all drawn samples, in units of one tile read.

        Joining the machines of an edge into a ranking takes 1e-4 s per million products.
        """
        if self.passes == 1:
            return (
                self.draw_slabs * self.collapsing_work + 8.6e-6 * self.calibrations * self.draws * self.edges
            )
        joined = self.draw_slabs * self.rankings * self.edges
        stored = 4 * self.calibrations * self.draws * min(self.edges, self.listed**2)
        return 2 * self.draw_slabs * self.tiles + 4e-8 * self.machines_per_edge * self.features * (
            joined + stored
        )

    @property
    def collapsed(self) -> bool:
        """Whether the machines of each edge are stored as one map."""
        listed = self.listed < self.classes and not self.tensor_stored and not self.learned
        return listed and stores_collapsed(self.edges, self.features)

    @property
    def collapsing_work(self) -> float:
        """Work to read all machines and whiten their weights, in units of one tile read.

        Opening and reading a tile takes about 7 ms, the time of 7e7 products.
        """
        return self.tiles + self.edges * self.features**2 / 7e7

    @property
    def ranking_work(self) -> float:
        """Work per sample: rank the classes, apply the pairs of the shortlist, couple the shortlist by every method."""
        applied = self.features * PRODUCT * (self.classes + min(self.edges, self.listed**2))
        return applied + SWEEPS * self.couplings * self.listed**2

    @property
    def completing_work(self) -> float:
        """Work per sample where the tensor is stored, so that all logits are there."""
        return self.edges + self.classes**2 + SWEEPS * self.couplings * self.listed**2


Amount = Callable[[RunSizes], float]


def _nothing(s: RunSizes) -> float:
    return 0.0


def _constant(s: RunSizes) -> float:
    return 1.0


@dataclass(frozen=True)
class StageCost:
    """The cost of a stage, as functions of the sizes of a run.

    Attributes
    ----------
    per
        The part of the run that one unit works on.
    seconds
        Rough seconds per unit, and per unit of ``work``: measured on a busy computer, to one or two digits. They
        forecast a run that is too short to be measured first.
    work
        Computation of all units together, in any unit: only ratios of it are used, to scale measured times.
    least_work
        The least such work, if ``work`` is a maximum; None if it is not.
    trains
        Whether units train machines: their time per row grows as a power of the rows, which is measured.
    absent
        Whether a run of these sizes has no unit of the stage.
    reads, writes
        Bytes that all units together read and write.
    shared
        Bytes that every unit reads and a worker caches.
    reads_classes
        Whether units also read the rows of the classes of their edges, which a worker caches.
    operations
        Operations of the store per unit: files read and written, including those of the ledger.
    once, once_operations, once_work
        Additional bytes, operations and work of a worker's first unit, whose results the worker then keeps.
    memory
        Bytes that one unit needs.
    """

    per: Literal["row block", "class part", "slab", "draw slab", "tile", "coupling", "trial", "one"] = "one"
    seconds: tuple[float, float] = (0.1, 0.0)
    work: Amount = _constant
    least_work: Amount | None = None
    trains: bool = False
    absent: Callable[[RunSizes], bool] = lambda s: False
    reads: Amount = _nothing
    writes: Amount = _nothing
    shared: Amount = _nothing
    reads_classes: bool = False
    operations: Amount = lambda s: 10.0
    once: Amount = _nothing
    once_operations: Amount = _nothing
    once_work: Amount = _constant
    memory: Amount = _nothing

    def units(self, sizes: RunSizes) -> int:
        """Number of units in a hypothetical run that does not grow. A planned run counts its own: see `Run.units`."""
        if self.absent(sizes):
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
        }[self.per]
