"""The driver of a run: from a configuration and a directory to a finished run, begun or resumed.

To begin and to resume are the same thing. The ledger says what is done, what it says is checked against the
files, and what is missing is done: by this process where the data are here and the work is small, on the
cluster otherwise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from distributed import Client

from pairloom.cluster.ledger import Ledger
from pairloom.cluster.plan import STAGES, DamagedPlan, Mismatch, Plan, make_plan
from pairloom.cluster.schedule import Stop, Waves
from pairloom.cluster.units import Receipt, run_unit, say
from pairloom.pipeline import stages
from pairloom.pipeline.atomic_file import PARTIAL_SUFFIX
from pairloom.pipeline.config import Config
from pairloom.pipeline.drawn_samples import DrawnSamples, draw_samples
from pairloom.pipeline.features import FeatureSet, load_features
from pairloom.pipeline.report import write_report
from pairloom.pipeline.run_directory import stamp_groups

__all__ = ["Progress", "drive", "load_data", "look_at", "settle", "unfinished_units"]

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


def look_at(config: Config, directory: Path) -> tuple[Plan | None, FeatureSet | None]:
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


def settle(directory: Path, config: Config, fresh: Plan | None, *, update: bool = False) -> Plan:
    """Make a new plan the plan of the directory, or find that the directory's own is the one asked for.

    The caller holds the lock.

    Parameters
    ----------
    fresh
        The plan that the configuration and the data lead to, from `look_at`.
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
        hint = _what_update_would_do(fresh, old)
        raise Mismatch(f"{directory} was made from something else:\n{listed}\n{hint}")
    # An unchanged run keeps its own edges: those of another machine could differ by a rounding error.
    plan = fresh if differing and fresh else replace(old, config=config)
    plan.write(directory)
    return plan


def _what_update_would_do(fresh: Plan | None, old: Plan) -> str:
    if fresh is None:
        return "The data are gone, so the run can only be resumed as it was."
    kept = [stage for stage in STAGES if fresh.keys[stage] == old.keys[stage]]
    again = [stage for stage in STAGES if stage not in kept]
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
    for path in stamp_groups(directory, plan.shape):
        say(directory, f"stamped {path}")
    unfinished = _forget_damage(directory, plan, which, progress)
    with contextlib.ExitStack() as stack:
        client: Client | None = None
        for stage, units in unfinished.items():
            progress.begin(stage, plan.units(stage) - len(units), plan.units(stage))
            if stage in _LOCAL_STAGES:
                receipts = _run_here(directory, plan, stage, units, data)
            elif units:
                client = client or stack.enter_context(connect())
                receipts = iter(_waves(client, directory, plan, stage, units, stop, progress))
            else:
                continue
            for receipt in receipts:
                progress.advance(receipt)
                stop.raise_if_requested()


def _forget_damage(
    directory: Path, plan: Plan, which: tuple[str, ...], progress: Progress
) -> dict[str, list[int]]:
    """Take what is damaged out of the ledger, so that no worker believes it, and say what it was."""
    ledger = Ledger(directory)
    unfinished = unfinished_units(directory, plan, which)
    for stage, units in unfinished.items():
        for unit in units:
            entry = ledger.read(stage, unit)
            if entry is not None and entry.key == plan.keys[stage]:
                damage = ", ".join(ledger.damaged_files(entry))
                progress.note(f"{stage} {unit} is computed again: {damage} damaged or missing")
                say(directory, f"damaged {damage}")
            ledger.forget(stage, unit)
    return unfinished


def _waves(
    client: Client,
    directory: Path,
    plan: Plan,
    stage: str,
    units: list[int],
    stop: Stop,
    progress: Progress,
) -> Waves:
    retries = plan.config.cluster.retries
    return Waves(client, directory, stage, plan.keys[stage], units, retries, stop, progress.note)


def _run_here(
    directory: Path, plan: Plan, stage: str, units: list[int], data: FeatureSet | None
) -> Iterator[Receipt]:
    if units and data is None and stage != "report":
        data = load_data(plan.config)
    for unit in units:
        yield run_unit(directory, stage, unit, plan.keys[stage], _local_work(directory, plan, stage, data))


def _local_work(
    directory: Path, plan: Plan, stage: str, data: FeatureSet | None
) -> Callable[[int], list[Path]]:
    if stage == "report":
        return lambda unit: write_report(directory, plan.shape, _work_seconds(directory, plan))
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
