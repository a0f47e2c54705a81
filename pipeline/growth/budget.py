"""When a growing model has grown enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

__all__ = ["NEVER", "GrowthBudget"]

NEVER: Literal["never"] = "never"
_INTEGER, _NUMBER = (int, np.integer), (int, float, np.integer, np.floating)
#: So many waves in a row must bring next to nothing before growth is called flat: one may be unlucky.
PATIENCE = 2


@dataclass(frozen=True)
class GrowthBudget:
    """How far a model may grow: whichever is reached first ends it.

    Parameters
    ----------
    pairs
        Pairs in all, those of the start among them.
    share
        The same as a share of all pairs of classes, above 0 and up to 1.
    seconds
        No wave is begun after so many seconds of growing. One that has begun is finished.
    plateau
        Growth ends when two waves in a row improve the log loss by less than this share of it, or "never".
    """

    pairs: int | None = None
    share: float | None = None
    seconds: float | None = None
    plateau: float | Literal["never"] = NEVER

    def __post_init__(self) -> None:
        def check(name: str, value: object, right: bool, must: str) -> None:
            if value is not None and not right:
                raise ValueError(f"GrowthBudget: {name} must be {must}, or None, got {value!r}.")

        pairs, share, seconds = self.pairs, self.share, self.seconds
        check("pairs", pairs, isinstance(pairs, _INTEGER) and pairs >= 1, "a positive integer")
        check("share", share, isinstance(share, _NUMBER) and 0 < share <= 1, "above 0 and at most 1")
        check("seconds", seconds, isinstance(seconds, _NUMBER) and seconds > 0, "a positive number")
        if self.plateau != NEVER and not (isinstance(self.plateau, _NUMBER) and 0 <= self.plateau < 1):
            raise ValueError(
                f"GrowthBudget: plateau must be from 0 to below 1, or {NEVER!r}, got {self.plateau!r}."
            )

    def most_pairs(self, n_classes: int) -> int:
        """The pairs beyond which nothing is trained.

        >>> GrowthBudget(share=0.5).most_pairs(10)
        22
        """
        every = n_classes * (n_classes - 1) // 2
        # A share that was meant as k / every may come out a rounding error below k.
        by_share = every if self.share is None else int(self.share * every + 1e-9 * every)
        return min(every, by_share, every if self.pairs is None else self.pairs)

    def spent(self, n_classes: int, pairs: int, seconds: float, losses: Sequence[float]) -> str | None:
        """Why a model of so many pairs grows no further; None while it does.

        Parameters
        ----------
        seconds
            For how long it has been growing.
        losses
            Its log loss after each wave, the start's first.
        """
        if pairs == n_classes * (n_classes - 1) // 2:
            return "all pairs are trained"
        if pairs >= self.most_pairs(n_classes):
            return f"the budget of {self.most_pairs(n_classes)} pairs is spent"
        if self.plateau != NEVER and _flat(losses, self.plateau):
            return f"{PATIENCE} waves in a row improved the log loss by less than {self.plateau:.2%}"
        if self.seconds is not None and seconds >= self.seconds:
            return f"the budget of {self.seconds:g} seconds is spent"
        return None


def _flat(losses: Sequence[float], plateau: float) -> bool:
    """Whether each of the last waves improved the loss by less than a share of what it was before them.

    >>> _flat([1.0, 0.5, 0.499, 0.4985], 0.01), _flat([1.0, 0.5, 0.499, 0.45], 0.01)
    (True, False)
    """
    if len(losses) <= PATIENCE:
        return False
    recent = losses[-PATIENCE - 1 :]
    return all(after >= (1 - plateau) * before for before, after in pairwise(recent))
