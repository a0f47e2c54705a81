"""The command ``pairloom report``."""

from __future__ import annotations

import functools
from pathlib import Path

import click

from pairloom.cluster.commands.options import json_option, run_argument
from pairloom.cluster.config import ClusterConfig
from pairloom.cluster.connect import connected
from pairloom.cluster.driver import drive, unfinished_units
from pairloom.cluster.exits import exits, stderr
from pairloom.cluster.ledger import Ledger
from pairloom.cluster.lock import RunLock
from pairloom.cluster.plan import Plan
from pairloom.cluster.printing import print_result
from pairloom.cluster.progress import progress_for
from pairloom.cluster.schedule import Stop
from pairloom.cluster.stages import STAGE_NAMES
from pairloom.cluster.whole_run import expect_run

__all__ = ["report_command"]


@click.command("report")
@run_argument
@json_option
def report_command(directory: Path, as_json: bool) -> None:
    """Rewrite the report of a finished run and print its table."""
    with exits():
        stored = Plan.read(directory)
        missing = unfinished_units(directory, stored, STAGE_NAMES[:-1])
        if any(missing.values()):
            raise ValueError(
                f"{directory}: the run is not finished. Run `pairloom resume {directory}` first."
            )
        with RunLock(directory) as lock:
            Ledger(directory).forget("report", 0)
            with progress_for(stderr) as progress:
                expect_run(directory, stored, None, progress)
                progress.say(None)  # no workers are started
                here = functools.partial(connected, ClusterConfig(kind="threads", workers=1))
                drive(directory, stored, None, here, Stop(), progress, STAGE_NAMES[-1:])
            lock.end_as("finished")
        print_result(directory, as_json)
