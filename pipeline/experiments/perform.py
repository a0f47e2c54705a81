"""Performing an experiment on a set: train or read the tensor, measure, write the files, print the table."""

import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, track
from rich.table import Table
from threadpoolctl import threadpool_limits

from pairloom.pipeline.experiments.experiment import Experiment, cells, heading, write_files
from pairloom.pipeline.experiments.trained_tensor import (
    TensorFile,
    cached_tensor,
    is_present,
    load_set,
    paper_settings,
    tensor_file,
)

#: ``elsewhere(function, file, items)`` yields ``function(trained, item)`` for each item, in order, computed by
#: processes that read the trained tensor from its file.
Elsewhere = Callable[[Callable, TensorFile, Sequence], Iterable[Any]]


def sets_for(experiment: Experiment, named=()) -> list[str]:
    """The sets that were named, or those the experiment is made for as far as they are here."""
    return list(named) or [name for name in experiment.data if is_present(name)]


def perform(
    experiment: Experiment,
    data: str,
    out: Path,
    *,
    repetitions: int | None = None,
    seed: int = 0,
    console: Console | None = None,
    elsewhere: Elsewhere | None = None,
) -> list[Path]:
    """Perform an experiment on a set and return the files that were written, in a folder of the set's name.

    Parameters
    ----------
    experiment : Experiment
    data : str
        The name of a set, or the path of its features.
    out : Path
    repetitions : int, optional
        At most: a draw of classes is not repeated where all can be had. By default the experiment's own number.
    seed : int
        Of the draws. The folds of the machines keep theirs, so that one tensor serves every seed.
    console : rich.console.Console, optional
        Where the table is printed; without it nothing is.
    elsewhere : callable, optional
        Who computes the repetitions, if not this process. What comes out is the same.
    """
    printed = console or Console(quiet=True)
    messages = Console(stderr=True, quiet=console is None)
    features = load_set(data)
    settings = paper_settings(features.X_train)
    folder = out / Path(data).stem
    path = (folder / "tensor.npz").absolute()
    trained = _trained(features, settings, path, messages)
    steps_taken = []

    def each(function, trained, items):
        steps_taken.append(len(items))
        if elsewhere is None or not experiment.is_repeated:
            results = (function(trained, item) for item in items)
        else:
            results = elsewhere(function, tensor_file(path, features, settings), items)
        name = f"{experiment.name}, {folder.name}"
        return list(track(results, name, len(items), console=messages, transient=True))

    began = time.perf_counter()
    # With more threads BLAS splits a product, and rounds, as the number of cores has it.
    with threadpool_limits(1):
        times = repetitions or experiment.usual_repetitions(trained.n_classes)
        rows = experiment.measure(trained, times, seed, each)
    facts = {
        "data": folder.name,
        # Three of ten classes can be drawn in 120 ways only; and an experiment may have nothing to draw.
        "repetitions": steps_taken[0] if experiment.is_repeated else 1,
        "seed": seed,
        "seconds": round(time.perf_counter() - began, 1),
        **_circumstances(features, settings),
    }
    files = write_files(experiment, trained, rows, facts, folder)
    _print(experiment, rows, folder.name, printed)
    return files


def _circumstances(features, settings):
    """What a reader of the results has to know of the data, the machines and the computer."""
    return {
        "synthetic": features.synthetic,
        "classes": len(features.classes),
        "training samples": len(features.X_train),
        "test samples": len(features.X_test),
        "features": features.X_train.shape[1],
        "settings": {"C": f"{settings.C:.3g}", "folds": settings.folds, "fit_on": settings.fit_on},
        "date": datetime.now(UTC).date().isoformat(),
        "computer": computer(),
    }


def _trained(features, settings, path, console):
    n = len(features.classes)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("training all pairs", total=n * (n - 1) // 2)
        return cached_tensor(features, settings, path, lambda edges: progress.advance(task, edges))


def _print(experiment, rows, data, console):
    summary = experiment.summary(rows)
    table = Table(
        *heading(type(summary[0]) if summary else experiment.row),
        title=f"{experiment.name}, {data}",
        title_justify="left",
    )
    for row in cells(summary):
        table.add_row(*row)
    console.print(table)
    for finding in experiment.findings(rows):
        word = "holds" if finding.holds else "DIFFERS"
        console.print(
            f"{word:>7}  {finding.claim} ({finding.source}): {finding.here}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def computer() -> str:
    """The processor, how many cores, and the versions that matter."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "scikit-learn"))
    return f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, {packages}"


def _processor():
    """Linux tells the model's name in a file only."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
