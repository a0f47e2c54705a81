"""The plan of a run: everything that is decided before the first task."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from dask.utils import parse_bytes

from pairloom.cluster.config import Config, differing_keys
from pairloom.cluster.plan.stored_plan import FORMAT, read_fields, write_plan
from pairloom.cluster.plan.versions import installed_versions
from pairloom.cluster.stages import unit_keys
from pairloom.pipeline.growth.wave import usual_wave
from pairloom.pipeline.machines.class_scatter import scatter_parts
from pairloom.pipeline.machines.folds import folds_of
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.model.choice import Candidate, Probe
from pairloom.pipeline.model.model_settings import ModelSettings
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.run import Run, StoreKeys
from pairloom.pipeline.run.run_directory import RunShape, rows_per_file
from pairloom.pipeline.storage.digests import digest_of

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """The plan of a run.

    Parameters
    ----------
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
        The pairs on which candidates are compared; None for those of the initial graph.
    exponent
        Of the power of two that features are divided by.
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
        Given while the data were read and the run was planned, for its report.
    """

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

    @property
    def settings(self) -> ModelSettings:
        """The settings of the model, as in `PairwiseSVC`."""
        folds = folds_of(self.config.model.folds, np.array(self.shape.rows))
        return self.config.settings_of_model(folds, self.kernel, self.candidates)

    @property
    def format(self) -> int:
        """The version of the run directory's format."""
        return FORMAT

    def run(self, directory: Path) -> Run:
        """The run in a directory, as the stages see it."""
        priors = self.config.model.priors
        return Run(
            directory=directory,
            shape=self.shape,
            settings=self.settings,
            keys=self.store_keys,
            probe=self.probe,
            exponent=self.exponent,
            class_weights=self.class_weights,
            priors=None if priors is None else tuple(priors),
            memory_limit=parse_bytes(self.config.run.memory_limit),
        )

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
        return {"graph": self.config.graph.requested(), **self.config.model.model_dump(mode="json")}

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
    def shortlist(self) -> int | None:
        """How many classes of a sample are coupled; None means all."""
        return self.settings.shortlist_of(len(self.shape.classes))

    @property
    def most_pairs(self) -> int:
        """The maximum number of edges, after growth."""
        return self.config.most_pairs(self.shape.n_edges, len(self.shape.classes))

    @property
    def judging_coupling(self) -> str:
        """The coupling that scores the waves of a growing run."""
        assert self.config.growth is not None
        return self.config.growth.coupling or self.config.couplings[0]

    def pairs_to_propose(self, wave: int) -> int:
        """Number of edges of the next wave, rounded up to whole tiles.

        If a wave ended within a tile, the next wave would have to train that tile again.
        """
        assert self.config.growth is not None
        pairs, T = self.waves[wave], self.shape.edges_per_tile
        size = self.config.growth.wave or usual_wave(pairs, len(self.shape.classes))
        return -(-(pairs + size) // T) * T - pairs

    def grown_by(self, edges: Sequence[tuple[int, int]], *, new_wave: bool) -> Plan:
        """The plan with more edges: those of a new wave, or the rest of the last one."""
        grown = np.concatenate([self.shape.edges, np.array(edges, np.int64).reshape(-1, 2)])
        before = self.waves if new_wave else self.waves[:-1]
        return replace(self, shape=self.shape._replace(edges=grown), waves=(*before, len(grown)))

    @property
    def row_blocks(self) -> list[slice]:
        """Slices of the training rows, sorted by class, each stored by one unit of work."""
        return pieces(sum(self.shape.rows), rows_per_file(self.shape.features))

    @property
    def class_parts(self) -> list[slice]:
        """Slices of the class axis, whose statistics are found by one unit of work each."""
        return scatter_parts(len(self.shape.classes), self.shape.features)

    def units(self, stage: str) -> int:
        """Number of units of work of a stage."""
        return len(self.keys[stage])

    @functools.cached_property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """Keys of the units of each stage: digests of everything that a result depends on; see `stages`."""
        return unit_keys(self)

    @property
    def store_keys(self) -> StoreKeys:
        """Keys of what workers keep in memory. The key of the drawn samples is empty if there are none."""
        return StoreKeys(*(digest_of(self.keys[stage]) for stage in StoreKeys._fields))

    def differing_keys(self, config: Config, fingerprints: Mapping[str, str]) -> list[str]:
        """Differences of configuration, data and version from this plan, one line per key."""
        return differing_keys(
            _identity(self.config, self.fingerprints, self.versions),
            _identity(config, fingerprints, installed_versions()),
        )

    def write(self, directory: Path) -> None:
        """Write ``run.json``."""
        write_plan(self, directory)

    @classmethod
    def read(cls, directory: Path) -> Plan:
        """Read ``run.json``. Raise `DamagedPlan`, or `Mismatch` if it has another format."""
        return cls(**read_fields(directory))


def _identity(config: Config, fingerprints: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, Any]:
    """Everything that decides the result of a run, as a nested dictionary."""
    settings = config.result_settings()
    settings["data"] |= {f"fingerprint of {part} samples": value for part, value in fingerprints.items()}
    return settings | {"pairloom version": versions["pairloom"]}
