"""PairwiseSVC with few rows per class, compared with LogisticRegression(C=1) on the same standardised columns.

A model of a few samples must not be overconfident. For each set and number of rows the table has the mean log loss of
both over the draws, the ratio, and the number of predictions that were errors with a probability above 0.999. Rows that
are not drawn are the test samples, at most 400 of them. Columns are standardised by the training rows.
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression

from pairloom import PairwiseSVC
from pairloom.benchmarks.record import Column, Record
from pairloom.pipeline.calibration.held_out import mean_log_loss

SETS: dict[str, Callable[..., Any]] = {
    "wine": load_wine,
    "iris": load_iris,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}
MOST_TESTS, CERTAIN = 400, 0.999
#: The targets: cases (set and number of rows) in which ours is ahead, the worst ratio, and the share of certain errors.
AHEAD, WORST, CERTAIN_ERRORS = 8, 1.2, 0.001


class Draw(NamedTuple):
    """Standardised training and test samples."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    X_new: NDArray[np.float64]
    y_new: NDArray[np.int64]


class Outcome(NamedTuple):
    """Log losses of one draw, and the certain errors among our predictions."""

    ours: float
    theirs: float
    certain_errors: int
    predictions: int


def draw(X: NDArray[np.float64], y: NDArray[np.int64], rows: int, number: int) -> Draw:
    """``rows`` rows per class for training, and others for testing."""
    rng = np.random.default_rng([number, rows])
    chosen = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:rows] for c in np.unique(y)])
    others = rng.permutation(np.setdiff1d(np.arange(len(y)), chosen))[:MOST_TESTS]
    spread = X[chosen].std(axis=0)
    standardised = (X - X[chosen].mean(axis=0)) / np.where(spread > 0, spread, 1)
    return Draw(standardised[chosen], y[chosen], standardised[others], y[others])


def compare(samples: Draw, number: int) -> Outcome:
    """Fit both on a draw."""
    X, y, X_new, y_new = samples
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # warnings about few samples, which are intended here
        ours = PairwiseSVC(random_state=number).fit(X, y).predict_proba(X_new)
    theirs = LogisticRegression(C=1, max_iter=2000).fit(X, y).predict_proba(X_new)
    certain = (ours.max(axis=1) > CERTAIN) & (ours.argmax(axis=1) != y_new)
    return Outcome(mean_log_loss(ours, y_new), mean_log_loss(theirs, y_new), int(certain.sum()), len(y_new))


@dataclass(frozen=True)
class Row:
    """Means over the draws of one set with one number of rows per class."""

    data: str
    rows: int
    ours: float
    theirs: float
    ratio: float
    certain_errors: int
    predictions: int


COLUMNS = (
    Column("set", lambda row: row.data, 14, left=True),
    Column("rows", lambda row: str(row.rows)),
    Column("ours", lambda row: f"{row.ours:.3f}", 7),
    Column("LogisticRegression", lambda row: f"{row.theirs:.3f}"),
    Column("ratio", lambda row: f"{row.ratio:.2f}", 6),
    Column("certain errors", lambda row: f"{row.certain_errors} of {row.predictions}", 14),
)


def row_of(name: str, rows: int, draws: int) -> Row:
    """Compare on the draws of one set."""
    X, y = SETS[name](return_X_y=True)
    scores = [compare(draw(X, y, rows, number), number) for number in range(draws)]
    ours, theirs, errors, tested = (np.array(values) for values in zip(*scores, strict=True))
    ratio = float(ours.mean() / theirs.mean())
    return Row(
        name, rows, float(ours.mean()), float(theirs.mean()), ratio, int(errors.sum()), int(tested.sum())
    )


def compare_sets(record: Record, rows: Iterable[int], draws: int) -> list[Row]:
    """The table of log losses, and the targets."""
    record.begin("few rows", COLUMNS, f"mean log loss of {draws} draws")
    numbers, measured = tuple(rows), []
    for name in SETS:
        for number in numbers:
            measured.append(row_of(name, number, draws))
            record.add(measured[-1])
    ahead, worst = sum(row.ratio < 1 for row in measured), max(row.ratio for row in measured)
    certain = sum(row.certain_errors for row in measured) / sum(row.predictions for row in measured)
    record.note(f"ahead on {ahead} of {len(measured)} (target {AHEAD} of 12)")
    record.note(f"worst ratio {worst:.2f} (target at most {WORST})")
    record.note(f"certain errors {certain:.2%} (target below {CERTAIN_ERRORS:.1%})")
    return measured
