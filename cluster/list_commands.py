"""``pairloom ls`` and ``pairloom compare``: runs in a folder, and some of them side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from dask.utils import format_bytes

from pairloom.cluster.exits import exits
from pairloom.cluster.plan import Plan
from pairloom.cluster.run_list import RunRow, differing_settings, list_runs, read_run, scores_of

__all__ = ["compare_command", "list_command"]

_RUNS = Path("runs")
_SCORES = ("accuracy", "log_loss", "expected_calibration_error")
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")


@click.command("ls")
@click.argument(
    "folder", required=False, metavar="[DIR]", type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@_as_json
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
        _number(row.classes),
        _number(row.pairs),
        _number(row.accuracy),
        _number(row.log_loss),
        format_bytes(row.bytes),
        short_age(row.age),
    )


def _number(value: float | None) -> str:
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


@click.command("compare")
@click.argument(
    "runs",
    nargs=-1,
    required=True,
    metavar="RUN RUN...",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)
@_as_json
def compare_command(runs: tuple[Path, ...], as_json: bool) -> None:
    """Show the scores of runs side by side, and the settings in which they differ."""
    with exits():
        if len(runs) < 2:
            raise click.UsageError("compare needs two run directories or more.")
        plans = [Plan.read(run) for run in runs]
        rows, scores = [read_run(run) for run in runs], [scores_of(run) for run in runs]
        differing = differing_settings(runs)
        same = len({plan.fingerprints["test"] for plan in plans}) == 1
        if as_json:
            listed = [row.as_json() | {"methods": found} for row, found in zip(rows, scores, strict=True)]
            click.echo(
                json.dumps({"runs": listed, "same_test_samples": same, "differing": differing}, indent=1)
            )
            return
        click.echo("\n".join(_side_by_side(rows, scores)))
        if not same:
            click.echo("\nThe test samples differ, so the scores cannot be compared directly.")
        click.echo("")
        click.echo("\n".join(_differences(rows, differing)))


def _side_by_side(rows: Sequence[RunRow], scores: Sequence[dict[str, Any]]) -> list[str]:
    cells = [
        ["", *(row.directory for row in rows)],
        ["state", *(row.state for row in rows)],
        ["classes", *(_number(row.classes) for row in rows)],
        ["pairs", *(_number(row.pairs) for row in rows)],
        *_score_rows(scores),
        ["size", *(format_bytes(row.bytes) for row in rows)],
        ["age", *(short_age(row.age) for row in rows)],
    ]
    return aligned(cells, left=1)


def _score_rows(scores: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    """A row per coupling and score; the couplings that the first run has first."""
    for method in dict.fromkeys(method for found in scores for method in found):
        for score in _SCORES:
            name = score.replace("expected_", "").replace("_", " ")
            yield [f"{method}: {name}", *(_number(found.get(method, {}).get(score)) for found in scores)]


def _differences(rows: Sequence[RunRow], differing: dict[str, list[Any]]) -> list[str]:
    if not differing:
        return ["The configurations are the same."]
    heading = ["different settings", *(row.directory for row in rows)]
    return aligned([heading, *([key, *map(_setting, values)] for key, values in differing.items())], left=1)


def _setting(value: Any) -> str:
    return "-" if value is None else json.dumps(value, ensure_ascii=False)
