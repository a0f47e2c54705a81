"""The commands ``pairloom run`` and ``pairloom resume``: the same work, by a configuration or by the plan of a run."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from distributed import Client, performance_report

from pairloom.cluster.commands.options import (
    cluster_options,
    directory_option,
    json_option,
    local_path,
    run_argument,
    set_option,
    update_option,
    with_cluster_options,
)
from pairloom.cluster.config import Config, ConfigError
from pairloom.cluster.config_file import load_config, with_overrides
from pairloom.cluster.connect import check_address, connected, install_hint
from pairloom.cluster.exits import ended_by_signals, exits, print_error, resumable, stderr
from pairloom.cluster.plan import Plan
from pairloom.cluster.printing import print_result
from pairloom.cluster.progress import progress_for
from pairloom.cluster.schedule import Stop
from pairloom.cluster.whole_run import begun_run, ready_run

__all__ = ["resume_command", "run_command"]

_INSTALL_BOKEH = install_hint("dashboard")
_performance = click.option(
    "--performance-report", type=local_path, help="Write Dask's performance report (HTML) to this file."
)


@click.command("run")
@click.argument("config")
@set_option
@directory_option
@update_option
@cluster_options
@_performance
@json_option
def run_command(
    config: str, overrides: tuple[str, ...], directory: Path | None, update: bool, **options: Any
) -> None:
    """Plan and run CONFIG, or resume it.

    CONFIG is a TOML file or the name of a configuration that ships with pairloom. If the directory already holds
    the same run, it is resumed.
    """
    with exits():
        settings = with_cluster_options(load_config(config, overrides), options)
        _run(settings, directory or Path("runs") / settings.run.name, update, options)


@click.command("resume")
@run_argument
@set_option
@update_option
@cluster_options
@_performance
@json_option
def resume_command(directory: Path, overrides: tuple[str, ...], update: bool, **options: Any) -> None:
    """Finish the run in DIRECTORY, on the same cluster or another."""
    with exits():
        stored = Plan.read(directory).config
        _run(with_cluster_options(with_overrides(stored, overrides), options), directory, update, options)


def _run(settings: Config, directory: Path, update: bool, options: dict[str, Any]) -> None:
    """Take the lock, do the missing work, print the result."""
    if options["performance_report"] and not _has_bokeh():
        raise ConfigError(f"--performance-report needs bokeh. {_INSTALL_BOKEH}")
    check_address(settings.cluster)
    stop, progress = Stop(), progress_for(stderr)
    connect = functools.partial(_connect, settings, options["performance_report"], stop, progress.say)
    at_once = settings.cluster.is_elsewhere
    with (
        ended_by_signals("Run the same command again to continue."),
        progress,
        ready_run(settings, directory, connect, at_once=at_once, update=update, say=progress.say) as ready,
        resumable(directory),
        contextlib.closing(progress),  # so that what stopped it stands below
        begun_run(ready, stop, progress) as begun,
    ):
        begun.finish(progress)
    print_result(directory, options["as_json"])


def _has_bokeh() -> bool:
    return importlib.util.find_spec("bokeh") is not None


@contextlib.contextmanager
def _connect(
    settings: Config, report_file: Path | None, stop: Stop, say: Callable[[str | None], None]
) -> Iterator[Client]:
    say("connecting to the cluster" if settings.cluster.is_elsewhere else "starting the workers")
    connection = connected(settings.cluster, note=print_error, on_failure=stop.request)
    with connection as client, contextlib.ExitStack() as stack:
        say(None)
        if report_file is not None:
            stack.enter_context(client.as_current())
            stack.enter_context(performance_report(str(report_file)))
        print_error(
            f"Dask dashboard: {client.dashboard_link}"
            if _has_bokeh()
            else f"No Dask dashboard: bokeh is missing. {_INSTALL_BOKEH}"
        )
        yield client
