"""How a run grows: wave by wave, each proposed by the judgement of the one before.

A wave trains its edges on the cluster like any others. Then one task judges the model by the drawn samples and
proposes the edges of the next wave; the driver adds them to the plan, as far as the budget goes. A budget only cuts:
a run that is grown on later ends with the bytes of one that was given the larger budget at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pairloom.cluster.ledger import Ledger
from pairloom.pipeline.growth.wave import Wave
from pairloom.pipeline.run.calibrating import read_wave

if TYPE_CHECKING:
    from pairloom.cluster.plan import Plan

__all__ = ["judged_waves", "next_plan", "regrown", "whole_waves"]


def judged_waves(directory: Path, plan: Plan) -> list[Wave]:
    """The judgements of a run, as far as the ledger proves them one after the other."""
    waves: list[Wave] = []
    while len(waves) < len(plan.keys["growth"]):
        found = _judgement(directory, len(waves))
        if found is None or found[0] != plan.keys["growth"][len(waves)]:
            break
        waves.append(found[1])
    return waves


def _judgement(directory: Path, wave: int) -> tuple[str, Wave] | None:
    """The key under which a wave was judged, and what was found; None where the ledger has nothing sound."""
    ledger = Ledger(directory)
    entry = ledger.read("growth", wave)
    if entry is None or ledger.damaged_files(entry):
        return None
    return entry.key, read_wave(directory, wave)


def whole_waves(plan: Plan, waves: list[Wave]) -> list[Wave]:
    """The waves that count towards a plateau: one that a budget has cut says nothing of a whole one."""
    return waves[:-1] if _cut_off(plan, waves) else waves


def next_plan(plan: Plan, waves: list[Wave]) -> Plan:
    """The plan with what was cut off its last wave, or else with another wave, as far as the budget goes."""
    room = plan.most_pairs - len(plan.shape.edges)
    if rest := _cut_off(plan, waves):
        return plan.grown_by(rest[:room], new_wave=False)
    return plan.grown_by(waves[-1].proposed[:room], new_wave=True)


def regrown(directory: Path, plan: Plan) -> Plan:
    """A plan that was made anew, grown along the judgements that the directory still has, whatever the budget."""
    waves = judged_waves(directory, plan)
    while len(waves) == len(plan.waves) and (found := _judgement(directory, len(waves))) is not None:
        key, wave = found
        grown = plan.grown_by(waves[-1].proposed[: wave.pairs - len(plan.shape.edges)], new_wave=True)
        if grown.keys["growth"][-1] != key:
            break
        plan, waves = grown, [*waves, wave]
    return plan


def _cut_off(plan: Plan, waves: list[Wave]) -> list[tuple[int, int]]:
    """Edges of the last wave that a budget left out."""
    if len(waves) < 2:
        return []
    trained = {(i, j) for i, j in plan.shape.edges.tolist()}
    return [pair for pair in waves[-2].proposed if pair not in trained]
