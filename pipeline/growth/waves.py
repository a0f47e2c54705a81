"""The loop of growth: judge the model, and train the next wave while the budget lasts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

from pairloom.pipeline.growth.budget import GrowthBudget
from pairloom.pipeline.growth.wave import Wave

__all__ = ["Growing", "grow_in_waves"]


class Growing(Protocol):
    """A model that grows: in this process, or as a run on a cluster."""

    @property
    def n_classes(self) -> int:
        """How many classes it has."""

    @property
    def n_pairs(self) -> int:
        """How many pairs it has."""

    def judge(self) -> list[Wave]:
        """Judge the model as it is; return all judgements that count towards a plateau, this one last."""

    def add_wave(self) -> None:
        """Train the pairs of the next wave."""

    def finish(self) -> None:
        """Called once, when the model grows no further."""


def grow_in_waves(growing: Growing, budget: GrowthBudget) -> Iterator[str | None]:
    """Yield after every judgement: None while the model grows on, in the end the reason to stop.

    Seconds are counted from the first judgement on, without the time that the caller spends between two waves.
    """
    seconds = 0.0
    waves = growing.judge()
    while True:
        losses = [wave.log_loss for wave in waves]
        reason = budget.spent(growing.n_classes, growing.n_pairs, seconds, losses)
        if reason is not None:
            growing.finish()
        yield reason
        if reason is not None:
            return
        began = time.monotonic()
        growing.add_wave()
        waves = growing.judge()
        seconds += time.monotonic() - began
