"""The driver of a run: from a configuration and a directory to a finished run, begun or resumed.

To begin and to resume are the same thing. The ledger says what is done, what it says is checked against the
files, and what is missing is done: by this process where the data are here and the work is small, on the
cluster otherwise.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from distributed import Client

from pairloom.cluster.config import Config
from pairloom.cluster.growing_run import judged_waves, next_plan, reason_to_stop, regrown
from pairloom.cluster.ledger import Ledger
from pairloom.cluster.plan import STAGES, DamagedPlan, Mismatch, Plan, make_plan
from pairloom.cluster.schedule import StageTasks, Stop
from pairloom.cluster.units import Receipt, log_line, run_unit
from pairloom.pipeline.calibration.drawn_samples import DrawnSamples, draw_samples
from pairloom.pipeline.features.feature_set import FeatureSet, load_features
from pairloom.pipeline.growth.wave import Wave
from pairloom.pipeline.report.report import write_report
from pairloom.pipeline.run import stages
from pairloom.pipeline.run.run_directory import stamp_groups
from pairloom.pipeline.storage.atomic_file import PARTIAL_SUFFIX

__all__ = ["Progress", "adopt_plan", "drive", "load_data", "prepare_run", "unfinished_units"]

Connect = Callable[[], AbstractContextManager[Client]]

# Run by the driver itself: the data are in its memory, or the work is one small piece.
_LOCAL_STAGES = ("features", "samples", "draws", "whitening", "report")


class Progress(Protocol):
    """Who is told how far a run is."""

    def begin(self, stage: str, done: int, total: int) -> None:
        """A stage begins, with some of its units done before."""

    def advance(self, receipt: Receipt) -> None:
        """One more unit is done."""

    def note(self, line: str) -> None:
        """Something that a person should know."""


def load_data(config: Config) -> FeatureSet:
    """The features that a configuration names."""
    data = config.data
    return load_features(
        data.features, test=data.test, test_fraction=data.test_fraction, seed=config.run.seed
    )


def prepare_run(config: Config, directory: Path) -> tuple[Plan | None, FeatureSet | None]:
    """Load the data and plan the run, writing nothing: whatever is wrong is said before anything is made.

    Both are None where the data are gone but the directory's store has them, sound.
    """
    try:
        data = load_data(config)
    except FileNotFoundError:
        if not _has_data(directory):
            raise
        return None, None
    return make_plan(config, data), data


def _has_data(directory: Path) -> bool:
    plan, stores = _plan_in(directory), ("features", "samples", "draws", "whitening")
    return plan is not None and not any(unfinished_units(directory, plan, stores).values())


def _plan_in(directory: Path) -> Plan | None:
    """The plan of a directory. Without one, what its ledger holds is still believed by its keys."""
    try:
        return Plan.read(directory)
    except DamagedPlan:
        return None


def adopt_plan(directory: Path, config: Config, fresh: Plan | None, *, update: bool = False) -> Plan:
    """Make a new plan the plan of the directory, or find that the directory's own is the one asked for.

    The caller holds the lock.

    Parameters
    ----------
    fresh
        The plan that the configuration and the data lead to, from `prepare_run`.
    update
        Take a directory whose configuration or data differ, and compute again the stages that differ.

    Raises
    ------
    Mismatch
        If something differs that decides the result. The message names every key.
    """
    old = _plan_in(directory) or fresh
    if old is None:
        raise DamagedPlan(f"{directory}: the plan is gone, and so are the data")
    differing = old.differing_keys(config, fresh.fingerprints if fresh else old.fingerprints)
    if differing and not (update and fresh):
        listed = "\n".join(f"  {line}" for line in differing)
        hint = _what_update_would_do(regrown(directory, fresh) if fresh else None, old)
        raise Mismatch(f"{directory} was made from something else:\n{listed}\n{hint}")
    # An unchanged run keeps its own edges: those of another machine could differ by a rounding error.
    plan = regrown(directory, fresh) if fresh and (differing or old is fresh) else replace(old, config=config)
    plan.write(directory)
    return plan


def _what_update_would_do(fresh: Plan | None, old: Plan) -> str:
    if fresh is None:
        return "The data are gone, so the run can only be resumed as it was."
    concerned = [stage for stage in STAGES if fresh.keys[stage] or old.keys[stage]]
    kept = [stage for stage in concerned if fresh.keys[stage] == old.keys[stage]]
    again = [stage for stage in concerned if stage not in kept]
    return f"With --update it would keep {', '.join(kept) or 'nothing'} and compute {', '.join(again)} again."


def unfinished_units(directory: Path, plan: Plan, which: tuple[str, ...] = STAGES) -> dict[str, list[int]]:
    """Units of each stage that the ledger lacks, or whose files are no longer what it says."""
    ledger, unfinished = Ledger(directory), {}
    for stage in which:
        sound, _ = ledger.verified(stage, plan.keys[stage])
        done = {entry.unit for entry in sound}
        unfinished[stage] = [unit for unit in range(plan.units(stage)) if unit not in done]
    return unfinished


def drive(
    directory: Path,
    plan: Plan,
    data: FeatureSet | None,
    connect: Connect,
    stop: Stop,
    progress: Progress,
    which: tuple[str, ...] = STAGES,
) -> None:
    """Do everything of a run, or of some of its stages, that is not done. The caller holds the lock."""
    _sweep(directory)
    with contextlib.ExitStack() as stack:
        client = functools.cache(lambda: stack.enter_context(connect()))
        session = _Session(directory, data, client, stop, progress)
        if plan.config.growth is not None and "growth" in which:
            plan = _grow(session, plan, which[: which.index("growth") + 1])
        session.run(plan, which)
        if "growth" in which:
            stages.remove_waves(directory, plan.units("growth"))


def _grow(session: _Session, plan: Plan, which: tuple[str, ...]) -> Plan:
    """Train and judge, wave after wave, until the budget is spent; return the plan of what was grown."""
    began: float | None = None
    while True:
        session.run(plan, which, growing=True)
        waves = judged_waves(session.directory, plan)
        assert len(waves) == len(plan.waves)
        session.tell_wave(waves)
        now = time.monotonic()
        # Not from the beginning of the run: what has to be made first would use up the budget.
        began = now if began is None else began
        if (reason := reason_to_stop(plan, waves, now - began)) is not None:
            session.progress.note(f"Grown to {len(plan.shape.edges)} pairs: {reason}.")
            return plan
        plan = next_plan(plan, waves)
        plan.write(session.directory)


class _Session:
    """One driver at work on a run directory."""

    def __init__(
        self,
        directory: Path,
        data: FeatureSet | None,
        client: Callable[[], Client],
        stop: Stop,
        progress: Progress,
    ) -> None:
        self.directory, self.progress = directory, progress
        self._data, self._client, self._stop = data, client, stop
        # Units, with their keys, whose files this driver has compared with the ledger, or has just had written.
        self._proved: dict[str, set[tuple[int, str]]] = {stage: set() for stage in STAGES}

    def run(self, plan: Plan, which: tuple[str, ...], *, growing: bool = False) -> None:
        """Do the units of some stages that the ledger does not prove.

        While a run is growing, what lies beyond the end of its plan is kept: it may come to that again.
        """
        for path in stamp_groups(self.directory, plan.shape, growing=growing):
            log_line(self.directory, f"stamped {path}")
        for stage in which:
            if not growing:
                Ledger(self.directory).forget_beyond(stage, plan.units(stage))
            units = self._unproved(plan, stage)
            self.progress.begin(stage, plan.units(stage) - len(units), plan.units(stage))
            for receipt in self._receipts(plan, stage, units) if units else ():
                self.progress.advance(receipt)
                self._stop.raise_if_requested()
            self._proved[stage].update(enumerate(plan.keys[stage]))

    def _unproved(self, plan: Plan, stage: str) -> list[int]:
        """Units to be done. What is damaged is taken out of the ledger, so that no worker believes it."""
        ledger, keys = Ledger(self.directory), plan.keys[stage]
        claimed = {entry.unit: entry for entry in ledger.claimed(stage, keys)}
        unseen = [entry for entry in claimed.values() if (entry.unit, entry.key) not in self._proved[stage]]
        for entry, damage in ledger.damages(unseen):
            listed = ", ".join(damage)
            self.progress.note(f"{stage} {entry.unit} is computed again: {listed} damaged or missing")
            log_line(self.directory, f"damaged {listed}")
            ledger.forget(stage, entry.unit)
            del claimed[entry.unit]
        return [unit for unit in range(len(keys)) if unit not in claimed]

    def _receipts(self, plan: Plan, stage: str, units: list[int]) -> Iterator[Receipt]:
        if stage in _LOCAL_STAGES:
            yield from _run_here(self.directory, plan, stage, units, self._data)
            return
        retries, note = plan.config.cluster.retries, self.progress.note
        # A judgement begins where the one before has ended.
        together = [[unit] for unit in units] if stage == "growth" else [units]
        for some in together:
            keys = {unit: plan.keys[stage][unit] for unit in some}
            yield from StageTasks(self._client(), self.directory, stage, keys, retries, self._stop, note)

    def tell_wave(self, waves: list[Wave]) -> None:
        """Say how good the model is after its last wave."""
        last = waves[-1]
        line = f"{last.pairs} pairs: out-of-fold log loss {last.log_loss:.4f}, accuracy {last.accuracy:.4f}"
        self.progress.note(line)
        log_line(self.directory, f"wave {len(waves) - 1}: {line}")


def _run_here(
    directory: Path, plan: Plan, stage: str, units: list[int], data: FeatureSet | None
) -> Iterator[Receipt]:
    if data is None and stage != "report":
        data = load_data(plan.config)
    work = _local_work(directory, plan, stage, data)
    for unit in units:
        yield run_unit(directory, stage, unit, plan.keys[stage][unit], work)


def _local_work(
    directory: Path, plan: Plan, stage: str, data: FeatureSet | None
) -> Callable[[int], list[Path]]:
    if stage == "report":
        waves = judged_waves(directory, plan)
        return lambda unit: write_report(directory, plan.shape, _work_seconds(directory, plan), waves)
    assert data is not None
    works: dict[str, Callable[[int], list[Path]]] = {
        "features": lambda unit: stages.store_classes(directory, data, plan.class_blocks[unit]),
        "samples": lambda unit: stages.store_samples(directory, data, plan.slabs[unit]),
        "draws": lambda unit: stages.store_draws(directory, data, _drawn(plan, data)),
        "whitening": lambda unit: stages.store_whitening(
            directory, data, plan.config.machine.whiten, _drawn(plan, data).rows if plan.shape.draws else None
        ),
    }
    return works[stage]


def _drawn(plan: Plan, data: FeatureSet) -> DrawnSamples:
    """The training samples that calibrate the coupled model."""
    config = plan.config
    return draw_samples(
        data.y_train, config.calibration.samples, config.machine.folds, config.run.seed, plan.shape.whitened
    )


def _work_seconds(directory: Path, plan: Plan) -> dict[str, float]:
    """Seconds of work in each stage, on whatever worker and in whatever session it was done."""
    ledger = Ledger(directory)
    return {
        stage: sum(entry.seconds for entry in ledger.claimed(stage, plan.keys[stage]))
        for stage in STAGES
        if stage != "report"
    }


def _sweep(directory: Path) -> None:
    """Remove what killed processes left half-written. A writer that still lives fails, and is run again."""
    for path in directory.rglob(f"*{PARTIAL_SUFFIX}"):
        path.unlink(missing_ok=True)
