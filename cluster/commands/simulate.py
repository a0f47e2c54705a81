"""The command ``pairloom simulate``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click
from dask.utils import format_bytes
from rich.table import Table

from pairloom.cluster.commands.exits import FAILED, PipedConsole, exits
from pairloom.cluster.commands.options import json_option
from pairloom.cluster.config.config_file import load_config
from pairloom.cluster.drive.driver import load_data
from pairloom.cluster.simulator.forecast import MARGIN, Validation, validate
from pairloom.cluster.simulator.simulated_cluster import SimulatedCluster, described_cluster
from pairloom.cluster.simulator.simulation import RunForecast, simulate
from pairloom.cluster.simulator.unit_costs import costs_of_run, measure_costs
from pairloom.cluster.simulator.workload import FAMILIES, imagined_workload, planned_workload
from pairloom.graphs.text import duration
from pairloom.pipeline.config.config import ConfigError
from pairloom.pipeline.stages.planning import plan_run

__all__ = ["simulate_command"]

_path = click.Path(path_type=Path)
_run_directory = click.Path(path_type=Path, exists=True, file_okay=False)
# Columns of the table of stages.
_WIDTH = 110
_SIZES = ("classes", "rows", "features", "samples", "edges_per_tile")


def _cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option for every key of `SimulatedCluster`."""
    for name, field in reversed(SimulatedCluster.model_fields.items()):
        kind = field.annotation if not get_args(field.annotation) else str
        option = click.option(
            f"--{name.replace('_', '-')}",
            name,
            type=kind,
            help=f"{(field.description or '').capitalize()}. Default: {field.default}.",
        )
        command = option(command)
    return command


def _size_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option for every size of imagined data."""
    for name in reversed(_SIZES):
        what = {
            "rows": "training rows per class",
            "samples": "test samples",
            "edges_per_tile": "pairs per tile",
        }
        option = click.option(
            f"--{name.replace('_', '-')}",
            type=click.IntRange(2 if name in ("classes", "rows") else 1),
            metavar="N",
            help=f"Imagine this number of {what.get(name, name)}.",
        )
        command = option(command)
    return command


@click.command("simulate")
@click.argument("config", required=False)
@click.option(
    "--set", "overrides", metavar="SECTION.KEY=VALUE", multiple=True, help="Override a key of CONFIG."
)
@click.option(
    "--validate",
    "validated",
    type=_run_directory,
    multiple=True,
    metavar="DIRECTORY",
    help="Compare the forecast of a finished run with its log instead. May be repeated.",
)
@click.option(
    "--costs",
    type=_run_directory,
    metavar="DIRECTORY",
    help="Take the times of units from this finished run. Default: a short run on a part of the data.",
)
@click.option(
    "--cluster", "file", type=_path, metavar="FILE", help="TOML file with a table [simulate] of cluster keys."
)
@click.option("--family", type=click.Choice(FAMILIES), help="Imagine this graph.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, metavar="N", help="Seed of the simulation. Default: 0."
)
@json_option
@_size_options
@_cluster_options
def simulate_command(
    config: str | None,
    overrides: tuple[str, ...],
    validated: tuple[Path, ...],
    costs: Path | None,
    file: Path | None,
    seed: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Forecast a run of CONFIG on a cluster that need not exist.

    Shows the time of every stage and what limits it, the efficiency, the bytes moved, the units done again after
    failures, and the price. With --classes, --rows and so on, the data are imagined to be larger.
    """
    with exits():
        if validated:
            _validate(validated, costs, seed, as_json)
            return
        if config is None:
            raise ConfigError("simulate needs a CONFIG, or --validate DIRECTORY.")
        described = {name: options.pop(name) for name in SimulatedCluster.model_fields}
        cluster = described_cluster(file, described)
        settings = load_config(config, overrides)
        data = load_data(settings)
        plan = plan_run(settings, data)
        times = costs_of_run(costs) if costs else measure_costs(plan, data)
        imagined = {name: value for name, value in options.items() if value is not None}
        work = imagined_workload(plan, seed=seed, **imagined) if imagined else planned_workload(plan)
        forecast = simulate(work, times, cluster, seed=seed)
        if as_json:
            click.echo(json.dumps(_facts(forecast), indent=1))
        else:
            s = work.sizes
            click.echo(
                f"{s.classes:,} classes of {s.rows:,.0f} rows, {s.features} features, {s.samples:,} test samples\n"
                f"{s.edges:,} pairs in {s.tiles:,} tiles of up to {s.edges_per_tile}"
            )
            _print(forecast)


def _facts(forecast: RunForecast) -> dict[str, Any]:
    return {
        "seconds": forecast.seconds,
        "startup": forecast.startup,
        "efficiency": forecast.efficiency,
        "bytes_moved": forecast.bytes_moved,
        "redone": forecast.redone,
        "worker_hours": forecast.worker_hours,
        "price": forecast.price,
        "limited_by": forecast.limited_by,
        "too_large": [stage.stage for stage in forecast.too_large],
        "cluster": forecast.cluster.model_dump(mode="json"),
        "stages": [stage._asdict() | {"limited_by": stage.limited_by} for stage in forecast.stages],
    }


def _print(forecast: RunForecast) -> None:
    cluster = forecast.cluster
    click.echo(f"{cluster.workers} workers of {cluster.cores} cores and {cluster.memory} (simulated)\n")
    table = Table("stage", "units", "tasks", "time", "cores busy", "moved", "redone", "limited by")
    for column in table.columns[1:-1]:
        column.justify = "right"
    for stage in forecast.stages:
        used = "" if stage.where == "driver" else f"{stage.busy['cores']:.0%}"
        table.add_row(
            stage.stage,
            f"{stage.units:,}",
            f"{stage.tasks:,}",
            duration(stage.seconds),
            used,
            format_bytes(int(stage.bytes_moved)),
            f"{stage.redone:,}",
            stage.limited_by,
        )
    PipedConsole(width=_WIDTH).print(table)
    click.echo(
        f"total: {duration(forecast.seconds)}, {duration(forecast.startup)} of which until the workers are there\n"
        f"efficiency {forecast.efficiency:.0%}, "
        f"{format_bytes(int(forecast.bytes_moved))} moved, {forecast.redone:,} units redone\n"
        f"price: {forecast.price:,.2f} for {forecast.worker_hours:,.1f} worker-hours\n"
        f"most of the time is limited by: {forecast.limited_by}"
    )
    for stage in forecast.too_large:
        click.echo(
            f"{stage.stage}: one task needs about {format_bytes(int(stage.memory))}, a worker has {cluster.memory}. "
            "The run would fail here; the time is that of a worker with enough memory."
        )


def _validate(directories: tuple[Path, ...], costs: Path | None, seed: int, as_json: bool) -> None:
    other = costs_of_run(costs) if costs else None
    validations = [validate(directory, other, seed=seed) for directory in directories]
    if as_json:
        click.echo(
            json.dumps([one._asdict() | {"directory": str(one.directory)} for one in validations], indent=1)
        )
    else:
        for one in validations:
            _print_validation(one)
    if any(abs(one.error) > MARGIN for one in validations):
        sys.exit(FAILED)


def _print_validation(run: Validation) -> None:
    table = Table(
        "stage", "actual", "forecast", "error", title=f"{run.directory.name}, {run.workers} workers"
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for stage, seconds in run.actual.items():
        predicted = run.forecast[stage]
        table.add_row(stage, f"{seconds:.2f} s", f"{predicted:.2f} s", f"{predicted / seconds - 1:+.0%}")
    table.add_section()
    actual, predicted = sum(run.actual.values()), sum(run.forecast.values())
    table.add_row("total", f"{actual:.2f} s", f"{predicted:.2f} s", f"{run.error:+.1%}")
    PipedConsole().print(table)
    verdict = "within" if abs(run.error) <= MARGIN else "NOT within"
    click.echo(
        f"{verdict} {MARGIN:.0%}; the workers took {run.startup:.1f} s to start, which is not forecast\n"
    )
