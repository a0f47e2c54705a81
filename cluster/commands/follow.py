"""The commands for a run at work: ``pairloom status``, ``attach`` and ``cancel``."""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime

import click

from pairloom.cluster.commands.exits import RESUMABLE, ended_by_signals, exits, print_error, stderr
from pairloom.cluster.commands.options import json_option, run_argument
from pairloom.cluster.connect.cluster_checks import scheduler_answers
from pairloom.cluster.watch.progress import Lines, View, progress_for
from pairloom.cluster.watch.status import RunStatus, run_status
from pairloom.graphs.text import printable
from pairloom.pipeline.run.lock import newest_driver, request_cancel
from pairloom.pipeline.run.run_log import read_forecast
from pairloom.pipeline.stages import STAGE_NAMES
from pairloom.pipeline.stages.run_file import read_run
from pairloom.pipeline.storage.location import Location, location_of

__all__ = ["AttachedProgress", "attach_command", "cancel_command", "status_command"]


@click.command("status")
@run_argument
@json_option
@click.option("--verify", is_flag=True, help="Also compare every file with its checksum.")
def status_command(directory: Location, as_json: bool, verify: bool) -> None:
    """Show the progress of the run in DIRECTORY.

    Reads the ledger; needs no scheduler.
    """
    with exits():
        status = run_status(directory, verify=verify)
        if as_json:
            click.echo(json.dumps(status._asdict(), indent=1))
        else:
            _print_status(status)


def _print_status(status: RunStatus) -> None:
    click.echo(printable(f"{status.directory}: {status.state}"))
    for stage, (done, total) in status.stages.items():
        if total:
            click.echo(f"  {stage:>13}  {done} of {total}")
    for number, wave in enumerate(status.waves):
        click.echo(
            f"wave {number}: {wave['pairs']} pairs, out-of-fold log loss {wave['log_loss']:.4f}, "
            f"accuracy {wave['accuracy']:.4f}"
        )
    if status.driver:
        click.echo(printable(f"driver: {status.driver}"))
    for path in status.damaged:
        click.echo(printable(f"damaged: {path}"))


@click.command("attach")
@run_argument
def attach_command(directory: Location) -> None:
    """Follow the run in DIRECTORY until its driver ends."""
    with exits():
        again = f"The run goes on. Follow it again with: pairloom attach {directory}"
        with ended_by_signals(again, "Left."), progress_for(stderr) as progress:
            followed = AttachedProgress(directory, progress)
            status = run_status(directory)
            while _has_driver(status):
                followed.show(status)
                time.sleep(1.0)
                status = run_status(directory)
        _print_status(status)
        if status.state != "finished":
            sys.exit(RESUMABLE)


class AttachedProgress:
    """The progress of a run that another process drives, from its status, which is read periodically.

    Parameters
    ----------
    directory
        The run directory.
    progress
        The display of the progress.
    """

    def __init__(self, directory: Location, progress: View | Lines) -> None:
        self._directory, self._progress = directory, progress
        self._totals: dict[str, int] = {}
        self._pairs = 0
        progress.say(f"reading {directory}")

    def show(self, status: RunStatus) -> None:
        """Show a status that has just been read."""
        done = {stage: units for stage, (units, _) in status.stages.items()}
        if not self._totals:
            self._begin(status, done)
        self._expect({stage: units for stage, (_, units) in status.stages.items()})
        self._progress.score(status.log_loss)
        if status.state == "submitted":
            self._progress.say("waiting for its driver to start")
        else:
            self._advance(done, status.pairs)

    def _begin(self, status: RunStatus, done: dict[str, int]) -> None:
        """Set the units done before the first status, and count the time from the start of the driver."""
        self._expect({stage: units for stage, (_, units) in status.stages.items()})
        self._progress.set_done(done)
        self._progress.say(None)  # its workers are not started here
        self._pairs = status.pairs
        if (ranges := read_forecast(self._directory)) is not None:
            self._progress.forecast(ranges)
        driver, _ = newest_driver(self._directory)
        if driver is not None:
            ago = time.time() - datetime.fromisoformat(driver.since).timestamp()
            self._progress.run.began_at -= max(0.0, ago)

    def _expect(self, totals: dict[str, int]) -> None:
        """Read the plan, and read it again when the run has grown."""
        if totals != self._totals:
            self._totals = totals
            self._progress.expect(read_run(self._directory))

    def _advance(self, done: dict[str, int], pairs: int) -> None:
        run, trained = self._progress.run, pairs - self._pairs
        self._pairs = pairs
        stage = next((stage for stage in done if done[stage] < self._totals[stage]), STAGE_NAMES[-1])
        if run.running is not None:
            self._progress.reach(done[run.running], trained if run.stages[run.running].stage.trains else 0)
        if stage != run.running:
            # Units that were done before are not timed. Every wave starts its stages again.
            begun = done[stage] < self._totals[stage]
            self._progress.begin(stage, done[stage] if begun else 0, self._totals[stage])
            self._progress.reach(done[stage], trained if run.stages[stage].stage.trains else 0)
        self._progress.set_done(done)


def _has_driver(status: RunStatus) -> bool:
    """Whether a run has a driver, or will have one: a submitted run gets one if its cluster still answers."""
    if status.state != "submitted":
        return status.state == "running"
    if scheduler_answers(read_run(location_of(status.directory, "directory")).config.cluster):
        return True
    print_error(
        "The cluster that the run was submitted to does not answer, so no driver will start. "
        f"Run `pairloom resume {status.directory} --local` to run it here."
    )
    return False


@click.command("cancel")
@run_argument
@click.option(
    "--wait/--no-wait", default=True, help="Whether to wait until the driver has ended. Default: wait."
)
def cancel_command(directory: Location, wait: bool) -> None:
    """Stop the driver of the run in DIRECTORY.

    Finished work is kept, and the run can be resumed.
    """
    with exits():
        status = run_status(directory)
        driver = None if status.state == "finished" else request_cancel(directory)
        if driver is None:
            click.echo(f"No driver is at work on {directory}.")
            return
        if status.state != "running":
            here = "" if _has_driver(status) or status.state != "submitted" else " --local"
            click.echo(
                "Cancelled: no driver is at work, and one that the cluster still starts will not begin.\n"
                f"Resume with: pairloom resume {directory}{here}"
            )
            return
        while wait and _has_driver(run_status(directory)):
            time.sleep(0.2)
        click.echo(
            f"{'Stopped' if wait else 'Asked to stop'}: {driver}.\nResume with: pairloom resume {directory}"
        )
