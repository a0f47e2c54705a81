"""The command ``pairloom ls``: the runs in a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click
from dask.utils import format_bytes

from pairloom.cluster.commands.options import json_option
from pairloom.cluster.exits import exits
from pairloom.cluster.run_list import RunRow, list_runs

__all__ = ["aligned", "list_command", "short_age", "short_number"]

_RUNS = Path("runs")


@click.command("ls")
@click.argument(
    "folder", required=False, metavar="[DIR]", type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@json_option
def list_command(folder: Path | None, as_json: bool) -> None:
    """List the runs in DIR, by default runs: state, scores, size and age, the newest first.

    Scores are of the coupling of the model, on the test samples. Nothing is verified: see `pairloom status --verify`.
    """
    with exits():
        where = folder or _RUNS
        rows = list_runs(where) if where.is_dir() else []
        if as_json:
            click.echo(json.dumps([row.as_json() for row in rows], indent=1))
        elif rows:
            click.echo("\n".join(_lines(rows)))
        else:
            click.echo(f"No runs in {where}. Make one with: pairloom run CONFIG")


def _lines(rows: Sequence[RunRow]) -> list[str]:
    heading = ("run", "state", "classes", "pairs", "accuracy", "log loss", "size", "age")
    cells = [heading, *(_cells(row) for row in rows)]
    lines = aligned(cells, left=2)
    # A reason is as long as it is: it stands behind the columns, or lines would no longer be rows.
    notes = ["", *(f"  {row.why}" if row.why else "" for row in rows)]
    return [f"{line}{note}".rstrip() for line, note in zip(lines, notes, strict=True)]


def _cells(row: RunRow) -> tuple[str, ...]:
    return (
        row.directory,
        row.state,
        short_number(row.classes),
        short_number(row.pairs),
        short_number(row.accuracy),
        short_number(row.log_loss),
        format_bytes(row.bytes),
        short_age(row.age),
    )


def short_number(value: float | None) -> str:
    """A count, or a score to four digits; a dash if there is none."""
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def aligned(cells: Sequence[Sequence[str]], left: int) -> list[str]:
    """Rows as lines with columns of one width, the first ``left`` of them flush left, the others right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def short_age(seconds: float) -> str:
    """A time in the largest unit of which there are two or more.

    Examples
    --------
    >>> [short_age(s) for s in (3, 119, 120, 7200, 200_000)]
    ['3 s', '119 s', '2 min', '2 h', '2 d']
    """
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"
