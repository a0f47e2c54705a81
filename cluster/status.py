"""The status of a run, read from its directory alone."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pairloom.cluster.growing_run import judged_waves
from pairloom.cluster.ledger import Ledger
from pairloom.cluster.lock import SUBMITTED, Driver, last_at_work, newest_driver
from pairloom.cluster.plan import Plan
from pairloom.cluster.stages import STAGE_NAMES
from pairloom.pipeline.report.report import judgement
from pairloom.pipeline.run.calibrating import held_out_loss
from pairloom.pipeline.run.run_directory import run_groups
from pairloom.pipeline.storage.zarr_layout import differing_files

__all__ = ["RunStatus", "best_log_loss", "finished_units", "outcome_text", "run_status"]

# Outcomes of drivers that a signal ended, for users.
_SIGNALLED = {"KeyboardInterrupt": "interrupted", "Terminated": "terminated"}


class RunStatus(NamedTuple):
    """Status of a run: ``submitted``, ``running``, ``finished`` or ``unfinished``, which can be resumed.

    ``stages`` has the finished units and all units per stage, ``waves`` the score after each wave of a growing run.
    ``damaged`` is empty unless the files were verified. ``pairs`` are those trained (or columns of a code), and
    ``log_loss`` is the best so far: see `best_log_loss`.
    """

    directory: str
    state: str
    stages: dict[str, tuple[int, int]]
    waves: list[dict[str, float]]
    driver: str | None
    damaged: list[str]
    pairs: int = 0
    log_loss: float | None = None


def run_status(directory: Path, *, verify: bool = False) -> RunStatus:
    """Read the ledger; with ``verify``, also compare every file of the run with its checksum."""
    plan, ledger = Plan.read(directory), Ledger(directory)
    stages: dict[str, tuple[int, int]] = {}
    damaged: list[str] = []
    for stage in STAGE_NAMES:
        if verify:
            sound, damage = ledger.verified(stage, plan.keys[stage])
            done = len(sound)
            damaged += damage
        else:
            done = sum(1 for _ in ledger.claimed(stage, plan.keys[stage]))
        stages[stage] = (done, plan.units(stage))
    if verify:
        damaged += _damaged_metadata(directory, plan)
    driver, alive = newest_driver(directory)
    finished = not damaged and all(done == total for done, total in stages.values())
    if plan.config.growth is not None and driver is not None:
        # All planned units may be finished while the driver has yet to plan the next wave.
        worked = last_at_work(directory)
        finished = finished and worked is not None and worked.outcome == "finished"
    return RunStatus(
        directory=str(directory),
        state=_state(driver, alive, finished),
        stages=stages,
        waves=[judgement(wave) for wave in judged_waves(directory, plan)],
        driver=_driver_text(driver, alive),
        damaged=damaged,
        pairs=_trained_pairs(ledger, plan),
        log_loss=best_log_loss(directory, plan),
    )


def finished_units(directory: Path, plan: Plan) -> dict[str, int]:
    """Units of each stage with a ledger entry, whose files are not checked."""
    ledger = Ledger(directory)
    return {stage: sum(1 for _ in ledger.claimed(stage, plan.keys[stage])) for stage in STAGE_NAMES}


def best_log_loss(directory: Path, plan: Plan) -> float | None:
    """The best log loss so far of coupled models, on training samples that their machines have not seen.

    Of the waves of a run that grows, and of the couplings once they are calibrated. None before there is any, or if its
    file is damaged. The losses of candidates are not among them: these are trained on a part of the classes.
    """
    try:
        return min(_log_losses(directory, plan), default=None)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _log_losses(directory: Path, plan: Plan) -> list[float]:
    done = Ledger(directory).claimed("calibration", plan.keys["calibration"])
    found = [held_out_loss(directory, entry.unit) for entry in done]
    waves = [wave.log_loss for wave in judged_waves(directory, plan)]
    return waves + [loss for loss in found if loss is not None]


def _trained_pairs(ledger: Ledger, plan: Plan) -> int:
    tiles = plan.tiles
    done = (tiles[entry.unit] for entry in ledger.claimed("machines", plan.keys["machines"]))
    return sum(tile.stop - tile.start for tile in done)


def _state(driver: Driver | None, alive: bool, finished: bool) -> str:
    if alive:
        return "running"
    if finished:
        return "finished"
    return "submitted" if driver is not None and driver.outcome == SUBMITTED else "unfinished"


def _driver_text(driver: Driver | None, alive: bool) -> str | None:
    if driver is None:
        return None
    outcome = driver.outcome or ("at work" if alive else "died")
    return f"{driver}: {outcome_text(outcome)}"


def outcome_text(outcome: str) -> str:
    """How a driver ended, on one line.

    Examples
    --------
    >>> outcome_text("KeyboardInterrupt: "), outcome_text("DiskFull: no space left")
    ('interrupted', 'DiskFull: no space left')
    """
    line = outcome.splitlines()[0].rstrip(": ")
    return _SIGNALLED.get(line, line)


def _damaged_metadata(directory: Path, plan: Plan) -> list[str]:
    return [
        f"{group}/{path}"
        for group, files in run_groups(plan.shape).items()
        for path in differing_files(directory / group, files)
    ]
