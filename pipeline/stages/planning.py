"""Planning a run, from its configuration and its data: pairs, candidates and probe, tiles and slabs, and its needs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.graphs.families import check_code_size
from pairloom.graphs.text import format_bytes
from pairloom.pipeline import stages
from pairloom.pipeline.calibration.held_out import draws_by_class
from pairloom.pipeline.completion.shortlist import USUAL_SIZE, shortlist_size
from pairloom.pipeline.config.config import Config
from pairloom.pipeline.config.sections import ModelConfig
from pairloom.pipeline.coupling.model_coupling import check_code_suits, check_priors
from pairloom.pipeline.display.class_layout import FEW_CLASSES
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.features.moments import columns_of_machines, distances_between, distances_from
from pairloom.pipeline.machines.folds import PARTS, fold_scheme, usable_folds
from pairloom.pipeline.machines.kernel_function import KernelFunction, check_gram_rows
from pairloom.pipeline.machines.kinds import svm_kind, svm_kind_of
from pairloom.pipeline.machines.normalisation import (
    Normalisation,
    NormalisedMoments,
    Shrinkage,
    check_covariance,
    is_whitened,
    normalised_moments,
)
from pairloom.pipeline.machines.settings import Calibration
from pairloom.pipeline.model.choice import asks_for_neighbours, with_chosen_neighbours
from pairloom.pipeline.model.learning import check_weights
from pairloom.pipeline.model.machine_choice import (
    ChosenMachines,
    MachineQuestion,
    ProbeRows,
    choose_machines,
    linear_for_sparse,
)
from pairloom.pipeline.model.saved_model import plain
from pairloom.pipeline.model.settings import (
    Candidate,
    ModelSettings,
    candidates_of,
    class_weights,
)
from pairloom.pipeline.model.training_set import Probe, TrainingSet, plan_probe, probe_rows
from pairloom.pipeline.process_memory import available_bytes
from pairloom.pipeline.run.needs import task_bytes, with_process
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import RunShape, SparseSizes, rows_per_file
from pairloom.pipeline.run.source_rows import planned_source
from pairloom.pipeline.run.tiles import (
    default_draws_per_listed_slab,
    default_draws_per_slab,
    default_edges_per_tile,
    default_samples_per_listed_slab,
    default_samples_per_prediction,
    default_samples_per_slab,
    numbers_per_row,
    order_by_blocks,
    stores_collapsed,
)
from pairloom.pipeline.stages.run_file import installed_versions
from pairloom.pipeline.storage.location import Location
from pairloom.pipeline.threads import one_blas_thread, pieces

__all__ = ["check_size", "plan_run"]

#: Families that need a matrix of the distances between all classes, in a few copies.
_COMPARING_ALL = ("spanning_tree", "star_of_least_distance", "grown")
#: Bytes per pair during planning, for a few copies in different orders.
_PLANNED_PAIR_BYTES = 160
# A larger tensor is not stored by default, so that it does not fill the disk unexpectedly.
_STORED_TENSOR_LIMIT = 2 * 2**30


def plan_run(config: Config, data: OpenFeatures, directory: Location = Path()) -> Run:
    """Plan a run: build the graph, order its edges, and divide the work into tiles and slabs."""
    model, rows = config.model, np.bincount(data.y_train, minlength=len(data.classes))
    usable_folds(model.folds, rows, "model")
    weights = None
    if model.class_weight is not None:
        weights = tuple(
            class_weights(
                model.class_weight, data.classes, data.y_train, "model.class_weight", "the data"
            ).tolist()
        )
    if model.priors is not None:
        check_priors(model.priors, data.classes, "model.priors")
    if data.columns is not None:
        _check_sparse(model)
    chosen = _choose_machines(config, data, weights)
    resolved = model.model_copy(
        update={name: getattr(chosen, name) for name in ("kernel", "gamma", "standardise")}
    )
    kernel = svm_kind_of(resolved, data.moments, "model.gamma").kernel
    planned = plan_model(
        data,
        config.graph.requested(),
        model.C,
        model.whiten,
        config.calibrations(kernel),
        functools.partial(config.settings_of_model, rows, kernel),
        weights,
        kernel,
        standardise=chosen.standardise,
        settled=chosen.settled,
    )
    folds = config.folds(rows, kernel)
    shape = _shape(config, data, rows, folds, planned, kernel, standardised=chosen.standardise)
    check_gram_rows(shape.kernel_rows, f"model.kernel = {model.kernel!r}")
    if shape.learned:
        check_weights(shape.n_edges, shape.features, 'model.learn = "coupled"')
    run = Run(
        directory=directory,
        stages=stages.STAGES,
        config=config,
        fingerprints=data.fingerprints,
        shape=shape,
        candidates=planned.candidates,
        graph=plain(dict(planned.graph.label)),
        probe=planned.probe,
        exponent=planned.exponent,
        class_weights=weights,
        waves=(shape.n_edges,),
        versions=installed_versions(),
        kernel=kernel,
        kernel_choice=chosen.choice,
    )
    _check_budget(run)
    _check_memory(run)
    return run


def _choose_machines(config: Config, data: OpenFeatures, weights: Sequence[float] | None) -> ChosenMachines:
    """The kernel, and whether to standardise, as `PairwiseSVC.fit` chooses them."""
    model, seed = config.model, config.model.random_state
    if data.columns is not None:
        return linear_for_sparse(model)

    def rows_of(classes: NDArray[np.int64], most: int) -> ProbeRows:
        rows, of_class = probe_rows(classes, data.of_class, seed, most)
        weight = None if weights is None else np.array(weights)[classes[of_class]]
        return ProbeRows(_scattered_rows(data, rows), of_class, weight)

    def graph_of(means: NDArray[np.float64]) -> graphs.Decomposition:
        asked = config.graph.requested()
        check_size(asked, len(data.classes))
        distances = functools.partial(distances_between, means)
        return graphs.requested_decomposition(asked, data.classes, distances, "graph.family")

    def settings_of(kernel: KernelFunction | None, moments: NormalisedMoments) -> ModelSettings:
        calibrations = config.calibrations(kernel)
        candidates = candidates_of(
            svm_kind(kernel, model.fit_on), model.C, model.whiten, calibrations, moments
        )
        return config.settings_of_model(data.moments.counts, kernel, candidates)

    question = MachineQuestion(
        model,
        data.moments,
        bool(data.feature_names),
        config.growth is not None,
        graph_of,
        rows_of,
        settings_of,
        "data.features: X_train",
    )
    with one_blas_thread():
        return choose_machines(question, memory_limit=config.memory_limit)


def _shape(
    config: Config,
    data: OpenFeatures,
    rows: NDArray[np.int64],
    folds: int,
    model_plan: ModelPlan,
    kernel: KernelFunction | None,
    *,
    standardised: bool,
) -> RunShape:
    model, (N, D) = config.model, (len(data.classes), data.X_train.shape[1])
    calibrations = config.calibrations(kernel)
    code = model_plan.graph.matrix if isinstance(model_plan.graph, graphs.ModelCode) else None
    machines = model_plan.graph
    edges = machines.edges if isinstance(machines, graphs.Pairs) else np.empty((0, 2), np.int64)
    E, per_edge = machines.n_machines, machines.rows_per_machine(rows)
    growing = config.growth is not None
    with_kernel = kernel is not None
    width = D if data.X_train.entries is None else _mean_entries(data.X_train.entries)
    tile = config.run.edges_per_tile or default_edges_per_tile(
        E, per_edge, numbers_per_row(width, per_edge, with_kernel), folds, growing
    )
    # The chunk size stays fixed while the graph grows.
    tile = min(tile, E)
    shrinkages = tuple(dict.fromkeys(candidate.whiten for candidate in model_plan.candidates))
    stored = code is None and _stores_tensor(config, 4 * N**2 * len(data.X_test))
    draws = _draws(config, rows, folds, all(map(is_whitened, shrinkages)))
    linear = not with_kernel and data.columns is None
    kept, collapsed = _kept(config, N), not stored and linear and _collapses(config, E, N, D)
    slab = default_samples_per_slab(N) if stored else default_samples_per_prediction(N, width)
    if kept and collapsed:
        slab = default_samples_per_listed_slab(N)
    shape = RunShape(
        labels=data.labels,
        rows=tuple(rows.tolist()),
        features=D,
        dtype=data.X_train.dtype.name,
        samples=len(data.X_test),
        sample_dtype=data.X_test.dtype.name,
        labelled=data.y_test is not None,
        edges=order_by_blocks(edges, tile),
        machines_per_edge=fold_scheme(folds, model.fit_on).n_machines,
        shrinkages=shrinkages,
        draws=draws,
        listed=_listed(config, N),
        edges_per_tile=tile,
        samples_per_slab=config.run.samples_per_slab or slab,
        draws_per_slab=_draws_per_slab(config, draws, folds, (E, N, D), len(calibrations), ranked=linear),
        couplings=config.couplings,
        edges_calibrated=model.coupled_calibration == "edges" or "slopes" in calibrations,
        calibrations=calibrations,
        tensor_stored=stored,
        synthetic=data.synthetic,
        code=code,
        kernel_rows=max(int(rows[classes].sum()) for classes in machines.members()) if with_kernel else 0,
        standardised=standardised,
        feature_names=data.feature_names,
        learned=model.learn == "coupled",
        row_ids=_type_of(data.ids_train),
        sample_ids=_type_of(data.ids_test),
        kept=kept,
        collapsed=collapsed,
    )
    if data.columns is not None:
        return shape._replace(sparse=_sparse_sizes(data, shape, growing=growing))
    return _with_sources(shape, config, data)


def _with_sources(shape: RunShape, config: Config, data: OpenFeatures) -> RunShape:
    """The shape with the sources that tasks read, if they can read them."""
    workers, memory, D = config.cluster.expected_workers, config.memory_limit, shape.features
    blocks, slabs = pieces(sum(shape.rows), rows_per_file(D)), pieces(shape.samples, shape.samples_per_slab)
    row, sample = (np.dtype(dtype).itemsize * D for dtype in (shape.dtype, shape.sample_dtype))
    return shape._replace(
        train_source=planned_source(data.placed("train"), blocks, row, workers, memory, together=True),
        test_source=planned_source(data.placed("test"), slabs, sample, workers, memory, together=False),
    )


def _mean_entries(entries: NDArray[np.int64]) -> int:
    """Number of entries of an average row, which replaces the number of features in estimates of work."""
    return max(1, round(float(entries.mean())))


def _sparse_sizes(data: OpenFeatures, shape: RunShape, *, growing: bool) -> SparseSizes:
    """The sizes of the arrays of sparse rows, before any is written. A machine has weights on its classes' columns."""
    of_row, of_sample, columns = data.X_train.entries, data.X_test.entries, data.columns
    assert of_row is not None
    assert of_sample is not None
    assert columns is not None
    by_class = of_row[np.argsort(data.y_train, kind="stable")]
    of_edge, T = columns_of_machines(columns, shape.decomposition), shape.edges_per_tile
    largest = np.sort(np.diff(columns.indptr))[-2:].sum()
    pair = int(min(shape.features, largest) if growing else of_edge.max())
    return SparseSizes(
        entries=tuple(np.bincount(data.y_train, of_row, len(shape.rows)).astype(np.int64).tolist()),
        block=_most_in_a_piece(by_class, rows_per_file(_mean_entries(of_row))),
        slab=_most_in_a_piece(of_sample, shape.samples_per_slab),
        drawn=max(1, int(np.sort(of_row)[len(of_row) - shape.draws :].sum())),
        samples=int(of_sample.sum()),
        columns=int(of_edge.sum()),
        tile=T * pair if growing else _most_in_a_piece(of_edge, T),
        pair=pair,
    )


def _most_in_a_piece(sizes: NDArray[np.int64], length: int) -> int:
    """The largest sum of sizes in a piece, if they are divided into pieces of ``length``; at least 1."""
    sums = np.add.reduceat(sizes, np.arange(0, len(sizes), length)) if len(sizes) else sizes
    return max(1, int(sums.max(initial=0)))


def _check_sparse(model: ModelConfig) -> None:
    """Raise for settings that machines on sparse rows do not support."""
    refused = {
        "kernel": (model.kernel in ("auto", "linear"), "'auto' or 'linear'"),
        "whiten": (model.whiten in ("auto", "none"), "'auto' or 'none'"),
        "learn": (model.learn == "machines", "'machines'"),
    }
    for name, (allowed, values) in refused.items():
        if not allowed:
            raise ValueError(
                f"model.{name} must be {values} for sparse features, got {getattr(model, name)!r}. Make the features"
                " dense, such as some hundreds of columns of TruncatedSVD."
            )


def _type_of(ids: NDArray[Any]) -> str:
    """The type of ids in a zarr array."""
    return "string" if ids.dtype.kind == "T" else "int64"


def _draws(config: Config, rows: NDArray[np.int64], folds: int, whitened: bool) -> int:
    """Number of training samples drawn to calibrate the coupled model and score waves."""
    if config.model.coupled_calibration == "none" and config.growth is None:
        return 0
    return int(draws_by_class(rows, config.model.calibration_samples, folds, whitened).sum())


def _draws_per_slab(
    config: Config, draws: int, folds: int, sizes: tuple[int, int, int], calibrations: int, *, ranked: bool
) -> int:
    """Drawn samples per slab. ``sizes`` are the numbers of edges, classes and features.

    ``ranked`` says whether classes are ranked by affine maps: machines are linear and rows are dense.
    """
    E, N, D = sizes
    if not ranked or not _listed(config, N):
        return default_draws_per_slab(config.most_pairs(E, N))
    return default_draws_per_listed_slab(draws, folds * PARTS, N, D, calibrations)


def _stores_tensor(config: Config, tensor_bytes: int) -> bool:
    if config.run.tensor == "auto":
        return tensor_bytes <= _STORED_TENSOR_LIMIT
    return config.run.tensor == "stored"


def _listed(config: Config, n_classes: int) -> int:
    """Classes per drawn sample whose logits are kept; 0 if those of all edges are, to learn from them."""
    by_edges = config.model.coupled_calibration == "edges"
    by_dprime = config.growth is not None and config.growth.cost == "dprime"
    return (
        0
        if by_edges or by_dprime or config.has_code
        else shortlist_size(config.model.shortlist, n_classes) or 0
    )


def _kept(config: Config, n_classes: int) -> int:
    """Number of likeliest classes stored per test sample; 0 if the probabilities of all classes are.

    They are as many as are coupled, but no fewer than the report needs.
    """
    asked = config.run.probabilities
    if asked == "dense" or (asked == "auto" and n_classes <= FEW_CLASSES):
        return 0
    return min(n_classes, max(USUAL_SIZE, shortlist_size(config.model.shortlist, n_classes) or 0))


def _collapses(config: Config, n_edges: int, n_classes: int, n_features: int) -> bool:
    """Whether prediction reads from the store the maps of the pairs that shortlists need, not the maps of all pairs."""
    listed = not config.has_code and shortlist_size(config.model.shortlist, n_classes) is not None
    most = config.most_pairs(n_edges, n_classes)
    return listed and config.model.learn != "coupled" and stores_collapsed(most, n_features)


def _check_budget(run: Run) -> None:
    """Raise if the initial graph is already larger than the budget."""
    if run.config.growth is None:
        return
    start, N, budget = run.waves[0], len(run.shape.classes), run.config.growth.budget
    share = math.ceil(10_000 * start / (N * (N - 1) / 2)) / 10_000
    if budget.pairs is not None and budget.pairs < start:
        raise ValueError(
            f"growth.pairs must be at least {start}, the pairs of the initial graph, got {budget.pairs}."
        )
    if budget.share is not None and budget.most_pairs(N) < start:
        raise ValueError(
            f"growth.share must be at least {share:.4f}, the share of the initial graph, got {budget.share}."
        )


def _check_memory(run: Run) -> None:
    """Raise if a task needs more memory than its limit, or than a worker has."""
    by_stage, given = task_bytes(run), run.config.run.memory_bytes
    stage, needed = max(by_stage.items(), key=lambda item: item[1])
    advice = run.stage(stage).advice
    if given is not None and needed > given:
        raise ValueError(
            f"run.memory_limit must be at least {format_bytes(needed)}, the memory of one task of {stage}, "
            f"got {run.config.run.memory_limit}. Raise it{advice}."
        )
    cluster = run.config.cluster
    if given is None and with_process(needed) > cluster.worker_bytes:
        raise ValueError(
            f"cluster: a worker must have at least {format_bytes(with_process(needed))} of memory, for a task of"
            f" {stage} that takes {format_bytes(needed)}; each of {cluster.expected_workers} has"
            f" {format_bytes(cluster.worker_bytes)}. Start fewer workers, or give them more memory{advice}."
        )


class ModelPlan(NamedTuple):
    """The model graph or code, the candidates for its settings, and the exponent of the normalised features.

    If there are several candidates, also the probe on which they are compared.
    """

    graph: graphs.Decomposition
    candidates: tuple[Candidate, ...]
    probe: Probe | None
    exponent: int


def plan_model(
    data: OpenFeatures,
    graph: Mapping[str, Any],
    C: Any,
    whiten: Shrinkage | Literal["auto"],
    calibrations: Sequence[Calibration],
    settings_of: Callable[[tuple[Candidate, ...]], ModelSettings],
    class_weights: Sequence[float] | None,
    kernel: KernelFunction | None = None,
    *,
    standardise: bool = False,
    settled: Candidate | None = None,
) -> ModelPlan:
    """Build the graph and list the candidates, as `PairwiseSVC.fit` does.

    ``settings_of(candidates)`` returns the settings of the model; ``class_weights`` are per class; ``kernel`` is None
    for linear machines; ``standardise`` says whether columns are standardised; ``settled`` is the only candidate, if it
    was chosen before.
    """
    check_size(graph, len(data.classes))
    moments = normalised_moments(data.moments, "data.features: X_train", standardise=standardise)
    distances = functools.cache(lambda: distances_between(moments.class_means))
    kind = settings_of(()).kind
    candidates = (settled,) if settled else candidates_of(kind, C, whiten, calibrations, moments)
    exponent = kind.normalisation(moments.normalisation).exponent
    settings = settings_of(candidates)
    if settings.may_whiten:
        check_covariance(data.X_train.shape[1], "model.whiten")
    if kind.retrains_pairs and asks_for_neighbours(graph, len(data.classes)):
        part_of = functools.partial(_part_of, data, moments.normalisation, class_weights, settings.seed)
        with one_blas_thread():
            graph = with_chosen_neighbours(graph, part_of, distances, settings, data.moments.counts)
    asked = graphs.requested_decomposition(graph, data.classes, distances, "graph.family")
    if isinstance(asked, graphs.ModelCode):
        check_code_suits(settings.coupling, asked, "model.coupling")
    probe = None
    if len(candidates) > 1:
        near = functools.partial(distances_from, moments.class_means)
        probe = plan_probe(asked, near, settings.seed, data.moments.counts, settings.folds)
    return ModelPlan(asked, candidates, probe, exponent)


def _part_of(
    data: OpenFeatures,
    normalisation: Normalisation,
    class_weights: Sequence[float] | None,
    seed: int,
    classes: NDArray[np.int64],
) -> TrainingSet:
    """The training samples of a probe: those that `TrainingSet.part` would choose. Only these rows are read."""
    rows, of_class = probe_rows(classes, data.of_class, seed)
    weight = None if class_weights is None else np.array(class_weights)[classes[of_class]]
    X = normalisation(_scattered_rows(data, rows))
    return TrainingSet(X, of_class, len(classes), weight)


def _scattered_rows(data: OpenFeatures, rows: NDArray[np.int64]) -> Any:
    """Training rows in any order, read in ascending order."""
    ascending = np.argsort(rows)
    if data.columns is not None:
        return data.X_train.read(rows[ascending])[np.argsort(ascending)]
    X = np.empty((len(rows), data.X_train.shape[1]), data.X_train.dtype)
    X[ascending] = data.X_train.read(rows[ascending])
    return X


def check_size(graph: Mapping[str, Any], n: int) -> None:
    """Raise if building the requested graph would take more memory than this machine has."""
    family = graph["family"]
    if family in graphs.CODE_FAMILIES:
        check_code_size(family, n, "graph.family =")
        return
    hubs = graph.get("hubs", 1)
    d = hubs if isinstance(hubs, int) else len(hubs)
    pairs = {"complete": n * (n - 1) // 2, "bipartite": d * (n - d)}.get(family, n)
    needed = _PLANNED_PAIR_BYTES * pairs
    if family in _COMPARING_ALL:
        needed += 4 * 8 * n**2
    if needed > (available := available_bytes()):
        raise ValueError(
            f"graph.family = {family!r} takes about {format_bytes(needed)} to plan for {n:,} classes, and this machine"
            f" has {format_bytes(available)} to spare. Choose a sparser graph, such as hub_neighbours, or plan the run"
            " on a machine with more memory."
        )
