"""Why one class and not another: the logit of the pair, the coupled odds, and what both are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.display.tables import Table, html_of, name_of, others, signed, text_of
from pairloom.pipeline.model.contributions import Contributions, contributions_table

__all__ = ["Explanation", "MachineEffects", "Route"]

#: Rows of a table, besides the sums.
SHOWN = 8

#: How the pair has its logit: by machines of its own; as a mean over the classes that are joined to both; from
#: potentials of the whole graph; or not at all, where no machine of a code is on these two classes alone.
Route = Literal["trained", "common neighbours", "potentials", "none"]


@dataclass(frozen=True, eq=False)
class MachineEffects:
    """Machines, and the part that each has in a sum.

    Attributes
    ----------
    labels : (N,) array
        The classes.
    sides : (E, N) sparse or dense array of -1, 0, +1; or (E, 2) int array of pairs
        The classes of each machine. A pair (i, j) is turned so that the class which is asked for comes first.
    logits : (E,) array
        Of the first class, or of the side +1.
    effects : (E,) array
        The part of each machine; they sum to `total`.
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
        """(E, 2) the labels of each pair: `logits` are of the first against the second."""
        if self.on_sets:
            raise AttributeError("MachineEffects: machines on sets of classes have no pairs: see sides.")
        return np.asarray(self.labels[self.sides])

    def largest(self, most: int) -> NDArray[np.intp]:
        """The places of the machines with the largest effects of either sign, largest first; zeros are left out."""
        order = np.argsort(-np.abs(self.effects), kind="stable")[:most]
        return np.asarray(order[self.effects[order] != 0])

    def name(self, machine: int) -> str:
        """The classes of a machine, as text."""
        if not self.on_sets:
            first, second = self.labels[self.sides[machine]].tolist()
            return f"{name_of(first)} / {name_of(second)}"
        sides = (self.labels[self.sides[machine] == side].tolist() for side in (1, -1))
        return " / ".join(_set_of(side) for side in sides)


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why class `a` and not class `b`, of one sample. It prints itself, and shows itself in a notebook.

    Attributes
    ----------
    a, b : object
        The labels of the two classes.
    coupling : str
        The coupling of the model.
    route : {"trained", "common neighbours", "potentials", "none"}
        How the pair has its logit: by machines of its own; as the mean over the classes that both were trained against;
        from potentials of the whole graph, where there is none; or "none" where the machines are on sets of classes.
    logit : float
        The pair's own logit, of a against b, before it is coupled with others; NaN if it has none.
    contributions : Contributions or None
        Of the features, or of the support vectors, to `logit`. None for the machines of an `estimator`.
    logit_parts : MachineEffects
        The trained pairs that `logit` is made of: one if the pair was trained.
    odds : float
        log p_a / p_b of the coupled model.
    p_a, p_b : float
        The probabilities of the two classes.
    pairs : MachineEffects
        The effect of every machine on `odds`, see `odds_effects`.
    odds_contributions : Contributions or None
        Of the features, or of the support vectors, to the part of `odds` that the machines have.
    prior : float
        The part of `odds` that comes from the parameter `priors`.
    remainder : float
        ``odds - prior - pairs.total``: rounding errors, unless logits are extreme.
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
    remainder: float

    def __str__(self) -> str:
        return text_of(self._heading, self._lines(), self._tables())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_of(self._heading, self._lines(), self._tables())

    @property
    def _heading(self) -> str:
        return f"Why {name_of(self.a)} and not {name_of(self.b)}?"

    def _lines(self) -> list[str]:
        a, b = name_of(self.a), name_of(self.b)
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
            tables.append(contributions_table(title, self.contributions, SHOWN))
        extra = [("priors", self.prior)] if self.prior else []
        unit = "Machines" if self.pairs.on_sets else "Pairs"
        tables.append(_effects_table(f"{unit} that moved the coupled odds", self.pairs, "effect", extra))
        if self.odds_contributions is not None and self.contributions is None:
            title = f"Largest contributions to the coupled odds, by {self.odds_contributions.kind}"
            tables.append(contributions_table(title, self.odds_contributions, SHOWN))
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
    """The classes of a side: all of a few, else the first and their number."""
    shown = ", ".join(name_of(label, 20) for label in labels[:most])
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"
