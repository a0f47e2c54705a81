"""The driver of a run: starts or resumes the run of a configuration in a directory, and finishes it.

Starting and resuming are the same. The driver reads the ledger, compares its entries with the files, and does the
missing work: in this process if the work reads the source of the data, otherwise on the cluster.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from distributed import Client

from pairloom.cluster.connect.cluster_checks import workers_without_source
from pairloom.cluster.drive.absent_workers import absence_noticed
from pairloom.cluster.drive.schedule import StageTasks, Stop
from pairloom.cluster.drive.tasks import Receipt, StaleTask, run_unit, warnings_kept
from pairloom.cluster.watch.status import best_log_loss
from pairloom.pipeline.config.config import Config, InputError, input_errors
from pairloom.pipeline.features.feature_set import OpenFeatures, open_features
from pairloom.pipeline.features.row_sources import Arrays
from pairloom.pipeline.growth.waves import Wave, grow_in_waves
from pairloom.pipeline.run.growing_run import judged_waves, regrown, whole_waves, with_next_wave
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.ownership import check_directory, unfinished_files
from pairloom.pipeline.run.results import remove_waves
from pairloom.pipeline.run.run import Run, Stage
from pairloom.pipeline.run.run_directory import stamp_groups
from pairloom.pipeline.run.run_log import log_line, this_process
from pairloom.pipeline.stages.planning import plan_run
from pairloom.pipeline.stages.probabilities import release_predictors
from pairloom.pipeline.stages.run_file import (
    DamagedPlan,
    Mismatch,
    differing_settings,
    read_run,
    write_run,
)
from pairloom.pipeline.storage.folder import Folder, fenced
from pairloom.pipeline.storage.location import Location, StoreUrl
from pairloom.pipeline.storage.object_store import requests

__all__ = [
    "Connect",
    "Progress",
    "adopt_run",
    "drive",
    "load_data",
    "matching_run",
    "prepare_run",
    "unfinished_units",
]

Connect = Callable[[], AbstractContextManager[Client]]


class Progress(Protocol):
    """Receives the progress of a run."""

    def expect(self, run: Run) -> None:
        """Set the run, or the longer run after it has grown."""

    def begin(self, stage: str, done: int, total: int) -> None:
        """Start a stage; ``done`` of its ``total`` units are finished."""

    def advance(self, receipt: Receipt) -> None:
        """Count one more finished unit."""

    def score(self, log_loss: float | None) -> None:
        """Set the best log loss so far."""

    def note(self, line: str) -> None:
        """Show a message to the user."""


def load_data(config: Config, given: Arrays | None = None) -> OpenFeatures:
    """The features that a configuration names, or the given ones, checked and open."""
    data = config.data
    with input_errors():
        return open_features(
            data.features,
            test=data.test,
            test_fraction=data.test_fraction,
            seed=config.model.random_state,
            columns=data.columns,
            missing_chunks=data.missing_chunks,
            given=given,
        )


def prepare_run(
    config: Config,
    directory: Location,
    say: Callable[[str], None] = lambda what: None,
    given: Arrays | None = None,
) -> tuple[Run | None, OpenFeatures | None]:
    """Open the data and plan the run. Errors in either are raised before anything is written.

    Both are None if the source of the data is gone but the run directory has an undamaged copy. ``say`` receives the
    name of each step. ``given`` are the data if a program hands them over.
    """
    check_directory(directory, config)
    with warnings_kept() as warned:
        say("reading the data")
        try:
            data = load_data(config, given)
        except FileNotFoundError:
            if not _has_data(directory, config):
                raise
            return None, None
        say("planning")
        with input_errors():
            run = plan_run(config, data, directory)
    return replace(run, warnings=tuple(warned)), data


def _has_data(directory: Location, config: Config) -> bool:
    """Whether the run in the directory has a complete copy of the data that a configuration names."""
    run = _run_in(directory)
    if run is None or run.config.data != config.data:
        return False
    stores = (stage for stage in run.stages if stage.needs_data)
    return not any(unfinished_units(run, stores).values())


def _run_in(directory: Location) -> Run | None:
    """The run in a directory, or None. Without run.json, ledger entries are validated by their keys."""
    try:
        return read_run(directory)
    except DamagedPlan:
        return None


def adopt_run(directory: Location, config: Config, fresh: Run | None, *, update: bool = False) -> Run:
    """Write the run of `matching_run` into the directory. The caller holds the lock, and has a fence for its loss."""
    run = matching_run(directory, config, fresh, update=update)
    write_run(run)
    return run


def matching_run(directory: Location, config: Config, fresh: Run | None, *, update: bool = False) -> Run:
    """The run to do: a new one, or that of the directory if it matches the configuration. Writes nothing.

    Parameters
    ----------
    fresh
        The run that `prepare_run` planned from the configuration and the data.
    update
        Accept a directory whose configuration or data differ, and recompute the stages that depend on them.

    Raises
    ------
    Mismatch
        If a key that decides the result differs. The message names every such key.
    """
    old = _run_in(directory) or fresh
    if old is None:
        raise DamagedPlan(f"{directory}: both the plan (run.json) and the data are missing.")
    differing = differing_settings(old, config, fresh.fingerprints if fresh else old.fingerprints)
    if differing and not (update and fresh):
        listed = "\n".join(f"  {line}" for line in differing)
        hint = _effect_of_update(regrown(fresh) if fresh else None, old)
        raise Mismatch(f"{directory} holds a run with other settings:\n{listed}\n{hint}")
    if fresh and (differing or old is fresh):
        return regrown(fresh)
    # An unchanged run keeps its edges: computed anew on another host they could differ because of rounding.
    kept = replace(old, config=config)
    return kept if fresh is None else _with_source_of(kept, fresh)


def _with_source_of(old: Run, fresh: Run) -> Run:
    """An unchanged run, whose data may have moved to another file or format since it was planned.

    Once the rows are stored, it keeps the source that it had, on which the keys of its units may depend.
    """
    new = {name: getattr(fresh.shape, name) for name in ("train_source", "test_source")}
    if all(getattr(old.shape, name) == source for name, source in new.items()):
        return old
    stores = [stage for stage in old.stages if stage.needs_data]
    return (
        replace(old, shape=old.shape._replace(**new)) if any(unfinished_units(old, stores).values()) else old
    )


def _effect_of_update(fresh: Run | None, old: Run) -> str:
    if fresh is None:
        return "The data are missing, so the run can only be resumed with its own settings."
    concerned = [stage for stage in fresh.keys if fresh.keys[stage] or old.keys[stage]]
    kept = [stage for stage in concerned if fresh.keys[stage] == old.keys[stage]]
    again = [stage for stage in concerned if stage not in kept]
    return (
        f"Pass --update to keep {', '.join(kept) or 'nothing'} and recompute {', '.join(again)}, "
        "or choose another directory."
    )


def unfinished_units(run: Run, stages: Iterable[Stage] | None = None) -> dict[str, list[int]]:
    """Units of all or of some stages that are not in the ledger, or whose files differ from their checksums."""
    ledger, unfinished = Ledger(run.directory), {}
    for stage in run.stages if stages is None else stages:
        sound, _ = ledger.verified(stage.name, run.keys[stage.name])
        done = {entry.unit for entry in sound}
        unfinished[stage.name] = [unit for unit in range(run.units(stage.name)) if unit not in done]
    return unfinished


def drive(
    run: Run,
    data: OpenFeatures | None,
    connect: Connect,
    stop: Stop,
    progress: Progress,
    stages: tuple[Stage, ...] | None = None,
) -> None:
    """Do the unfinished work of a run, or of some of its stages. The caller holds the lock.

    If another driver takes the lock, this one writes and deletes nothing more (see `fenced`).
    """
    stop.raise_if_requested()
    with fenced(stop.check), contextlib.ExitStack() as stack:
        _sweep(run)
        stack.callback(release_predictors)  # workers may be threads of this process
        # Connect when the first stage has work for the cluster: a finished run needs no cluster.
        client = functools.cache(lambda: _connected(run.directory, stack, connect))
        session, stages = _Session(data, client, stop, progress), stages or run.stages
        stack.callback(session.tell_requests, run.directory)
        growth = run.stage("growth") in stages
        if run.config.growth is not None and growth:
            run = _grow(session, run)
        if growth:
            # Results of waves beyond the end are found by their ledger entries, which `do` removes.
            remove_waves(run.directory, run.units("growth"))
        # The stages of the waves are passed over once more, without work: all of their units are verified by now.
        session.do(run, stages)


def _connected(directory: Location, stack: contextlib.ExitStack, connect: Connect) -> Client:
    """Connect to the cluster. The time is logged, so that the report knows how long workers took to start."""
    log_line(directory, "connecting")
    return stack.enter_context(connect())


def _grow(session: _Session, run: Run) -> Run:
    """Train and score wave after wave until the budget is spent; return the grown run."""
    assert run.config.growth is not None
    growing = _GrowingRun(session, run)
    for reason in grow_in_waves(growing, run.config.growth.budget):
        if reason is not None:
            session.progress.note(f"Grown to {growing.n_pairs} pairs: {reason}.")
    return growing.run


class _GrowingRun:
    """A run that grows on the cluster. Every wave adds pairs to it."""

    def __init__(self, session: _Session, run: Run) -> None:
        self.run, self._session = run, session
        self._waves: list[Wave] = []
        # A wave runs the stages up to growth; the others wait until the graph has all its edges.
        last = max(place for place, stage in enumerate(run.stages) if stage.waves)
        self._stages = run.stages[: last + 1]

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.run.shape.classes)

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return self.run.shape.n_edges

    def judge(self) -> list[Wave]:
        """Train the planned pairs, score the model, and return the waves that count towards a plateau."""
        self._session.do(self.run, self._stages, growing=True)
        self._waves = judged_waves(self.run)
        assert len(self._waves) == len(self.run.waves)
        self._show_wave()
        return whole_waves(self.run, self._waves)

    def _show_wave(self) -> None:
        last, number = self._waves[-1], len(self._waves) - 1
        line = f"{last.pairs} pairs: out-of-fold log loss {last.log_loss:.4f}, accuracy {last.accuracy:.4f}"
        self._session.progress.note(line)
        log_line(self.run.directory, f"wave {number}: {line}")

    def add_wave(self) -> None:
        """Plan the next wave. `judge` trains it."""
        self.run = with_next_wave(self.run, self._waves)
        write_run(self.run)

    def finish(self) -> None:
        """Do nothing: the stages after growth calibrate the model."""


class _Session:
    """One driver at work: its cluster, and the units that it has verified."""

    def __init__(
        self, data: OpenFeatures | None, client: Callable[[], Client], stop: Stop, progress: Progress
    ) -> None:
        self.progress = progress
        self._data, self._client, self._stop = data, client, stop
        # (stage, unit, key) of units whose files were compared with the ledger or just computed. A growing run passes
        # over its stages once per wave and must not read all files again each time.
        self._verified: set[tuple[str, int, str]] = set()
        self._units, self._requests_before = 0, requests.total()
        # Requests to an object store by process: before its first unit, and after its last one.
        self._requests: dict[str, tuple[int, int]] = {}

    def check(self) -> None:
        """Raise if this driver must stop: if another has taken over, nothing may be written any more."""
        self._stop.check()

    def do(self, run: Run, stages: tuple[Stage, ...], *, growing: bool = False) -> None:
        """Do the units of some stages that have no valid ledger entry.

        While a run grows, results beyond its present end are kept, since it may grow to include them.
        """
        self.progress.expect(run)
        self.check()
        # Metadata of arrays are written by the driver alone, before any task opens them.
        if stamped := stamp_groups(run.directory, run.shape, growing=growing):
            log_line(run.directory, *(f"stamped {path}" for path in stamped))
        for stage in stages:
            if not growing:
                Ledger(run.directory).forget_beyond(stage.name, run.units(stage.name))
            units, total = self._unfinished(run, stage), run.units(stage.name)
            self.progress.begin(stage.name, total - len(units), total)
            for receipt in self._receipts(run, stage, units) if units else ():
                if stage.scores:
                    self.progress.score(best_log_loss(run))
                self.progress.advance(receipt)
                self._count(receipt)
                self._stop.raise_if_requested()
            self._verified.update((stage.name, unit, key) for unit, key in enumerate(run.keys[stage.name]))

    def _count(self, receipt: Receipt) -> None:
        if receipt.computed:
            self._units += 1
            before, after = self._requests.get(receipt.process, receipt.requests)
            begun, done = receipt.requests
            self._requests[receipt.process] = min(before, begun), max(after, done)

    def tell_requests(self, directory: Location) -> None:
        """Report the number of requests to the store, which cost money, even if the run was stopped."""
        if isinstance(directory, StoreUrl) and self._units:
            here = requests.total() - self._requests_before
            others = (ends for process, ends in self._requests.items() if process != this_process())
            total = here + sum(after - before for before, after in others)
            line = f"{total} requests to the store, {total / self._units:.0f} per unit of work."
            log_line(directory, line)
            self.progress.note(line)

    def _unfinished(self, run: Run, stage: Stage) -> list[int]:
        """Units to do. Entries with damaged files are removed from the ledger, so that no worker trusts them."""
        ledger, keys = Ledger(run.directory), run.keys[stage.name]
        claimed = {entry.unit: entry for entry in ledger.claimed(stage.name, keys)}
        unseen = [e for e in claimed.values() if (stage.name, e.unit, e.key) not in self._verified]
        for entry, damage in ledger.damages(unseen):
            listed = ", ".join(damage)
            self.progress.note(f"Recomputing {stage.name} {entry.unit}: damaged or missing {listed}.")
            log_line(run.directory, f"damaged {listed}")
            self.check()
            ledger.forget(stage.name, entry.unit)
            del claimed[entry.unit]
        return [unit for unit in range(len(keys)) if unit not in claimed]

    def _receipts(self, run: Run, stage: Stage, units: list[int]) -> Iterator[Receipt]:
        where = stage.runs_in(run)
        if where == "driver" or (stage.needs_data and not self._workers_read_source(run, stage)):
            try:
                yield from _do_here(run, stage, units, self._data)
            except StaleTask:
                self.check()  # raises a clearer error if another driver has taken over
                raise
            return
        cluster, note, client = run.config.cluster, self.progress.note, self._client()
        # Jobs of a batch system are submitted again when they end, and may queue for hours, so wait without limit.
        patience = cluster.worker_timeout if cluster.job_queue is None else None
        with absence_noticed(client, patience, self._stop, note):
            # Stages "in turn" run one unit at a time, because a unit reads the results of the units before it.
            for some in [[unit] for unit in units] if where == "in turn" else [units]:
                keys = {unit: run.keys[stage.name][unit] for unit in some}
                yield from StageTasks(
                    client, run.directory, stage.name, keys, cluster.retries, self._stop, note
                )

    def _workers_read_source(self, run: Run, stage: Stage) -> bool:
        """Whether all workers read the same rows from the source of the data as this driver did."""
        unable = workers_without_source(self._client(), run.directory)
        for worker, problem in list(unable.items())[:1]:
            line = f"{stage.name}: the driver stores the rows, since {worker} cannot read them ({problem})."
            log_line(run.directory, line)
            self.progress.note(line)
        return not unable


def _do_here(run: Run, stage: Stage, units: list[int], data: OpenFeatures | None) -> Iterator[Receipt]:
    if data is None and stage.needs_data:
        data = load_data(run.config)
        if data.fingerprints != run.fingerprints:
            raise InputError(
                f"data.features: {run.config.data.features} must be what it was when the run was planned, got other"
                f" numbers or names. Plan it again: pairloom resume {run.directory}."
            )
    try:
        for unit in units:
            yield run_unit(run, stage, unit, data)
    finally:
        if data is not None:
            data.close()


def _sweep(run: Run) -> None:
    """Remove partial files of killed processes. If a writer is still alive, its task fails and runs again."""
    folder = Folder(run.directory)
    for path in unfinished_files(run):
        folder.delete(path)
