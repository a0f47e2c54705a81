"""A run: everything that is decided before its first task, its directory, and its stages.

A stage consists of units of work. The key of a unit is the digest of everything that its result depends on, including
the keys of the units that it reads. So a change recomputes only the units that depend on it: new couplings or test
samples leave the machines as they are, and a tile of machines depends on its own edges only.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.list_length import longest_length
from pairloom.pipeline.config.config import Config
from pairloom.pipeline.coupling.model_coupling import in_order
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.growth.waves import usual_wave
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.normalisation import is_whitened, scatter_parts
from pairloom.pipeline.model.machine_choice import NO_CHOICE, KernelChoice
from pairloom.pipeline.model.settings import Candidate, ModelSettings
from pairloom.pipeline.model.training_set import Probe
from pairloom.pipeline.run.costs import StageCost
from pairloom.pipeline.run.run_directory import RunShape, rows_per_file
from pairloom.pipeline.storage.digests import digest_of
from pairloom.pipeline.storage.location import Location
from pairloom.pipeline.threads import pieces

__all__ = ["FORMAT", "Keys", "Run", "Stage", "Where"]

#: The version of the run directory's format.
FORMAT = 10

#: Keys of the units of each stage, by its name.
Keys = Mapping[str, tuple[str, ...]]

Where = Literal["driver", "cluster", "in turn"]


class Stage:
    """One stage of a run, defined by a file in `pipeline.stages`.

    Attributes
    ----------
    name
        Name of the stage, and of its folder in the ledger.
    where
        Where its units run. "driver": in the driver, which has opened the data. "cluster": as tasks. "in turn": as
        tasks, one after the other.
    needs_data
        Whether its work reads the source of the data.
    folders
        Folders of the run directory that it writes to.
    waves
        Whether a growing run repeats the stage in every wave.
    trains
        Whether its units train pairs, whose number the progress shows.
    scores
        Whether its units score the model, so that the progress shows the log loss.
    advice
        Another remedy for a task that needs too much memory; completes the sentence "Raise it".
    cost
        Work, bytes and memory as functions of the sizes of a run.
    """

    name: ClassVar[str]
    where: ClassVar[Where] = "cluster"
    needs_data: ClassVar[bool] = False
    folders: ClassVar[tuple[str, ...]] = ()
    waves: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    scores: ClassVar[bool] = False
    advice: ClassVar[str] = ""
    cost: ClassVar[StageCost] = StageCost()

    def runs_in(self, run: Run) -> Where:
        """Where its units run in a run. A stage on the cluster that needs the data opens their source in its tasks."""
        return self.where

    def keys(self, run: Run, earlier: Keys) -> tuple[str, ...]:
        """The keys of its units, given those of the stages before it."""
        raise NotImplementedError

    def work(self, run: Run, unit: int, data: OpenFeatures | None) -> list[str]:
        """Do a unit and return the files that it wrote. ``data`` is None unless the driver reads the source for it.

        Units may run on any host and in any order within their stage. A unit may run several times, even at once, since
        it always writes the same bytes.
        """
        raise NotImplementedError

    def task_bytes(self, run: Run) -> int:
        """Peak memory of a unit, an upper bound from the sizes of the arrays that it holds at once."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Run:
    """A run: its plan and its directory.

    Parameters
    ----------
    directory
        The run directory.
    stages
        The stages of the run in their order.
    config
        The configuration, including defaults.
    fingerprints
        Fingerprints of the training and of the test samples.
    shape
        Sizes, edges in the order of the tiles, and chunks.
    candidates
        The values of C and whitening that the run chooses from.
    graph
        The label of the initial graph: its family and parameters.
    probe
        The part of the training set on which candidates are compared, if there are several.
    exponent
        Exponent of the power of two by which features are divided.
    class_weights
        The weight of each class, or None.
    waves
        Number of edges after each wave of growth. The first is the initial graph, and the only one of a run that does
        not grow.
    versions
        Versions of pairloom, Python and the packages that results depend on.
    kernel
        The kernel of the machines, gamma as a number; None if they are linear.
    warnings
        Warnings from reading the data and planning, for the report.
    kernel_choice
        The kernels that were compared at planning, and the reason for the choice.
    """

    directory: Location
    stages: tuple[Stage, ...]
    config: Config
    fingerprints: dict[str, str]
    shape: RunShape
    candidates: tuple[Candidate, ...]
    graph: dict[str, Any]
    probe: Probe | None
    exponent: int
    class_weights: tuple[float, ...] | None
    waves: tuple[int, ...]
    versions: dict[str, str]
    kernel: KernelFunction | None = None
    warnings: tuple[str, ...] = ()
    kernel_choice: KernelChoice = NO_CHOICE

    @functools.cached_property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """Keys of the units of each stage: digests of everything that a result depends on."""
        keys: dict[str, tuple[str, ...]] = {}
        for stage in self.stages:
            keys[stage.name] = stage.keys(self, keys)
        return keys

    def units(self, stage: str) -> int:
        """Number of units of work of a stage."""
        return len(self.keys[stage])

    def digest(self, stage: str) -> str:
        """The digest of everything that a stage writes. Workers use it as the key of data that they keep in memory."""
        return self._digests[stage]

    @functools.cached_property
    def _digests(self) -> dict[str, str]:
        return {stage: digest_of(keys) for stage, keys in self.keys.items()}

    def stage(self, name: str) -> Stage:
        """The stage with this name."""
        return next(stage for stage in self.stages if stage.name == name)

    @property
    def stage_names(self) -> tuple[str, ...]:
        """The names of all stages, in their order."""
        return tuple(stage.name for stage in self.stages)

    @functools.cached_property
    def settings(self) -> ModelSettings:
        """The settings of the model, as in `PairwiseSVC`."""
        return self.config.settings_of_model(self.rows, self.kernel, self.candidates)

    @property
    def priors(self) -> tuple[float, ...] | None:
        """Class priors at prediction."""
        priors = in_order(self.config.model.priors, self.shape.classes, "model.priors")
        return None if priors is None else tuple(priors)

    @property
    def memory_limit(self) -> int:
        """Memory limit of a task in bytes, by which tasks divide their work."""
        return self.config.memory_limit

    @property
    def rows(self) -> NDArray[np.int64]:
        """Number of training rows per class."""
        return np.array(self.shape.rows, dtype=np.int64)

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first row of each class in the feature store, whose training rows are sorted by class."""
        return np.asarray(np.cumsum(self.rows) - self.rows)

    @property
    def totals(self) -> NDArray[np.float64]:
        """Number of training rows per class, times the weight of the class."""
        weights = np.ones(len(self.rows)) if self.class_weights is None else np.array(self.class_weights)
        return np.asarray(self.rows * weights)

    @property
    def shortlist(self) -> int | None:
        """Number of classes that are coupled per sample, before held-out samples lengthen the list; None means all."""
        return self.settings.shortlist_of(len(self.shape.classes))

    @property
    def longest_list(self) -> int | None:
        """The most classes that may be coupled per sample; None means all."""
        length = self.shortlist
        if length is None or not self.settings.may_lengthen:
            return length
        return longest_length(length, len(self.shape.classes))

    @property
    def draws_whitened(self) -> bool:
        """Whether the stored draw is the smaller one for whitened features, because every candidate whitens."""
        return all(map(is_whitened, self.shape.shrinkages))

    @property
    def row_blocks(self) -> list[slice]:
        """Slices of the training rows, sorted by class, one per file that holds them."""
        return pieces(sum(self.shape.rows), rows_per_file(self.shape.numbers_per_row))

    @property
    def row_units(self) -> list[list[slice]]:
        """The blocks of training rows of each unit that stores them."""
        source, blocks = self.shape.train_source, self.row_blocks
        size = 1 if source is None else source.blocks
        return [blocks[first : first + size] for first in range(0, len(blocks), size)]

    @property
    def class_parts(self) -> list[slice]:
        """Slices of the class axis, one per unit that computes statistics."""
        return scatter_parts(len(self.shape.classes), self.shape.features)

    @property
    def tiles(self) -> list[slice]:
        """Slices of the edge axis."""
        return pieces(self.shape.n_edges, self.shape.edges_per_tile)

    @property
    def slabs(self) -> list[slice]:
        """Slices of the sample axis."""
        return pieces(self.shape.samples, self.shape.samples_per_slab)

    @property
    def draw_slabs(self) -> list[slice]:
        """Slices of the drawn samples."""
        return pieces(self.shape.draws, self.shape.draws_per_slab)

    @property
    def model_label(self) -> dict[str, Any]:
        """The label of the model graph. A grown graph has no family, as in `PairwiseSVC`."""
        if len(self.waves) == 1:
            return self.graph
        kept = {name: self.graph[name] for name in ("neighbours",) if name in self.graph}
        return {"family": "changed", "n": len(self.shape.classes), **kept}

    @property
    def estimator_parameters(self) -> dict[str, Any]:
        """The parameters of the equivalent `PairwiseSVC`."""
        model = {**self.config.model.model_dump(mode="json"), "priors": self.priors}
        return {"graph": self.config.graph.requested(), **model}

    @property
    def most_pairs(self) -> int:
        """The maximum number of edges, after growth."""
        return self.config.most_pairs(self.shape.n_edges, len(self.shape.classes))

    @property
    def judging_coupling(self) -> str:
        """The coupling that scores the waves of a growing run."""
        assert self.config.growth is not None
        return self.config.growth.coupling or self.settings.coupling

    def pairs_to_propose(self, wave: int) -> int:
        """Number of edges of the next wave, rounded up to whole tiles.

        If a wave ended within a tile, the next wave would have to train that tile again.
        """
        assert self.config.growth is not None
        pairs, T = self.waves[wave], self.shape.edges_per_tile
        size = self.config.growth.wave or usual_wave(pairs, len(self.shape.classes))
        return -(-(pairs + size) // T) * T - pairs

    def grown_by(self, edges: Sequence[tuple[int, int]], *, new_wave: bool) -> Run:
        """The run with more edges: those of a new wave, or the rest of the last one."""
        grown = np.concatenate([self.shape.edges, np.array(edges, np.int64).reshape(-1, 2)])
        before = self.waves if new_wave else self.waves[:-1]
        return replace(self, shape=self.shape._replace(edges=grown), waves=(*before, len(grown)))
