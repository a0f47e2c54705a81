"""The driver of a run: starts or resumes the run of a configuration in a directory, and finishes it.

Starting and resuming are the same. The driver reads the ledger, compares its entries with the files, and does the
missing work: in this process if the work is small or reads the source of the data, otherwise on the cluster.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from distributed import Client

from pairloom.cluster.config import Config
from pairloom.cluster.growing_run import judged_waves, next_plan, regrown, whole_waves
from pairloom.cluster.input_errors import input_errors
from pairloom.cluster.ledger import Ledger
from pairloom.cluster.ownership import check_directory, unfinished_files
from pairloom.cluster.plan import DamagedPlan, Mismatch, Plan, make_plan
from pairloom.cluster.schedule import StageTasks, Stop
from pairloom.cluster.stages import STAGE_NAMES, STAGES, stage_named
from pairloom.cluster.status import best_log_loss
from pairloom.cluster.task_warnings import warnings_kept
from pairloom.cluster.units import Receipt, log_line, run_unit
from pairloom.pipeline.features.feature_set import OpenFeatures, open_features
from pairloom.pipeline.growth.wave import Wave
from pairloom.pipeline.growth.waves import grow_in_waves
from pairloom.pipeline.run.calibrating import remove_waves
from pairloom.pipeline.run.predicting import release_predictors
from pairloom.pipeline.run.run_directory import stamp_groups

__all__ = [
    "Connect",
    "Progress",
    "adopt_plan",
    "drive",
    "load_data",
    "matching_plan",
    "prepare_run",
    "unfinished_units",
]

# Stages whose units score the model.
_SCORED = ("growth", "calibration")

Connect = Callable[[], AbstractContextManager[Client]]


class Progress(Protocol):
    """Receives the progress of a run."""

    def expect(self, plan: Plan) -> None:
        """Set the plan of the run, or the longer plan of a run that has grown."""

    def begin(self, stage: str, done: int, total: int) -> None:
        """Start a stage; ``done`` of its ``total`` units are finished."""

    def advance(self, receipt: Receipt) -> None:
        """Count one more finished unit."""

    def score(self, log_loss: float | None) -> None:
        """Set the best log loss so far."""

    def note(self, line: str) -> None:
        """Show a message to the user."""


def load_data(config: Config) -> OpenFeatures:
    """The features that a configuration names, checked and open."""
    data = config.data
    with input_errors():
        return open_features(
            data.features,
            test=data.test,
            test_fraction=data.test_fraction,
            seed=config.model.random_state,
            columns=data.columns,
        )


def prepare_run(
    config: Config, directory: Path, say: Callable[[str], None] = lambda what: None
) -> tuple[Plan | None, OpenFeatures | None]:
    """Open the data and plan the run. Errors in either are raised before anything is written.

    Both are None if the source of the data is gone but the run directory has an undamaged copy. ``say`` is called with
    what is being done.
    """
    check_directory(directory, config)
    with warnings_kept() as warned:
        say("reading the data")
        try:
            data = load_data(config)
        except FileNotFoundError:
            if not _has_data(directory, config):
                raise
            return None, None
        say("planning")
        with input_errors():
            plan = make_plan(config, data)
    return replace(plan, warnings=tuple(warned)), data


def _has_data(directory: Path, config: Config) -> bool:
    """Whether the data that a configuration names are those of the run in the directory, which has all of them."""
    plan, stores = _plan_in(directory), tuple(stage.name for stage in STAGES if stage.needs_data)
    return (
        plan is not None
        and plan.config.data == config.data
        and not any(unfinished_units(directory, plan, stores).values())
    )


def _plan_in(directory: Path) -> Plan | None:
    """The plan of a directory, or None. Without a plan, ledger entries are validated by their keys."""
    try:
        return Plan.read(directory)
    except DamagedPlan:
        return None


def adopt_plan(directory: Path, config: Config, fresh: Plan | None, *, update: bool = False) -> Plan:
    """Write the plan of `matching_plan` into the directory. The caller holds the lock."""
    plan = matching_plan(directory, config, fresh, update=update)
    plan.write(directory)
    return plan


def matching_plan(directory: Path, config: Config, fresh: Plan | None, *, update: bool = False) -> Plan:
    """The plan to follow: a new one, or that of the directory if it matches the configuration. Writes nothing.

    Parameters
    ----------
    fresh
        The plan that the configuration and the data lead to, from `prepare_run`.
    update
        Accept a directory whose configuration or data differ, and recompute the stages that depend on them.

    Raises
    ------
    Mismatch
        If a key that decides the result differs. The message names every such key.
    """
    old = _plan_in(directory) or fresh
    if old is None:
        raise DamagedPlan(f"{directory}: both the plan (run.json) and the data are missing.")
    differing = old.differing_keys(config, fresh.fingerprints if fresh else old.fingerprints)
    if differing and not (update and fresh):
        listed = "\n".join(f"  {line}" for line in differing)
        hint = _effect_of_update(regrown(directory, fresh) if fresh else None, old)
        raise Mismatch(f"{directory} holds a run with other settings:\n{listed}\n{hint}")
    # An unchanged run keeps its own edges: computed on another host they could differ by a rounding error.
    return regrown(directory, fresh) if fresh and (differing or old is fresh) else replace(old, config=config)


def _effect_of_update(fresh: Plan | None, old: Plan) -> str:
    if fresh is None:
        return "The data are missing, so the run can only be resumed with its own settings."
    concerned = [stage for stage in STAGE_NAMES if fresh.keys[stage] or old.keys[stage]]
    kept = [stage for stage in concerned if fresh.keys[stage] == old.keys[stage]]
    again = [stage for stage in concerned if stage not in kept]
    return (
        f"Pass --update to keep {', '.join(kept) or 'nothing'} and recompute {', '.join(again)}, "
        "or choose another directory."
    )


def unfinished_units(
    directory: Path, plan: Plan, which: tuple[str, ...] = STAGE_NAMES
) -> dict[str, list[int]]:
    """Units of each stage that are not in the ledger, or whose files differ from their checksums."""
    ledger, unfinished = Ledger(directory), {}
    for stage in which:
        sound, _ = ledger.verified(stage, plan.keys[stage])
        done = {entry.unit for entry in sound}
        unfinished[stage] = [unit for unit in range(plan.units(stage)) if unit not in done]
    return unfinished


def drive(
    directory: Path,
    plan: Plan,
    data: OpenFeatures | None,
    connect: Connect,
    stop: Stop,
    progress: Progress,
    which: tuple[str, ...] = STAGE_NAMES,
) -> None:
    """Do the unfinished work of a run, or of some of its stages. The caller holds the lock."""
    _sweep(directory)
    with contextlib.ExitStack() as stack:
        stack.callback(release_predictors)  # where workers are threads of this process
        client = functools.cache(lambda: _connected(directory, stack, connect))
        session = _Session(directory, data, client, stop, progress)
        if plan.config.growth is not None and "growth" in which:
            plan = _grow(session, plan, which[: which.index("growth") + 1])
        session.run(plan, which)
        if "growth" in which:
            remove_waves(directory, plan.units("growth"))


def _connected(directory: Path, stack: contextlib.ExitStack, connect: Connect) -> Client:
    """Connect to the cluster. The log tells when, so that its report knows how long workers took to start."""
    log_line(directory, "connecting")
    return stack.enter_context(connect())


def _grow(session: _Session, plan: Plan, which: tuple[str, ...]) -> Plan:
    """Train and score wave after wave until the budget is spent; return the plan of the grown graph."""
    assert plan.config.growth is not None
    growing = _GrowingRun(session, plan, which)
    for reason in grow_in_waves(growing, plan.config.growth.budget):
        if reason is not None:
            session.progress.note(f"Grown to {growing.n_pairs} pairs: {reason}.")
    return growing.plan


class _GrowingRun:
    """A run that grows on the cluster. Every wave adds pairs to its plan."""

    def __init__(self, session: _Session, plan: Plan, which: tuple[str, ...]) -> None:
        self.plan, self._session, self._which = plan, session, which
        self._waves: list[Wave] = []

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.plan.shape.classes)

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return self.plan.shape.n_edges

    def judge(self) -> list[Wave]:
        """Train the planned pairs, score the model, and return the waves that count towards a plateau."""
        self._session.run(self.plan, self._which, growing=True)
        self._waves = judged_waves(self._session.directory, self.plan)
        assert len(self._waves) == len(self.plan.waves)
        self._session.tell_wave(self._waves)
        return whole_waves(self.plan, self._waves)

    def add_wave(self) -> None:
        """Plan the next wave. `judge` trains it."""
        self.plan = next_plan(self.plan, self._waves)
        self.plan.write(self._session.directory)

    def finish(self) -> None:
        """Do nothing: the stages after growth calibrate the model."""


class _Session:
    """One driver, working on a run directory."""

    def __init__(
        self,
        directory: Path,
        data: OpenFeatures | None,
        client: Callable[[], Client],
        stop: Stop,
        progress: Progress,
    ) -> None:
        self.directory, self.progress = directory, progress
        self._data, self._client, self._stop = data, client, stop
        # Units, with their keys, whose files this driver has compared with the ledger, or has just computed.
        self._proved: dict[str, set[tuple[int, str]]] = {stage: set() for stage in STAGE_NAMES}

    def run(self, plan: Plan, which: tuple[str, ...], *, growing: bool = False) -> None:
        """Do the units of some stages that have no valid ledger entry.

        While a run grows, results beyond the end of its plan are kept: the plan may grow to include them.
        """
        self.progress.expect(plan)
        for path in stamp_groups(self.directory, plan.shape, growing=growing):
            log_line(self.directory, f"stamped {path}")
        for stage in which:
            if not growing:
                Ledger(self.directory).forget_beyond(stage, plan.units(stage))
            units = self._unproved(plan, stage)
            self.progress.begin(stage, plan.units(stage) - len(units), plan.units(stage))
            for receipt in self._receipts(plan, stage, units) if units else ():
                if stage in _SCORED:
                    self.progress.score(best_log_loss(self.directory, plan))
                self.progress.advance(receipt)
                self._stop.raise_if_requested()
            self._proved[stage].update(enumerate(plan.keys[stage]))

    def _unproved(self, plan: Plan, stage: str) -> list[int]:
        """Units to do. Entries with damaged files are removed from the ledger, so that no worker trusts them."""
        ledger, keys = Ledger(self.directory), plan.keys[stage]
        claimed = {entry.unit: entry for entry in ledger.claimed(stage, keys)}
        unseen = [entry for entry in claimed.values() if (entry.unit, entry.key) not in self._proved[stage]]
        for entry, damage in ledger.damages(unseen):
            listed = ", ".join(damage)
            self.progress.note(f"Recomputing {stage} {entry.unit}: damaged or missing {listed}.")
            log_line(self.directory, f"damaged {listed}")
            ledger.forget(stage, entry.unit)
            del claimed[entry.unit]
        return [unit for unit in range(len(keys)) if unit not in claimed]

    def _receipts(self, plan: Plan, stage: str, units: list[int]) -> Iterator[Receipt]:
        where = stage_named(stage).where
        if where == "driver":
            yield from _run_here(self.directory, plan, stage, units, self._data)
            return
        retries, note = plan.config.cluster.retries, self.progress.note
        for some in [[unit] for unit in units] if where == "in turn" else [units]:
            keys = {unit: plan.keys[stage][unit] for unit in some}
            yield from StageTasks(self._client(), self.directory, stage, keys, retries, self._stop, note)

    def tell_wave(self, waves: list[Wave]) -> None:
        """Show the score of the model after its last wave."""
        last = waves[-1]
        line = f"{last.pairs} pairs: out-of-fold log loss {last.log_loss:.4f}, accuracy {last.accuracy:.4f}"
        self.progress.note(line)
        log_line(self.directory, f"wave {len(waves) - 1}: {line}")


def _run_here(
    directory: Path, plan: Plan, name: str, units: list[int], data: OpenFeatures | None
) -> Iterator[Receipt]:
    stage = stage_named(name)
    if data is None and stage.needs_data:
        data = load_data(plan.config)
    try:
        for unit in units:
            work = functools.partial(stage.work, directory, plan, unit, data)
            yield run_unit(directory, name, unit, plan.keys[name][unit], work)
    finally:
        if data is not None:
            data.close()


def _sweep(directory: Path) -> None:
    """Remove partial files of killed processes. A writer that is still alive fails and is run again."""
    for path in unfinished_files(directory):
        path.unlink(missing_ok=True)
