"""PairwiseSVC.fit: the samples are checked and weighted, the parameters become settings, and a model is fitted."""

from __future__ import annotations

import functools
from copy import copy
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from pairloom import graphs
from pairloom.pipeline.coupling.model_coupling import check_code_suits, check_priors, couplings_of
from pairloom.pipeline.estimator.parameters import (
    Parameters,
    holds_samples_out,
    is_precomputed,
    resources_of,
    seed_of,
    shortlist_of,
)
from pairloom.pipeline.features.moments import moments_of
from pairloom.pipeline.machines.folds import usable_folds
from pairloom.pipeline.machines.kernel_function import KernelFunction
from pairloom.pipeline.machines.kinds import EstimatorKind, KernelKind, MachineKind, svm_kind_of
from pairloom.pipeline.machines.normalisation import Normalisation, NormalisedMoments, normalised_moments
from pairloom.pipeline.machines.whitening import check_covariance
from pairloom.pipeline.model.choice import asks_for_neighbours, with_chosen_neighbours
from pairloom.pipeline.model.fit_progress import FitProgress
from pairloom.pipeline.model.fitted_model import ClassTable, checksum
from pairloom.pipeline.model.fitting import Fit, fit_model
from pairloom.pipeline.model.settings import (
    ModelSettings,
    calibrations_of,
    candidates_of,
    class_weights,
    error_prefix,
)
from pairloom.pipeline.model.training_set import TrainingSet

__all__ = ["TrainingSamples", "fit_samples", "training_samples"]


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
        It is not changed. `check_parameters` has seen it.
    samples : TrainingSamples
    labels, classes : (N,) array, (n,) array
        The class labels, sorted, and the class of each sample.
    progress : FitProgress
        Is told how far the fit is.
    """
    X, n = samples.X, len(labels)
    kind, moments, normalisation = _machines_of(parameters, X, classes, n)
    features = X if moments is None else normalisation(X)
    training = TrainingSet(features, classes, n, samples.weight, is_precomputed(parameters), moments)
    sums = [checksum(X[rows]) for rows in training.members] if kind.retrains_pairs else []
    table = ClassTable(labels, training.totals(), np.arange(n), np.array(sums, np.int64))
    if parameters.priors is not None:
        check_priors(parameters.priors, n, "PairwiseSVC: priors")
    settings = _settings(parameters, training, moments, kind)
    if settings.may_whiten:
        check_covariance(X.shape[1], "PairwiseSVC: whiten")
    asked: Any = parameters.graph
    # Other machines take too long to be trained more often than they must.
    if kind.retrains_pairs and not isinstance(asked, nx.Graph) and asks_for_neighbours(asked, n):
        part_of = functools.partial(training.part, seed=settings.seed)
        asked = with_chosen_neighbours(
            asked, part_of, training.distances, settings, parameters.n_jobs, progress
        )
    graph = graphs.requested_graph(asked, labels.tolist(), training.distances, "PairwiseSVC")
    if isinstance(graph, graphs.ModelCode):
        check_code_suits(settings.coupling, graph, "PairwiseSVC: coupling")
    return fit_model(
        training,
        table,
        graph,
        settings,
        resources=resources_of(parameters),
        progress=progress,
        normalisation=normalisation,
        weighted=samples.weighted,
        n_features=X.shape[1],
    )


def _machines_of(
    parameters: Parameters, X: Any, classes: NDArray[np.int64], n: int
) -> tuple[MachineKind, NormalisedMoments | None, Normalisation]:
    """The kind of the machines, the moments of X where they are needed, and how machines are given its rows."""
    if parameters.estimator is not None or is_precomputed(parameters):
        given = parameters.estimator
        kind = KernelKind(KernelFunction("precomputed")) if given is None else EstimatorKind(given)
        return kind, None, Normalisation(np.zeros(X.shape[1]), 0)
    raw = moments_of(X, classes, n)
    moments = normalised_moments(raw, "PairwiseSVC: X", standardise=bool(parameters.standardise))
    svms = svm_kind_of(parameters, raw, "PairwiseSVC: gamma")
    return svms, moments, svms.normalisation(moments.normalisation)


def _settings(
    parameters: Parameters, training: TrainingSet, moments: NormalisedMoments | None, kind: MachineKind
) -> ModelSettings:
    code = graphs.asks_for_code(parameters.graph)
    calibrations = calibrations_of(parameters, kind.measures_distances)
    return ModelSettings.of_parameters(
        parameters,
        kind=kind,
        candidates=candidates_of(kind, parameters.C, parameters.whiten, calibrations, moments),
        calibrations=calibrations,
        coupling=couplings_of(code).named(parameters.coupling, "PairwiseSVC: coupling"),
        folds=_folds(parameters, training),
        seed=seed_of(parameters.random_state),
        shortlist="none" if code else shortlist_of(parameters),
    )


def _folds(parameters: Parameters, training: TrainingSet) -> int:
    if not holds_samples_out(parameters):
        return 2  # every machine is fitted on both
    return usable_folds(parameters.folds, np.bincount(training.classes), "PairwiseSVC")


class TrainingSamples(NamedTuple):
    """Samples X, their labels, their weights or None, and the parameter that the weights are from, or ""."""

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    weighted: str


def training_samples(
    estimator: Any, X: Any, y: Any, sample_weight: Any, precomputed: bool
) -> TrainingSamples:
    """The samples that count: one of weight zero is left out, from the folds and the means too.

    Parameters
    ----------
    estimator : PairwiseSVC
        It is not changed.
    X, y, sample_weight : as given to its fit
    precomputed : bool
        Whether X is a kernel matrix.
    """
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
        X = X.toarray()  # SVMs are dense in every feature
    return TrainingSamples(X, y, weight, weighted)


def _checked(estimator: Any, X: Any, y: Any, precomputed: bool) -> tuple[Any, NDArray[Any]]:
    with error_prefix("PairwiseSVC: X must be a matrix of finite numbers, and y a label for each row"):
        # On a copy, as it stores the number and the names of the features.
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
