"""The command ``pairloom data``: the data sets of the documentation, made here or found elsewhere."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path
from typing import Any

import click
import numpy as np

from pairloom.benchmarks.datasets import (
    ORIGINALS,
    TABLES,
    Original,
    data_folder,
    file_of,
    values_digest,
)
from pairloom.benchmarks.made_sets import MADE, PackageMissing
from pairloom.cluster.commands.exits import exits
from pairloom.cluster.commands.options import local_path
from pairloom.graphs.text import did_you_mean
from pairloom.pipeline.config.config import InputError
from pairloom.pipeline.storage.atomic_file import write_atomically

__all__ = ["data_command"]


@click.command("data")
@click.argument("name", required=False)
@click.option(
    "--out",
    "folder",
    type=local_path,
    metavar="FOLDER",
    help="Data folder. Default: the folder that PAIRLOOM_DATA names, or pairloom-data.",
)
def data_command(name: str | None, folder: Path | None) -> None:
    """Make a data set of the documentation, or say where to get it.

    Without NAME, all sets are listed. Benchmarks, experiments and configurations look for sets in the folder that the
    environment variable PAIRLOOM_DATA names.
    """
    with exits():
        folder = folder or data_folder()
        if name is None:
            _list_sets(folder)
        elif name in MADE:
            _make(name, folder)
        elif name in ORIGINALS:
            _explain(name, ORIGINALS[name], folder)
        else:
            raise InputError(_unknown(name))


def _unknown(name: str) -> str:
    known = [*MADE, *ORIGINALS]
    return f"NAME must be among {', '.join(known)}, got {name!r}.{did_you_mean(name, known)}"


def _list_sets(folder: Path) -> None:
    sets = {name: made.about for name, made in MADE.items()}
    sets |= {name: original.about for name, original in ORIGINALS.items()}
    for name, about in sets.items():
        kind = "there" if (folder / file_of(name)).is_file() else "made here" if name in MADE else "elsewhere"
        click.echo(f"{name:15s} {kind:10s} {about}")
    click.echo(f'"there" is in {folder}. `pairloom data NAME` makes a set, or says where to get it.')


def _make(name: str, folder: Path) -> None:
    path = folder / file_of(name)
    if path.exists():
        click.echo(f"{path} is there already; remove it to make it again.")
    else:
        click.echo(f"Making {name}: {MADE[name].about}.")
        buffer = io.BytesIO()
        try:
            arrays: dict[str, Any] = MADE[name].make()
        except PackageMissing as error:
            raise InputError(str(error)) from None
        np.savez(buffer, **arrays)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, buffer.getvalue())
        click.echo(f"Wrote {path}.")
    click.echo(f"To use it: export PAIRLOOM_DATA={folder.absolute()}")


def _explain(name: str, original: Original, folder: Path) -> None:
    """Say where to get a set, the form of its file, and whether a present file has the values that we measured."""
    path = folder / file_of(name)
    arrays = "X, y" if name in TABLES else "X_train, y_train, X_test, y_test"
    form = original.form or f"numpy.savez, the arrays {arrays}; classes are numbered from 0"
    lines = [
        f"{name}: {original.about}. It is not ours to ship.",
        f"Original: {original.where}.",
        f"Save it as {path}: {form}.",
    ]
    if original.digest:
        lines.append(
            f"SHA-256 of the values that we measured (`pairloom data {name}` compares it): {original.digest}"
        )
    if original.digest and path.is_file():
        same = values_digest(path) == original.digest
        lines.append(f"{path} has {'these values' if same else 'other values'}.")
    for line in lines:
        click.echo(textwrap.fill(line, 100, break_long_words=False, break_on_hyphens=False))
