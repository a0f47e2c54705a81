"""How a PairwiseSVC is fitted: from its parameters and checked samples to a model, in the order of the data's way."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from pairloom import graphs
from pairloom.pipeline.coupling.model_coupling import check_code_suits, model_coupling
from pairloom.pipeline.coupling.priors import check_priors
from pairloom.pipeline.estimator.parameters import (
    Parameters,
    holds_samples_out,
    is_linear,
    is_precomputed,
    measures_distances,
    resources_of,
    seed_of,
    shortlist_of,
)
from pairloom.pipeline.estimator.training_samples import TrainingSamples
from pairloom.pipeline.features.class_distances import (
    distances_between,
    distances_from,
    kernel_mean_distances,
)
from pairloom.pipeline.features.moments import moments_of
from pairloom.pipeline.machines.estimator_model import EstimatorModel, train_estimator_model
from pairloom.pipeline.machines.folds import usable_folds
from pairloom.pipeline.machines.kernel_function import KernelFunction, gamma_of
from pairloom.pipeline.machines.kernel_model import KernelModel, train_kernel_model
from pairloom.pipeline.machines.linear_model import LinearModel, train_linear_model
from pairloom.pipeline.machines.normalisation import Normalisation, NormalisedMoments, normalised_moments
from pairloom.pipeline.model.choice import Candidate, kernel_candidates, linear_candidates
from pairloom.pipeline.model.class_table import ClassTable, checksum
from pairloom.pipeline.model.fitting import Fit, fit_model
from pairloom.pipeline.model.model_settings import ModelSettings
from pairloom.pipeline.model.neighbours import asks_for_neighbours, with_chosen_neighbours
from pairloom.pipeline.model.phases import Phases
from pairloom.pipeline.model.training_set import TrainingSet
from pairloom.pipeline.pieces import thread_count

__all__ = ["fit_samples"]


def fit_samples(
    parameters: Parameters,
    samples: TrainingSamples,
    labels: NDArray[Any],
    classes: NDArray[np.int64],
    phases: Phases,
) -> Fit:
    """Fit a model.

    Parameters
    ----------
    parameters : PairwiseSVC
        It is not changed. `check_parameters` has seen it.
    samples : TrainingSamples
    labels, classes : (N,) array, (n,) array
        The class labels, sorted, and the class of each sample.
    phases : Phases
        Is told how far the fit is.
    """
    X, n = samples.X, len(labels)
    train = functools.partial(_train, parameters, phases)
    moments, normalisation, kernel = _features_of(parameters, X, classes, n)
    features = X if moments is None else normalisation(X)
    training = TrainingSet(features, classes, n, samples.weight, is_precomputed(parameters), moments)
    sums = [checksum(X[rows]) for rows in training.members] if is_linear(parameters) else []
    table = ClassTable(labels, training.totals(), np.arange(n), np.array(sums, np.int64))
    if parameters.priors is not None:
        check_priors(parameters.priors, n, "PairwiseSVC: priors")
    distances = functools.cache(lambda: _distances(parameters, training))
    settings = _settings(parameters, training, moments, kernel)
    asked = parameters.graph
    # Other machines take too long to be trained more often than they must.
    if is_linear(parameters) and not isinstance(asked, nx.Graph) and asks_for_neighbours(asked, n):
        part_of = functools.partial(training.part, seed=settings.seed)
        asked = with_chosen_neighbours(asked, part_of, distances, settings, train, parameters.n_jobs, phases)
    graph = graphs.requested_graph(asked, labels.tolist(), distances, "PairwiseSVC")
    if isinstance(graph, graphs.ModelCode):
        check_code_suits(settings.coupling, graph, "PairwiseSVC: coupling")
    return fit_model(
        training,
        table,
        graph,
        settings,
        train,
        distances_from=functools.partial(_distances_from, parameters, training, distances),
        resources=resources_of(parameters),
        phases=phases,
        normalisation=normalisation,
        weighted=samples.weighted,
        n_features=X.shape[1],
    )


def _features_of(
    parameters: Parameters, X: Any, classes: NDArray[np.int64], n: int
) -> tuple[NormalisedMoments | None, Normalisation, KernelFunction | None]:
    """The moments of X where they are needed, how the machines are given its rows, and their kernel."""
    as_they_come = Normalisation(np.zeros(X.shape[1]), 0)
    if parameters.estimator is not None:
        return None, as_they_come, None
    if is_precomputed(parameters):
        return None, as_they_come, KernelFunction("precomputed")
    found = moments_of(X, classes, n)
    standardise = bool(parameters.standardise)
    moments = normalised_moments(found, "PairwiseSVC: X", standardise=standardise)
    if is_linear(parameters):
        return moments, moments.normalisation, None
    gamma = gamma_of(parameters.gamma, found, "PairwiseSVC: gamma", standardise=standardise)
    kernel = KernelFunction(parameters.kernel, gamma, int(parameters.degree), float(parameters.coef0))
    return moments, kernel.normalisation(found.centre, moments.normalisation.deviation), kernel


def _settings(
    parameters: Parameters,
    training: TrainingSet,
    moments: NormalisedMoments | None,
    kernel: KernelFunction | None,
) -> ModelSettings:
    code = graphs.asks_for_code(parameters.graph)
    return ModelSettings(
        candidates=_candidates(parameters, moments),
        coupling=model_coupling(parameters.coupling, code, "PairwiseSVC: coupling"),
        folds=_folds(parameters, training),
        fit_on=parameters.fit_on,
        coupled_calibration=parameters.coupled_calibration,
        calibration_samples=int(parameters.calibration_samples),
        thresholds=bool(parameters.thresholds),
        tol=float(parameters.tol),
        seed=seed_of(parameters.random_state),
        shortlist="none" if code else shortlist_of(parameters),
        machine_weight=parameters.machine_weight,
        kernel=kernel,
        learn=parameters.learn,
    )


def _folds(parameters: Parameters, training: TrainingSet) -> int:
    if not holds_samples_out(parameters):
        return 2  # of which no machine misses one
    return usable_folds(parameters.folds, np.bincount(training.classes), "PairwiseSVC")


def _candidates(parameters: Parameters, moments: NormalisedMoments | None) -> tuple[Candidate, ...]:
    # Distances have no slope of their own: without a coupled calibration only Platt's sigmoid is one.
    sloped = parameters.coupled_calibration != "none" or parameters.calibration == "none"
    how = parameters.calibration if sloped else "platt"
    if is_linear(parameters) and moments is not None:
        return linear_candidates(parameters.C, parameters.whiten, how, moments)
    # C is a parameter of the estimator itself, where there is one.
    C = parameters.C if parameters.estimator is None else "scale"
    return kernel_candidates(C, how, measures_distances(parameters))


def _distances(parameters: Parameters, training: TrainingSet) -> NDArray[np.float64]:
    if is_precomputed(parameters):
        return kernel_mean_distances(training.X, training.classes, len(training.members))
    return distances_between(training.means)


def _distances_from(
    parameters: Parameters, training: TrainingSet, distances: Callable[[], NDArray[np.float64]], c: int
) -> NDArray[np.float64]:
    return distances()[c] if is_precomputed(parameters) else distances_from(training.means, c)


def _train(
    parameters: Parameters,
    phases: Phases,
    settings: ModelSettings,
    training: TrainingSet,
    sides: graphs.Sides,
    candidate: Candidate,
) -> LinearModel | KernelModel | EstimatorModel:
    """Train the machines of some pairs, or of a code, with one candidate."""
    machines = settings.machines(candidate.C, candidate.calibration)
    threads = thread_count(parameters.n_jobs, "PairwiseSVC")
    if settings.kernel is not None:
        return train_kernel_model(
            settings.kernel,
            training.X,
            training.members,
            sides,
            machines,
            weight=training.weight,
            n_threads=threads,
            advance=phases.advance,
        )
    if is_linear(parameters):
        return train_linear_model(
            training.by_class(training.X),
            sides,
            machines,
            training.whitening(candidate.whiten, settings),
            threads,
            phases.advance,
            sample_weight=None if training.weight is None else training.by_class(training.weight),
        )
    return train_estimator_model(
        parameters.estimator,
        training.X,
        training.members,
        sides,
        machines,
        precomputed=is_precomputed(parameters),
        n_threads=threads,
        advance=phases.advance,
    )
