"""The command ``pairloom compare``: runs side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from dask.utils import format_bytes

from pairloom.cluster.commands.ls import aligned, short_age, short_number
from pairloom.cluster.commands.options import json_option
from pairloom.cluster.exits import exits
from pairloom.cluster.plan import Plan
from pairloom.cluster.run_list import RunRow, differing_settings, read_run, scores_of

__all__ = ["compare_command"]

_SCORES = ("accuracy", "log_loss", "expected_calibration_error")


@click.command("compare")
@click.argument(
    "runs",
    nargs=-1,
    required=True,
    metavar="RUN RUN...",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)
@json_option
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
        ["classes", *(short_number(row.classes) for row in rows)],
        ["pairs", *(short_number(row.pairs) for row in rows)],
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
            yield [f"{method}: {name}", *(short_number(found.get(method, {}).get(score)) for found in scores)]


def _differences(rows: Sequence[RunRow], differing: dict[str, list[Any]]) -> list[str]:
    if not differing:
        return ["The configurations are the same."]
    heading = ["different settings", *(row.directory for row in rows)]
    return aligned([heading, *([key, *map(_setting, values)] for key, values in differing.items())], left=1)


def _setting(value: Any) -> str:
    return "-" if value is None else json.dumps(value, ensure_ascii=False)
