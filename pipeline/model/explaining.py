"""Explain why a fitted model predicts one class and not another. It may come from an estimator, a file or a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.text import listed, plain_line, quoted
from pairloom.pipeline.completion.complete import Completion
from pairloom.pipeline.completion.couplers import CodeCoupler
from pairloom.pipeline.coupling.model_coupling import SIGN_VOTE, prior_odds
from pairloom.pipeline.display.printed_tables import Table, html_of, others, signed, text_of
from pairloom.pipeline.machines.contributions import Contributions, Evidence
from pairloom.pipeline.model.fitted_model import FittedModel, check_finite
from pairloom.pipeline.model.odds_effects import (
    OddsEffects,
    effects_of_columns,
    effects_of_pairs,
    pair_coefficients,
)
from pairloom.pipeline.model.prediction import predict_probabilities
from pairloom.pipeline.threads import one_blas_thread

__all__ = ["Explanation", "MachineEffects", "Route", "explain"]


def explain(
    model: FittedModel,
    X: Any,
    a: Any,
    b: Any,
    coupling: str = "auto",
    *,
    shortlist: int | Literal["auto", "none"] = "auto",
    priors: Any = None,
    possible: NDArray[np.bool_] | None = None,
    names: Any = None,
    support_ids: Sequence[Any] = (),
    sample: Any = None,
    owner: str = "explain",
) -> Explanation:
    """Explain why one sample is of class a and not of class b.

    Parameters
    ----------
    model : FittedModel
    X : (1, D) float array or CSR matrix, or (1, n) kernel values with the training samples: checked by the caller
    a, b : labels
        Two different classes.
    coupling, shortlist, priors
        As for `predict_probabilities`. Votes have no odds and cannot be explained.
    possible : (N,) bool array, optional
        The classes that are possible, a and b among them: see `possible_classes`.
    names : (D,) sequence of str, optional
        Names of the features; by default x0, x1 and so on.
    support_ids : (S,) sequence, optional
        Names of the training rows that are support vectors; by default their numbers.
    sample : object, optional
        The name of the sample.
    owner : str
        Name of the caller, for errors.
    """
    pair = _classes(model, a, b, owner)
    if possible is not None and not (possible[pair.a] and possible[pair.b]):
        raise ValueError(f"{owner}: classes must hold a and b, {quoted(a)} and {quoted(b)}.")
    method = _method(model, coupling, owner)
    evidence = _evidence(model, X, names, support_ids)
    check_finite(evidence.logits[None].astype(np.float32), 0)
    # There are many small systems of equations, for which BLAS threads only add overhead.
    with one_blas_thread():
        effects = _effects(model, evidence.logits, pair, method, shortlist, possible)
    route, made_of = _route(model, pair)
    prior = 0.0 if priors is None else _prior(priors, model, pair, owner)
    p = predict_probabilities(model, X, coupling, shortlist=shortlist, priors=priors, possible=possible)[0]
    logits = evidence.logits
    by_machine = _machine_effects(model, pair, logits, effects.slopes * (logits - effects.neutral))
    contributions = evidence.contributions(made_of) if route != "none" else None
    return Explanation(
        a=model.classes.labels[pair.a],
        b=model.classes.labels[pair.b],
        coupling=method,
        route=route,
        logit=_total(contributions, made_of, logits) if route != "none" else np.nan,
        contributions=contributions,
        logit_parts=_machine_effects(model, pair, logits, made_of * logits),
        odds=effects.odds + prior,
        list_offset=effects.offset,
        p_a=float(p[pair.a]),
        p_b=float(p[pair.b]),
        pairs=by_machine,
        odds_contributions=evidence.contributions(effects.slopes, -float(effects.slopes @ effects.neutral)),
        prior=prior,
        remainder=effects.odds - effects.offset - by_machine.total,
        sample=sample,
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
    couplings, coupling = model.coupler.couplings, model.coupling if coupling == "auto" else coupling
    smooth, method = couplings.gradients, couplings.named(coupling, f"{owner}: coupling")
    if coupling == SIGN_VOTE or method not in smooth:
        raise ValueError(
            f"{owner}: coupling must be one of {listed(smooth)}, whose odds are smooth in the logits of the machines,"
            f" got {coupling!r}. Use set_params(coupling={smooth[0]!r}) to explain this model."
        )
    return model.method_named(coupling, f"{owner}: coupling")


def _evidence(model: FittedModel, X: Any, names: Any, support_ids: Sequence[Any]) -> Evidence:
    """The logits of the machines for the sample, and the contributions to them."""
    edges = model.edges if model.code is None else None
    named = model.trained.names_of_inputs(names, edges, model.classes.labels, support_ids)
    return model.predictor.logits.evidence(X, model.normalisation, named)


def _effects(
    model: FittedModel,
    logits: NDArray[np.float64],
    pair: _Pair,
    method: str,
    shortlist: int | Literal["auto", "none"],
    possible: NDArray[np.bool_] | None,
) -> OddsEffects:
    coupler = model.coupler
    if isinstance(coupler, CodeCoupler):
        return effects_of_columns(logits, *pair, coupler, method)
    size, mass = model.list_size(shortlist), model.predictor.mass
    if possible is not None:
        size = int(model.list_sizes_among(shortlist, possible.sum()))
    return effects_of_pairs(logits, *pair, coupler.completion, method, size, mass, possible)


def _route(model: FittedModel, pair: _Pair) -> tuple[Route, NDArray[np.float64]]:
    """The route by which the pair has its logit, and the coefficients of this logit on those of the machines."""
    if model.code is not None:
        return _route_in_code(model.code.matrix, pair)
    completion = model.completion
    return _kind(completion, pair), pair_coefficients(*pair, completion)


def _kind(completion: Completion, pair: _Pair) -> Route:
    of_a, of_b = completion.neighbours_of(pair.a), completion.neighbours_of(pair.b)
    if pair.b in of_a:
        return "trained"
    return "common neighbours" if np.intersect1d(of_a, of_b).size else "potentials"


def _route_in_code(matrix: NDArray[np.int8], pair: _Pair) -> tuple[Route, NDArray[np.float64]]:
    """As `_route`, for machines on sets of classes: one may separate just these two."""
    coefficients = np.zeros(matrix.shape[1])
    alone = (np.abs(matrix).sum(axis=0) == 2) & (matrix[pair.a] * matrix[pair.b] == -1)
    if not alone.any():
        return "none", coefficients
    machine = int(np.flatnonzero(alone)[0])
    coefficients[machine] = matrix[pair.a, machine]
    return "trained", coefficients


def _prior(priors: Any, model: FittedModel, pair: _Pair, owner: str) -> float:
    odds = prior_odds(priors, model.classes.labels.tolist(), model.classes.shares, f"{owner}: priors")
    if not (odds[pair.a] and odds[pair.b]):
        raise ValueError(
            f"{owner}: priors must be positive for both classes, got a share of zero: their odds are not a number."
        )
    return float(np.log(odds[pair.a] / odds[pair.b]))


def _total(contributions: Any, made_of: NDArray[np.float64], logits: NDArray[np.float64]) -> float:
    """The logit of the pair. Where contributions are known it is exactly their sum, to the last bit."""
    return float(made_of @ logits) if contributions is None else float(contributions.total)


def _machine_effects(
    model: FittedModel, pair: _Pair, logits: NDArray[np.float64], effects: NDArray[np.float64]
) -> MachineEffects:
    """Machines and their effects. Pairs are turned so that a comes first, or b if a is not in them."""
    labels = model.classes.labels
    if model.code is not None:
        return MachineEffects(labels, model.code.matrix.T, logits, effects, on_sets=True)
    first, second = model.edges.T
    turned = (second == pair.a) | ((second == pair.b) & (first != pair.a))
    sides = np.where(turned[:, None], model.edges[:, ::-1], model.edges)
    return MachineEffects(labels, sides, np.where(turned, -logits, logits), effects)


#: Number of rows in a table, besides the sums.
SHOWN = 8

#: The origin of the pair's logit: its own machine; the mean over the classes that are joined to both; potentials of the
#: whole graph; or "none" if no machine of a code is on just these two classes.
Route = Literal["trained", "common neighbours", "potentials", "none"]


@dataclass(frozen=True, eq=False)
class MachineEffects:
    """Machines, and their effects on a sum.

    Attributes
    ----------
    labels : (N,) array
        The classes.
    sides : (E, N) sparse or dense array of -1, 0, +1; or (E, 2) int array of pairs
        The classes of each machine. A pair (i, j) is turned so that the explained class comes first.
    logits : (E,) array
        Logits of the first class, or of the side +1.
    effects : (E,) array
        The effect of each machine; they sum to `total`.
    """

    labels: NDArray[Any]
    sides: NDArray[np.integer]
    logits: NDArray[np.float64]
    effects: NDArray[np.float64]
    on_sets: bool = False

    @property
    def total(self) -> float:
        """The sum of the effects."""
        return float(self.effects.sum())

    @property
    def pairs(self) -> NDArray[Any]:
        """(E, 2) the labels of each pair; `logits` are those of the first against the second."""
        if self.on_sets:
            raise AttributeError("MachineEffects: machines on sets of classes have no pairs: see sides.")
        return np.asarray(self.labels[self.sides])

    def largest(self, most: int) -> NDArray[np.intp]:
        """The positions of the machines with the largest effects of either sign, largest first, without zeros."""
        order = np.argsort(-np.abs(self.effects), kind="stable")[:most]
        return np.asarray(order[self.effects[order] != 0])

    def name(self, machine: int) -> str:
        """The classes of a machine, as text."""
        if not self.on_sets:
            first, second = self.labels[self.sides[machine]].tolist()
            return f"{plain_line(first, 40)} / {plain_line(second, 40)}"
        sides = (self.labels[self.sides[machine] == side].tolist() for side in (1, -1))
        return " / ".join(_set_of(side) for side in sides)


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation why a sample is of class `a` and not of class `b`. It has a text and a notebook display.

    Attributes
    ----------
    a, b : object
        The labels of the two classes.
    coupling : str
        The coupling of the model.
    route : {"trained", "common neighbours", "potentials", "none"}
        The origin of the pair's logit: its own machine; the mean over the classes that both were trained against;
        potentials of the whole graph, if there is no such class; or "none" for machines on sets of classes.
    logit : float
        The pair's own logit, of a against b, before it is coupled with others; NaN if it has none.
    contributions : Contributions or None
        Contributions of the features, or of the support vectors, to `logit`. None for the machines of an `estimator`.
    logit_parts : MachineEffects
        The trained pairs from which `logit` is computed: one if the pair was trained.
    odds : float
        log p_a / p_b of the coupled model.
    p_a, p_b : float
        The probabilities of the two classes.
    pairs : MachineEffects
        The effect of every machine on `odds`, see `odds_effects`.
    odds_contributions : Contributions or None
        Contributions of the features, or of the support vectors, to the part of `odds` due to the machines.
    prior : float
        The part of `odds` due to the parameter `priors`.
    list_offset : float
        The part of `odds` due to the shortlist as a whole, if one of the classes is listed and the other is not: the
        calibrated offset of the log odds of the list against the rest.
    remainder : float
        ``odds - prior - list_offset - pairs.total``: rounding errors, unless logits are extreme.
    sample : object
        The name of the sample: its label in the index of a data frame. None for an array.
    """

    a: Any
    b: Any
    coupling: str
    route: Route
    logit: float
    contributions: Contributions | None
    logit_parts: MachineEffects
    odds: float
    p_a: float
    p_b: float
    pairs: MachineEffects
    odds_contributions: Contributions | None
    prior: float
    list_offset: float
    remainder: float
    sample: Any = None

    def __str__(self) -> str:
        return text_of(self._heading, self._lines(), self._tables())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_of(self._heading, self._lines(), self._tables())

    @property
    def _heading(self) -> str:
        asked = "Why" if self.sample is None else f"Sample {plain_line(self.sample, 40)}: why"
        return f"{asked} {plain_line(self.a, 40)} and not {plain_line(self.b, 40)}?"

    def _lines(self) -> list[str]:
        a, b = plain_line(self.a, 40), plain_line(self.b, 40)
        coupled = f"coupled odds: log p({a}) / p({b}) = {signed(self.odds)}"
        lines = [f"{coupled}, from {self.p_a:.4g} and {self.p_b:.4g} ({self.coupling})"]
        if self.route == "none":
            return [*lines, "the machines are on sets of classes: none is on these two classes alone"]
        lines.append(f"the pair's own logit: {signed(self.logit)}, {self._origin()}")
        if self.contributions is None:
            lines.append("contributions of features are not known for the machines of an estimator")
        return lines

    def _origin(self) -> str:
        made_of = np.flatnonzero(self.logit_parts.effects)
        if self.route == "trained":
            return "from machines of its own"
        if self.route == "common neighbours":
            return f"not trained: the mean over {_count(len(made_of) // 2, 'class', 'es')} joined to both"
        return f"not trained: from potentials of the graph, through {_count(len(made_of), 'pair', 's')}"

    def _tables(self) -> list[Table]:
        tables = []
        if self.route in ("common neighbours", "potentials"):
            title = "Trained pairs that the pair's logit is made of"
            tables.append(_effects_table(title, self.logit_parts, "part", []))
        if self.contributions is not None:
            title = f"Largest contributions to the pair's logit, by {self.contributions.kind}"
            tables.append(_contributions_table(title, self.contributions, SHOWN))
        named = [("priors", self.prior), ("being in the shortlist, or not", self.list_offset)]
        extra = [(name, value) for name, value in named if value]
        unit = "Machines" if self.pairs.on_sets else "Pairs"
        tables.append(_effects_table(f"{unit} that moved the coupled odds", self.pairs, "effect", extra))
        if self.odds_contributions is not None and self.contributions is None:
            title = f"Largest contributions to the coupled odds, by {self.odds_contributions.kind}"
            tables.append(_contributions_table(title, self.odds_contributions, SHOWN))
        return tables


def _effects_table(title: str, machines: MachineEffects, what: str, extra: list[tuple[str, float]]) -> Table:
    """The machines with the largest effects, the sum of the others, and the sum of all."""
    shown = machines.largest(SHOWN)
    rows = [
        [machines.name(at), signed(float(machines.logits[at])), signed(float(machines.effects[at]))]
        for at in shown.tolist()
    ]
    rest = np.delete(machines.effects, shown)
    if left := int(np.count_nonzero(rest)):
        rows.append([others(left), "", signed(float(rest.sum()))])
    rows += [[name, "", signed(value)] for name, value in extra]
    rows.append(["sum", "", signed(machines.total + sum(value for _, value in extra))])
    return Table(title, ["machine" if machines.on_sets else "pair", "logit", what], rows, total=True)


def _count(n: int, noun: str, plural: str) -> str:
    return f"{n} {noun}{plural if n != 1 else ''}"


def _set_of(labels: list[Any], most: int = 3) -> str:
    """The classes of a side: all if they are few, else the first ones and the number of the others."""
    shown = ", ".join(plain_line(label, 20) for label in labels[:most])
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"


def _contributions_table(title: str, contributions: Contributions, most: int) -> Table:
    """The largest contributions, the sum of the others, the intercept, and the sum of all."""
    shown = contributions.largest(most)
    rows = [
        [
            plain_line(contributions.names[at], 40),
            f"{contributions.inputs[at]:.4g}",
            signed(float(contributions.values[at])),
        ]
        for at in shown.tolist()
    ]
    rest = np.delete(contributions.values, shown)
    if left := int(np.count_nonzero(rest)):
        rows.append([others(left), "", signed(float(rest.sum()))])
    is_feature = contributions.kind == "feature"
    rows.append(
        ["intercept (the mean sample)" if is_feature else "intercept", "", signed(contributions.intercept)]
    )
    rows.append(["sum", "", signed(contributions.total)])
    head = [contributions.kind, "value" if is_feature else "kernel", "contribution"]
    return Table(title, head, rows, total=True)
