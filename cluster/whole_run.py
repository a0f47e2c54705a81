"""A whole run: the one path of `pairloom run`, `pairloom resume` and `pairloom.run`.

First, everything is checked that can be, and the cluster is connected to. Nothing is written before that. Then the run
directory is locked, the plan written, and the missing work done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pairloom.cluster.config import Config
from pairloom.cluster.driver import Connect, adopt_plan, drive, matching_plan, prepare_run
from pairloom.cluster.forecast import forecast_seconds, is_worth_a_forecast
from pairloom.cluster.forecast_file import Ranges, read_forecast, write_forecast
from pairloom.cluster.lock import REFUSED, RunLock, check_free
from pairloom.cluster.plan import Mismatch, Plan
from pairloom.cluster.printing import time_range
from pairloom.cluster.progress import Quiet
from pairloom.cluster.schedule import Stop
from pairloom.cluster.status import finished_units
from pairloom.cluster.units import log_line
from pairloom.pipeline.features.feature_set import OpenFeatures

__all__ = ["BegunRun", "ReadyRun", "begun_run", "expect_run", "ready_run"]


@dataclass(frozen=True)
class ReadyRun:
    """A run that may begin: nothing speaks against it, its cluster answers, and nothing is written yet."""

    config: Config
    directory: Path
    fresh: Plan | None
    data: OpenFeatures | None
    connect: Connect
    update: bool


@contextlib.contextmanager
def ready_run(
    config: Config,
    directory: Path,
    connect: Connect,
    *,
    at_once: bool,
    update: bool = False,
    say: Callable[[str], None] = lambda what: None,
) -> Iterator[ReadyRun]:
    """Check a run and connect to its cluster, which is left again at the end. Nothing is written.

    Parameters
    ----------
    connect
        Connects to the cluster.
    at_once
        Connect now, unless the run is finished: a cluster that will not do is then found before anything is written.
        Otherwise it is connected to when the first task needs it.
    update
        Accept a directory whose configuration or data differ.
    say
        Called with what is being done.
    """
    fresh, data = prepare_run(config, directory, say)
    check_free(directory)
    plan = matching_plan(directory, config, fresh, update=update)
    ready = ReadyRun(config, directory, fresh, data, connect, update)
    if not at_once or _seems_finished(directory, plan):
        yield ready
        return
    with connect() as client:
        yield replace(ready, connect=lambda: contextlib.nullcontext(client))


def _seems_finished(directory: Path, plan: Plan) -> bool:
    """Whether the ledger has all units. A run that grows may go on."""
    done = finished_units(directory, plan)
    return plan.config.growth is None and all(done[stage] == plan.units(stage) for stage in done)


@dataclass(frozen=True)
class BegunRun:
    """A run whose directory is locked and has its plan."""

    ready: ReadyRun
    plan: Plan
    stop: Stop

    def finish(self, progress: Quiet) -> None:
        """Do the missing work."""
        ready = self.ready
        drive(ready.directory, self.plan, ready.data, ready.connect, self.stop, progress)


@contextlib.contextmanager
def begun_run(ready: ReadyRun, stop: Stop, progress: Quiet) -> Iterator[BegunRun]:
    """Lock the directory and write the plan. The outcome is recorded at the end."""
    directory = ready.directory
    directory.mkdir(parents=True, exist_ok=True)
    with RunLock(directory, stop.request) as lock:
        if lock.taken_over:
            progress.note(f"Taking over from a dead driver: {lock.taken_over}.")
        try:
            plan = adopt_plan(directory, ready.config, ready.fresh, update=ready.update)
            expect_run(directory, plan, ready.data, progress)
            yield BegunRun(ready, plan, stop)
            lock.end_as("finished")
        except Mismatch:
            lock.end_as(REFUSED)
            raise
        except BaseException as error:
            lock.end_as(f"{type(error).__name__}: {error}")
            log_line(directory, f"ended by {error!r}")
            raise


def expect_run(directory: Path, plan: Plan, data: OpenFeatures | None, progress: Quiet) -> None:
    """Tell the progress of a run what to expect: its stages, what is done of them, and how long they should take."""
    progress.expect(plan)
    progress.found(finished_units(directory, plan))
    ranges = read_forecast(directory) or _forecast(directory, plan, data, progress)
    if ranges is not None:
        progress.forecast(ranges)


def _forecast(directory: Path, plan: Plan, data: OpenFeatures | None, progress: Quiet) -> Ranges | None:
    """Make the forecast of a run that is long and has not begun."""
    if (directory / "ledger").exists() or data is None or not is_worth_a_forecast(plan):
        return None
    progress.say("measuring on a part of the data how long it will take")
    try:
        ranges = forecast_seconds(plan, data)
        write_forecast(directory, ranges)
    except Exception as error:  # no result depends on it: a run can do without
        progress.note(f"How long it will take could not be measured: {error}")
        return None
    low, high = (sum(ends) for ends in zip(*ranges.values(), strict=True))
    workers = plan.config.cluster.expected_workers
    progress.note(f"It should take {time_range((low, high))} on {workers} workers.")
    return ranges
