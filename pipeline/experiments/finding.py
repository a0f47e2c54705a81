"""A claim of a paper or of ours, its outcome on a set, and the verdict: holds, differs or undecided at 95%.

A claim names a quantity and its allowed values: a difference above zero, a share of at least 0.8, a gap of at most
0.005 either way. It holds if the whole interval of the quantity is allowed, differs if none of it is, and is undecided
otherwise. A claim on several quantities, such as the three couplings, holds if it holds for each of them, and differs
if it differs for one; their intervals are wider, so that their joint coverage is 95%.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from pairloom.pipeline.experiments.paired_bootstrap import LEVEL, Resampled, interval

#: The source of a claim.
PAPER, OURS = "[S]", "Pairloom"

HOLDS, DIFFERS, UNDECIDED = "holds", "differs", "undecided"


class Comparison(NamedTuple):
    """A quantity with its interval, and whether its claim holds: None if undecided."""

    what: str
    estimate: float
    low: float
    high: float
    holds: bool | None


class Finding(NamedTuple):
    """A claim, its outcome on this set in words, and whether the claim holds: None if undecided.

    The comparisons decide. There are none if nothing is random; the outcome is then as claimed or not.
    """

    source: str
    claim: str
    here: str
    holds: bool | None
    comparisons: tuple[Comparison, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict as a word."""
        return UNDECIDED if self.holds is None else HOLDS if self.holds else DIFFERS

    def record(self) -> dict[str, Any]:
        """The finding as JSON values. A limit that is not finite is None."""
        comparisons = [
            {name: _number(value) for name, value in each._asdict().items()} for each in self.comparisons
        ]
        return {**self._asdict(), "verdict": self.verdict, "comparisons": comparisons}


def compared(
    source: str,
    claim: str,
    quantities: Mapping[str, Resampled],
    *,
    above: float = -math.inf,
    below: float = math.inf,
    form: str = "+.2%",
    aside: str = "",
) -> Finding:
    """Compare resampled quantities with the values that a claim allows.

    Parameters
    ----------
    source, claim : str
    quantities : mapping
        {name: resampled quantity}; the name may be empty if there is only one.
    above, below : float
        The claim holds for quantities between these two. They may be limits of ours, as for "almost all".
    form : str
        Format of the quantities in the text.
    aside : str
        Additional text on the outcome.
    """
    level = 1 - (1 - LEVEL) / len(quantities)
    comparisons = tuple(_comparison(what, values, level, above, below) for what, values in quantities.items())
    here = ", ".join(in_words(each, form) for each in comparisons)
    return Finding(
        source, claim, f"{here}; {aside}" if aside else here, holds_for_all(comparisons), comparisons
    )


def _comparison(what: str, values: Resampled, level: float, above: float, below: float) -> Comparison:
    low, high = interval(values, level)
    return Comparison(what, float(values[0]), low, high, within(low, high, above, below))


def within(low: float, high: float, above: float, below: float) -> bool | None:
    """Whether a quantity lies between two limits, given its interval. None if the interval is partly inside, or NaN."""
    if low > above and high < below:
        return True
    return False if high < above or low > below else None


def holds_for_all(comparisons: tuple[Comparison, ...]) -> bool | None:
    """Whether a claim holds for all comparisons: False if it differs for one, None if it is undecided for one."""
    verdicts = {each.holds for each in comparisons}
    return False if False in verdicts else None if None in verdicts else True


def in_words(comparison: Comparison, form: str = "+.2%") -> str:
    """A comparison in words: its name, the estimate and the interval."""
    low, high = (f"{limit:{form}}" for limit in (comparison.low, comparison.high))
    limits = "no interval" if math.isnan(comparison.low) else f"{low} to {high}"
    return f"{comparison.what} {comparison.estimate:{form}} ({limits})".strip()


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
