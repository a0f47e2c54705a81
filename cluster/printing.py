"""Print the result, the plan and the status of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from dask.utils import format_bytes, format_time
from rich.table import Table

from pairloom.cluster.closed_pipe import QuietConsole
from pairloom.cluster.forecast_file import Ranges
from pairloom.cluster.growing_run import end_of_growth
from pairloom.cluster.needs import disk_bytes, file_count, task_bytes, worker_bytes
from pairloom.cluster.plan import Plan
from pairloom.cluster.status import RunStatus
from pairloom.pipeline.report.report import table_rows

__all__ = ["plan_facts", "print_facts", "print_result", "print_status", "short_time", "time_range"]


def print_result(directory: Path, as_json: bool) -> None:
    metrics = json.loads((directory / "report" / "metrics.json").read_text())
    if as_json:
        ended = _end_of_growth(directory)
        growth = {} if ended is None else {"growth_ended": ended}
        click.echo(json.dumps({"directory": str(directory), **metrics, **growth}, indent=1))
        return
    console = QuietConsole()
    heading, *rows = table_rows(metrics)
    table = Table(*heading, title="synthetic features" if metrics["synthetic"] else None)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if ended := _end_of_growth(directory):
        console.print(f"grown to {metrics['pairs']} pairs: {ended}", highlight=False)
    spent = [(stage, seconds) for stage, seconds in metrics["seconds_of_work"].items() if seconds]
    work = ", ".join(f"{stage} {format_time(seconds)}" for stage, seconds in spent)
    console.print(f"work per stage, summed over workers: {work}", highlight=False)
    if "planned_seconds" in metrics:
        ranges, took = metrics["planned_seconds"], metrics["elapsed_seconds"]
        least, most = (sum(ends) for ends in zip(*ranges.values(), strict=True))
        console.print(
            f"planned: {time_range((least, most))}"
            + (f", took {short_time(sum(took.values()))} in its stages" if took else ""),
            highlight=False,
        )
    console.print(f"report: {directory / 'report' / 'index.html'}", highlight=False, soft_wrap=True)


def _end_of_growth(directory: Path) -> str | None:
    return end_of_growth(directory, Plan.read(directory))


def plan_facts(planned: Plan, seconds: Ranges, overhead: tuple[float, float]) -> dict[str, Any]:
    """What `pairloom plan` shows, given the least and most seconds of each stage."""
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
        "share_of_pairs": E / (N * (N - 1) / 2) if shape.code is None else None,
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


def print_facts(facts: dict[str, Any]) -> None:
    """Print what `plan_facts` found."""
    disk, growing = facts["disk_bytes"], facts["most_pairs"] > facts["edges"]
    lines = [
        f"{facts['classes']} classes, {facts['features']} features"
        + (" (synthetic)" if facts["synthetic"] else ""),
        f"{facts['training_samples']} training samples, {facts['test_samples']} test samples",
        _machines_line(facts) + (f", growing to at most {facts['most_pairs']}" if growing else ""),
        f"tiles: {facts['tiles']}, of up to {facts['edges_per_tile']} {_unit(facts)} each",
        f"slabs: {facts['slabs']}, of up to {facts['samples_per_slab']} test samples each",
        f"tensor: {'stored' if facts['tensor'] == 'stored' else 'not stored'}",
        f"memory: at most {format_bytes(facts['bytes_per_worker'])} per worker",
        f"disk: at most {format_bytes(sum(disk.values()))} in about {facts['files']} files "
        f"({', '.join(f'{name} {format_bytes(n)}' for name, n in disk.items())})",
        f"time: {time_range(facts['seconds'])} on {facts['workers']} "
        f"worker{'s' if facts['workers'] > 1 else ''}, measured on a part of the data"
        + (", before it grows" if growing else ""),
    ]
    click.echo("\n".join(lines))
    table = Table("stage", "units", "time", "memory of a task")
    table.add_row("(start, end)", "", time_range(facts["overhead_seconds"]), "")
    for stage, found in facts["stages"].items():
        memory = "in the driver" if found["bytes"] is None else format_bytes(found["bytes"])
        table.add_row(stage, str(found["units"]), time_range(found["seconds"]), memory)
    QuietConsole().print(table)


def _unit(facts: dict[str, Any]) -> str:
    return "pairs" if facts["machines_on"] == "pairs" else "columns"


def _machines_line(facts: dict[str, Any]) -> str:
    """How many pairs are trained, or how many columns a code has."""
    if facts["machines_on"] == "pairs":
        return f"{facts['edges']} pairs ({facts['share_of_pairs']:.0%} of all)"
    return f"{facts['edges']} columns of a code: machines on sets of classes"


def time_range(seconds: tuple[float, float]) -> str:
    """The least and the most seconds, as text."""
    low, high = map(short_time, seconds)
    return low if low == high else f"{low} to {high}"


def short_time(seconds: float) -> str:
    """A time in the unit that suits it.

    Examples
    --------
    >>> short_time(0.25), short_time(61), short_time(5000), short_time(200_000)
    ('0.2 s', '61.0 s', '83 min', '56 h')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"


def print_status(found: RunStatus) -> None:
    click.echo(f"{found.directory}: {found.state}")
    for stage, (done, total) in found.stages.items():
        if total:
            click.echo(f"  {stage:>13}  {done} of {total}")
    for number, wave in enumerate(found.waves):
        click.echo(
            f"wave {number}: {wave['pairs']} pairs, out-of-fold log loss {wave['log_loss']:.4f}, "
            f"accuracy {wave['accuracy']:.4f}"
        )
    if found.driver:
        click.echo(f"driver: {found.driver}")
    for path in found.damaged:
        click.echo(f"damaged: {path}")
