"""The values that the parameters of a PairwiseSVC may take, and the errors where they do not."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from sklearn.utils import check_random_state

from pairloom.graphs.labels import did_you_mean, listed
from pairloom.pipeline.calibration.coupled_calibration import COUPLED_LEVELS
from pairloom.pipeline.calibration.coupling_gradient import GRADIENTS
from pairloom.pipeline.coupling.couple import METHODS
from pairloom.pipeline.machines.folds import FIT_ON
from pairloom.pipeline.machines.settings import CALIBRATIONS
from pairloom.pipeline.model.choice import candidate_Cs

__all__ = ["KERNELS", "check_one_of", "check_parameters", "seed_of"]

KERNELS = ("linear", "rbf", "poly", "sigmoid", "precomputed")
_CHOICES = {
    "coupling": tuple(METHODS),
    "kernel": KERNELS,
    "fit_on": FIT_ON,
    "calibration": CALIBRATIONS,
    "coupled_calibration": COUPLED_LEVELS,
}


class Parameters(Protocol):
    """Anything with the parameters of a PairwiseSVC as attributes."""

    coupling: Any
    coupled_calibration: Any
    C: Any
    whiten: Any
    folds: Any
    estimator: Any


def check_parameters(model: Parameters) -> None:
    """Raise unless every parameter of a PairwiseSVC is one it can be fitted with."""
    for name in _CHOICES:
        check_one_of(model, name)
    if model.coupled_calibration == "edges" and model.coupling not in GRADIENTS:
        raise ValueError(
            "PairwiseSVC: coupled_calibration='edges' needs a coupling with a gradient, one of"
            f" {listed(GRADIENTS)}, got coupling={model.coupling!r}."
        )
    Cs = candidate_Cs(model.C)
    if len(Cs) == 0 or not all(_is_word(C, "scale") or _is_positive(C) for C in Cs):
        raise ValueError(f"PairwiseSVC: C must be positive, 'scale', or a list of these, got {model.C!r}.")
    if not (_is_word(model.whiten, "auto") or _is_word(model.whiten, "none") or _is_share(model.whiten)):
        raise ValueError(f"PairwiseSVC: whiten must be 'auto', 'none' or from 0 to 1, got {model.whiten!r}.")
    for name, least in (("folds", 2), ("calibration_samples", 1)):
        value = getattr(model, name)
        if not (isinstance(value, (int, np.integer)) and value >= least):
            raise ValueError(f"PairwiseSVC: {name} must be an integer of at least {least}, got {value!r}.")
    for name in ("tol", "memory_limit"):
        if not _is_positive(getattr(model, name)):
            raise ValueError(f"PairwiseSVC: {name} must be positive, got {getattr(model, name)!r}.")
    if model.estimator is not None and not _decides(model.estimator):
        raise TypeError(
            "PairwiseSVC: estimator must be a classifier with decision_function or predict_proba,"
            f" got {model.estimator!r}."
        )


def check_one_of(model: Parameters, name: str) -> None:
    """Raise unless a parameter is one of the words it may be, with the nearest of them."""
    value, known = getattr(model, name), _CHOICES[name]
    if not (isinstance(value, str) and value in known):
        raise ValueError(
            f"PairwiseSVC: {name} must be one of {', '.join(map(repr, known))}, got {value!r}."
            f"{did_you_mean(value, known)}"
        )


def seed_of(random_state: Any) -> int:
    """The seed of a fit: an integer itself, else drawn from the generator that `check_random_state` makes of it."""
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _is_word(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating))


def _is_positive(value: Any) -> bool:
    return _is_number(value) and 0 < value < np.inf


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _decides(estimator: Any) -> bool:
    return hasattr(estimator, "fit") and (
        hasattr(estimator, "decision_function") or hasattr(estimator, "predict_proba")
    )
