"""The commands for configurations: ``pairloom config`` shows their keys, ``pairloom init`` writes one for your data."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from pairloom.cluster.commands.exits import exits
from pairloom.cluster.config.config_file import configured, named_configs
from pairloom.cluster.config.config_reference import config_schema, config_text, toml_value, unset_keys
from pairloom.cluster.drive.driver import load_data
from pairloom.graphs.text import did_you_mean, plain_line, printable
from pairloom.pipeline.config.config import ConfigError, InputError, OutputExists, input_errors
from pairloom.pipeline.config.sections import DataConfig, ModelConfig
from pairloom.pipeline.features.embedded_sets import EMBEDDED
from pairloom.pipeline.features.feature_set import OpenFeatures
from pairloom.pipeline.features.moments import units_differ
from pairloom.pipeline.features.table_facts import TableFacts, look_at_table
from pairloom.pipeline.features.tables import is_table
from pairloom.pipeline.features.zarr_groups import has_array
from pairloom.pipeline.machines.folds import usable_folds
from pairloom.pipeline.storage.atomic_file import write_atomically
from pairloom.pipeline.storage.location import location_of, looks_like_url

__all__ = ["config_command", "init_command"]


@click.command("config")
@click.argument("name", required=False)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a configuration.")
def config_command(name: str | None, schema: bool) -> None:
    """Print every key of a configuration, with its default and its meaning.

    With NAME, print the configuration of that name that ships with pairloom. The output is TOML in both cases.
    """
    with exits():
        if schema and name is not None:
            raise click.UsageError("--schema takes no NAME: there is one schema for all configurations.")
        if schema:
            click.echo(json.dumps(config_schema(), indent=1))
        elif name is None:
            click.echo(config_text(), nl=False)
        else:
            click.echo(_shipped(name), nl=False)


def _shipped(name: str) -> str:
    known = named_configs()
    if name not in known:
        raise ConfigError(
            f"NAME must be a configuration that ships with pairloom, got {name!r}.{did_you_mean(name, known)}"
            f" Names: {', '.join(known)}."
        )
    return known[name].read_text(encoding="utf-8")


#: Up to this number of classes all pairs are trained, because neighbours would save little time.
_FEW_CLASSES = 50
_EXAMPLE = "digits"


@click.command("init")
@click.argument("data", required=False)
@click.option("--label", metavar="COLUMN", help="Column of a table that holds the classes.")
@click.option(
    "--id",
    "id_column",
    metavar="COLUMN",
    help="Column of a table that names its rows. Default: one called id, key, index or the like, without repetitions.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Configuration to write. Default: the name of the data with .toml, in the working directory.",
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def init_command(
    data: str | None, label: str | None, id_column: str | None, out: Path | None, force: bool
) -> None:
    """Look at DATA and write a configuration for it.

    DATA is a table (.csv, .tsv, .parquet) with a --label column, a .npz file, a .npy file, a folder of .npy files, a
    zarr group (also s3://bucket/features.zarr), or the name of an embedded set. Without DATA, the configuration is for
    the digits of scikit-learn.
    """
    with exits():
        source = data or _EXAMPLE
        source = str(location_of(source, "DATA"))
        target = out or Path(f"{_run_name(source)}.toml")
        if target.exists() and not force:
            raise OutputExists(
                f"{target} exists. Pass --force to replace it, or --out FILE to write another."
            )
        if target.suffix != ".toml":
            raise InputError(f"--out must end in .toml, got {target}.")
        if not target.absolute().parent.is_dir():
            raise InputError(f"--out must lie in a folder that exists, got {target}.")
        with input_errors():
            summary = _look_at(source, label, id_column)
            text = _text(summary, target)
        write_atomically(target, text.encode())
        click.echo(printable("\n".join(summary.findings)))
        click.echo(printable(f"\nWrote {target}. Next:\n  pairloom plan {target}\n  pairloom run {target}"))


class _DataSummary(NamedTuple):
    """Findings about the data, for the user and for the configuration."""

    source: str
    data: dict[str, object]
    classes: int
    standardise: bool
    findings: list[str]


def _look_at(source: str, label: str | None, id_column: str | None) -> _DataSummary:
    if source not in EMBEDDED and not looks_like_url(source):
        path = Path(source)
        if not path.exists():
            sets = ", ".join(EMBEDDED)
            raise InputError(f"DATA must be a file or folder, or an embedded set ({sets}), got {source!r}.")
        if path.is_file() and is_table(path):
            return _look_at_table(path, label, id_column)
        source = _source_of_npy(path)
    if label is not None:
        raise InputError(
            f"--label is for tables (.csv, .tsv, .parquet), got it for {source}, which holds labels y."
        )
    if id_column is not None:
        raise InputError(
            f"--id is for tables (.csv, .tsv, .parquet), got it for {source}. Store an array ids beside X and y."
        )
    opened = _opened({"features": source})
    findings = [f"{source}: {_sizes(opened)}", *_class_findings(_rows_by_class(opened))]
    if opened.synthetic:
        findings.append("features: synthetic, generated as they are read")
    deviations = opened.moments.deviations[opened.moments.varied]
    constant = int(np.count_nonzero(~opened.moments.varied))
    if constant:
        centred = " and are only centred" if opened.columns is None else ""
        findings.append(f"constant columns: {constant}, which carry no information" + centred)
    standardise, units = _units(deviations, bool(opened.feature_names))
    if opened.columns is not None:
        per_row = round(opened.columns.nnz / len(opened.classes))
        units = f"sparse: {per_row} columns with entries per class; nothing is centred, machines are linear"
        standardise = False
    split = _has_test_set(source)
    return _DataSummary(
        source,
        {},
        len(opened.classes),
        standardise,
        [*findings, units, _test_finding(opened, "X_test of the data" if split else None)],
    )


def _source_of_npy(path: Path) -> str:
    """The folder of a single .npy file, which also has its labels."""
    if path.suffix != ".npy" or not path.is_file():
        return str(path)
    beside = {file.stem for file in path.parent.glob("*.npy")}
    if {"X", "y"} <= beside or {"X_train", "y_train", "X_test"} <= beside:
        return str(path.parent)
    raise InputError(
        f"{path}: an array of features needs its labels beside it. Name the files X.npy and y.npy (or X_train.npy,"
        f" y_train.npy and X_test.npy) and give their folder, got {', '.join(sorted(beside))} in {path.parent}."
    )


def _has_test_set(source: str) -> bool:
    path = Path(source)
    if source in EMBEDDED:
        return source != _EXAMPLE
    if path.suffix == ".npz" and path.is_file():
        with np.load(path, allow_pickle=False) as archive:
            return "X_test" in archive.files
    if looks_like_url(source):
        return has_array(location_of(source, "DATA"), "X_test")
    return any((path / f"X_test{ending}").exists() for ending in ("", ".npy", ".npz"))


def _look_at_table(path: Path, label: str | None, id_column: str | None) -> _DataSummary:
    facts = look_at_table(path, label, id_column)
    keys: dict[str, object] = {"label": facts.label}
    if facts.id is not None:
        keys["id"] = facts.id
    if facts.left_out:
        keys["leave_out"] = list(facts.left_out)
    if facts.incomplete:
        keys["missing"] = "leave_out_rows"
    opened = _opened({"features": str(path), **keys})
    standardise, units = _units(facts.deviations, True)
    findings = [
        f"{path}: {facts.rows} rows, {len(facts.columns) + 1} columns",
        *_class_findings(_rows_by_class(opened), facts.label),
        f"id: {plain_line(facts.id)}, which names the rows"
        if facts.id is not None
        else "id: no column names the rows, so they are named by their numbers, from 0 (data.id)",
        f"features: {len(facts.features)} columns of numbers",
        *(f"left out: {plain_line(name)} ({why})" for name, why in facts.left_out.items()),
        *_missing_findings(facts),
        units,
        _test_finding(opened, None),
    ]
    return _DataSummary(str(path), keys, len(opened.classes), standardise, findings)


def _opened(data: dict[str, object]) -> OpenFeatures:
    """Open the data as a run does, with the same errors."""
    config = configured({"data": data})
    opened = load_data(config)
    usable_folds(config.model.folds, np.bincount(opened.y_train), "model")
    return opened


def _rows_by_class(opened: OpenFeatures) -> dict[str, int]:
    labels = opened.y_train if opened.y_test is None else np.concatenate([opened.y_train, opened.y_test])
    counts = np.bincount(labels, minlength=len(opened.classes))
    return dict(zip(opened.classes, counts.tolist(), strict=True))


def _sizes(opened: OpenFeatures) -> str:
    n, m, D = len(opened.X_train), len(opened.X_test), opened.X_train.shape[1]
    kind = "" if opened.columns is None else "sparse, "
    return f"{n + m} rows, {D} features, {kind}{opened.X_train.dtype}"


def _class_findings(rows: dict[str, int], label: str | None = None) -> Iterator[str]:
    least = min(rows, key=lambda name: rows[name])
    named = f"label: {plain_line(label)}, " if label is not None else "labels: "
    yield f"{named}{len(rows)} classes of {rows[least]} to {max(rows.values())} rows; the smallest is {least[:60]!r}"
    few = [name for name, count in rows.items() if count < 8]
    if few:
        yield (
            f"small classes: {len(few)} with fewer than 8 rows; they are trained, but may be too small to be held out"
            " for calibration"
        )


def _missing_findings(facts: TableFacts) -> Iterator[str]:
    if not facts.incomplete:
        return
    by_column = {column.name: column.missing for column in facts.features if column.missing}
    by_column |= {facts.label: facts.without_label} if facts.without_label else {}
    shown_first = sorted(by_column.items(), key=lambda item: -item[1])[:8]
    listed = ", ".join(f"{plain_line(name)} in {count}" for name, count in shown_first)
    more = f" and {len(by_column) - 8} more columns" if len(by_column) > 8 else ""
    yield (
        f"missing values: {facts.incomplete} of {facts.rows} rows ({listed}{more}); these rows are left out, in"
        " training and test alike"
    )


def _units(deviations: NDArray[np.float64], is_table: bool) -> tuple[bool, str]:
    """Whether to standardise columns, and the finding about it."""
    ranges = f"units: standard deviations of columns from {deviations.min():.3g} to {deviations.max():.3g}"
    if units_differ(deviations, is_table=is_table):
        return True, f"{ranges}, so columns are standardised (model.standardise)"
    why = "" if is_table else ": those of an array are taken to have one unit (if not, set model.standardise)"
    return False, f"{ranges}; columns are used as they are{why}"


def _test_finding(opened: OpenFeatures, given: str | None) -> str:
    held_out = len(opened.X_test)
    if given is not None:
        return f"test set: {held_out} rows, {given}"
    share = DataConfig.model_fields["test_fraction"].default
    seed = ModelConfig.model_fields["random_state"].default
    return (
        f"test set: {held_out} rows are held out, {share:.0%} of every class, drawn with seed {seed}"
        " (data.test_fraction, model.random_state)"
    )


def _run_name(source: str) -> str:
    """The name of a run: that of its file or folder, without characters that are not allowed in names."""
    path = Path(source).absolute()
    stem = path.name if source in EMBEDDED else re.sub(r"(\.(csv|tsv)\.gz|\.\w+)$", "", path.name)
    if path.suffix == ".npy":
        stem = path.parent.name
    name = re.sub(r"[^\w.-]+", "-", stem).strip("-.")
    return name or "run"


def _text(summary: _DataSummary, target: Path) -> str:
    """The configuration: the findings as comments, and every key that a user may want to change."""
    named = summary.source in EMBEDDED or looks_like_url(summary.source)
    features = summary.source if named else _relative_to(summary.source, target)
    pairs = summary.classes * (summary.classes - 1) // 2
    few = summary.classes <= _FEW_CLASSES
    family = "complete" if few else "hub_neighbours"
    why = f"all {pairs} pairs" if few else f"20 or 40 near classes and some hubs, of {pairs} pairs in all"
    model: Sequence[str] = ["standardise = true"] if summary.standardise else []
    lines = [
        f"# Made by `pairloom init`. Run it with: pairloom run {plain_line(target.name)}",
        "# `pairloom config` prints every key, its default and its meaning.",
        "#",
        # TOML allows no control characters, not even in comments.
        *(f"# {line}" for finding in summary.findings for line in printable(finding).splitlines()),
        "",
        "[data]",
        f"features = {toml_value(features)}  # a relative path is relative to this file",
        *(f"{key} = {toml_value(value)}" for key, value in summary.data.items()),
        *unset_keys("data", {"features", *summary.data}),
        "",
        "[graph]",
        f'family = "{family}"  # {why}',
        "",
        "[model]  # the parameters of PairwiseSVC",
        *model,
        *unset_keys("model", ["standardise"] if summary.standardise else []),
        "",
        "[run]",
        f"name = {toml_value(_run_name(target.name))}  # results are written to runs/ and this name",
        *unset_keys("run", ["name"]),
    ]
    return "\n".join(lines) + "\n"


def _relative_to(source: str, target: Path) -> str:
    """The path of the data relative to the folder of the configuration; absolute if they are on different drives."""
    try:
        return Path(os.path.relpath(Path(source).absolute(), target.absolute().parent)).as_posix()
    except ValueError:
        return str(Path(source).absolute())
