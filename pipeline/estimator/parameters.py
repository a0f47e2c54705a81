"""The rules that only the parameters of a PairwiseSVC have to follow, and derived settings."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from pairloom.graphs import asks_for_code
from pairloom.pipeline.machines.estimator_machines import has_feature_norm
from pairloom.pipeline.machines.folds import ALONE
from pairloom.pipeline.machines.kernel_function import is_inner_product
from pairloom.pipeline.model.fitting import Resources
from pairloom.pipeline.model.rules import (
    ESTIMATOR,
    MEASURED,
    check_coupling,
    check_distances,
    check_edges_calibrated,
    check_fold_alone,
    check_learnable,
    check_no_shortlist,
    check_value,
)
from pairloom.pipeline.model.settings import VALUES

__all__ = [
    "Parameters",
    "check_parameters",
    "check_values",
    "holds_samples_out",
    "is_linear",
    "is_precomputed",
    "measures_distances",
    "resources_of",
    "seed_of",
    "shortlist_of",
    "stays_sparse",
    "takes_sparse",
]

#: A PairwiseSVC, of which only the parameters are used. Until they are checked, each may have any type.
Parameters: TypeAlias = Any


def check_parameters(model: Parameters) -> None:
    """Raise unless a PairwiseSVC can be fitted with its parameters."""
    check_values(model, *VALUES)
    _check_coupling(model)
    if asks_for_code(model.graph):
        check_no_shortlist(model.shortlist, ESTIMATOR)
    _check_distances(model)
    if model.estimator is not None and not _decides(model.estimator):
        raise TypeError(
            "PairwiseSVC: estimator must be a classifier with decision_function or predict_proba,"
            f" got {model.estimator!r}."
        )
    _check_own_probabilities(model)
    _check_standardised(model)
    _check_fold_alone(model)


def check_values(model: Parameters, *names: str) -> None:
    """Raise unless parameters have values that they may have."""
    for name in names:
        check_value(name, getattr(model, name), VALUES[name], ESTIMATOR)


def _check_standardised(model: Parameters) -> None:
    """Raise if features are to be standardised for machines that take them raw."""
    if (
        model.standardise == "auto"
        or not model.standardise
        or (model.estimator is None and model.kernel != "precomputed")
    ):
        return
    if model.estimator is None:
        raise ValueError(
            "PairwiseSVC: standardise must be False with kernel='precomputed', whose X has no features, got True."
        )
    raise ValueError(
        "PairwiseSVC: standardise must be False with an estimator, which is given features as they come, got True: put"
        " a StandardScaler before the model, make_pipeline(StandardScaler(), PairwiseSVC(estimator=...))."
    )


def _check_fold_alone(model: Parameters) -> None:
    """Raise if machines other than linear SVMs are to standardise and calibrate themselves."""
    if model.fit_on == ALONE and model.estimator is not None:
        raise ValueError(
            f"PairwiseSVC: fit_on={ALONE!r} is for Pairloom's own machines, got estimator={model.estimator!r}."
        )
    check_fold_alone(model, ESTIMATOR)


def _check_coupling(model: Parameters) -> None:
    """Raise unless the coupling suits the machines and the parameters that are learned through it."""
    code = asks_for_code(model.graph)
    method = check_coupling(model.coupling, model.machine_weight, code, ESTIMATOR)
    if model.coupled_calibration == "edges":
        given = ESTIMATOR.value("coupling", model.coupling)
        check_edges_calibrated(method, given, model.machine_weight, code, ESTIMATOR)
    if model.learn == "coupled":
        check_learnable(
            method,
            model.machine_weight,
            graph=ESTIMATOR.value("graph", model.graph),
            code=code,
            machines="" if is_linear(model) else _machines(model),
            door=ESTIMATOR,
        )


def _machines(model: Parameters) -> str:
    """The parameter that determines the machines, with its value, for messages."""
    name = "kernel" if model.estimator is None else "estimator"
    return ESTIMATOR.value(name, getattr(model, name))


def _check_distances(model: Parameters) -> None:
    """Raise if distances are requested that cannot be measured, or that no calibration would scale."""
    if model.calibration in MEASURED:
        constant = f", {ESTIMATOR.value('coef0', model.coef0)}" if model.estimator is None else ""
        machines = f"{_machines(model)}{constant}"
        check_distances(model, measures_distances(model), machines, ESTIMATOR)


def _check_own_probabilities(model: Parameters) -> None:
    """Raise if machines without probabilities are to be used uncalibrated."""
    if model.calibration != "none" or hasattr(model.estimator, "predict_proba"):
        return
    if model.estimator is None:
        got = f"kernel={model.kernel!r}, whose machines have none: choose 'auto', or give an estimator"
    else:
        got = (
            f"estimator={model.estimator!r}: choose 'platt', which makes probabilities of its decision values"
        )
    raise ValueError(
        "PairwiseSVC: calibration='none' needs an estimator with predict_proba, whose probabilities are used as they"
        f" are, got {got}."
    )


def is_linear(model: Parameters) -> bool:
    """Whether the machines are Pairloom's own and linear."""
    return model.estimator is None and bool(model.kernel in ("auto", "linear"))


def is_precomputed(model: Parameters) -> bool:
    """Whether samples are rows of a kernel matrix."""
    return model.estimator is None and bool(model.kernel == "precomputed")


def stays_sparse(model: Parameters) -> bool:
    """Whether machines are trained on sparse samples without making them dense: only linear machines are."""
    return is_linear(model)


def takes_sparse(model: Parameters) -> bool:
    """Whether a fit without an estimator takes sparse samples; whitening and learn="coupled" need dense ones."""
    if is_precomputed(model) or not stays_sparse(model):
        return not is_precomputed(model)
    return model.whiten in ("auto", "none") and model.learn != "coupled"


def shortlist_of(model: Parameters) -> int | Literal["auto", "none"]:
    """The shortlist, with "none" for None."""
    if model.shortlist is None:
        return "none"
    shortlist: int | Literal["auto", "none"] = model.shortlist
    return shortlist if isinstance(shortlist, str) else int(shortlist)


def resources_of(model: Parameters) -> Resources:
    """The resources that a fit or a prediction may use."""
    return {"n_jobs": model.n_jobs, "memory_limit": model.memory_limit}


def holds_samples_out(model: Parameters) -> bool:
    """Whether anything is learned from held-out samples. If not, each pair has one machine, trained on all samples."""
    return bool(model.calibration != "none" or model.coupled_calibration != "none" or model.thresholds)


def measures_distances(model: Parameters) -> bool:
    """Whether the machines know their distance to a sample."""
    if model.estimator is not None:
        return has_feature_norm(model.estimator)
    return is_inner_product(model.kernel, model.coef0)


def seed_of(random_state: Any) -> int:
    """The seed of a fit: an integer is taken as it is; otherwise the seed is drawn from the random state."""
    try:
        if isinstance(random_state, (int, np.integer)):
            if isinstance(random_state, bool) or random_state < 0:
                raise ValueError
            return int(random_state)
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise ValueError(
            "PairwiseSVC: random_state must be an integer of at least 0, a numpy.random.RandomState or None,"
            f" got {random_state!r}."
        ) from None


def _decides(estimator: Any) -> bool:
    return hasattr(estimator, "fit") and (
        hasattr(estimator, "decision_function") or hasattr(estimator, "predict_proba")
    )
