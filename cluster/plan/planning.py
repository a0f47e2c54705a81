"""Planning a run: from its configuration and its data to its plan."""

from __future__ import annotations

import functools
import math

import numpy as np
from dask.utils import format_bytes, parse_bytes
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.cluster.config import Config, ModelConfig
from pairloom.cluster.needs import task_bytes
from pairloom.cluster.plan.plan import Plan
from pairloom.cluster.plan.versions import installed_versions
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
from pairloom.pipeline.machines.folds import fold_scheme, usable_folds
from pairloom.pipeline.machines.gram_blocks import check_gram_rows
from pairloom.pipeline.machines.kernel_function import KernelFunction, gamma_of
from pairloom.pipeline.machines.whitening import is_whitened
from pairloom.pipeline.model.class_weights import class_weights
from pairloom.pipeline.model.learning import check_weights
from pairloom.pipeline.model.stored_form import label_of, plain
from pairloom.pipeline.run.planning import ModelPlan, plan_model
from pairloom.pipeline.run.run_directory import RunShape, members_of_machines

__all__ = ["make_plan"]

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
        functools.partial(config.settings_of_model, folds, kernel),
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
        versions=installed_versions(),
        kernel=kernel,
    )
    _check_budget(plan)
    _check_memory(plan)
    return plan


def _kernel(model: ModelConfig, data: OpenFeatures) -> KernelFunction | None:
    """The kernel of the machines, as `PairwiseSVC` finds it; None if they are linear."""
    if model.kernel == "linear":
        return None
    gamma = gamma_of(model.gamma, data.moments, "model.gamma", standardise=model.standardise)
    return KernelFunction(model.kernel, gamma, model.degree, model.coef0)


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
        draws_per_slab=default_draws_per_slab(config.most_pairs(E, N)),
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


def _stores_tensor(config: Config, tensor_bytes: int) -> bool:
    if config.run.tensor == "auto":
        return tensor_bytes <= _STORED_TENSOR_LIMIT
    return config.run.tensor == "stored"


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


def _check_memory(plan: Plan) -> None:
    """Raise if a task needs more memory than a worker has."""
    by_stage, limit = task_bytes(plan), parse_bytes(plan.config.run.memory_limit)
    stage, needed = max(by_stage.items(), key=lambda item: item[1])
    if needed > limit:
        raise ValueError(
            f"run.memory_limit must be at least {format_bytes(needed)}, the memory of one task of {stage}, "
            f"got {plan.config.run.memory_limit}. Raise it"
            f"{_ADVICE.get(stage, '')}."
        )
