"""An experiment: its measurement on a trained tensor, its findings compared with the paper's, and its files."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from pairloom.pipeline.experiments.finding import Finding
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS, TrainedTensor
from pairloom.pipeline.storage.atomic_file import write_atomically

Item = TypeVar("Item")
Result = TypeVar("Result")
Row = TypeVar("Row", bound=NamedTuple)
Digest = TypeVar("Digest", bound=NamedTuple)

#: The sets for most experiments, and these with the set of 150 classes.
SETS = ("imagenet50-synthetic", "digits", "imagenette", "tinyimagenet50")
LARGE_SETS_TOO = (*SETS, "clinc150")
#: The further set of the full setting, which has as many rows as that of the paper.
AS_LARGE_AS_THE_PAPERS = ("imagenet50-synthetic-paper",)


class Each(Protocol):
    """Computes ``[function(trained, item) for item in items]``, in this process or in others.

    The function must be importable by other processes, and its results must not depend on each other.
    """

    def __call__(
        self, function: Callable[[TrainedTensor, Item], Result], trained: TrainedTensor, items: Sequence[Item]
    ) -> list[Result]: ...


class CouplingAccuracy(Protocol):
    """A row that holds the accuracy of one coupling."""

    @property
    def coupling(self) -> str: ...

    @property
    def accuracy(self) -> float: ...


@dataclass(frozen=True)
class Experiment(Generic[Row]):
    """One table or figure of the paper.

    Attributes
    ----------
    name : str
        Name on the command line.
    shows : str
        The table or figure of [S], or of the paper that is named first, and its subject.
    row : type
        NamedTuple of one row; its fields are the columns.
    measure : callable
        ``measure(trained, repetitions, seed, each)`` returns the measurement: the rows, or all data from which the rows
        and the intervals of the findings are computed. It is pure: it depends on the seed, but not on the processes in
        which `each` computes the repetitions.
    findings : callable
        ``findings(measurement)`` compares the measurement with the claims.
    draw : callable
        ``draw(trained, rows, title)`` returns the figure.
    rows : callable
        ``rows(measurement)`` returns the rows. By default the measurement is the rows.
    summary : callable
        ``summary(rows)`` returns the rows to print. By default all of them.
    published : tuple
        Rows of the paper's table, with the columns of the summary; the first column names the row.
    repetitions, full : int
        Number of repetitions by default and at the full setting, which is the paper's number if it gives one.
    of_many_classes, full_of_many_classes : int, optional
        The same for 100 classes or more, where one repetition takes minutes. The paper has no such set.
    data : tuple of str
        The sets to run on by default, if they are present.
    full_data : tuple of str
        Further sets of the full setting.
    machines : str
        The settings of the machines, for an experiment that reads nothing from the set.
    simulated : bool
        Whether the experiment draws its own data and reads nothing from the set.
    retrains : bool
        Whether the experiment trains machines on the set. ``measure`` then also takes its ``source``.
    tables : tuple of str
        Tables in the folder of PAIRLOOM_DATA that the experiment reads instead of the set.
    """

    name: str
    shows: str
    row: type[Row]
    # Any, because each experiment has its own type of measurement.
    measure: Callable[..., Any]
    findings: Callable[[Any], list[Finding]]
    draw: Callable[[TrainedTensor, Sequence[Row], str], Figure]
    rows: Callable[[Any], list[Row]] = list
    summary: Callable[[Sequence[Row]], Sequence[NamedTuple]] = list
    published: tuple[NamedTuple, ...] = ()
    repetitions: int = 1
    full: int = 1
    of_many_classes: int | None = None
    full_of_many_classes: int | None = None
    data: tuple[str, ...] = SETS
    full_data: tuple[str, ...] = ()
    machines: str = ""
    simulated: bool = False
    retrains: bool = False
    tables: tuple[str, ...] = ()

    @property
    def has_other_machines(self) -> bool:
        """Whether it can use the authors' machines: it reads the machines of the set and trains none."""
        return not (self.simulated or self.tables or self.retrains)

    @property
    def tables_in_words(self) -> str:
        """What it reads instead of the set: one table by its name, or "tables"; empty without tables."""
        return "tables" if len(self.tables) > 1 else "".join(self.tables)

    @property
    def is_repeated(self) -> bool:
        """Whether the experiment has random draws, which can be repeated."""
        return self.full > 1

    def usual_repetitions(self, n_classes: int, full: bool = False) -> int:
        """Number of repetitions on a set with `n_classes` classes, by default or at the full setting."""
        usual, of_many = (
            (self.full, self.full_of_many_classes) if full else (self.repetitions, self.of_many_classes)
        )
        return usual if n_classes < 100 else of_many or usual


def in_turn(
    function: Callable[[TrainedTensor, Item], Result], trained: TrainedTensor, items: Sequence[Item]
) -> list[Result]:
    """Compute the results one after another in this process: the simplest `Each`."""
    return [function(trained, item) for item in items]


def mean_and_standard_error(repeated: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard error over the first axis, the repetitions. The standard error is NaN for one repetition."""
    values = np.asarray(repeated, np.float64)
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.full(values.shape[1:], np.nan)
    return values.mean(axis=0), spread / np.sqrt(len(values))


def side_by_side(rows: Sequence[CouplingAccuracy], kind: type[Digest]) -> list[Digest]:
    """Join rows that differ only in the coupling into one row of `kind`.

    The last fields of `kind` are the accuracies of the couplings, the others are fields of `rows`.
    """
    of_what = attrgetter(*kind._fields[: -len(COUPLINGS)])
    accuracy = {(of_what(row), row.coupling): row.accuracy for row in rows}
    return [
        kind._make((*key, *(accuracy[key, coupling] for coupling in COUPLINGS)))
        for key in dict.fromkeys(of_what(row) for row in rows)
    ]


def cells(rows: Sequence[NamedTuple]) -> list[list[str]]:
    """Rows as text: floats with four decimals, NaN as an empty string."""
    return [[_cell(value) for value in row] for row in rows]


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if math.isnan(value) else f"{value:.4f}"


def heading(row: type[NamedTuple]) -> list[str]:
    """Column names of a table with rows of this type."""
    return [field.replace("_", " ") for field in row._fields]


def write_files(
    experiment: Experiment[Row],
    trained: TrainedTensor,
    rows: list[Row],
    findings: Sequence[Finding],
    facts: Mapping[str, Any],
    folder: Path,
) -> list[Path]:
    """Write the table (CSV), the figure (PNG and SVG) and the record for `experiment results` (JSON).

    Parameters
    ----------
    facts
        The origin of the rows: set, settings, seed, computer and date.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / experiment.name
    summary = experiment.summary(rows)
    set_name = facts["data"] + (" (synthetic features)" if trained.synthetic else "")
    data_kind = "simulated" if experiment.simulated else experiment.tables_in_words
    title = f"{experiment.name}: {data_kind or set_name}"
    record = {
        **facts,
        "experiment": experiment.name,
        "shows": experiment.shows,
        "simulated": experiment.simulated,
        "tables": bool(experiment.tables),
        "published": cells(experiment.published),
        "table": [heading(type(summary[0]) if summary else experiment.row), *cells(summary)],
        "findings": [finding.record() for finding in findings],
    }
    write_atomically(stem.with_suffix(".csv"), _csv(experiment.row, rows).encode())
    pictures = list(_save_figure(experiment.draw(trained, rows, title), stem))
    write_atomically(stem.with_suffix(".json"), (json.dumps(record, indent=1) + "\n").encode())
    return [stem.with_suffix(".csv"), *pictures, stem.with_suffix(".json")]


def _save_figure(figure: Figure, path: Path) -> Iterator[Path]:
    """Save as .png and .svg, without a date, so that equal figures give equal files."""
    with matplotlib.rc_context({"svg.hashsalt": "pairloom"}):
        for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
            file = path.with_suffix(suffix)
            figure.savefig(file, dpi=130, metadata=metadata)
            yield file


def _csv(row: type[Row], rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(row._fields)
    writer.writerows(rows)
    return text.getvalue()
