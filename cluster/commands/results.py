"""The commands for finished runs: ``pairloom report``, ``predict``, ``audit``, ``ls`` and ``compare``."""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, get_args

import click
import numpy as np
from dask.utils import format_bytes
from numpy.typing import NDArray
from rich.table import Table

from pairloom.cluster.commands.exits import PipedConsole, exits, print_error, stderr
from pairloom.cluster.commands.options import DataLocation, LocalPath, RunLocation, json_option, run_argument
from pairloom.cluster.connect.connect import connected
from pairloom.cluster.drive.driver import drive, unfinished_units
from pairloom.cluster.drive.schedule import Stop
from pairloom.cluster.drive.whole_run import driver_lock, expect_run
from pairloom.cluster.watch.progress import progress_for
from pairloom.cluster.watch.status import RunRow, differing_settings, list_runs, run_row, scores_of
from pairloom.graphs.text import (
    did_you_mean,
    duration,
    duration_range,
    durations,
    listed,
    plain_line,
    printable,
)
from pairloom.pipeline.config.cluster_config import ClusterConfig
from pairloom.pipeline.config.config import InputError, input_errors
from pairloom.pipeline.display.top_probabilities import TopProbabilities
from pairloom.pipeline.estimator.pairwise_svc import PairwiseSVC
from pairloom.pipeline.features.feature_set import NewSamples, load_samples, names_of
from pairloom.pipeline.features.source_files import MissingChunks
from pairloom.pipeline.features.tables import is_table, open_table
from pairloom.pipeline.model.class_groups import class_groups
from pairloom.pipeline.model.prediction_sets import SetBy, SetScore
from pairloom.pipeline.report.label_doubts import audit_rows, audit_run
from pairloom.pipeline.report.report import csv_text, table_rows
from pairloom.pipeline.run.growing_run import end_of_growth
from pairloom.pipeline.run.ledger import Ledger
from pairloom.pipeline.run.ownership import check_links
from pairloom.pipeline.run.probability_files import (
    Predictions,
    check_target,
    print_predictions,
    write_predictions,
)
from pairloom.pipeline.stages.run_file import read_run
from pairloom.pipeline.storage.atomic_file import write_atomically
from pairloom.pipeline.storage.folder import Folder, fenced
from pairloom.pipeline.storage.location import Location, StoreUrl

__all__ = [
    "audit_command",
    "compare_command",
    "list_command",
    "predict_command",
    "print_result",
    "report_command",
]

_SCORES = ("accuracy", "log_loss", "expected_calibration_error")
#: Maximum number of unpredictable rows that are named on standard error.
_MOST_BAD_ROWS = 10
# Folders of runs, on this computer.
_folder = RunLocation(path_type=Path, exists=True, file_okay=False)


@click.command("report")
@run_argument
@json_option
def report_command(directory: Location, as_json: bool) -> None:
    """Rewrite the report of a finished run and print its table."""
    with exits():
        stored = read_run(directory)
        check_links(stored)
        missing = unfinished_units(stored, stored.stages[:-1])
        if any(missing.values()):
            raise ValueError(
                f"{directory}: the run is not finished. Run `pairloom resume {directory}` first."
            )
        stop = Stop()
        with driver_lock(directory, stop) as lock:
            with fenced(stop.check):
                Ledger(directory).forget("report", 0)
            with progress_for(stderr) as progress:
                expect_run(stored, None, progress)
                progress.say(None)  # no workers are started
                here = functools.partial(connected, ClusterConfig(kind="threads", workers=1))
                drive(stored, None, here, stop, progress, stored.stages[-1:])
            lock.end_as("finished")
        print_result(directory, as_json)


def print_result(directory: Location, as_json: bool) -> None:
    """Print the scores of a finished run, as a table or as JSON."""
    metrics = json.loads(Folder(directory).read("report/metrics.json"))
    growth_ended = end_of_growth(read_run(directory))
    if as_json:
        growth = {} if growth_ended is None else {"growth_ended": growth_ended}
        click.echo(json.dumps({"directory": str(directory), **metrics, **growth}, indent=1))
        return
    console = PipedConsole(highlight=False)
    heading, *rows = table_rows(metrics)
    table = Table(title="synthetic features" if metrics["synthetic"] else None)
    for place, title in enumerate(heading[:-1]):  # the number of machines is the same in all rows
        table.add_column(title, no_wrap=place == 0)
    for row in rows:
        table.add_row(*row[:-1])
    console.print(table)
    unit = heading[-1]
    console.print(
        f"{metrics[unit]:,} {unit}, {metrics['classes']:,} classes, {metrics['samples']:,} test samples"
    )
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
    type=DataLocation(allow_dash=True),
    metavar="PATH",
    required=True,
    help="Samples X: a table with the columns of the training data, a .npz file, a zarr group (also s3://bucket/x.zarr),"
    " or a folder of .npy files; - is standard input.",
)
@click.option(
    "--out",
    required=True,
    type=LocalPath(path_type=Path, allow_dash=True),
    help="File to write: .csv, .parquet, .npz or .zarr; - is CSV on standard output.",
)
@click.option(
    "--id",
    "id_column",
    metavar="COLUMN",
    help="Column of a table that names its rows. Default: data.id of the run, or the numbers of the rows, from 0.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    metavar="K",
    help="Write the K likeliest classes of each row and the probability of the rest, in place of the probabilities of"
    " all classes.",
)
@click.option(
    "--classes",
    "classes_file",
    type=LocalPath(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Text file with the names of the possible classes, one per line; only pairs among them are coupled. Or a .npy"
    " file with a boolean mask: a row per sample, a column per class.",
)
@click.option(
    "--reject",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Predict -1 (for names: none of these) for samples that resemble no class, at a limit by which this share of"
    " the samples of known classes is rejected.",
)
@click.option(
    "--reject-by",
    type=click.Choice(get_args(SetBy)),
    default="all",
    help="Whether that share is of all samples, or of those predicted as each class. Default: all.",
)
@click.option(
    "--novelty", is_flag=True, help="Write the column novelty: how little a row resembles any class."
)
@click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Write the column set: classes, separated by ;, that contain the true one with this frequency. With --groups,"
    " also the frequency with which groups are right.",
)
@click.option(
    "--set-score",
    type=click.Choice(get_args(SetScore)),
    default="lac",
    help="Score of the sets of --coverage: lac gives the smallest ones, aps and raps give larger ones for harder rows."
    " Default: lac.",
)
@click.option(
    "--set-by",
    type=click.Choice(get_args(SetBy)),
    default="all",
    help="Whether that frequency is over all samples, or over those of each class. Default: all.",
)
@click.option(
    "--groups",
    "groups_file",
    type=LocalPath(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="CSV file with one line per class: its name, its group, and coarser groups. Write the columns group and"
    " group_level: the class (level 0) or the finest group that is certain enough for --coverage, by default 0.95.",
)
@click.option(
    "--bad-rows",
    type=click.Choice(["empty", "skip", "refuse"]),
    default="empty",
    help="Rows with missing numbers: leave their predictions empty, skip them, or predict nothing. Default: empty.",
)
@click.option("--coupling", metavar="NAME", help="One of the couplings of the run. Default: model.coupling.")
@click.option("--force", is_flag=True, help="Replace the file of --out if it exists.")
@click.option(
    "--fill-missing-chunks",
    is_flag=True,
    help="Read missing chunks of the features of a zarr group as its fill value; otherwise they are an error.",
)
def predict_command(
    directory: Location,
    features: str | StoreUrl,
    out: Path,
    id_column: str | None,
    top: int | None,
    classes_file: Path | None,
    reject: float | None,
    reject_by: SetBy,
    novelty: bool,
    coverage: float | None,
    set_score: SetScore,
    set_by: SetBy,
    groups_file: Path | None,
    bad_rows: str,
    coupling: str | None,
    force: bool,
    fill_missing_chunks: bool,
) -> None:
    """Predict new samples with the run in DIRECTORY.

    Writes for each sample its id, the predicted label, its probability (the confidence), and the probabilities of all
    classes. Columns of a table are found by name, and others are ignored. Rows that cannot be predicted are named on
    standard error.
    """
    with exits(), contextlib.ExitStack() as stack:
        if reject is None and reject_by != "all":
            raise click.UsageError("--reject-by needs --reject.")
        if coverage is None and (set_score, set_by) != ("lac", "all"):
            raise click.UsageError("--set-score and --set-by need --coverage.")
        to_stdout = str(out) == "-"
        with input_errors():
            if not to_stdout:
                check_target(out, force=force, samples=str(features))
            source = str(stack.enter_context(_standard_input()) if features == "-" else features)
        model = PairwiseSVC.from_run(directory, coupling=coupling)
        with input_errors():
            samples = _new_samples(
                model, source, id_column or _id_column(directory, source), fill_missing_chunks
            )
            if samples.problems:
                print_error(_bad_rows_text(samples, bad_rows))
            if samples.problems and (bad_rows == "refuse" or not samples.whole.any()):
                raise InputError("Nothing was predicted.")
            classes = None if classes_file is None else _possible_classes(model, classes_file, samples.whole)
            groups = None if groups_file is None else _named_groups(model, groups_file)
            asked = _Asked(
                classes, reject, reject_by, novelty, coverage, {"score": set_score, "by": set_by}, groups
            )
            predictions = _predicted(model, samples, asked, skip=bad_rows == "skip", top=top)
        if to_stdout:
            print_predictions(sys.stdout, predictions)
            return
        write_predictions(out, predictions, force=force)
        click.echo(
            f"Wrote the predictions of {int(predictions.known.sum())} samples, by {model.coupling}, to {out}"
        )


@contextlib.contextmanager
def _standard_input() -> Iterator[Path]:
    """Standard input as a file, because a table is read more than once."""
    with tempfile.TemporaryDirectory() as folder:
        content = sys.stdin.buffer
        first = content.read(4)
        endings = {b"PAR1": ".parquet", b"PK\x03\x04": ".npz", b"\x1f\x8b": ".csv.gz"}
        ending = next((ending for magic, ending in endings.items() if first.startswith(magic)), ".csv")
        path = Path(folder) / f"standard_input{ending}"
        with path.open("wb") as file:
            file.write(first)
            shutil.copyfileobj(content, file)
        yield path


def _id_column(directory: Location, source: str) -> str | None:
    """The column of ids in the data of the run, if the samples have it."""
    column = read_run(directory).config.data.id
    path = Path(source)
    if column is None or not (path.is_file() and is_table(path)):
        return None
    return column if column in open_table(path).names else None


def _new_samples(model: PairwiseSVC, source: str, ids: str | None, fill_missing_chunks: bool) -> NewSamples:
    names = getattr(model, "feature_names_in_", None)
    path = Path(source)
    if ids is not None:
        if not (path.is_file() and is_table(path)):
            raise ValueError(f"--id is for tables (.csv, .tsv, .parquet), got it for {source}.")
        columns = open_table(path).names
        if ids not in columns:
            raise ValueError(
                f"{source}: --id must name a column, got {ids!r}.{did_you_mean(ids, columns)}"
                f" The columns are {listed(columns, 12)}."
            )
    missing_chunks: MissingChunks = "fill" if fill_missing_chunks else "refuse"
    known = None if names is None else names.tolist()
    return load_samples(source, model.n_features_in_, known, missing_chunks, ids)


def _bad_rows_text(samples: NewSamples, bad_rows: str) -> str:
    """The message about rows that cannot be predicted, with their ids."""
    done = {
        "empty": "their predictions are left empty",
        "skip": "they are skipped",
        "refuse": "see --bad-rows",
    }
    count, n = len(samples.problems), samples.X.shape[0]
    lines = [
        f"  {plain_line(samples.ids[row])}: {why}"
        for row, why in islice(samples.problems.items(), _MOST_BAD_ROWS)
    ]
    if count > _MOST_BAD_ROWS:
        lines.append(f"  and {count - _MOST_BAD_ROWS} more")
    rows = f"{count} of {n} rows" if n > 1 else "The row"
    return "\n".join([f"{rows} cannot be predicted; {done[bad_rows]}:", *lines])


def _possible_classes(model: PairwiseSVC, file: Path, whole: NDArray[np.bool_]) -> Any:
    """The possible classes of all rows, from a text file, or those of each row that is whole, from a mask."""
    if file.suffix != ".npy":
        return _named_classes(model, file)
    try:
        mask = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"--classes {file}: damaged or not what its name says: {error}.") from error
    expected = (len(whole), len(model.classes_))
    if mask.shape != expected or mask.dtype != np.bool_:
        raise ValueError(
            f"--classes {file}: a mask must be boolean, with a row per sample and a column per class, {expected}, got"
            f" {mask.dtype} of shape {mask.shape}."
        )
    if len(none := np.flatnonzero(whole & ~mask.any(axis=1))):
        raise ValueError(
            f"--classes {file}: a mask must leave each sample a class, got none in row {none[0]}."
        )
    return np.array(mask[whole])


def _named_classes(model: PairwiseSVC, file: Path) -> list[Any]:
    """The labels of the classes that a file names, line by line."""
    known = dict(zip(names_of(model.classes_), model.classes_.tolist(), strict=True))
    names = list(filter(None, map(str.strip, file.read_text(encoding="utf-8").splitlines())))
    for name in names:
        if name not in known:
            raise ValueError(
                f"--classes {file}: every line must name a class of the run, got {name!r}."
                f"{did_you_mean(name, known)} The classes are {listed(known, 12)}."
            )
    if len(set(names)) < 2:
        raise ValueError(f"--classes {file}: at least 2 classes must be possible, got {len(set(names))}.")
    return [known[name] for name in names]


def _named_groups(model: PairwiseSVC, file: Path) -> list[dict[Any, str]]:
    """The group of every class that a file names, level by level."""
    known = dict(zip(names_of(model.classes_), model.classes_.tolist(), strict=True))
    with file.open(newline="", encoding="utf-8") as text:
        lines = [[cell.strip() for cell in line] for line in csv.reader(text) if any(map(str.strip, line))]
    for number, line in enumerate(lines, 1):
        if line[0] not in known:
            raise ValueError(
                f"--groups {file}: every line must begin with a class of the run, got {line[0]!r}."
                f"{did_you_mean(line[0], known)} The classes are {listed(known, 12)}."
            )
        if len(line) != len(lines[0]) or len(line) < 2 or not all(line):
            raise ValueError(
                f"--groups {file}: every line must have a class and its groups, as many as the first line, got"
                f" {','.join(line)!r} in line {number}."
            )
    if len({line[0] for line in lines}) < len(lines):
        raise ValueError(f"--groups {file}: every class must have one line, got several for one.")
    levels = range(1, len(lines[0])) if lines else range(1, 2)
    groups = [{known[line[0]]: line[level] for line in lines} for level in levels]
    class_groups(model.classes_, groups, f"--groups {file}")
    return groups


class _Asked(NamedTuple):
    """Requested outputs of a prediction besides probabilities."""

    classes: Any
    reject: float | None
    reject_by: SetBy
    novelty: bool
    coverage: float | None
    sets: dict[str, Any]
    groups: list[dict[Any, str]] | None

    def columns(self, model: PairwiseSVC, X: Any) -> Iterator[tuple[str, NDArray[Any]]]:
        """Further columns, as text."""
        if self.novelty:
            yield "novelty", np.array([f"{value:.6g}" for value in model.novelty(X)], np.str_)
        if self.coverage is not None:
            sets = model.predict_set(X, self.coverage, output="labels", classes=self.classes, **self.sets)
            yield "set", np.array([_joined(names_of(one)) for one in sets], np.str_)
        if self.groups is not None:
            coverage = 0.95 if self.coverage is None else self.coverage
            answers = model.predict_at(X, self.groups, coverage, classes=self.classes)
            yield "group", np.array([str(name) for name in answers.name], np.str_)
            yield "group_level", answers.level.astype(np.str_)


def _joined(names: Sequence[str]) -> str:
    """Names separated by semicolons; names that contain one are quoted, as in CSV.

    Examples
    --------
    >>> _joined(["a", "b;c"])
    'a;"b;c"'
    """
    line = io.StringIO()
    csv.writer(line, delimiter=";", lineterminator="").writerow(names)
    return line.getvalue()


def _predicted(
    model: PairwiseSVC, samples: NewSamples, asked: _Asked, *, skip: bool, top: int | None
) -> Predictions:
    whole, names = samples.whole, getattr(model, "feature_names_in_", None)
    if names is not None:
        del model.feature_names_in_  # columns were found by name already; the array has no names to compare
    X, classes = samples.X[whole], asked.classes
    answer = None
    if asked.reject is not None:
        answer = model.predict(X, classes=classes, reject=asked.reject, reject_by=asked.reject_by)
    if top is None:
        p = model.predict_proba(X, classes=classes)
        found = Predictions.of_all(samples.ids[whole], p, model.classes_, answer)
    else:
        likeliest = TopProbabilities.of_sparse(*model.predict_proba(X, top, classes=classes))
        found = Predictions(samples.ids[whole], likeliest, model.classes_, answer=answer)
    found = found._replace(beside=tuple(asked.columns(model, X)))
    return found if skip else found.with_unknown(samples.ids, whole)


@click.command("audit")
@run_argument
@click.option(
    "--out",
    default="-",
    type=LocalPath(path_type=Path, allow_dash=True),
    help="CSV file to write; - is standard output, the default.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    metavar="K",
    help="Write the K most doubtful rows. Default: all rows that another class fits better.",
)
@click.option("--force", is_flag=True, help="Replace the file of --out if it exists.")
def audit_command(directory: Path, out: Path, top: int | None, force: bool) -> None:
    """List the training rows of the run in DIRECTORY whose labels look wrong, the most doubtful first.

    Every row is scored by machines that were trained without it. Writes its id, its label, the class that fits better,
    the out-of-fold probabilities of both, and the log odds of the second against the first.
    """
    with exits():
        to_stdout = str(out) == "-"
        if not to_stdout:
            with input_errors():
                check_target(out, force=force, formats=(".csv",))
        doubts = audit_run(read_run(directory))
        text = csv_text(audit_rows(directory, doubts, top))
        if to_stdout:
            click.echo(text, nl=False)
            return
        write_atomically(out, text.encode())
        click.echo(
            f"Judged {len(doubts.row)} training rows: another class fits {doubts.doubted.sum()} of them better. Wrote"
            f" {out}"
        )


@click.command("ls")
@click.argument("folder", required=False, metavar="[DIR]", type=_folder)
@json_option
def list_command(folder: Location | None, as_json: bool) -> None:
    """List the runs in DIR, by default runs: state, scores, size and age, the newest first.

    Scores are of the coupling of the model, on the test samples. Nothing is verified: see `pairloom status --verify`.
    """
    with exits():
        where = folder or Path("runs")
        rows = list_runs(where) if not isinstance(where, Path) or where.is_dir() else []
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
    # Reasons are long, so they follow the columns: as a column the longest would widen all lines.
    notes = [row.why for row in rows]
    if max(map(len, lines)) <= _columns():
        return [
            lines[0],
            *(f"{line}  {note or ''}".rstrip() for line, note in zip(lines[1:], notes, strict=True)),
        ]
    # Too wide for the terminal: the path of a run must not be broken, so it has its own line.
    head, *lines = _aligned([row[1:] for row in cells], left=1)
    below = [[f"  {line}", *([f"  {note}"] if note else [])] for line, note in zip(lines, notes, strict=True)]
    return [f"  {head}", *_under([row.directory for row in rows], below)]


def _under(heads: Sequence[str], bodies: Sequence[Sequence[str]]) -> list[str]:
    """Every head with its lines below it."""
    return [line for head, body in zip(heads, bodies, strict=True) for line in (head, *body)]


def _columns() -> float:
    """The width of the terminal; infinite for piped output, which has one line per run."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf


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
    """Rows as lines with aligned columns, the first ``left`` flush left, the others flush right."""
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
    names = [row.directory for row in rows]
    lines = _compared(rows, scores, names)
    if max(map(len, lines)) <= _columns():
        return lines
    letters = [f"[{number}]" for number in range(1, len(rows) + 1)]
    legend = [f"{letter} {name}" for letter, name in zip(letters, names, strict=True)]
    return [*legend, *_compared(rows, scores, letters)]


def _compared(rows: Sequence[RunRow], scores: Sequence[dict[str, Any]], names: Sequence[str]) -> list[str]:
    cells = [
        ["", *names],
        ["state", *(row.state for row in rows)],
        ["classes", *(_number(row.classes) for row in rows)],
        ["pairs", *(_number(row.pairs) for row in rows)],
        *_score_rows(scores),
        ["size", *(format_bytes(row.bytes) for row in rows)],
        ["age", *(duration(row.age) for row in rows)],
    ]
    return _aligned(cells, left=1)


def _score_rows(scores: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    """One row per coupling and score. The couplings of the first run come first."""
    for method in dict.fromkeys(method for run in scores for method in run):
        for score in _SCORES:
            name = score.replace("expected_", "").replace("_", " ")
            yield [f"{method}: {name}", *(_number(run.get(method, {}).get(score)) for run in scores)]


def _differences(rows: Sequence[RunRow], differing: dict[str, list[Any]]) -> list[str]:
    if not differing:
        return ["The configurations are the same."]
    heading = ["different settings", *(row.directory for row in rows)]
    lines = _aligned([heading, *([key, *map(_setting, values)] for key, values in differing.items())], left=1)
    if max(map(len, lines)) <= _columns():
        return lines
    below = [[f"  [{n}] {_setting(value)}" for n, value in enumerate(of, 1)] for of in differing.values()]
    return ["different settings", *_under(list(differing), below)]


def _setting(value: Any) -> str:
    return "-" if value is None else json.dumps(value, ensure_ascii=False)
