"""Graphs, couplings and calibrations compared: the measurements behind the decision table of docs/guide.md.

    python -m pairloom.benchmarks.choices [SET ...]

Parameters that a row does not name have their defaults. Fits use two threads, and their time is wall-clock time; "one
row" is the median of a hundred predictions of one test sample on one thread. Log losses and accuracies are on test
samples. Missing sets are left out.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from pairloom import PairwiseSVC
from pairloom.benchmarks.classifiers import MOST_COMPLETE, THREADS
from pairloom.benchmarks.datasets import SETS as KNOWN_SETS
from pairloom.benchmarks.datasets import DataNotFound, Split, load
from pairloom.benchmarks.record import Column, Record
from pairloom.pipeline.calibration.held_out import mean_log_loss

SETS = ("satimage", "digits", "letter", "tinyimagenet50", "clinc150", "icd10cm")
#: Number of predictions of a single row, whose median is taken.
SINGLE_ROWS = 100
#: The variants, one parameter at a time.
CHOICES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "complete": {"graph": "complete"},
    "coupling wlw2": {"coupling": "wlw2"},
    "coupling normal": {"coupling": "normal"},
    "coupling bradley_terry": {"coupling": "bradley_terry"},
    "calibration platt": {"calibration": "platt"},
    "calibration distance": {"calibration": "distance"},
    "edges": {"coupled_calibration": "edges"},
}


@dataclass(frozen=True)
class Row:
    """One choice on one set."""

    data: str
    classes: int
    rows_per_class: float
    choice: str
    chosen_calibration: str
    pairs: int
    accuracy: float
    log_loss: float
    fit_s: float
    one_row_ms: float


COLUMNS = (
    Column("set", lambda row: row.data, 14, left=True),
    Column("classes", lambda row: str(row.classes)),
    Column("rows per class", lambda row: f"{row.rows_per_class:.0f}"),
    Column("choice", lambda row: row.choice, 22, left=True),
    Column("calibration", lambda row: row.chosen_calibration, 11, left=True),
    Column("pairs", lambda row: str(row.pairs), 6),
    Column("accuracy", lambda row: f"{row.accuracy:.4f}"),
    Column("log loss", lambda row: f"{row.log_loss:.4f}"),
    Column("fit s", lambda row: f"{row.fit_s:.1f}", 6),
    Column("one row ms", lambda row: f"{row.one_row_ms:.2f}"),
)


def measured(data: str, split: Split, choice: str) -> Row:
    """Fit one choice and predict."""
    model = PairwiseSVC(random_state=0, n_jobs=THREADS, **CHOICES[choice])
    began = time.perf_counter()
    model.fit(split.X, split.y)
    seconds = time.perf_counter() - began
    p = model.predict_proba(split.X_new)
    return Row(
        data,
        len(model.classes_),
        len(split.y) / len(model.classes_),
        choice,
        model.calibration_,
        len(model.edges_),
        float((p.argmax(axis=1) == split.y_new).mean()),
        float(mean_log_loss(p, split.y_new)),
        seconds,
        one_row_ms(model, split.X_new),
    )


def one_row_ms(model: PairwiseSVC, X: np.ndarray[Any, Any]) -> float:
    """Milliseconds of a prediction of one sample."""
    model.set_params(n_jobs=1).predict_proba(X[:1])
    times = []
    for r in range(SINGLE_ROWS):
        began = time.perf_counter()
        model.predict_proba(X[r : r + 1])
        times.append(time.perf_counter() - began)
    return 1e3 * median(times)


def compare(record: Record, names: Iterable[str], choices: Iterable[str] = tuple(CHOICES)) -> Iterator[Row]:
    """All choices on all sets that are present."""
    record.begin("choices", COLUMNS)
    for name in names:
        try:
            split = load(name)
        except DataNotFound as missing:
            record.note(f"{name} is left out: {missing}")
            continue
        for choice in choices:
            if choice == "complete" and len(np.unique(split.y)) > MOST_COMPLETE:
                continue
            row = measured(name, split, choice)
            record.add(row)
            yield row


if __name__ == "__main__":
    wanted = sys.argv[1:] or list(SETS)
    PairwiseSVC(random_state=0).fit(np.eye(60), np.arange(60) % 3)  # compiles the kernels, or loads them
    if unknown := set(wanted) - set(KNOWN_SETS):
        raise SystemExit(f"SET must be among {', '.join(KNOWN_SETS)}, got {', '.join(sorted(unknown))}.")
    list(compare(Record("choices", " ".join(["python -m pairloom.benchmarks.choices", *wanted]), {}), wanted))
