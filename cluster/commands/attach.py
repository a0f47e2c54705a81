"""The command ``pairloom attach``, and whether there is a driver to follow."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from pairloom.cluster.commands.options import run_argument
from pairloom.cluster.connect import scheduler_answers
from pairloom.cluster.exits import RESUMABLE, ended_by_signals, exits, print_error, stderr
from pairloom.cluster.followed_run import FollowedRun
from pairloom.cluster.plan import Plan
from pairloom.cluster.printing import print_status
from pairloom.cluster.progress import progress_for
from pairloom.cluster.status import RunStatus, run_status

__all__ = ["attach_command", "is_driven"]


@click.command("attach")
@run_argument
def attach_command(directory: Path) -> None:
    """Follow the run in DIRECTORY until its driver ends."""
    with exits():
        again = f"The run goes on. Follow it again with: pairloom attach {directory}"
        with ended_by_signals(again, "Left."), progress_for(stderr) as progress:
            followed = FollowedRun(directory, progress)
            found = run_status(directory)
            while is_driven(found):
                followed.show(found)
                time.sleep(1.0)
                found = run_status(directory)
        print_status(found)
        if found.state != "finished":
            sys.exit(RESUMABLE)


def is_driven(found: RunStatus) -> bool:
    """Whether a run has a driver, or will have one: a submitted one has if its cluster still answers."""
    if found.state != "submitted":
        return found.state == "running"
    if scheduler_answers(Plan.read(Path(found.directory)).config.cluster):
        return True
    print_error(
        "The cluster that the run was submitted to does not answer, so no driver will start. "
        f"Run `pairloom resume {found.directory} --local` to run it here."
    )
    return False
