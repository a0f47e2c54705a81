"""An experiment: what it measures on a trained tensor, what the paper found, and the files that say so."""

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from pairloom.pipeline.experiments.trained_tensor import COUPLINGS, TrainedTensor
from pairloom.pipeline.report.figures import save_figure
from pairloom.pipeline.storage.atomic_file import write_atomically

#: ``each(function, trained, items)`` is ``[function(trained, item) for item in items]``, wherever it is computed.
#: The function must be one that another process can import; its results do not depend on each other.
Each = Callable[[Callable[[TrainedTensor, Any], Any], TrainedTensor, Sequence], list]

#: Who says what a finding is about.
PAPER, OURS = "[S]", "Pairloom"


#: The sets that most experiments are made for, and with them the one of 150 classes.
SETS = ("imagenet50-synthetic", "digits", "imagenette", "tinyimagenet50")
LARGE_SETS_TOO = (*SETS, "clinc150")


class Finding(NamedTuple):
    """Something the paper says, or we do, what came out here, and whether it holds."""

    source: str
    claim: str
    here: str
    holds: bool


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes
    ----------
    name : str
        As on the command line.
    shows : str
        The table or figure of [S], and its subject.
    row : type
        The NamedTuple of a row: its fields are the columns.
    measure : callable
        ``measure(trained, repetitions, seed, each)`` returns the rows: pure, the same for the same seed, wherever
        `each` computes the repetitions.
    findings : callable
        ``findings(rows)``: the paper's claims beside these rows.
    draw : callable
        ``draw(trained, rows, title)``: the figure.
    summary : callable
        ``summary(rows)``: the rows worth printing, where all of them are too many.
    repetitions, full : int
        By default, and at the full setting: the paper's number where it gives one.
    of_many_classes : int, optional
        Repetitions by default on a hundred classes and more, where one takes minutes.
    data : tuple of str
        The sets it is made for; those that are present are its default.
    """

    name: str
    shows: str
    row: type[NamedTuple]
    measure: Callable[[TrainedTensor, int, int, Each], list]
    findings: Callable[[list], list[Finding]]
    draw: Callable[[TrainedTensor, list, str], Figure]
    summary: Callable[[list], list] = list
    repetitions: int = 1
    full: int = 1
    of_many_classes: int | None = None
    data: tuple[str, ...] = SETS

    @property
    def is_repeated(self) -> bool:
        """Whether anything is drawn, and so repeated."""
        return self.full > 1

    def usual_repetitions(self, n_classes: int) -> int:
        """By default on a set of so many classes."""
        return self.repetitions if n_classes < 100 else self.of_many_classes or self.repetitions


def in_turn(function, trained, items):
    """The results of a function for each of some items: the plainest `Each`."""
    return [function(trained, item) for item in items]


def mean_and_standard_error(values) -> tuple[np.ndarray, np.ndarray]:
    """Over the first axis, the repetitions. Of one repetition the standard error is NaN."""
    values = np.asarray(values, np.float64)
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.full(values.shape[1:], np.nan)
    return values.mean(axis=0), spread / np.sqrt(len(values))


def side_by_side(rows: Sequence, kind: type[NamedTuple]) -> list:
    """The accuracies by each coupling, a row each, as rows of `kind`: fields that say of what, then the couplings."""
    of_what = attrgetter(*kind._fields[: -len(COUPLINGS)])
    accuracy = {(of_what(row), row.coupling): row.accuracy for row in rows}
    return [
        kind(*key, *(accuracy[key, coupling] for coupling in COUPLINGS))
        for key in dict.fromkeys(of_what(row) for row in rows)
    ]


def cells(rows: Sequence[NamedTuple]) -> list[list[str]]:
    """Rows as text: numbers with four decimals, nothing where there is no number."""
    return [[_cell(value) for value in row] for row in rows]


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if math.isnan(value) else f"{value:.4f}"


def heading(row: type[NamedTuple]) -> list[str]:
    """The columns of a table of such rows."""
    return [field.replace("_", " ") for field in row._fields]


def write_files(
    experiment: Experiment, trained: TrainedTensor, rows: list, facts: Mapping[str, Any], folder: Path
) -> list[Path]:
    """Write the table (CSV), the figure (PNG and SVG) and what `results` needs (JSON).

    Parameters
    ----------
    facts
        Where the rows come from: the set, the settings, the seed, the machine, the date.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / experiment.name
    summary = experiment.summary(rows)
    title = f"{experiment.name}: {facts['data']}" + (" (synthetic features)" if trained.synthetic else "")
    record = {
        **facts,
        "experiment": experiment.name,
        "shows": experiment.shows,
        "table": [heading(type(summary[0]) if summary else experiment.row), *cells(summary)],
        "findings": [finding._asdict() for finding in experiment.findings(rows)],
    }
    write_atomically(stem.with_suffix(".csv"), _csv(experiment.row, rows).encode())
    pictures = list(save_figure(experiment.draw(trained, rows, title), stem))
    write_atomically(stem.with_suffix(".json"), (json.dumps(record, indent=1) + "\n").encode())
    return [stem.with_suffix(".csv"), *pictures, stem.with_suffix(".json")]


def _csv(row: type[NamedTuple], rows: list) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(row._fields)
    writer.writerows(rows)
    return text.getvalue()
