"""The commands for finished runs: ``pairloom report``, ``predict``, ``ls`` and ``compare``."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from dask.utils import format_bytes
from rich.table import Table

from pairloom.cluster.commands.exits import PipedConsole, exits, stderr
from pairloom.cluster.commands.options import LocalPath, json_option, local_path, run_argument
from pairloom.cluster.connect.connect import connected
from pairloom.cluster.drive.driver import drive, unfinished_units
from pairloom.cluster.drive.schedule import Stop
from pairloom.cluster.drive.whole_run import expect_run
from pairloom.cluster.watch.progress import progress_for
from pairloom.cluster.watch.status import RunRow, differing_settings, list_runs, run_row, scores_of
from pairloom.graphs.text import duration, duration_range, durations, printable
from pairloom.pipeline.config.cluster_config import ClusterConfig
from pairloom.pipeline.config.input_errors import input_errors
from pairloom.pipeline.estimator.pairwise_svc import PairwiseSVC
from pairloom.pipeline.features.feature_set import load_samples
from pairloom.pipeline.report.report import table_rows
from pairloom.pipeline.run.growing_run import end_of_growth
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.lock import RunLock
from pairloom.pipeline.run.ownership import check_links
from pairloom.pipeline.run.probability_files import check_target, write_probabilities
from pairloom.pipeline.stages.run_file import read_run
from pairloom.pipeline.storage.folder import Folder

__all__ = ["compare_command", "list_command", "predict_command", "print_result", "report_command"]

_SCORES = ("accuracy", "log_loss", "expected_calibration_error")
# Folders of runs, on this computer.
_folder = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command("report")
@run_argument
@json_option
def report_command(directory: Path, as_json: bool) -> None:
    """Rewrite the report of a finished run and print its table."""
    with exits():
        stored = read_run(directory)
        check_links(stored)
        missing = unfinished_units(stored, stored.stages[:-1])
        if any(missing.values()):
            raise ValueError(
                f"{directory}: the run is not finished. Run `pairloom resume {directory}` first."
            )
        with RunLock(directory) as lock:
            Ledger(directory).forget("report", 0)
            with progress_for(stderr) as progress:
                expect_run(stored, None, progress)
                progress.say(None)  # no workers are started
                here = functools.partial(connected, ClusterConfig(kind="threads", workers=1))
                drive(stored, None, here, Stop(), progress, stored.stages[-1:])
            lock.end_as("finished")
        print_result(directory, as_json)


def print_result(directory: Path, as_json: bool) -> None:
    """Print the scores of a finished run, as a table or as JSON."""
    metrics = json.loads(Folder(directory).read("report/metrics.json"))
    growth_ended = end_of_growth(read_run(directory))
    if as_json:
        growth = {} if growth_ended is None else {"growth_ended": growth_ended}
        click.echo(json.dumps({"directory": str(directory), **metrics, **growth}, indent=1))
        return
    console = PipedConsole(highlight=False)
    heading, *rows = table_rows(metrics)
    table = Table(*heading, title="synthetic features" if metrics["synthetic"] else None)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if growth_ended:
        console.print(f"grown to {metrics['pairs']} pairs: {growth_ended}")
    work = {stage: seconds for stage, seconds in metrics["seconds_of_work"].items() if seconds}
    listed = ", ".join(map(" ".join, zip(work, durations(work.values()), strict=True)))
    console.print(f"work per stage, summed over workers: {listed}")
    if "planned_seconds" in metrics:
        ranges, took = metrics["planned_seconds"], metrics["elapsed_seconds"]
        least, most = (sum(ends) for ends in zip(*ranges.values(), strict=True))
        console.print(
            f"planned: {duration_range((least, most))}"
            + (f", took {duration(sum(took.values()))} in its stages" if took else "")
        )
    console.print(f"report: {directory / 'report' / 'index.html'}", soft_wrap=True)


@click.command("predict")
@run_argument
@click.option(
    "--features",
    type=LocalPath(),
    metavar="PATH",
    required=True,
    help="Samples X: .npz file, zarr group, folder of .npy files, or a table with the columns of the training data.",
)
@click.option(
    "--out",
    required=True,
    type=local_path,
    help="File to write, with the predicted label of each sample and the probabilities: .npz, .csv or .zarr.",
)
@click.option("--coupling", metavar="NAME", help="One of the couplings of the run. Default: model.coupling.")
@click.option("--force", is_flag=True, help="Replace the file of --out if it exists.")
@click.option(
    "--fill-missing-chunks",
    is_flag=True,
    help="Read chunks that the features of a zarr group lack as its fill value; else they are an error.",
)
def predict_command(
    directory: Path, features: str, out: Path, coupling: str | None, force: bool, fill_missing_chunks: bool
) -> None:
    """Predict new samples with the run in DIRECTORY.

    Writes the predicted label and the probabilities of all classes for each sample. Of a table, columns are found by
    their names; others are not read.
    """
    with exits():
        with input_errors():
            check_target(out, force=force, samples=features)
        model = PairwiseSVC.from_run(directory, coupling=coupling)
        with input_errors():
            names = getattr(model, "feature_names_in_", None)
            X = load_samples(
                features,
                model.n_features_in_,
                None if names is None else names.tolist(),
                "fill" if fill_missing_chunks else "refuse",
            )
            if names is not None:
                del model.feature_names_in_  # columns were found by them; an array has none to compare
            p = model.predict_proba(X)
        write_probabilities(out, p, model.classes_, force=force)
        click.echo(f"Wrote the labels and probabilities of {len(X)} samples, by {model.coupling}, to {out}")


@click.command("ls")
@click.argument("folder", required=False, metavar="[DIR]", type=_folder)
@json_option
def list_command(folder: Path | None, as_json: bool) -> None:
    """List the runs in DIR, by default runs: state, scores, size and age, the newest first.

    Scores are of the coupling of the model, on the test samples. Nothing is verified: see `pairloom status --verify`.
    """
    with exits():
        where = folder or Path("runs")
        rows = list_runs(where) if where.is_dir() else []
        if as_json:
            click.echo(json.dumps([row.as_json() for row in rows], indent=1))
        elif rows:
            click.echo(printable("\n".join(_lines(rows))))
        else:
            click.echo(f"No runs in {where}. Make one with: pairloom run CONFIG")


def _lines(rows: Sequence[RunRow]) -> list[str]:
    heading = ("run", "state", "classes", "pairs", "accuracy", "log loss", "size", "age")
    cells = [heading, *(_cells(row) for row in rows)]
    lines = _aligned(cells, left=2)
    # Behind the columns, since reasons are long: in a column of its own the longest would widen all lines.
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
        duration(row.age),
    )


def _number(value: float | None) -> str:
    """A count, or a score to four digits; a dash if there is none."""
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _aligned(cells: Sequence[Sequence[str]], left: int) -> list[str]:
    """Rows as lines with columns of one width, the first ``left`` of them flush left, the others right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...", type=_folder)
@json_option
def compare_command(runs: tuple[Path, ...], as_json: bool) -> None:
    """Show the scores of runs side by side, and the settings in which they differ."""
    with exits():
        if len(runs) < 2:
            raise click.UsageError("compare needs two run directories or more.")
        plans = [read_run(run) for run in runs]
        rows, scores = [run_row(run) for run in runs], [scores_of(run) for run in runs]
        differing = differing_settings(runs)
        same = len({plan.fingerprints["test"] for plan in plans}) == 1
        if as_json:
            listed = [row.as_json() | {"methods": methods} for row, methods in zip(rows, scores, strict=True)]
            click.echo(
                json.dumps({"runs": listed, "same_test_samples": same, "differing": differing}, indent=1)
            )
            return
        click.echo(printable("\n".join(_side_by_side(rows, scores))))
        if not same:
            click.echo("\nThe test samples differ, so the scores cannot be compared directly.")
        click.echo("")
        click.echo(printable("\n".join(_differences(rows, differing))))


def _side_by_side(rows: Sequence[RunRow], scores: Sequence[dict[str, Any]]) -> list[str]:
    cells = [
        ["", *(row.directory for row in rows)],
        ["state", *(row.state for row in rows)],
        ["classes", *(_number(row.classes) for row in rows)],
        ["pairs", *(_number(row.pairs) for row in rows)],
        *_score_rows(scores),
        ["size", *(format_bytes(row.bytes) for row in rows)],
        ["age", *(duration(row.age) for row in rows)],
    ]
    return _aligned(cells, left=1)


def _score_rows(scores: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    """A row per coupling and score. The couplings of the first run come first."""
    for method in dict.fromkeys(method for run in scores for method in run):
        for score in _SCORES:
            name = score.replace("expected_", "").replace("_", " ")
            yield [f"{method}: {name}", *(_number(run.get(method, {}).get(score)) for run in scores)]


def _differences(rows: Sequence[RunRow], differing: dict[str, list[Any]]) -> list[str]:
    if not differing:
        return ["The configurations are the same."]
    heading = ["different settings", *(row.directory for row in rows)]
    return _aligned([heading, *([key, *map(_setting, values)] for key, values in differing.items())], left=1)


def _setting(value: Any) -> str:
    return "-" if value is None else json.dumps(value, ensure_ascii=False)
