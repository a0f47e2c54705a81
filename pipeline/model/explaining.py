"""Why one class and not another, from a fitted model: that of an estimator, a saved one or that of a run."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.labels import listed, quoted
from pairloom.pipeline.blas import one_blas_thread
from pairloom.pipeline.calibration.code_gradient import CODE_GRADIENTS
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.shortlist import shortlist_size
from pairloom.pipeline.coupling.code_coupling import CodeCoupling
from pairloom.pipeline.coupling.double_precision import SMOOTH_METHODS
from pairloom.pipeline.coupling.model_coupling import (
    SIGN_VOTE,
    check_code_suits,
    check_weighted,
    model_coupling,
)
from pairloom.pipeline.coupling.priors import prior_odds
from pairloom.pipeline.machines.estimator_model import EstimatorModel
from pairloom.pipeline.machines.kernel_model import KernelModel
from pairloom.pipeline.machines.linear_model import LinearModel
from pairloom.pipeline.model.affine_model import check_held
from pairloom.pipeline.model.contributions import (
    Evidence,
    KernelEvidence,
    LinearEvidence,
    PlainEvidence,
    feature_names,
)
from pairloom.pipeline.model.explanation import Explanation, MachineEffects, Route
from pairloom.pipeline.model.fitted_model import FittedModel
from pairloom.pipeline.model.odds_effects import (
    OddsEffects,
    effects_of_columns,
    effects_of_pairs,
    pair_coefficients,
)
from pairloom.pipeline.model.prediction import normalised_rows, predict_probabilities

__all__ = ["explain"]


def explain(
    model: FittedModel,
    X: Any,
    a: Any,
    b: Any,
    coupling: str = "auto",
    *,
    shortlist: int | Literal["auto", "none"] = "auto",
    priors: Any = None,
    names: Any = None,
    owner: str = "explain",
) -> Explanation:
    """Why class a and not class b, of one sample.

    Parameters
    ----------
    model : FittedModel
    X : (1, D) float array or CSR matrix, or (1, n) kernel values with the training samples: checked by the caller
    a, b : labels
        Two different classes.
    coupling, shortlist, priors
        As of `predict_probabilities`. Votes have no odds and cannot be explained.
    names : (D,) sequence of str, optional
        Of the features; by default x0, x1 and so on.
    owner : str
        Who asks, for errors.
    """
    pair = _classes(model, a, b, owner)
    method = _method(model, coupling, owner)
    evidence = _evidence(model, X, names)
    check_held(evidence.logits[None].astype(np.float32), 0)
    # Many small systems of equations: threads of BLAS would only wait for each other.
    with one_blas_thread():
        effects = _effects(model, evidence.logits, pair, method, shortlist)
    route, made_of = _route(model, pair)
    prior = 0.0 if priors is None else _prior(priors, model, pair, owner)
    p = predict_probabilities(model, X, coupling, shortlist=shortlist, priors=priors)[0]
    logits = evidence.logits
    by_machine = _machine_effects(model, pair, logits, effects.slopes * (logits - effects.neutral))
    own = evidence.contributions(made_of) if route != "none" else None
    return Explanation(
        a=model.classes.labels[pair.a],
        b=model.classes.labels[pair.b],
        coupling=method,
        route=route,
        logit=_total(own, made_of, logits) if route != "none" else np.nan,
        contributions=own,
        logit_parts=_machine_effects(model, pair, logits, made_of * logits),
        odds=effects.odds + prior,
        p_a=float(p[pair.a]),
        p_b=float(p[pair.b]),
        pairs=by_machine,
        odds_contributions=evidence.contributions(effects.slopes, -float(effects.slopes @ effects.neutral)),
        prior=prior,
        remainder=effects.odds - by_machine.total,
    )


class _Pair(NamedTuple):
    a: int
    b: int


def _classes(model: FittedModel, a: Any, b: Any, owner: str) -> _Pair:
    pair = _Pair(model.classes.index_of(a, f"{owner}: a"), model.classes.index_of(b, f"{owner}: b"))
    if pair.a == pair.b:
        raise ValueError(f"{owner}: b must be another class than a, got {quoted(a)} for both.")
    return pair


def _method(model: FittedModel, coupling: str, owner: str) -> str:
    """The coupling whose odds are explained, or an error if it has none."""
    code = model.code
    smooth = tuple(SMOOTH_METHODS if code is None else CODE_GRADIENTS)
    method = model_coupling(coupling, code is not None, f"{owner}: coupling")
    if coupling == SIGN_VOTE or method not in smooth:
        raise ValueError(
            f"{owner}: coupling must be one of {listed(smooth)}, whose odds are smooth in the logits of the machines,"
            f" got {coupling!r}. Use set_params(coupling={smooth[0]!r}) to explain this model."
        )
    check_weighted(method, model.machine_weight, code is not None, f"{owner}: coupling")
    if code is not None:
        check_code_suits(method, code, f"{owner}: coupling")
    return method


def _evidence(model: FittedModel, X: Any, names: Any) -> Evidence:
    """The logits of the machines for the sample, and what they are made of."""
    trained = model.trained
    if isinstance(trained, LinearModel):
        sample = np.asarray(X.toarray() if hasattr(X, "toarray") else X)[0]
        known = feature_names(names, model.n_features)
        return LinearEvidence(model.affine.logits, sample, model.normalisation, known)
    if isinstance(trained, KernelModel):
        machines = model.curved.logits
        values = machines.kernel_values(machines.vectors, normalised_rows(model, X))[:, 0]
        return KernelEvidence(machines, values, _support_names(model, trained))
    assert isinstance(trained, EstimatorModel)
    logits = trained.logits(model.settings.scheme.shares, X)[:, 0].astype(np.float64)
    return PlainEvidence(logits * model.coupled.slope + model.coupled.shift)


def _support_names(model: FittedModel, trained: KernelModel) -> NDArray[np.object_]:
    """(S,) the training row of each support vector and, of machines on pairs, its class.

    Rows of a kernel matrix have the numbers of its columns. Others are counted class by class.
    """
    machines = trained.machines
    rows, place = np.unique(machines.row, return_inverse=True)
    numbers = trained.vectors if trained.kernel.precomputed else rows
    names = [f"training row {row}" for row in numbers.tolist()]
    if model.code is None:
        edge = np.repeat(np.arange(machines.n_edges), np.diff(machines.start))
        # The coefficients of a row have the sign of its class in all machines of a pair.
        second = (machines.beta.sum(axis=1) < 0).astype(np.int64)
        of_vector = np.zeros(len(rows), np.int64)
        of_vector[place] = model.edges[edge, second]
        names = [
            f"{name}, {label}" for name, label in zip(names, model.classes.labels[of_vector], strict=True)
        ]
    return np.array(names, dtype=object)


def _effects(
    model: FittedModel,
    logits: NDArray[np.float64],
    pair: _Pair,
    method: str,
    shortlist: int | Literal["auto", "none"],
) -> OddsEffects:
    wiring = model.wiring
    if isinstance(wiring, CodeCoupling):
        return effects_of_columns(logits, *pair, wiring, method)
    return effects_of_pairs(logits, *pair, wiring, method, shortlist_size(shortlist, wiring.n_classes))


def _route(model: FittedModel, pair: _Pair) -> tuple[Route, NDArray[np.float64]]:
    """How the pair has its logit, and its coefficients on those of the machines."""
    if model.code is not None:
        return _route_in_code(model.code.matrix, pair)
    completion = model.completion
    return _kind(completion, pair), pair_coefficients(*pair, completion)


def _kind(completion: Completion, pair: _Pair) -> Route:
    if completion.trained[pair.a, pair.b]:
        return "trained"
    common = completion.trained[pair.a] & completion.trained[pair.b]
    return "common neighbours" if common.any() else "potentials"


def _route_in_code(matrix: NDArray[np.int8], pair: _Pair) -> tuple[Route, NDArray[np.float64]]:
    """Of machines on sets of classes, one may be on these two alone."""
    coefficients = np.zeros(matrix.shape[1])
    alone = (np.abs(matrix).sum(axis=0) == 2) & (matrix[pair.a] * matrix[pair.b] == -1)
    if not alone.any():
        return "none", coefficients
    own = int(np.flatnonzero(alone)[0])
    coefficients[own] = matrix[pair.a, own]
    return "trained", coefficients


def _prior(priors: Any, model: FittedModel, pair: _Pair, owner: str) -> float:
    odds = prior_odds(priors, model.classes.shares, f"{owner}: priors")
    if not (odds[pair.a] and odds[pair.b]):
        raise ValueError(
            f"{owner}: priors must be positive for both classes, got a share of zero: their odds are not a number."
        )
    return float(np.log(odds[pair.a] / odds[pair.b]))


def _total(own: Any, made_of: NDArray[np.float64], logits: NDArray[np.float64]) -> float:
    """The logit of the pair: the sum of its contributions where they are known, to the last bit."""
    return float(made_of @ logits) if own is None else float(own.total)


def _machine_effects(
    model: FittedModel, pair: _Pair, logits: NDArray[np.float64], effects: NDArray[np.float64]
) -> MachineEffects:
    """Machines and their effects; pairs are turned so that a comes first, and b where a is not in them."""
    labels = model.classes.labels
    if model.code is not None:
        return MachineEffects(labels, model.code.matrix.T, logits, effects, on_sets=True)
    first, second = model.edges.T
    turned = (second == pair.a) | ((second == pair.b) & (first != pair.a))
    sides = np.where(turned[:, None], model.edges[:, ::-1], model.edges)
    return MachineEffects(labels, sides, np.where(turned, -logits, logits), effects)
