"""How a run grows, wave by wave.

A wave trains its edges on the cluster like any others. Then one task scores the model on the drawn samples and
proposes the edges of the next wave, and the driver adds them to the plan, up to the budget. A budget only cuts waves
short: a run that is grown further later has the same bytes as one with the larger budget from the start.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from pairloom.cluster.ledger import Ledger
from pairloom.pipeline.growth.wave import Wave
from pairloom.pipeline.run.calibrating import read_wave

if TYPE_CHECKING:
    from pairloom.cluster.plan import Plan

__all__ = ["end_of_growth", "judged_waves", "next_plan", "regrown", "whole_waves"]


def judged_waves(directory: Path, plan: Plan) -> list[Wave]:
    """The scored waves of a run, up to the first without a valid ledger entry."""
    waves: list[Wave] = []
    while len(waves) < len(plan.keys["growth"]):
        found = _judgement(directory, len(waves))
        if found is None or found[0] != plan.keys["growth"][len(waves)]:
            break
        waves.append(found[1])
    return waves


def _judgement(directory: Path, wave: int) -> tuple[str, Wave] | None:
    """The key and the result of a scored wave; None without a valid ledger entry."""
    ledger = Ledger(directory)
    entry = ledger.read("growth", wave)
    if entry is None or ledger.damaged_files(entry):
        return None
    return entry.key, read_wave(directory, wave)


def end_of_growth(directory: Path, plan: Plan) -> str | None:
    """Why a run that has grown grows no further, such as "the budget of 60 seconds is spent"; None if it never grows.

    Of the limits that it may have reached, time comes last: it has been reached if no other has.
    """
    if plan.config.growth is None:
        return None
    losses = [wave.log_loss for wave in whole_waves(plan, judged_waves(directory, plan))]
    budget, shape = plan.config.growth.budget, plan.shape
    return budget.spent(len(shape.classes), shape.n_edges, math.inf, losses)


def whole_waves(plan: Plan, waves: list[Wave]) -> list[Wave]:
    """The waves that count towards a plateau: all but a last one that the budget has cut short."""
    return waves[:-1] if _cut_off(plan, waves) else waves


def next_plan(plan: Plan, waves: list[Wave]) -> Plan:
    """The plan with the rest of its last wave, or with another wave if that is complete, up to the budget."""
    room = plan.most_pairs - len(plan.shape.edges)
    if rest := _cut_off(plan, waves):
        return plan.grown_by(rest[:room], new_wave=False)
    return plan.grown_by(waves[-1].proposed[:room], new_wave=True)


def regrown(directory: Path, plan: Plan) -> Plan:
    """A new plan, grown again along the scored waves in the directory, whatever the budget."""
    waves = judged_waves(directory, plan)
    while len(waves) == len(plan.waves) and (found := _judgement(directory, len(waves))) is not None:
        key, wave = found
        grown = plan.grown_by(waves[-1].proposed[: wave.pairs - len(plan.shape.edges)], new_wave=True)
        if grown.keys["growth"][-1] != key:
            break
        plan, waves = grown, [*waves, wave]
    return plan


def _cut_off(plan: Plan, waves: list[Wave]) -> list[tuple[int, int]]:
    """Edges of the last wave that the budget left out."""
    if len(waves) < 2:
        return []
    trained = {(i, j) for i, j in plan.shape.edges.tolist()}
    return [pair for pair in waves[-2].proposed if pair not in trained]
