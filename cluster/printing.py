"""Print the result, the plan and the status of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from dask.utils import format_bytes, format_time
from rich.console import Console
from rich.table import Table

from pairloom.cluster.needs import disk_bytes, file_count, worker_bytes
from pairloom.cluster.plan import Plan
from pairloom.cluster.status import RunStatus
from pairloom.pipeline.report.report import table_rows

__all__ = ["plan_facts", "print_facts", "print_result", "print_status"]


def print_result(directory: Path, as_json: bool) -> None:
    metrics = json.loads((directory / "report" / "metrics.json").read_text())
    if as_json:
        click.echo(json.dumps({"directory": str(directory), **metrics}, indent=1))
        return
    console = Console()
    heading, *rows = table_rows(metrics)
    table = Table(*heading, title="synthetic features" if metrics["synthetic"] else None)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    spent = [(stage, seconds) for stage, seconds in metrics["seconds_of_work"].items() if seconds]
    work = ", ".join(f"{stage} {format_time(seconds)}" for stage, seconds in spent)
    console.print(f"work per stage, summed over workers: {work}", highlight=False)
    console.print(f"report: {directory / 'report' / 'index.html'}", highlight=False, soft_wrap=True)


def plan_facts(planned: Plan, pair_seconds: float) -> dict[str, Any]:
    shape = planned.shape
    N, E = len(shape.classes), len(shape.edges)
    workers = planned.config.cluster.workers
    return {
        "classes": N,
        "features": shape.features,
        "training_samples": sum(shape.rows),
        "test_samples": shape.samples,
        "edges": E,
        "share_of_pairs": E / (N * (N - 1) / 2),
        "most_pairs": planned.most_pairs,
        "edges_per_tile": shape.edges_per_tile,
        "tiles": planned.units("machines"),
        "samples_per_slab": shape.samples_per_slab,
        "slabs": planned.units("probabilities"),
        "tensor": "stored" if shape.tensor_stored else "virtual",
        "bytes_per_worker": worker_bytes(planned),
        "disk_bytes": disk_bytes(planned),
        "files": file_count(planned),
        "seconds_per_pair": pair_seconds,
        "seconds_of_training": planned.most_pairs * pair_seconds,
        "workers": workers,
        "synthetic": shape.synthetic,
    }


def print_facts(facts: dict[str, Any]) -> None:
    disk = facts["disk_bytes"]
    lines = [
        f"{facts['classes']} classes, {facts['features']} features"
        + (" (synthetic)" if facts["synthetic"] else ""),
        f"{facts['training_samples']} training samples, {facts['test_samples']} test samples",
        f"{facts['edges']} pairs ({facts['share_of_pairs']:.0%} of all)"
        + (f", growing to at most {facts['most_pairs']}" if facts["most_pairs"] > facts["edges"] else ""),
        f"tiles: {facts['tiles']}, of up to {facts['edges_per_tile']} pairs each",
        f"slabs: {facts['slabs']}, of up to {facts['samples_per_slab']} test samples each",
        f"tensor: {'stored' if facts['tensor'] == 'stored' else 'not stored'}",
        f"memory: at most {format_bytes(facts['bytes_per_worker'])} per worker",
        f"disk: at most {format_bytes(sum(disk.values()))} in about {facts['files']} files "
        f"({', '.join(f'{name} {format_bytes(n)}' for name, n in disk.items())})",
        f"training: {'at most ' if facts['most_pairs'] > facts['edges'] else ''}"
        f"{format_time(facts['seconds_of_training'])} on one worker "
        f"({format_time(facts['seconds_per_pair'])} per pair, measured on this computer)",
    ]
    click.echo("\n".join(lines))


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
