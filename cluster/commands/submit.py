"""The command ``pairloom submit``: a run whose driver is on a worker."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click

from pairloom.cluster.commands.options import (
    cluster_options,
    directory_option,
    set_option,
    update_option,
    with_cluster_options,
)
from pairloom.cluster.config import ConfigError
from pairloom.cluster.config_file import load_config
from pairloom.cluster.connect import check_address, connected
from pairloom.cluster.exits import exits, print_error
from pairloom.cluster.remote import submit_driver
from pairloom.cluster.whole_run import ready_run

__all__ = ["submit_command"]


@click.command("submit")
@click.argument("config")
@set_option
@directory_option
@update_option
@cluster_options
def submit_command(
    config: str, overrides: tuple[str, ...], directory: Path | None, update: bool, **options: Any
) -> None:
    """Start a run of CONFIG on a cluster and return.

    The driver runs on a worker. The run directory and the data must have the same paths here and on the workers.
    """
    with exits():
        settings = with_cluster_options(load_config(config, overrides), options)
        if settings.cluster.kind != "scheduler":
            raise ConfigError(
                "submit needs a running cluster: pass --scheduler ADDRESS or --scheduler-file FILE."
            )
        check_address(settings.cluster)
        where = (directory or Path("runs") / settings.run.name).absolute()
        connect = functools.partial(connected, settings.cluster, note=print_error)
        with ready_run(settings, where, connect, at_once=True, update=update) as ready:
            submit_driver(ready)
        click.echo(f"Submitted. Follow it with: pairloom attach {where}")
