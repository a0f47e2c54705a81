"""The commands that start work: ``pairloom plan``, ``run``, ``resume`` and ``submit``."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from dask.utils import format_bytes
from distributed import Client, performance_report
from rich.table import Table

from pairloom.cluster.commands.exits import (
    PipedConsole,
    ended_by_signals,
    exits,
    print_error,
    resumable,
    stderr,
)
from pairloom.cluster.commands.options import (
    cluster_options,
    config_argument,
    directory_option,
    json_option,
    local_path,
    run_argument,
    set_option,
    update_option,
    with_cluster_options,
)
from pairloom.cluster.commands.results import print_result
from pairloom.cluster.config.config_file import load_config, with_overrides
from pairloom.cluster.connect.cluster_checks import check_address
from pairloom.cluster.connect.connect import connected, install_hint
from pairloom.cluster.drive.driver import load_data
from pairloom.cluster.drive.schedule import Stop
from pairloom.cluster.drive.tasks import COMPILATIONS
from pairloom.cluster.drive.whole_run import checked_run, locked_run, submit_driver
from pairloom.cluster.simulator.forecast import forecast_overhead, forecast_seconds, process_seconds
from pairloom.cluster.watch.progress import Quiet, progress_for
from pairloom.graphs.text import duration_range
from pairloom.pipeline.accelerate import Compilation, compilations_reported
from pairloom.pipeline.config.config import Config, ConfigError, input_errors
from pairloom.pipeline.run.needs import disk_bytes, file_count, task_bytes, worker_bytes
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_log import Ranges
from pairloom.pipeline.stages.planning import plan_run
from pairloom.pipeline.stages.run_file import read_run
from pairloom.pipeline.storage.location import Location

__all__ = ["plan_command", "resume_command", "run_command", "submit_command"]

_INSTALL_BOKEH = install_hint("dashboard")
_performance = click.option(
    "--performance-report", type=local_path, help="Write Dask's performance report (HTML) to this file."
)


@click.command("run")
@config_argument
@directory_option
@update_option
@cluster_options
@_performance
@json_option
def run_command(
    config: str, overrides: tuple[str, ...], directory: Location | None, update: bool, **options: Any
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
def resume_command(directory: Location, overrides: tuple[str, ...], update: bool, **options: Any) -> None:
    """Finish the run in DIRECTORY, on the same cluster or another."""
    with exits():
        stored = read_run(directory).config
        _run(with_cluster_options(with_overrides(stored, overrides), options), directory, update, options)


def _run(settings: Config, directory: Location, update: bool, options: dict[str, Any]) -> None:
    """Take the lock, do the missing work, print the result."""
    if options["performance_report"] and not _has_bokeh():
        raise ConfigError(f"--performance-report needs bokeh. {_INSTALL_BOKEH}")
    check_address(settings.cluster)
    stop, progress = Stop(), progress_for(stderr)
    connect = functools.partial(_connect, settings, options["performance_report"], stop, progress)
    at_once = settings.cluster.is_remote
    with (
        # For signals before the run has begun, while nothing is written; `resumable` handles later ones.
        ended_by_signals("Run the same command again to continue."),
        progress,
        compilations_reported(progress.compiling),
        checked_run(settings, directory, connect, at_once=at_once, update=update, say=progress.say) as ready,
        resumable(directory),
        contextlib.closing(progress),  # before `resumable` prints why the run stopped, below the progress
        locked_run(ready, stop, progress) as begun,
    ):
        begun.finish(progress)
    print_result(directory, options["as_json"])


def _has_bokeh() -> bool:
    return importlib.util.find_spec("bokeh") is not None


@contextlib.contextmanager
def _connect(settings: Config, report_file: Path | None, stop: Stop, progress: Quiet) -> Iterator[Client]:
    progress.say("connecting to the cluster" if settings.cluster.is_remote else "starting the workers")
    connection = connected(settings.cluster, note=print_error, on_failure=stop.request)
    with connection as client, contextlib.ExitStack() as stack:
        progress.say(None)
        client.subscribe_topic(COMPILATIONS, lambda event: progress.compiling(Compilation(*event[1])))
        if report_file is not None:
            stack.enter_context(client.as_current())
            stack.enter_context(performance_report(str(report_file)))
        if _has_bokeh():
            print_error(f"Dask dashboard: {client.dashboard_link}")
        yield client


@click.command("submit")
@config_argument
@directory_option
@update_option
@cluster_options
def submit_command(
    config: str, overrides: tuple[str, ...], directory: Location | None, update: bool, **options: Any
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
        with checked_run(settings, where, connect, at_once=True, update=update) as ready:
            submit_driver(ready)
        click.echo(f"Submitted. Follow it with: pairloom attach {where}")


@click.command("plan")
@config_argument
@json_option
def plan_command(config: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Show the pairs, memory, disk and time of a run.

    CONFIG is a TOML file or the name of a configuration that ships with pairloom. Nothing is written.
    """
    with exits(), input_errors():
        imports = process_seconds()
        settings = load_config(config, overrides)
        data = load_data(settings)
        planned = plan_run(settings, data)
        overhead = forecast_overhead(planned, imports, process_seconds() - imports)
        facts = _plan_facts(planned, forecast_seconds(planned, data), overhead)
        if as_json:
            click.echo(json.dumps(facts, indent=1))
        else:
            _print_plan(facts)


def _plan_facts(planned: Run, seconds: Ranges, overhead: tuple[float, float]) -> dict[str, Any]:
    """The plan of a run as JSON, given the least and most seconds of each stage and of its start and end."""
    shape = planned.shape
    N, E = len(shape.classes), shape.n_edges
    memory = task_bytes(planned)
    return {
        "classes": N,
        "features": shape.features,
        "training_samples": sum(shape.rows),
        "test_samples": shape.samples,
        "edges": E,
        "machines_on": "pairs" if shape.code is None else "sets of classes",
        "share_of_pairs": shape.decomposition.share_of_pairs,
        "most_pairs": planned.most_pairs,
        "edges_per_tile": shape.edges_per_tile,
        "tiles": planned.units("machines"),
        "samples_per_slab": shape.samples_per_slab,
        "slabs": planned.units("probabilities"),
        "tensor": "stored" if shape.tensor_stored else "virtual",
        "bytes_per_worker": worker_bytes(planned),
        "disk_bytes": disk_bytes(planned),
        "files": file_count(planned),
        "stages": {
            stage: {"units": planned.units(stage), "seconds": seconds[stage], "bytes": memory.get(stage)}
            for stage in planned.keys
            if planned.units(stage)
        },
        "overhead_seconds": overhead,
        "seconds": tuple(map(sum, zip(overhead, *seconds.values(), strict=True))),
        "workers": planned.config.cluster.expected_workers,
        "synthetic": shape.synthetic,
    }


def _print_plan(facts: dict[str, Any]) -> None:
    disk, growing = facts["disk_bytes"], facts["most_pairs"] > facts["edges"]
    lines = [
        f"{facts['classes']} classes, {facts['features']} features"
        + (" (synthetic)" if facts["synthetic"] else ""),
        f"{facts['training_samples']} training samples, {facts['test_samples']} test samples",
        _machines_line(facts) + (f", growing to at most {facts['most_pairs']}" if growing else ""),
        f"tiles: {facts['tiles']}, of up to {facts['edges_per_tile']} "
        f"{'pairs' if facts['machines_on'] == 'pairs' else 'columns'} each",
        f"slabs: {facts['slabs']}, of up to {facts['samples_per_slab']} test samples each",
        f"tensor: {'stored' if facts['tensor'] == 'stored' else 'not stored'}",
        f"memory: at most {format_bytes(facts['bytes_per_worker'])} per worker",
        f"disk: at most {format_bytes(sum(disk.values()))} in about {facts['files']} files "
        f"({', '.join(f'{name} {format_bytes(n)}' for name, n in disk.items())})",
        f"time: {duration_range(facts['seconds'])} on {facts['workers']} "
        f"worker{'s' if facts['workers'] > 1 else ''}, measured on a part of the data"
        + (", before it grows" if growing else ""),
    ]
    click.echo("\n".join(lines))
    table = Table("stage", "units", "time", "memory of a task")
    table.add_row("(start, end)", "", duration_range(facts["overhead_seconds"]), "")
    for name, stage in facts["stages"].items():
        memory = "in the driver" if stage["bytes"] is None else format_bytes(stage["bytes"])
        table.add_row(name, str(stage["units"]), duration_range(stage["seconds"]), memory)
    PipedConsole().print(table)


def _machines_line(facts: dict[str, Any]) -> str:
    """The number of trained pairs, or of columns of a code, as text."""
    if facts["machines_on"] == "pairs":
        return f"{facts['edges']} pairs ({facts['share_of_pairs']:.0%} of all)"
    return f"{facts['edges']} columns of a code: machines on sets of classes"
