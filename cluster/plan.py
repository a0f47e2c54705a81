"""The plan of a run: everything that is decided before the first task. It is stored in ``run.json``."""

from __future__ import annotations

import functools
import importlib.metadata
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from dask.utils import format_bytes, parse_bytes
from numpy.typing import NDArray

import pairloom
from pairloom import graphs
from pairloom.cluster.config import Config, ModelConfig, differing_keys
from pairloom.cluster.needs import task_bytes
from pairloom.cluster.stages import unit_keys
from pairloom.cluster.tiles import (
    default_draws_per_slab,
    default_edges_per_tile,
    default_samples_per_prediction,
    default_samples_per_slab,
    numbers_per_row,
    order_by_blocks,
)
from pairloom.pipeline.calibration.drawn_samples import draws_by_class
from pairloom.pipeline.completion.shortlist import shortlist_size
from pairloom.pipeline.coupling.priors import check_priors
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.growth.wave import usual_wave
from pairloom.pipeline.machines.class_scatter import scatter_parts
from pairloom.pipeline.machines.folds import fold_scheme, folds_of, usable_folds
from pairloom.pipeline.machines.gram_blocks import check_gram_rows
from pairloom.pipeline.machines.kernel_function import KernelFunction, gamma_of
from pairloom.pipeline.machines.whitening import is_whitened
from pairloom.pipeline.model.choice import MOST_PROBE_ROWS, Candidate, Probe
from pairloom.pipeline.model.class_weights import class_weights
from pairloom.pipeline.model.learning import check_weights
from pairloom.pipeline.model.model_settings import ModelSettings
from pairloom.pipeline.model.stored_form import label_of, plain
from pairloom.pipeline.pieces import pieces
from pairloom.pipeline.run.planning import ModelPlan, plan_model
from pairloom.pipeline.run.run import Run, StoreKeys
from pairloom.pipeline.run.run_directory import RunShape, members_of_machines, rows_per_file
from pairloom.pipeline.storage.atomic_file import write_atomically
from pairloom.pipeline.storage.digests import DamagedSeal, digest_of, sealed, unsealed

__all__ = ["FORMAT", "DamagedPlan", "Mismatch", "Plan", "make_plan"]

FORMAT = 5

# By default, a larger tensor is not stored: nobody expects it to fill the disk.
_STORED_TENSOR_LIMIT = 2 * 2**30
# What else lowers the memory of a task.
_ADVICE = {
    "machines": ", or lower run.edges_per_tile",
    "logits": ", or lower run.samples_per_slab",
    "probabilities": ", or lower run.samples_per_slab",
    "calibration": ", or lower model.calibration_samples",
    "learning": ', choose a sparser graph, or set model.learn = "machines"',
    "growth": ", or lower growth.pairs",
}
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "zarr", "dask", "distributed", "networkx")


class DamagedPlan(ValueError):
    """A run.json that is missing, truncated or modified."""


class Mismatch(ValueError):
    """A run directory with another configuration, other data or another version."""


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
        return _settings(self.config, folds, self.kernel, self.candidates)

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
        return _most_pairs(self.config, self.shape.n_edges, len(self.shape.classes))

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

    def check_memory(self) -> None:
        """Raise if a task needs more memory than a worker has."""
        by_stage, limit = task_bytes(self), parse_bytes(self.config.run.memory_limit)
        stage, needed = max(by_stage.items(), key=lambda item: item[1])
        if needed > limit:
            raise ValueError(
                f"run.memory_limit must be at least {format_bytes(needed)}, the memory of one task of {stage}, "
                f"got {self.config.run.memory_limit}. Raise it"
                f"{_ADVICE.get(stage, '')}."
            )

    def differing_keys(self, config: Config, fingerprints: Mapping[str, str]) -> list[str]:
        """Differences of configuration, data and version from this plan, one line per key."""
        return differing_keys(
            _identity(self.config, self.fingerprints, self.versions),
            _identity(config, fingerprints, _versions()),
        )

    def write(self, directory: Path) -> None:
        """Write ``run.json``."""
        write_atomically(directory / "run.json", sealed(self._content()))

    @classmethod
    def read(cls, directory: Path) -> Plan:
        """Read ``run.json``. Raise `DamagedPlan`, or `Mismatch` if it has another format."""
        path = directory / "run.json"
        try:
            content = unsealed(path.read_bytes())
        except FileNotFoundError as error:
            raise DamagedPlan(
                f"{path}: no such file. This is not a run directory, or its plan was deleted."
            ) from error
        except DamagedSeal as error:
            raise DamagedPlan(f"{path}: damaged: {error}.") from error
        if content.get("format") != FORMAT:
            raise Mismatch(
                f"{path}: format must be {FORMAT}, got {content.get('format')}: the run was made by another version of "
                "pairloom. Finish it with that version, or start again in another directory."
            )
        return cls._from_content(content)

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "config": self.config.model_dump(mode="json"),
            "config_hash": digest_of(self.config.result_settings()),
            "fingerprints": self.fingerprints,
            "shape": self.shape._asdict() | _sides_content(self.shape),
            "candidates": [list(candidate) for candidate in self.candidates],
            "graph": self.graph,
            "probe": None if self.probe is None else _probe_content(self.probe),
            "exponent": self.exponent,
            "class_weights": self.class_weights,
            "waves": self.waves,
            "versions": self.versions,
            "kernel": None if self.kernel is None else asdict(self.kernel),
            "warnings": self.warnings,
        }

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Plan:
        shape: dict[str, Any] = dict(content["shape"])
        lists = ("classes", "rows", "shrinkages", "couplings", "feature_names")
        shape |= {name: tuple(shape[name]) for name in lists if name in shape}
        shape["edges"] = _pairs(shape["edges"])
        code = shape.get("code")  # plans before codes have none
        shape["code"] = None if code is None else graphs.code_from_text(code)
        weights, kernel = content["class_weights"], content.get("kernel")
        return cls(
            config=Config.model_validate(content["config"]),
            fingerprints=content["fingerprints"],
            shape=RunShape(**shape),
            candidates=tuple(Candidate(*candidate) for candidate in content["candidates"]),
            graph=content["graph"],
            probe=None if content["probe"] is None else _probe(**content["probe"], code=shape["code"]),
            exponent=content["exponent"],
            class_weights=None if weights is None else tuple(weights),
            waves=tuple(content["waves"]),
            versions=content["versions"],
            kernel=None if kernel is None else KernelFunction(**kernel),
            warnings=tuple(content.get("warnings", ())),
        )


def _sides_content(shape: RunShape) -> dict[str, Any]:
    code = None if shape.code is None else graphs.code_as_text(shape.code)
    return {"edges": shape.edges.tolist(), "code": code}


def _probe_content(probe: Probe) -> dict[str, Any]:
    # A probe of machines on sets of classes has the code of the model.
    code = isinstance(probe.graph, graphs.ModelCode)
    edges = [] if code else graphs.edge_array(probe.graph).tolist()
    return {"classes": probe.classes.tolist(), "edges": edges, "most_rows": probe.most_rows}


def _probe(
    classes: list[int],
    edges: list[list[int]],
    *,
    most_rows: int = MOST_PROBE_ROWS,
    code: NDArray[np.int8] | None,
) -> Probe:
    if code is not None:
        return Probe(np.array(classes), graphs.ModelCode(code, {"family": "probe"}), most_rows)
    graph = graphs.model_graph(len(classes), [(i, j) for i, j in edges], "probe")
    return Probe(np.array(classes), graph, most_rows)


def _pairs(edges: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    return np.array(edges, dtype=np.int64).reshape(-1, 2)


def _identity(config: Config, fingerprints: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, Any]:
    """Everything that decides the result of a run, as a nested dictionary."""
    settings = config.result_settings()
    settings["data"] |= {f"fingerprint of {part} samples": value for part, value in fingerprints.items()}
    return settings | {"pairloom version": versions["pairloom"]}


def make_plan(config: Config, data: OpenFeatures) -> Plan:
    """Plan a run: build the graph, order its edges, and divide the work into tiles and slabs."""
    model, rows = config.model, np.bincount(data.y_train, minlength=len(data.classes))
    folds = usable_folds(model.folds, rows, "model")
    weights = None
    if model.class_weight is not None:
        weights = tuple(
            class_weights(
                model.class_weight, data.classes, data.y_train, "model.class_weight", "the data"
            ).tolist()
        )
    if model.priors is not None:
        check_priors(model.priors, len(rows), "model.priors")
    # Distances have no slope of their own: without a coupled calibration only Platt's sigmoid is one.
    how = "platt" if model.coupled_calibration == "none" else model.calibration
    kernel = _kernel(model, data)
    found = plan_model(
        data,
        config.graph.requested(),
        model.C,
        model.whiten,
        how,
        functools.partial(_settings, config, folds, kernel),
        weights,
        kernel,
        standardise=model.standardise,
    )
    shape = _shape(config, data, rows, folds, found)
    check_gram_rows(shape.kernel_rows, f"model.kernel = {model.kernel!r}")
    if shape.learned:
        check_weights(shape.n_edges, shape.features, 'model.learn = "coupled"')
    plan = Plan(
        config=config,
        fingerprints=data.fingerprints,
        shape=shape,
        candidates=found.candidates,
        graph=plain(dict(label_of(found.graph))),
        probe=found.probe,
        exponent=found.exponent,
        class_weights=weights,
        waves=(shape.n_edges,),
        versions=_versions(),
        kernel=kernel,
    )
    _check_budget(plan)
    plan.check_memory()
    return plan


def _kernel(model: ModelConfig, data: OpenFeatures) -> KernelFunction | None:
    """The kernel of the machines, as `PairwiseSVC` finds it; None if they are linear."""
    if model.kernel == "linear":
        return None
    gamma = gamma_of(model.gamma, data.moments, "model.gamma", standardise=model.standardise)
    return KernelFunction(model.kernel, gamma, model.degree, model.coef0)


def _settings(
    config: Config, folds: int, kernel: KernelFunction | None, candidates: tuple[Candidate, ...]
) -> ModelSettings:
    model = config.model
    return ModelSettings(
        candidates=candidates,
        coupling=config.couplings[0],
        folds=folds,
        fit_on=model.fit_on,
        coupled_calibration=model.coupled_calibration,
        calibration_samples=model.calibration_samples,
        thresholds=model.thresholds,
        tol=model.tol,
        seed=model.random_state,
        shortlist="none" if config.has_code else model.shortlist,
        machine_weight=model.machine_weight,
        kernel=kernel,
        learn=model.learn,
    )


def _shape(
    config: Config, data: OpenFeatures, rows: NDArray[np.int64], folds: int, found: ModelPlan
) -> RunShape:
    model, (N, D) = config.model, (len(data.classes), data.X_train.shape[1])
    code = found.graph.matrix if isinstance(found.graph, graphs.ModelCode) else None
    edges = np.empty((0, 2), np.int64) if code is not None else graphs.edge_array(found.graph)
    E = len(edges) if code is None else code.shape[1]
    per_edge = 2 * float(rows.mean()) if code is None else float((rows @ (code != 0)).mean())
    growing = config.growth is not None
    curved = model.kernel != "linear"
    tile = config.run.edges_per_tile or default_edges_per_tile(
        E, per_edge, numbers_per_row(D, per_edge, curved), folds, growing
    )
    # The chunk size stays fixed while the graph grows.
    tile = min(tile, E)
    shrinkages = tuple(dict.fromkeys(candidate.whiten for candidate in found.candidates))
    stored = code is None and _stores_tensor(config, 4 * N**2 * len(data.X_test))
    slab = default_samples_per_slab(N) if stored else default_samples_per_prediction(N, D)
    return RunShape(
        classes=data.classes,
        rows=tuple(rows.tolist()),
        features=D,
        dtype=data.X_train.dtype.name,
        samples=len(data.X_test),
        sample_dtype=data.X_test.dtype.name,
        labelled=data.y_test is not None,
        edges=order_by_blocks(edges, tile),
        machines_per_edge=fold_scheme(folds, model.fit_on).n_machines,
        shrinkages=shrinkages,
        draws=_draws(config, rows, folds, all(map(is_whitened, shrinkages))),
        listed=_listed(config, N),
        edges_per_tile=tile,
        samples_per_slab=config.run.samples_per_slab or slab,
        draws_per_slab=default_draws_per_slab(_most_pairs(config, E, N)),
        couplings=config.couplings,
        edges_calibrated=model.coupled_calibration == "edges",
        tensor_stored=stored,
        synthetic=data.synthetic,
        code=code,
        kernel_rows=max(int(rows[own].sum()) for own in members_of_machines(edges, code)) if curved else 0,
        standardised=model.standardise,
        feature_names=data.feature_names,
        learned=model.learn == "coupled",
    )


def _draws(config: Config, rows: NDArray[np.int64], folds: int, whitened: bool) -> int:
    """Number of training samples drawn to calibrate the coupled model and score waves."""
    if config.model.coupled_calibration == "none" and config.growth is None:
        return 0
    return int(draws_by_class(rows, config.model.calibration_samples, folds, whitened).sum())


def _most_pairs(config: Config, edges: int, n_classes: int) -> int:
    """The maximum number of edges of a model that has so many now, after growth."""
    return edges if config.growth is None else max(edges, config.growth.budget.most_pairs(n_classes))


def _listed(config: Config, n_classes: int) -> int:
    """How many classes of a drawn sample are kept; 0 if logits of all edges are, as something is learned from them."""
    by_edges = config.model.coupled_calibration == "edges"
    by_dprime = config.growth is not None and config.growth.cost == "dprime"
    return (
        0
        if by_edges or by_dprime or config.has_code
        else shortlist_size(config.model.shortlist, n_classes) or 0
    )


def _check_budget(plan: Plan) -> None:
    """Raise if the initial graph is already larger than the budget."""
    if plan.config.growth is None:
        return
    start, N, budget = plan.waves[0], len(plan.shape.classes), plan.config.growth.budget
    share = math.ceil(10_000 * start / (N * (N - 1) / 2)) / 10_000
    if budget.pairs is not None and budget.pairs < start:
        raise ValueError(
            f"growth.pairs must be at least {start}, the pairs of the initial graph, got {budget.pairs}."
        )
    if budget.share is not None and budget.most_pairs(N) < start:
        raise ValueError(
            f"growth.share must be at least {share:.4f}, the share of the initial graph, got {budget.share}."
        )


def _stores_tensor(config: Config, tensor_bytes: int) -> bool:
    if config.run.tensor == "auto":
        return tensor_bytes <= _STORED_TENSOR_LIMIT
    return config.run.tensor == "stored"


def _versions() -> dict[str, str]:
    packages = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"pairloom": pairloom.__version__, "python": platform.python_version(), **packages}
