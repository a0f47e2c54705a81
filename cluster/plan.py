"""The plan of a run: everything that is settled before the first task, and kept in ``run.json``."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from dask.utils import format_bytes, parse_bytes
from numpy.typing import NDArray

import pairloom
from pairloom import graphs
from pairloom.cluster.config import Config, differing_keys, digest_of
from pairloom.cluster.tiles import (
    default_edges_per_tile,
    default_samples_per_slab,
    order_by_blocks,
    pieces,
)
from pairloom.pipeline.calibration.drawn_samples import draws_by_class
from pairloom.pipeline.features.class_distances import mean_distances
from pairloom.pipeline.features.feature_set import FeatureSet
from pairloom.pipeline.growth.wave import usual_wave
from pairloom.pipeline.machines.folds import fold_scheme
from pairloom.pipeline.machines.linear_machines import scaled_C
from pairloom.pipeline.run.feature_store import FeatureKeys
from pairloom.pipeline.run.run_directory import RunShape
from pairloom.pipeline.storage.atomic_file import write_atomically

__all__ = ["STAGES", "DamagedPlan", "Mismatch", "Plan", "make_plan"]

FORMAT = 2

STAGES = (
    "features",
    "samples",
    "draws",
    "whitening",
    "machines",
    "draw_logits",
    "growth",
    "calibration",
    "logits",
    "probabilities",
    "report",
)

# A stored tensor beyond this is more disk than a person expects of a default.
_STORED_TENSOR_LIMIT = 2 * 2**30
_CLASSES_PER_UNIT = 32
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "zarr", "dask", "distributed", "networkx")


class DamagedPlan(ValueError):
    """A run.json that is missing, cut short or changed."""


class Mismatch(ValueError):
    """A run directory that belongs to another configuration, other data or another version."""


@dataclass(frozen=True)
class Plan:
    """What a run will do.

    Parameters
    ----------
    config
        The configuration, every default filled in.
    fingerprints
        Of the training and of the test samples.
    shape
        Sizes, edges in the order of the tiles, and chunks.
    cost
        The C of the machines, found from the data where the configuration leaves it to them.
    waves
        How many edges there are after each wave of growth, the graph of the start being the first. A run that
        does not grow has no waves but that one.
    versions
        Of pairloom and of the packages that its numbers come from.
    """

    config: Config
    fingerprints: dict[str, str]
    shape: RunShape
    cost: float
    waves: tuple[int, ...]
    versions: dict[str, str]

    @property
    def tiles(self) -> list[slice]:
        """Slices of the edge axis."""
        return pieces(len(self.shape.edges), self.shape.edges_per_tile)

    @property
    def slabs(self) -> list[slice]:
        """Slices of the sample axis."""
        return pieces(self.shape.samples, self.shape.samples_per_slab)

    @property
    def most_pairs(self) -> int:
        """How many edges the run may come to have."""
        growth, E = self.config.growth, len(self.shape.edges)
        return E if growth is None else max(E, growth.budget.most_pairs(len(self.shape.classes)))

    @property
    def judging_method(self) -> str:
        """The coupling by which the waves of a run that grows are judged."""
        assert self.config.growth is not None
        return self.config.growth.method or self.shape.methods[0]

    def pairs_to_propose(self, wave: int) -> int:
        """How many edges the wave after this one has: enough to end with a whole tile.

        A wave that ended within a tile would have that tile trained again with the next one.
        """
        assert self.config.growth is not None
        pairs, T = self.waves[wave], self.shape.edges_per_tile
        size = self.config.growth.wave or usual_wave(pairs, len(self.shape.classes))
        return -(-(pairs + size) // T) * T - pairs

    def grown_by(self, edges: Sequence[tuple[int, int]], *, new_wave: bool) -> Plan:
        """The plan with more edges: those of another wave, or the rest of the last one."""
        grown = np.concatenate([self.shape.edges, np.array(edges, np.int64).reshape(-1, 2)])
        before = self.waves if new_wave else self.waves[:-1]
        return replace(self, shape=self.shape._replace(edges=grown), waves=(*before, len(grown)))

    @property
    def class_blocks(self) -> list[slice]:
        """Slices of the class axis that are put into the feature store together."""
        return pieces(len(self.shape.classes), _CLASSES_PER_UNIT)

    def units(self, stage: str) -> int:
        """How many units of work a stage has."""
        return len(self.keys[stage])

    @functools.cached_property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """For each unit of each stage, the digest of everything that its result depends on.

        A key holds the keys of what the unit reads, so a change is felt exactly where it matters: other
        coupling methods leave the machines alone, other test samples too, and a tile of machines knows of no
        edges but its own.
        """
        settings, shape = self.config.result_settings(), self.shape
        seed = settings["run"]["seed"]
        features = digest_of([FORMAT, self.versions["pairloom"], self.fingerprints["train"]])
        samples = digest_of([FORMAT, self.fingerprints["test"], shape.samples_per_slab])
        draws = digest_of([features, shape.draws, settings["machine"]["folds"], seed])
        # The covariance is found from the samples that are not drawn.
        left_out = draws if shape.whitened else None
        whitening = digest_of([features, settings["machine"]["whiten"], left_out])
        machine = digest_of([whitening, settings["machine"], self.cost, shape.edges_per_tile, seed])
        machines = [digest_of([machine, shape.edges[tile].tolist()]) for tile in self.tiles]
        draw_logits = [digest_of([key, draws]) for key in machines if shape.draws]
        calibration = [digest_of([draw_logits, method]) for method in shape.methods]
        logits = [digest_of([key, samples]) for key in machines]
        coupled = digest_of([logits, calibration, shape.methods, shape.tensor_stored])
        return {
            "features": (features,) * len(self.class_blocks),
            "samples": (samples,) * len(self.slabs),
            "draws": (draws,) * bool(shape.draws),
            "whitening": (whitening,),
            "machines": tuple(machines),
            "draw_logits": tuple(draw_logits),
            "growth": self._growth_keys(digest_of([machine, draws])),
            "calibration": tuple(calibration),
            "logits": tuple(logits),
            "probabilities": (coupled,) * len(self.slabs),
            "report": (digest_of([coupled, self.waves if self.config.growth else None]),),
        }

    @property
    def feature_keys(self) -> FeatureKeys:
        """Keys of what the feature store holds. Without samples to calibrate by there is no key of those."""
        return FeatureKeys(
            *(self.keys[stage][0] if self.keys[stage] else "" for stage in FeatureKeys._fields)
        )

    def _growth_keys(self, drawn: str) -> tuple[str, ...]:
        """Keys of the judgements, each of which knows the ones before and the edges of its own wave.

        ``drawn`` is the digest of the machines' settings and the drawn samples: what a judgement reads of them does
        not depend on how the edges are cut into tiles, of which a later wave may change the last.
        """
        if self.config.growth is None:
            return ()
        facts = [self.judging_method, self.config.growth.cost]
        keys, begin = [drawn], 0
        for wave, end in enumerate(self.waves):
            edges = self.shape.edges[begin:end].tolist()
            keys.append(digest_of([keys[-1], *facts, edges, self.pairs_to_propose(wave)]))
            begin = end
        return tuple(keys[1:])

    def tensor_bytes(self) -> int:
        """Size of the completed (class, class, sample) tensor."""
        return 4 * len(self.shape.classes) ** 2 * self.shape.samples

    def worker_bytes(self) -> int:
        """The most that one task holds in memory: the classes of a tile, or a slab and its working copies."""
        shape = self.shape
        N, D = len(shape.classes), shape.features
        touched = max((len(np.unique(shape.edges[tile])) for tile in self.tiles), default=0)
        training = (
            4 * D * (touched * max(shape.rows) + 2 * shape.edges_per_tile * shape.machines_per_edge + D)
        )
        coupling = 4 * shape.samples_per_slab * (3 * N**2 + 2 * self.most_pairs)
        calibration = 4 * shape.draws * 3 * self.most_pairs
        return max(training, coupling, calibration)

    def disk_bytes(self) -> dict[str, int]:
        """Upper bounds of what is written, before compression."""
        shape = self.shape
        E, N, R, D = self.most_pairs, len(shape.classes), shape.samples, shape.features
        return {
            "features.zarr": 4 * D * (sum(shape.rows) + R + shape.draws + D * shape.whitened + 1),
            "machines.zarr": E * (shape.machines_per_edge * (4 * D + 40) + 16),
            "logits.zarr": 4 * E * (R + shape.draws) + (self.tensor_bytes() if shape.tensor_stored else 0),
            "probabilities.zarr": 4 * R * N * len(shape.methods),
        }

    def check_memory(self) -> None:
        """Raise if a task would not fit into a worker's memory limit."""
        needed, limit = self.worker_bytes(), parse_bytes(self.config.run.memory_limit)
        if needed > limit:
            raise ValueError(
                f"run.memory_limit must be at least {format_bytes(needed)}, what one task here holds, got "
                f"{self.config.run.memory_limit}; less run.edges_per_tile or run.samples_per_slab need less"
            )

    def differing_keys(self, config: Config, fingerprints: Mapping[str, str]) -> list[str]:
        """What of a configuration, of data and of the version here is not as in this plan, a line each."""
        return differing_keys(
            _identity(self.config, self.fingerprints, self.versions),
            _identity(config, fingerprints, _versions()),
        )

    def write(self, directory: Path) -> None:
        """Write ``run.json``."""
        content = self._content()
        sealed = {**content, "seal": digest_of(content)}
        write_atomically(directory / "run.json", json.dumps(sealed).encode())

    @classmethod
    def read(cls, directory: Path) -> Plan:
        """Read ``run.json``, or raise `DamagedPlan`."""
        path = directory / "run.json"
        try:
            content = json.loads(path.read_bytes())
            seal = content.pop("seal")
        except FileNotFoundError as error:
            raise DamagedPlan(
                f"{path}: no such file: not a run directory, or its plan was deleted"
            ) from error
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise DamagedPlan(f"{path}: damaged") from error
        if content.get("format") != FORMAT:
            raise Mismatch(f"{path}: format must be {FORMAT}, got {content.get('format')}")
        if seal != digest_of(content):
            raise DamagedPlan(f"{path}: damaged, its seal does not match what it holds")
        return cls._from_content(content)

    def _content(self) -> dict[str, Any]:
        shape = self.shape._asdict() | {"edges": self.shape.edges.tolist()}
        return {
            "format": FORMAT,
            "config": self.config.model_dump(mode="json"),
            "config_hash": digest_of(self.config.result_settings()),
            "fingerprints": self.fingerprints,
            "shape": shape,
            "cost": self.cost,
            "waves": self.waves,
            "versions": self.versions,
        }

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Plan:
        shape: dict[str, Any] = dict(content["shape"])
        shape |= {name: tuple(shape[name]) for name in ("classes", "rows", "methods")}
        shape["edges"] = np.array(shape["edges"], dtype=np.int64).reshape(-1, 2)
        return cls(
            config=Config.model_validate(content["config"]),
            fingerprints=content["fingerprints"],
            shape=RunShape(**shape),
            cost=content["cost"],
            waves=tuple(content["waves"]),
            versions=content["versions"],
        )


def _identity(config: Config, fingerprints: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, Any]:
    """What decides the result of a run, as a nested dictionary."""
    settings = config.result_settings()
    settings["data"] |= {f"fingerprint of {part} samples": value for part, value in fingerprints.items()}
    return settings | {"pairloom version": versions["pairloom"]}


def make_plan(config: Config, data: FeatureSet) -> Plan:
    """Plan a run of these data: build the graph, order its edges, cut tiles and slabs."""
    N, D = len(data.classes), data.X_train.shape[1]
    rows = np.bincount(data.y_train, minlength=N)
    _check_folds(config.machine.folds, rows, data.classes)
    pair_rows, edges = 2 * float(rows.mean()), _edges(config, data)
    growing = config.growth is not None
    T = config.run.edges_per_tile or default_edges_per_tile(pair_rows, D, config.machine.folds, growing)
    # Chunks of a graph that grows must not.
    T = min(T, len(edges))
    r = config.run.samples_per_slab or default_samples_per_slab(N)
    machine = config.machine
    shape = RunShape(
        classes=data.classes,
        rows=tuple(rows.tolist()),
        features=D,
        samples=len(data.X_test),
        labelled=data.y_test is not None,
        edges=order_by_blocks(edges, T),
        machines_per_edge=fold_scheme(machine.folds, machine.fit_on, machine.calibration).n_machines,
        whitened=machine.whiten != "none",
        draws=_draws(config, rows),
        edges_per_tile=T,
        samples_per_slab=r,
        methods=tuple(config.coupling.methods),
        tensor_stored=_stores_tensor(config, 4 * N**2 * len(data.X_test)),
        synthetic=data.synthetic,
    )
    spread = float(data.X_train.var(axis=0, dtype=np.float64).sum())
    cost = scaled_C(spread) if machine.C == "scale" else machine.C
    plan = Plan(config, data.fingerprints, shape, cost, (len(edges),), _versions())
    _check_budget(plan)
    plan.check_memory()
    return plan


def _draws(config: Config, rows: NDArray[np.int64]) -> int:
    """How many training samples calibrate the coupled model."""
    if config.calibration.level == "none":
        return 0
    return int(draws_by_class(rows, config.calibration.samples, config.machine.whiten != "none").sum())


def _edges(config: Config, data: FeatureSet) -> NDArray[np.int64]:
    parameters: dict[str, Any] = dict(config.graph.parameters())
    N = len(data.classes)
    if graphs.needs_distances(config.graph.family):
        parameters["distances"] = mean_distances(data.X_train, data.y_train, N)
    return np.asarray(graphs.edge_array(graphs.build(config.graph.family, N, **parameters)), dtype=np.int64)


def _check_budget(plan: Plan) -> None:
    """Raise if a run would have to end before it begins to grow."""
    if plan.config.growth is None:
        return
    start, N, budget = plan.waves[0], len(plan.shape.classes), plan.config.growth.budget
    share = math.ceil(10_000 * start / (N * (N - 1) / 2)) / 10_000
    if budget.pairs is not None and budget.pairs < start:
        raise ValueError(f"growth.pairs must be at least {start}, those of the start, got {budget.pairs}")
    if budget.share is not None and budget.most_pairs(N) < start:
        raise ValueError(f"growth.share must be at least {share:.4f}, that of the start, got {budget.share}")


def _stores_tensor(config: Config, tensor_bytes: int) -> bool:
    if config.coupling.tensor == "auto":
        return tensor_bytes <= _STORED_TENSOR_LIMIT
    return config.coupling.tensor == "stored"


def _check_folds(folds: int, rows: NDArray[np.int64], classes: tuple[str, ...]) -> None:
    smallest = int(np.argmin(rows))
    if rows[smallest] < folds:
        raise ValueError(
            "machine.folds must be at least 2 and at most the size of the smallest class "
            f"(class {classes[smallest]!r} has {rows[smallest]} samples), got {folds}"
        )


def _versions() -> dict[str, str]:
    packages = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"pairloom": pairloom.__version__, "python": platform.python_version(), **packages}
