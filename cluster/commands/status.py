"""The command ``pairloom status``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pairloom.cluster.commands.options import json_option, run_argument
from pairloom.cluster.exits import exits
from pairloom.cluster.printing import print_status
from pairloom.cluster.status import run_status

__all__ = ["status_command"]


@click.command("status")
@run_argument
@json_option
@click.option("--verify", is_flag=True, help="Also compare every file with its checksum.")
def status_command(directory: Path, as_json: bool, verify: bool) -> None:
    """Show the progress of the run in DIRECTORY.

    Reads the ledger; needs no scheduler.
    """
    with exits():
        found = run_status(directory, verify=verify)
        if as_json:
            click.echo(json.dumps(found._asdict(), indent=1))
        else:
            print_status(found)
