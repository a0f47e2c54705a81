"""A ratio of two figures of one run, with its target."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pairloom.benchmarks.record import Column, Record


@dataclass(frozen=True)
class Ratio:
    """Two figures, a figure derived from them, and the bound that it has to keep.

    Parameters
    ----------
    what
        What was compared.
    ours, theirs, unit
        Both figures and their unit.
    figure
        Usually their ratio; ``what`` says which.
    relation, target
        The target is a lower (">=") or an upper ("<=") bound on ``figure``.
    """

    what: str
    ours: float
    theirs: float
    unit: str
    figure: float
    relation: Literal[">=", "<="]
    target: float
    met: bool = field(init=False)

    def __post_init__(self) -> None:
        met = self.figure >= self.target if self.relation == ">=" else self.figure <= self.target
        object.__setattr__(self, "met", met)


def columns(ours: str = "ours", theirs: str = "theirs", width: int = 40) -> tuple[Column, ...]:
    """The columns of a table of ratios."""
    return (
        Column("", lambda row: row.what, width, left=True),
        Column(ours, lambda row: quantity(row.ours, row.unit), 12),
        Column(theirs, lambda row: quantity(row.theirs, row.unit), 12),
        Column("figure", lambda row: f"{row.figure:.3f}", 8),
        Column("target", lambda row: f"{row.relation} {row.target:g}", 8),
        Column("", lambda row: "OK" if row.met else "missed", 6, left=True),
    )


def quantity(value: float, unit: str) -> str:
    """A figure with its unit; short times are printed in milliseconds."""
    if unit == "s" and value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.4g} {unit}".rstrip()


def add_ratios(record: Record, table: str, ratios: Sequence[Ratio], title: str = "", **heads: str) -> None:
    """Print and keep a table of ratios."""
    width = max((len(ratio.what) for ratio in ratios), default=0)
    record.begin(table, columns(**heads, width=width), title)
    for ratio in ratios:
        record.add(ratio)


def summary(ratios: Sequence[Ratio]) -> str:
    """How many targets were met."""
    missed = sum(not ratio.met for ratio in ratios)
    return "All targets met." if not missed else f"{missed} of {len(ratios)} targets missed."
