"""The allowed values of the parameters of a PairwiseSVC, the errors about others, and derived settings."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from pairloom.graphs import asks_for_code
from pairloom.graphs.text import did_you_mean
from pairloom.pipeline.calibration.coupled_calibration import COUPLED_LEVELS
from pairloom.pipeline.coupling.model_coupling import COUPLINGS, MACHINE_WEIGHTS
from pairloom.pipeline.machines.estimator_machines import has_feature_norm
from pairloom.pipeline.machines.folds import ALONE, FIT_ON
from pairloom.pipeline.machines.kernel_function import HIGHEST_DEGREE, KERNEL_NAMES, is_inner_product
from pairloom.pipeline.machines.kinds import candidate_Cs
from pairloom.pipeline.machines.settings import CALIBRATIONS
from pairloom.pipeline.model.fitting import Resources
from pairloom.pipeline.model.learning import LEARN
from pairloom.pipeline.model.settings import (
    ESTIMATOR,
    LARGEST_COUNT,
    MEASURED,
    check_coupling,
    check_distances,
    check_edges_calibrated,
    check_fold_alone,
    check_learnable,
    check_no_shortlist,
    is_count,
    is_finite,
    is_positive,
    is_share,
)

__all__ = [
    "KERNELS",
    "Parameters",
    "check_one_of",
    "check_parameters",
    "check_positive",
    "check_shortlist",
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
KERNELS = ("auto", "linear", *KERNEL_NAMES)
_CHOICES = {
    "coupling": COUPLINGS,
    "machine_weight": MACHINE_WEIGHTS,
    "kernel": KERNELS,
    "fit_on": FIT_ON,
    "calibration": ("auto", *CALIBRATIONS),
    "coupled_calibration": COUPLED_LEVELS,
    "learn": LEARN,
}


def check_parameters(model: Parameters) -> None:
    """Raise unless a PairwiseSVC can be fitted with its parameters."""
    for name in _CHOICES:
        check_one_of(model, name)
    _check_coupling(model)
    Cs = candidate_Cs(model.C)
    if len(Cs) == 0 or not all(_is_word(C, "scale") or _is_word(C, "auto") or is_positive(C) for C in Cs):
        raise ValueError(
            f"PairwiseSVC: C must be positive, 'scale', 'auto', or a list of these, got {model.C!r}."
        )
    if not (_is_word(model.whiten, "auto") or _is_word(model.whiten, "none") or is_share(model.whiten)):
        raise ValueError(f"PairwiseSVC: whiten must be 'auto', 'none' or from 0 to 1, got {model.whiten!r}.")
    for name, least in (("folds", 2), ("calibration_samples", 1)):
        value = getattr(model, name)
        if name == "folds" and _is_word(value, "auto"):
            continue
        if not is_count(value, least):
            or_auto = ", or 'auto'" if name == "folds" else ""
            raise ValueError(
                f"PairwiseSVC: {name} must be an integer of at least {least}{or_auto}, got {value!r}."
            )
        if value > LARGEST_COUNT:
            raise ValueError(f"PairwiseSVC: {name} must be at most {LARGEST_COUNT}, got {value!r}.")
    _check_kernel(model)
    check_shortlist(model)
    if asks_for_code(model.graph):
        check_no_shortlist(model.shortlist, ESTIMATOR)
    _check_distances(model)
    check_positive(model, "tol")
    check_positive(model, "memory_limit")
    if model.tol >= 1:
        raise ValueError(f"PairwiseSVC: tol must be below 1, got {model.tol!r}.")
    for name in ("thresholds", "standardise", "verbose"):
        value = getattr(model, name)
        if not isinstance(value, (bool, np.bool_)) and not (
            (name == "verbose" and is_count(value, 0)) or (name == "standardise" and _is_word(value, "auto"))
        ):
            words = "True, False or 'auto'" if name == "standardise" else "True or False"
            raise ValueError(f"PairwiseSVC: {name} must be {words}, got {value!r}.")
    if model.estimator is not None and not _decides(model.estimator):
        raise TypeError(
            "PairwiseSVC: estimator must be a classifier with decision_function or predict_proba,"
            f" got {model.estimator!r}."
        )
    _check_own_probabilities(model)
    _check_standardised(model)
    _check_fold_alone(model)


def _check_standardised(model: Parameters) -> None:
    """Raise if features are to be standardised for machines that take them raw."""
    if (
        _is_word(model.standardise, "auto")
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


def _check_kernel(model: Parameters) -> None:
    """Raise unless the parameters of the kernel are valid."""
    gamma = model.gamma
    if not (_is_word(gamma, "scale") or _is_word(gamma, "auto") or is_positive(gamma)):
        raise ValueError(f"PairwiseSVC: gamma must be 'scale', 'auto' or a positive number, got {gamma!r}.")
    if not is_count(model.degree, 1) or model.degree > HIGHEST_DEGREE:
        raise ValueError(
            f"PairwiseSVC: degree must be an integer from 1 to {HIGHEST_DEGREE}, got {model.degree!r}."
        )
    if not is_finite(model.coef0):
        raise ValueError(f"PairwiseSVC: coef0 must be a finite number, got {model.coef0!r}.")


def check_shortlist(model: Parameters) -> None:
    """Raise unless the parameter `shortlist` is valid."""
    value = model.shortlist
    if (
        value is not None
        and not (isinstance(value, str) and value in ("auto", "none"))
        and not is_count(value, 2)
    ):
        raise ValueError(
            f"PairwiseSVC: shortlist must be 'auto', 'none' or an integer of at least 2, got {value!r}."
        )


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


def check_positive(model: Parameters, name: str) -> None:
    """Raise unless a parameter is a positive number."""
    value = getattr(model, name)
    if not is_positive(value):
        raise ValueError(f"PairwiseSVC: {name} must be positive, got {value!r}.")


def check_one_of(model: Parameters, name: str) -> None:
    """Raise unless a parameter is one of its allowed words, and suggest the nearest."""
    value, known = getattr(model, name), _CHOICES[name]
    if not (isinstance(value, str) and value in known):
        raise ValueError(
            f"PairwiseSVC: {name} must be one of {', '.join(map(repr, known))}, got {value!r}."
            f"{did_you_mean(value, known)}"
        )


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


def _is_word(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word


def _decides(estimator: Any) -> bool:
    return hasattr(estimator, "fit") and (
        hasattr(estimator, "decision_function") or hasattr(estimator, "predict_proba")
    )
