"""``pairloom init``: looks at data, says what it found, and writes a commented configuration that runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from pairloom.cluster.config import DataConfig, ModelConfig, RunConfig
from pairloom.cluster.config_file import configured
from pairloom.cluster.config_page import toml_value, unset_keys
from pairloom.cluster.driver import load_data
from pairloom.cluster.exits import exits
from pairloom.cluster.input_errors import InputError, InTheWay, input_errors
from pairloom.cluster.local_path import check_local
from pairloom.pipeline.features.feature_set import EMBEDDED, OpenFeatures
from pairloom.pipeline.features.table_facts import TableFacts, look_at_table
from pairloom.pipeline.features.table_files import is_table
from pairloom.pipeline.machines.folds import usable_folds
from pairloom.pipeline.storage.atomic_file import write_atomically

__all__ = ["init_command"]

#: Up to so many classes all pairs are trained: with as few, neighbours save little.
_FEW_CLASSES = 50
#: Columns whose standard deviations differ by more are taken to have different units.
_SAME_UNITS = 10.0
_EXAMPLE = "digits"


@click.command("init")
@click.argument("data", required=False)
@click.option("--label", metavar="COLUMN", help="Column of a table that holds the classes.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Configuration to write. Default: the name of the data with .toml, in the working directory.",
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def init_command(data: str | None, label: str | None, out: Path | None, force: bool) -> None:
    """Look at DATA and write a configuration for it.

    DATA is a table (.csv, .tsv, .parquet) with a --label column, a .npz file, a .npy file, a folder of .npy files, a
    zarr group, or the name of an embedded set. Without DATA, the configuration is for the digits of scikit-learn.
    """
    with exits():
        source = data or _EXAMPLE
        check_local("DATA", source)
        target = out or Path(f"{_run_name(source)}.toml")
        if target.exists() and not force:
            raise InTheWay(f"{target} exists. Pass --force to replace it, or --out FILE to write another.")
        if target.suffix != ".toml":
            raise InputError(f"--out must end in .toml, got {target}.")
        if not target.absolute().parent.is_dir():
            raise InputError(f"--out must lie in a folder that exists, got {target}.")
        with input_errors():
            found = _look_at(source, label)
            text = _text(found, target)
        write_atomically(target, text.encode())
        click.echo("\n".join(found.findings))
        click.echo(f"\nWrote {target}. Next:\n  pairloom plan {target}\n  pairloom run {target}")


class _Found(NamedTuple):
    """What a look at the data found, for the user and for the configuration."""

    source: str
    data: dict[str, object]
    classes: int
    standardise: bool
    findings: list[str]


def _look_at(source: str, label: str | None) -> _Found:
    if source not in EMBEDDED:
        path = Path(source)
        if not path.exists():
            sets = ", ".join(EMBEDDED)
            raise InputError(f"DATA must be a file or folder, or an embedded set ({sets}), got {source!r}.")
        if path.is_file() and is_table(path):
            return _look_at_table(path, label)
        source = _source_of_npy(path)
    if label is not None:
        raise InputError(
            f"--label is for tables (.csv, .tsv, .parquet), got it for {source}, which holds labels y."
        )
    opened = _opened({"features": source})
    findings = [f"{source}: {_sizes(opened)}", *_class_findings(_rows_by_class(opened))]
    if opened.synthetic:
        findings.append("features: synthetic, generated as they are read")
    deviations = opened.moments.deviations[opened.moments.varied]
    constant = int(np.count_nonzero(~opened.moments.varied))
    if constant:
        findings.append(f"constant columns: {constant}, which tell nothing and are only centred")
    standardise, units = _units(float(deviations.min()), float(deviations.max()), bool(opened.feature_names))
    split = _has_test_set(source)
    return _Found(
        source,
        {},
        len(opened.classes),
        standardise,
        [*findings, units, _test_finding(opened, "X_test of the data" if split else None)],
    )


def _source_of_npy(path: Path) -> str:
    """The folder of a single .npy file, where its labels are."""
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
    return (path / "X_test").exists() or (path / "X_test.npy").exists()


def _look_at_table(path: Path, label: str | None) -> _Found:
    facts = look_at_table(path, label)
    keys: dict[str, object] = {"label": facts.label}
    if facts.left_out:
        keys["leave_out"] = list(facts.left_out)
    if facts.incomplete:
        keys["missing"] = "leave_out_rows"
    opened = _opened({"features": str(path), **keys})
    standardise, units = _units(*facts.deviations, True)
    findings = [
        f"{path}: {facts.rows} rows, {len(facts.columns) + 1} columns",
        *_class_findings(_rows_by_class(opened), facts.label),
        f"features: {len(facts.features)} columns of numbers",
        *(f"left out: {name} ({why})" for name, why in facts.left_out.items()),
        *_missing_findings(facts),
        units,
        _test_finding(opened, None),
    ]
    return _Found(str(path), keys, len(opened.classes), standardise, findings)


def _opened(data: dict[str, object]) -> OpenFeatures:
    """The data as a run would open them, with what a run would refuse."""
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
    return f"{n + m} rows, {D} features, {opened.X_train.dtype}"


def _class_findings(rows: dict[str, int], label: str | None = None) -> Iterator[str]:
    least = min(rows, key=lambda name: rows[name])
    named = f"label: {label}, " if label is not None else "labels: "
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
    listed = ", ".join(f"{name} in {count}" for name, count in shown_first)
    more = f" and {len(by_column) - 8} more columns" if len(by_column) > 8 else ""
    yield (
        f"missing values: {facts.incomplete} of {facts.rows} rows ({listed}{more}); these rows are left out, in"
        " training and test alike"
    )


def _units(least: float, largest: float, is_table: bool) -> tuple[bool, str]:
    """Whether to standardise columns, and the finding that says so."""
    differ = is_table and largest > _SAME_UNITS * least
    ranges = f"units: standard deviations of columns from {least:.3g} to {largest:.3g}"
    if differ:
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
    """The name of a run on some data: the name of the file or folder, as far as it may be one."""
    path = Path(source).absolute()
    stem = path.name if source in EMBEDDED else re.sub(r"(\.(csv|tsv)\.gz|\.\w+)$", "", path.name)
    if path.suffix == ".npy":
        stem = path.parent.name
    name = re.sub(r"[^\w.-]+", "-", stem).strip("-.")
    return name or "run"


def _text(found: _Found, target: Path) -> str:
    """The configuration, with the findings and every key that one may want to change."""
    features = found.source if found.source in EMBEDDED else _relative_to(found.source, target)
    pairs = found.classes * (found.classes - 1) // 2
    few = found.classes <= _FEW_CLASSES
    family = "complete" if few else "hub_neighbours"
    why = f"all {pairs} pairs" if few else f"20 or 40 near classes and some hubs, of {pairs} pairs in all"
    model: Sequence[str] = ["standardise = true"] if found.standardise else []
    lines = [
        "# Made by `pairloom init`. Run it with: pairloom run " + target.name,
        "# `pairloom config` prints every key, its default and its meaning.",
        "#",
        *(f"# {line}" for finding in found.findings for line in finding.splitlines()),
        "",
        "[data]",
        f"features = {toml_value(features)}  # a relative path is relative to this file",
        *(f"{key} = {toml_value(value)}" for key, value in found.data.items()),
        *unset_keys(DataConfig, {"features", *found.data}),
        "",
        "[graph]",
        f'family = "{family}"  # {why}',
        "",
        "[model]  # the parameters of PairwiseSVC",
        *model,
        *unset_keys(ModelConfig, ["standardise"] if found.standardise else []),
        "",
        "[run]",
        f"name = {toml_value(_run_name(target.name))}  # results are written to runs/ and this name",
        *unset_keys(RunConfig, ["name"]),
    ]
    return "\n".join(lines) + "\n"


def _relative_to(source: str, target: Path) -> str:
    """A path as the configuration names it: from its folder on, unless that is on another drive."""
    try:
        return Path(os.path.relpath(Path(source).absolute(), target.absolute().parent)).as_posix()
    except ValueError:
        return str(Path(source).absolute())
