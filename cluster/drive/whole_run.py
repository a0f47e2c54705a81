"""A whole run: the one path of `pairloom run`, `pairloom resume`, `pairloom.run` and, on a worker, `pairloom submit`.

First everything is checked, including the connection to the cluster; nothing is written before. Then the run directory
is locked, the plan is written, and the missing work is done.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from distributed import Future, fire_and_forget, worker_client

from pairloom.cluster.connect.cluster_checks import check_shared, check_workers
from pairloom.cluster.drive.driver import Connect, adopt_run, drive, matching_run, prepare_run
from pairloom.cluster.drive.schedule import Stop, Stopped
from pairloom.cluster.drive.tasks import check_directory_seen
from pairloom.cluster.simulator.forecast import forecast_seconds, is_worth_a_forecast
from pairloom.cluster.watch.progress import Quiet
from pairloom.cluster.watch.status import finished_units
from pairloom.graphs.text import duration_range
from pairloom.pipeline.config.config import Config
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.features.row_sources import Arrays
from pairloom.pipeline.run.lock import (
    CANCELLED,
    REFUSED,
    STALE_SECONDS,
    SUBMITTED,
    Locked,
    RunLock,
    check_free,
    is_cancelled,
)
from pairloom.pipeline.run.ownership import check_links
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_log import Ranges, flush_log, log_line, read_forecast, write_forecast
from pairloom.pipeline.stages.run_file import Mismatch, read_run
from pairloom.pipeline.storage.folder import Folder, fenced
from pairloom.pipeline.storage.location import Location, location_of

__all__ = [
    "CheckedRun",
    "LockedRun",
    "checked_run",
    "drive_on_worker",
    "driver_lock",
    "expect_run",
    "locked_run",
    "submit_driver",
]


@dataclass(frozen=True)
class CheckedRun:
    """A run that passed all checks and whose cluster answers. Nothing is written yet."""

    config: Config
    directory: Location
    fresh: Run | None
    data: OpenFeatures | None
    connect: Connect
    update: bool


@contextlib.contextmanager
def checked_run(
    config: Config,
    directory: Location,
    connect: Connect,
    *,
    at_once: bool,
    update: bool = False,
    say: Callable[[str], None] = lambda what: None,
    given: Arrays | None = None,
) -> Iterator[CheckedRun]:
    """Check a run and connect to its cluster; disconnect at the end. Nothing is written.

    Parameters
    ----------
    connect
        Connects to the cluster.
    at_once
        Connect now, unless the run is finished, so that an unsuitable cluster, or one that does not share the
        directory, is found before anything is written. Otherwise connect when the first task needs the cluster.
    update
        Accept a directory whose configuration or data differ.
    say
        Called with the name of each step.
    given
        The data, if a program hands them over.
    """
    # First everything that needs no cluster: workers may be long in coming.
    fresh, data = prepare_run(config, directory, say, given)
    check_free(directory)
    run = matching_run(directory, config, fresh, update=update)
    check_links(run)
    ready = CheckedRun(config, directory, fresh, data, connect, update)
    if not at_once or _seems_finished(run):
        yield ready
        return
    with connect() as client:
        check_shared(client, directory)
        yield replace(ready, connect=lambda: contextlib.nullcontext(client))


def _seems_finished(run: Run) -> bool:
    """Whether the ledger has all units. A run that grows may go on."""
    done = finished_units(run)
    return run.config.growth is None and all(done[stage] == run.units(stage) for stage in done)


@dataclass(frozen=True)
class LockedRun:
    """A run whose directory is locked and has its plan."""

    ready: CheckedRun
    run: Run
    stop: Stop

    def finish(self, progress: Quiet) -> None:
        """Do the missing work."""
        ready = self.ready
        if _seems_finished(self.run):
            progress.note("Nothing was left to do: the run is finished.")
        drive(self.run, ready.data, ready.connect, self.stop, progress)


@contextlib.contextmanager
def driver_lock(directory: Location, stop: Stop, submission: int | None = None) -> Iterator[RunLock]:
    """Hold the lock of a directory. Writes that are fenced by ``stop`` check first whether the lock was lost."""
    with RunLock(directory, stop.request, submission=submission) as lock:
        stop.look_with(lock.heed)
        try:
            yield lock
        finally:
            flush_log(directory)


@contextlib.contextmanager
def locked_run(ready: CheckedRun, stop: Stop, progress: Quiet) -> Iterator[LockedRun]:
    """Lock the directory and write the plan. The outcome is recorded at the end."""
    directory = ready.directory
    Folder(directory).make()
    with driver_lock(directory, stop) as lock:
        if lock.taken_over:
            progress.note(f"Taking over from a dead driver: {lock.taken_over}.")
        try:
            # The fence ends here: another thread may do the rest, and has its own.
            with fenced(stop.check):
                run = adopt_run(directory, ready.config, ready.fresh, update=ready.update)
                expect_run(run, ready.data, progress)
            yield LockedRun(ready, run, stop)
            lock.end_as("finished")
        except Mismatch:  # another driver has changed the plan since it was checked
            lock.end_as(REFUSED)
            raise
        except BaseException as error:
            lock.end_as(_outcome_of(error))
            log_line(directory, f"ended by {error!r}")
            raise


def expect_run(run: Run, data: OpenFeatures | None, progress: Quiet) -> None:
    """Give the progress display the stages of a run, their finished units, and their forecast duration."""
    progress.expect(run)
    progress.set_done(finished_units(run))
    ranges = read_forecast(run.directory) or _forecast(run, data, progress)
    if ranges is not None:
        progress.forecast(ranges)


def _forecast(run: Run, data: OpenFeatures | None, progress: Quiet) -> Ranges | None:
    """Forecast a run that is long and has not begun; None for others."""
    if "ledger" in Folder(run.directory).folders() or data is None or not is_worth_a_forecast(run):
        return None
    progress.say("measuring on a part of the data how long it will take")
    try:
        ranges = forecast_seconds(run, data)
    except Exception as error:  # no result depends on the forecast, so any failure is only reported
        progress.note(f"How long it will take could not be measured: {error}")
        return None
    write_forecast(run.directory, ranges)
    low, high = (sum(ends) for ends in zip(*ranges.values(), strict=True))
    workers = run.config.cluster.expected_workers
    progress.note(f"It should take {duration_range((low, high))} on {workers} workers.")
    return ranges


def submit_driver(ready: CheckedRun, *, copies_data: bool = False) -> Future[str]:
    """Write the plan of a run, send its driver to a worker of the cluster, and return the driver's task.

    With ``copies_data`` the stages that read the data are done here, since a driver elsewhere does not have the data.
    """
    directory, stop = ready.directory, Stop()
    with ready.connect() as client:
        Folder(directory).make()
        with driver_lock(directory, stop) as lock:
            with fenced(stop.check):
                run = adopt_run(directory, ready.config, ready.fresh, update=ready.update)
            if copies_data:
                stages = tuple(stage for stage in run.stages if stage.needs_data)
                drive(run, ready.data, lambda: contextlib.nullcontext(client), stop, Quiet(), stages)
            lock.end_as(SUBMITTED)  # frees the lock for the driver on the cluster
        # Every submission has its own key, since Dask would return the outcome of an earlier driver for a known key.
        key = f"pairloom-driver-{time.time_ns()}"
        driver = client.submit(drive_on_worker, str(directory), lock.number, key=key)
        fire_and_forget(driver)
        return driver


def drive_on_worker(directory: str, submission: int) -> str:
    """Drive the run whose plan is in ``directory``, and return its outcome.

    If this worker dies, Dask starts the task again on another worker, which resumes the run. It takes over the lock of
    the dead driver: immediately on the same host, on another host when the heartbeat has been missing long enough. If
    the submission was cancelled meanwhile, the task does nothing.
    """
    where, stop = location_of(directory, "directory"), Stop()
    check_directory_seen(where)
    with worker_client() as client, contextlib.ExitStack() as stack:
        try:
            lock = _lock_in_time(where, stop, submission, stack)
        except Stopped as error:
            log_line(where, f"driver did not begin: {error}")
            return _outcome_of(error)
        try:
            config = read_run(where).config
            check_workers(client, config.cluster.worker_timeout)
            check_shared(client, where)
            fresh, data = prepare_run(config, where)
            with fenced(stop.check):
                run = adopt_run(where, config, fresh)
                expect_run(run, data, Quiet())
            drive(run, data, lambda: contextlib.nullcontext(client), stop, Quiet())
            outcome = "finished"
        except Exception as error:
            # Nobody may be waiting for this task, so errors go to the record of the driver and to the log.
            outcome = _outcome_of(error)
        lock.end_as(outcome)
        log_line(where, f"driver ended: {outcome}")
    return outcome


def _outcome_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _lock_in_time(directory: Location, stop: Stop, submission: int, stack: contextlib.ExitStack) -> RunLock:
    """Lock a directory as the driver of a submission. If it was cancelled, raise `Stopped` and write nothing."""
    deadline = time.monotonic() + 1.5 * STALE_SECONDS
    while True:
        if is_cancelled(directory, submission):
            raise Stopped(CANCELLED)
        try:
            return stack.enter_context(driver_lock(directory, stop, submission))
        except Locked:
            if time.monotonic() > deadline:
                raise
            time.sleep(2.0)
