"""PairwiseSVC.fit: check and weight the samples, turn parameters into settings, and fit a model."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _get_feature_names,
    _num_samples,
    validate_data,
)

from pairloom import graphs
from pairloom.pipeline.accelerate import compiled_beside
from pairloom.pipeline.calibration.held_out import members_of
from pairloom.pipeline.coupling.model_coupling import ON_PAIRS, check_code_suits, check_priors
from pairloom.pipeline.coupling.pairs.couple import METHODS, compile_couplings
from pairloom.pipeline.estimator.input_checks import (
    check_columns,
    check_labels,
    samples_explained,
    warn_of_columns,
)
from pairloom.pipeline.estimator.parameters import (
    Parameters,
    holds_samples_out,
    is_precomputed,
    resources_of,
    seed_of,
    shortlist_of,
    stays_sparse,
)
from pairloom.pipeline.features.moments import Moments, distances_between, moments_of
from pairloom.pipeline.features.sparse_features import canonical_csr
from pairloom.pipeline.machines.folds import folds_of, usable_folds
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kinds import (
    EstimatorKind,
    KernelKind,
    LinearKind,
    MachineKind,
    svm_kind,
    svm_kind_of,
)
from pairloom.pipeline.machines.normalisation import (
    Normalisation,
    NormalisedMoments,
    check_covariance,
    normalised_moments,
)
from pairloom.pipeline.machines.settings import MachineSettings
from pairloom.pipeline.model.choice import asks_for_neighbours, with_chosen_neighbours
from pairloom.pipeline.model.fit_progress import FitProgress
from pairloom.pipeline.model.fitted_model import ClassTable, FittedModel, checksum
from pairloom.pipeline.model.fitting import Fit, fit_model
from pairloom.pipeline.model.machine_choice import (
    ChosenMachines,
    MachineQuestion,
    ProbeRows,
    choose_machines,
    linear_for_sparse,
)
from pairloom.pipeline.model.memory import check_memory, fit_bytes, least_rows, rows_of_machines
from pairloom.pipeline.model.settings import (
    ModelSettings,
    calibrations_of,
    candidates_of,
    class_weights,
    couplings_to_compare,
    error_prefix,
)
from pairloom.pipeline.model.training_set import TrainingSet, probe_rows
from pairloom.pipeline.threads import thread_count

__all__ = ["TrainingSamples", "fit_samples", "row_ids", "support_ids", "training_samples"]


def fit_samples(
    parameters: Parameters,
    samples: TrainingSamples,
    labels: NDArray[Any],
    classes: NDArray[np.int64],
    progress: FitProgress,
) -> Fit:
    """Fit a model.

    Parameters
    ----------
    parameters : PairwiseSVC
        It is not changed. `check_parameters` has checked it.
    samples : TrainingSamples
    labels, classes : (N,) array, (n,) array
        The class labels, sorted, and the class of each sample.
    progress : FitProgress
        Receives the progress of the fit.
    """
    asked = parameters.coupling
    couplings = [
        method for method in (ON_PAIRS.compared if asked == "auto" else (asked,)) if method in METHODS
    ]
    with compiled_beside(compile_couplings, *couplings):
        return _fit(parameters, samples, labels, classes, progress)


def _fit(
    parameters: Parameters,
    samples: TrainingSamples,
    labels: NDArray[Any],
    classes: NDArray[np.int64],
    progress: FitProgress,
) -> Fit:
    X, n, parameters = samples.X, len(labels), copy(parameters)
    parameters.random_state = seed_of(parameters.random_state)  # drawn once, if it is not a number
    raw = None if _takes_samples_as_they_come(parameters) else moments_of(X, classes, n)
    if raw is not None and not sparse.issparse(X):
        # Trials decide whether to standardise, unless the user does.
        standardised = bool(parameters.standardise)
        warn_of_columns(X, raw, samples.names, standardised=standardised)
    counts = np.bincount(classes, minlength=n)
    if holds_samples_out(parameters):
        usable_folds(parameters.folds, counts, "PairwiseSVC")
    # Before the trials, which may take minutes.
    _check_least_memory(parameters, X, raw, counts)
    chosen = _choose_machines(parameters, samples, labels, classes, raw, progress)
    if chosen is not None:
        parameters.set_params(kernel=chosen.kernel, gamma=chosen.gamma, standardise=chosen.standardise)
    kind, moments, normalisation = _machines_of(parameters, X, raw)
    features = X if moments is None else normalisation(X)
    training = TrainingSet(features, classes, n, samples.weight, is_precomputed(parameters), moments)
    # A later change of the model needs the same rows in the same order, or held-out samples would have been trained on.
    sums = [checksum(X[rows]) for rows in training.members] if kind.retrains_pairs else []
    table = ClassTable(labels, training.totals(), np.arange(n), np.array(sums, np.int64))
    # Priors are used at prediction only, but a mistake in them should not be found after the fit.
    if parameters.priors is not None:
        check_priors(parameters.priors, labels.tolist(), "PairwiseSVC: priors")
    settings = _settings(parameters, moments, kind, counts)
    # A kernel is chosen together with its C, so no candidates are left to compare.
    if chosen is not None and chosen.settled is not None:
        settings = replace(settings, candidates=(chosen.settled,))
    if settings.may_whiten:
        check_covariance(X.shape[1], "PairwiseSVC: whiten")
    asked: Any = parameters.graph
    neighbours_open = False
    # Machines of other kinds are too slow to train for this choice.
    if kind.retrains_pairs and not isinstance(asked, nx.Graph) and asks_for_neighbours(asked, n):
        neighbours_open = True
        part_of = functools.partial(training.part, seed=settings.seed)
        asked = with_chosen_neighbours(
            asked, part_of, training.distances, settings, counts, parameters.n_jobs, progress
        )
    graph = graphs.requested_graph(asked, labels.tolist(), training.distances, "PairwiseSVC")
    if isinstance(graph, graphs.ModelCode):
        check_code_suits(settings.coupling, graph, "PairwiseSVC: coupling")
    # Checked again, now that the number of machines is known.
    rows = rows_of_machines(graphs.decomposition_of(graph), counts)
    _check_memory(X, kind, rows, settings.machines(), raw, parameters, settings.calibration_samples)
    fit = fit_model(
        training,
        table,
        graph,
        settings,
        resources=resources_of(parameters),
        progress=progress,
        widens=neighbours_open,
        normalisation=normalisation,
        weighted=samples.weighted,
        n_features=X.shape[1],
    )
    if chosen is None:
        return fit
    candidates, why = chosen.choice
    return fit._replace(candidates=[*candidates, *fit.candidates], why=why)


def _choose_machines(
    parameters: Parameters,
    samples: TrainingSamples,
    labels: NDArray[Any],
    classes: NDArray[np.int64],
    moments: Moments | None,
    progress: FitProgress,
) -> ChosenMachines | None:
    """The kernel, and whether to standardise; None for machines that take raw samples."""
    if moments is None:
        return None
    if sparse.issparse(samples.X):
        return linear_for_sparse(parameters)
    members = members_of(classes, len(labels))

    def rows_of(of_classes: NDArray[np.int64], most: int) -> ProbeRows:
        rows, of_class = probe_rows(of_classes, members.__getitem__, parameters.random_state, most)
        return ProbeRows(samples.X[rows], of_class, None if samples.weight is None else samples.weight[rows])

    def graph_of(means: NDArray[np.float64]) -> nx.Graph | graphs.ModelCode:
        distances = functools.partial(distances_between, means)
        return graphs.requested_graph(parameters.graph, labels.tolist(), distances, "PairwiseSVC")

    question = MachineQuestion(
        parameters,
        moments,
        samples.names is not None,
        False,
        graph_of,
        rows_of,
        lambda kernel, normalised: _settings(
            parameters, normalised, svm_kind(kernel, parameters.fit_on), moments.counts
        ),
        "PairwiseSVC: X",
    )
    return choose_machines(question, **resources_of(parameters), progress=progress)


def _takes_samples_as_they_come(parameters: Parameters) -> bool:
    """Whether samples are not normalised: they are rows of a kernel matrix, or the input of classifiers."""
    return parameters.estimator is not None or is_precomputed(parameters)


def _machines_of(
    parameters: Parameters, X: Any, raw: Moments | None
) -> tuple[MachineKind, NormalisedMoments | None, Normalisation]:
    """The kind of the machines, the moments of the normalised rows if needed, and the normalisation of X."""
    if raw is None:
        given = parameters.estimator
        kind = KernelKind(KernelFunction("precomputed")) if given is None else EstimatorKind(given)
        return kind, None, Normalisation(np.zeros(X.shape[1]), 0)
    moments = normalised_moments(raw, "PairwiseSVC: X", standardise=bool(parameters.standardise))
    svms = svm_kind_of(parameters, raw, "PairwiseSVC: gamma")
    return svms, moments, svms.normalisation(moments.normalisation)


def _settings(
    parameters: Parameters,
    moments: NormalisedMoments | None,
    kind: MachineKind,
    counts: NDArray[np.int64],
) -> ModelSettings:
    code = graphs.asks_for_code(parameters.graph)
    calibrations = calibrations_of(parameters, kind.measures_distances)
    couplings = couplings_to_compare(parameters, code, "PairwiseSVC: coupling")
    return ModelSettings.of_parameters(
        parameters,
        kind=kind,
        candidates=candidates_of(kind, parameters.C, parameters.whiten, calibrations, moments),
        calibrations=calibrations,
        coupling=couplings[0],
        couplings=couplings,
        folds=_folds(parameters, counts, kind),
        seed=seed_of(parameters.random_state),
        shortlist="none" if code else shortlist_of(parameters),
    )


def _folds(parameters: Parameters, counts: NDArray[np.integer], kind: MachineKind) -> int:
    if not holds_samples_out(parameters):
        return 2  # no samples are held out, and every machine is trained on both folds
    kernel_on_pairs = kind.kernel is not None and not graphs.asks_for_code(parameters.graph)
    return folds_of(parameters.folds, counts, kernel_on_pairs=kernel_on_pairs, fit_on=parameters.fit_on)


class TrainingSamples(NamedTuple):
    """Samples X, labels, weights or None, the parameter that gave the weights or "", and the names of the columns."""

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    weighted: str
    names: NDArray[Any] | None = None


def training_samples(
    estimator: Any, X: Any, y: Any, sample_weight: Any, precomputed: bool
) -> TrainingSamples:
    """The samples with positive weight. Others are left out, also of the folds and the means.

    Parameters
    ----------
    estimator : PairwiseSVC
        It is not changed.
    X, y, sample_weight : the arguments of its fit
    precomputed : bool
        Whether X is a kernel matrix.
    """
    given_X = X
    X, y = _checked(estimator, X, y, precomputed)
    given = estimator.estimator is not None
    if given and (sample_weight is not None or estimator.class_weight is not None):
        raise ValueError(
            "PairwiseSVC: sample_weight and class_weight are for machines without an estimator,"
            f" got estimator={estimator.estimator!r}."
        )
    weight, weighted = None, ""
    if sample_weight is not None:
        with error_prefix("PairwiseSVC: sample_weight must be a non-negative number for each row of X"):
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        weighted, kept = "sample_weight", np.flatnonzero(weight)
        if not len(kept):  # scikit-learn says so itself from 1.9 on
            raise ValueError(
                "PairwiseSVC: sample_weight must be positive for at least one row of X, got zeros only."
            )
        if len(kept) < len(weight) and precomputed:
            raise ValueError(
                "PairwiseSVC: sample_weight must be positive for kernel='precomputed', got"
                f" {len(weight) - len(kept)} zeros: leave these samples out, rows and columns."
            )
        if len(kept) < len(weight):
            X, y, weight = X[kept], y[kept], weight[kept]
    if estimator.class_weight is not None:
        of_sample = _class_weight_of_samples(estimator.class_weight, y)
        weight, weighted = of_sample if weight is None else of_sample * weight, "class_weight"
    if sparse.issparse(X) and not given:
        X = _sparse_samples(estimator, X)
    return TrainingSamples(X, y, weight, weighted, _get_feature_names(given_X))


def _sparse_samples(estimator: Any, X: Any) -> Any:
    """Sparse samples as input of the machines: CSR if these are linear, else dense. Raise if dense X is needed."""
    if not stays_sparse(estimator):
        check_memory(
            2.0 * X.shape[0] * X.shape[1] * X.dtype.itemsize,
            f"fit with kernel={estimator.kernel!r}, which makes the sparse X of {X.shape[0]:,} x {X.shape[1]:,} dense,",
            "use kernel='linear', which keeps X sparse, or reduce X by TruncatedSVD or by a selection of features",
        )
        return X.toarray()
    if estimator.whiten not in ("auto", "none"):
        raise ValueError(
            "PairwiseSVC: whiten must be 'auto' or 'none' for sparse X, which is not whitened, got"
            f" {estimator.whiten!r}: fit on X.toarray(), or on the features of TruncatedSVD."
        )
    if estimator.learn == "coupled":
        raise ValueError(
            "PairwiseSVC: learn must be 'machines' for sparse X, got 'coupled': fit on X.toarray(), or on the features"
            " of TruncatedSVD."
        )
    return canonical_csr(X)


def _check_least_memory(
    parameters: Parameters, X: Any, raw: Moments | None, counts: NDArray[np.int64]
) -> None:
    """Raise before anything is tried where even the fewest pairs that are certain to be trained cannot be held."""
    kind: MachineKind = LinearKind()
    rows = least_rows(parameters.graph, counts)
    if raw is None:
        given = parameters.estimator
        kind = KernelKind(KernelFunction("precomputed")) if given is None else EstimatorKind(given)
    elif not sparse.issparse(X) and parameters.kernel == "auto":
        rows = rows[:0]  # which machines there will be is open
    elif not sparse.issparse(X) and parameters.kernel != "linear":
        kind = KernelKind(KernelFunction(parameters.kernel))
    folds = _folds(parameters, counts, kind)
    machines = MachineSettings(folds=folds, fit_on=parameters.fit_on, tol=parameters.tol)
    _check_memory(X, kind, rows, machines, raw, parameters)


def _check_memory(
    X: Any,
    kind: MachineKind,
    rows: NDArray[np.int64],
    machines: MachineSettings,
    raw: Moments | None,
    parameters: Parameters,
    held_out: int = 0,
) -> None:
    """Raise before machines are trained on so many rows each (E,), if memory cannot hold these."""
    is_sparse = sparse.issparse(X)
    columns = float(np.mean(np.diff(raw.totals.indptr))) if is_sparse and raw is not None else 0.0
    needed = fit_bytes(
        kind,
        X,
        rows,
        machines,
        columns=columns,
        held_out=min(held_out, X.shape[0]),
        n_threads=thread_count(parameters.n_jobs, "PairwiseSVC"),
    )
    of_pairs = f"{len(rows):,} pairs on " if len(rows) else ""
    advice = "fit on fewer rows"
    if isinstance(kind, LinearKind):
        advice = (
            "reduce the features (SelectKBest, TruncatedSVD, max_features of a vectoriser), train fewer pairs"
            " (graph='hub_neighbours' with fewer neighbours)"
        ) + ("" if is_sparse else ", or give X as CSR if most of it is zero")
    elif isinstance(kind, KernelKind):
        advice = "fit on fewer rows, train fewer pairs, set fewer n_jobs, or use kernel='linear'"
    check_memory(needed, f"fit of {of_pairs}{X.shape[0]:,} rows of {X.shape[1]:,} features", advice)


def row_ids(X: Any, sample_weight: Any) -> list[Any]:
    """The names of the rows with positive weight: labels of a data frame's index, else their numbers in X."""
    ids = X.index.tolist() if hasattr(X, "iloc") else list(range(_num_samples(X)))
    if sample_weight is None:
        return ids
    weight = np.broadcast_to(np.asarray(sample_weight, np.float64), len(ids))
    return [ids[row] for row in np.flatnonzero(weight).tolist()]


def support_ids(model: FittedModel, ids: Sequence[Any], classes: NDArray[np.int64]) -> list[Any]:
    """The names of the support vectors' rows, which a model numbers class by class.

    There are none if machines are linear. Labels without a JSON type, such as times, become text.
    """
    if model.trained.kernel is None:
        return []
    by_class = np.argsort(classes, kind="stable")
    chosen = (ids[row] for row in by_class[np.unique(model.trained.machines.row)].tolist())
    return [name if isinstance(name, (int, str)) else str(name) for name in chosen]


def _checked(estimator: Any, X: Any, y: Any, precomputed: bool) -> tuple[Any, NDArray[Any]]:
    check_columns(X, "PairwiseSVC")
    check_labels(y, "PairwiseSVC")
    must = "PairwiseSVC: X must be a matrix of finite numbers, and y a label for each row"
    with samples_explained(X, "PairwiseSVC", y), error_prefix(must):
        # On a copy, because validate_data sets the number and the names of the features.
        accept_sparse = False if precomputed else "csr"
        X, y = validate_data(
            copy(estimator), X, y, accept_sparse=accept_sparse, dtype=[np.float64, np.float32]
        )
        check_classification_targets(y)
        if y.dtype.kind in "mM" and np.isnat(y).any():
            raise ValueError("Input y contains NaT.")
    if precomputed and X.shape[0] != X.shape[1]:
        raise ValueError(
            f"PairwiseSVC: X must be a square kernel matrix for kernel='precomputed', got {X.shape}."
        )
    return X, y


def _class_weight_of_samples(class_weight: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    labels, classes = np.unique(y, return_inverse=True)
    of_class = class_weights(class_weight, labels.tolist(), classes, "PairwiseSVC: class_weight", "y")
    return np.asarray(of_class[classes])
