"""How a run grows, wave by wave.

The edges of a wave are trained on the cluster like any others. Then one task scores the model on the drawn samples and
proposes the edges of the next wave, and the driver adds them to the plan, up to the budget. The budget only cuts waves
short, so a run whose budget is raised later has the same bytes as one with the larger budget from the start.
"""

from __future__ import annotations

import math

from pairloom.pipeline.growth.waves import Wave
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.results import read_wave
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.storage.location import Location

__all__ = ["end_of_growth", "judged_waves", "regrown", "whole_waves", "with_next_wave"]


def judged_waves(run: Run) -> list[Wave]:
    """The scored waves of a run, up to the first without a valid ledger entry."""
    waves: list[Wave] = []
    while len(waves) < len(run.keys["growth"]):
        judgement = _judgement(run.directory, len(waves))
        if judgement is None or judgement[0] != run.keys["growth"][len(waves)]:
            break
        waves.append(judgement[1])
    return waves


def _judgement(directory: Location, wave: int) -> tuple[str, Wave] | None:
    """The key and the result of a scored wave; None without a valid ledger entry."""
    ledger = Ledger(directory)
    entry = ledger.read("growth", wave)
    if entry is None or ledger.damaged_files(entry):
        return None
    return entry.key, read_wave(directory, wave)


def end_of_growth(run: Run) -> str | None:
    """Why a run that has grown grows no further, such as "the budget of 60 seconds is spent"; None if it never grows.

    The time limit is checked last: elapsed time is not stored, so it is the reason if no other limit is reached.
    """
    if run.config.growth is None:
        return None
    losses = [wave.log_loss for wave in whole_waves(run, judged_waves(run))]
    budget, shape = run.config.growth.budget, run.shape
    return budget.spent(len(shape.classes), shape.n_edges, math.inf, losses)


def whole_waves(run: Run, waves: list[Wave]) -> list[Wave]:
    """The waves that count towards a plateau: all, except the last if the budget cut it short."""
    return waves[:-1] if _cut_off(run, waves) else waves


def with_next_wave(run: Run, waves: list[Wave]) -> Run:
    """The plan with the rest of its last wave, or with another wave if that is complete, up to the budget."""
    room = run.most_pairs - len(run.shape.edges)
    if rest := _cut_off(run, waves):
        return run.grown_by(rest[:room], new_wave=False)
    return run.grown_by(waves[-1].proposed[:room], new_wave=True)


def regrown(run: Run) -> Run:
    """A new plan, grown along the waves that the directory has scores of, whatever the budget."""
    waves = judged_waves(run)
    while len(waves) == len(run.waves) and (judgement := _judgement(run.directory, len(waves))) is not None:
        key, wave = judgement
        grown = run.grown_by(waves[-1].proposed[: wave.pairs - len(run.shape.edges)], new_wave=True)
        if grown.keys["growth"][-1] != key:
            break
        run, waves = grown, [*waves, wave]
    return run


def _cut_off(run: Run, waves: list[Wave]) -> list[tuple[int, int]]:
    """Edges of the last wave that the budget left out."""
    if len(waves) < 2:
        return []
    trained = {(i, j) for i, j in run.shape.edges.tolist()}
    return [pair for pair in waves[-2].proposed if pair not in trained]
