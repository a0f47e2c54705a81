"""What the parameters of a PairwiseSVC may be, and what is said where they are not."""

import numpy as np

from pairloom.graphs.labels import did_you_mean, listed
from pairloom.pipeline.calibration.coupling_gradient import GRADIENTS
from pairloom.pipeline.coupling.couple import METHODS
from pairloom.pipeline.machines.folds import CALIBRATIONS, FIT_ON

KERNELS = ("linear", "rbf", "poly", "sigmoid", "precomputed")
CALIBRATE = ("scale", "platt", None)


def check_parameters(model):
    """Raise unless every parameter of a PairwiseSVC is one it can be fitted with."""
    one_of(model, "coupling", tuple(METHODS))
    one_of(model, "kernel", KERNELS)
    one_of(model, "fit_on", FIT_ON)
    one_of(model, "calibration", CALIBRATIONS)
    one_of(model, "calibrate", CALIBRATE)
    if model.calibrate == "platt" and model.coupling not in GRADIENTS:
        raise ValueError(
            f"PairwiseSVC: calibrate='platt' needs a coupling with a gradient, one of {listed(GRADIENTS)},"
            f" got coupling={model.coupling!r}."
        )
    costs = candidate_Cs(model.C)
    if len(costs) == 0 or not all(is_scale(C) or _is_positive(C) for C in costs):
        raise ValueError(f"PairwiseSVC: C must be positive, 'scale', or a list of these, got {model.C!r}.")
    if not (model.whiten is None or is_auto(model.whiten) or _is_share(model.whiten)):
        raise ValueError(f"PairwiseSVC: whiten must be None, 'auto' or from 0 to 1, got {model.whiten!r}.")
    if not (isinstance(model.folds, (int, np.integer)) and model.folds >= 2):
        raise ValueError(f"PairwiseSVC: folds must be an integer of at least 2, got {model.folds!r}.")
    for name in ("tol", "memory_limit"):
        if not _is_positive(getattr(model, name)):
            raise ValueError(f"PairwiseSVC: {name} must be positive, got {getattr(model, name)!r}.")
    if model.estimator is not None and not _decides(model.estimator):
        raise TypeError(
            "PairwiseSVC: estimator must be a classifier with decision_function or predict_proba,"
            f" got {model.estimator!r}."
        )


def one_of(model, name, known):
    """Raise unless a parameter is one of the known names, with the nearest of them."""
    value = getattr(model, name)
    if not any(value is k or (isinstance(value, str) and value == k) for k in known):
        raise ValueError(
            f"PairwiseSVC: {name} must be one of {', '.join(map(repr, known))}, got {value!r}."
            f"{did_you_mean(value, [k for k in known if k])}"
        )


def candidate_Cs(C):
    """C as the list of what is to be tried."""
    return C if isinstance(C, (list, tuple, np.ndarray)) else [C]


def is_scale(C):
    return isinstance(C, str) and C == "scale"


def is_auto(whiten):
    return isinstance(whiten, str) and whiten == "auto"


def _is_number(value):
    return isinstance(value, (int, float, np.integer, np.floating))


def _is_positive(value):
    return _is_number(value) and 0 < value < np.inf


def _is_share(value):
    return _is_number(value) and 0 <= value <= 1


def _decides(estimator):
    return hasattr(estimator, "fit") and (
        hasattr(estimator, "decision_function") or hasattr(estimator, "predict_proba")
    )
