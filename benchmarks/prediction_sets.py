"""How often prediction sets hold the true class, and how large they are, over random splits of sets of samples.

Half of the rows (at most 1000) train, and the others (at most 1000) are tested. For every coverage the table has the
mean share of sets that hold the true class, in how many splits that share lies in its interval, and the mean size of
the sets. The interval is of three standard deviations: those of the tested and of the held-out samples, which both are
drawn at random.
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

from pairloom import PairwiseSVC
from pairloom.benchmarks.record import Column, Record

SETS: dict[str, Callable[..., Any]] = {
    "wine": load_wine,
    "iris": load_iris,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}
COVERAGES = (0.8, 0.9, 0.95, 0.99)
MOST_ROWS = 1000


@dataclass(frozen=True)
class Row:
    """Prediction sets of one coverage over the splits of one set."""

    data: str
    coverage: float
    held: float
    inside: int
    splits: int
    size: float


COLUMNS = (
    Column("set", lambda row: row.data, 14, left=True),
    Column("coverage", lambda row: f"{row.coverage:.0%}"),
    Column("held", lambda row: f"{row.held:.3f}", 7),
    Column("in its interval", lambda row: f"{row.inside} of {row.splits}"),
    Column("mean size", lambda row: f"{row.size:.2f}"),
)


def split_outcomes(X: Any, y: Any, number: int) -> dict[float, tuple[float, bool, float]]:
    """Of each coverage, the share of sets that hold the true class, whether it is in its interval, and their size."""
    n = min(MOST_ROWS, len(y) // 2)
    halves = train_test_split(X, y, train_size=n, test_size=n, stratify=y, random_state=number)
    X_train, X_test, y_train, y_test = halves
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of columns, and of a scale at its bound
        model = PairwiseSVC(random_state=number).fit(X_train, y_train)
    scores = model.model_.held_out
    assert scores is not None, "this fit holds samples out"
    places, held_out = np.searchsorted(model.classes_, y_test), len(scores.classes)
    outcomes = {}
    for coverage in COVERAGES:
        sets = model.predict_set(X_test, coverage).toarray()
        held = float(sets[np.arange(n), places].mean())
        deviation = np.sqrt(coverage * (1 - coverage) * (1 / n + 1 / held_out))
        outcomes[coverage] = held, bool(abs(held - coverage) <= 3 * deviation), float(sets.sum(axis=1).mean())
    return outcomes


def measure_sets(record: Record, names: Iterable[str], splits: int) -> list[Row]:
    """The table of coverages and sizes."""
    record.begin("prediction sets", COLUMNS, f"{splits} splits")
    measured = []
    for name in names:
        X, y = SETS[name](return_X_y=True)
        outcomes = [split_outcomes(X, y, number) for number in range(splits)]
        for coverage in COVERAGES:
            held, inside, size = zip(*(one[coverage] for one in outcomes), strict=True)
            row = Row(name, coverage, float(np.mean(held)), sum(inside), splits, float(np.mean(size)))
            measured.append(row)
            record.add(row)
    kept, total = sum(row.inside for row in measured), sum(row.splits for row in measured)
    record.note(f"in their interval: {kept} of {total} splits and coverages")
    return measured
