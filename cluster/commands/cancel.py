"""The command ``pairloom cancel``."""

from __future__ import annotations

import time
from pathlib import Path

import click

from pairloom.cluster.commands.attach import is_driven
from pairloom.cluster.commands.options import run_argument
from pairloom.cluster.exits import exits
from pairloom.cluster.lock import RunLock, request_cancel
from pairloom.cluster.status import run_status

__all__ = ["cancel_command"]


@click.command("cancel")
@run_argument
@click.option(
    "--wait/--no-wait", default=True, help="Whether to wait until the driver has ended. Default: wait."
)
def cancel_command(directory: Path, wait: bool) -> None:
    """Stop the driver of the run in DIRECTORY.

    Finished work is kept, and the run can be resumed.
    """
    with exits():
        found = run_status(directory)
        if found.state == "submitted" and not is_driven(found):
            with RunLock(directory) as lock:
                lock.end_as("cancelled before it started")
            click.echo(f"Cancelled.\nResume with: pairloom resume {directory} --local")
            return
        driver = request_cancel(directory)
        if driver is None:
            click.echo(f"No driver is at work on {directory}.")
            return
        while wait and is_driven(run_status(directory)):
            time.sleep(0.2)
        click.echo(
            f"{'Stopped' if wait else 'Asked to stop'}: {driver}.\nResume with: pairloom resume {directory}"
        )
