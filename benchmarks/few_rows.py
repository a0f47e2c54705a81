"""PairwiseSVC with few rows of each class, beside LogisticRegression(C=1) on the same standardised columns.

    python -m pairloom.benchmarks.few_rows [--draws 20] [--rows 5 10 20]

Few samples must not give certainty. For every set and number of rows the table has the mean log loss over the draws of
both, their ratio, and how many predictions were errors with a probability above 0.999. Rows that are not drawn are the
test samples, at most 400 of them. Columns are standardised by the training rows.
"""

import argparse
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression

from pairloom import PairwiseSVC
from pairloom.pipeline.calibration.log_loss import mean_log_loss

SETS: dict[str, Callable[..., Any]] = {
    "wine": load_wine,
    "iris": load_iris,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}
MOST_TESTS, CERTAIN = 400, 0.999
#: The targets: sets and numbers of rows that are ahead, the worst ratio, and the share of certain errors.
AHEAD, WORST, CERTAIN_ERRORS = 8, 1.2, 0.001


class Draw(NamedTuple):
    """Standardised training and test samples."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    X_new: NDArray[np.float64]
    y_new: NDArray[np.int64]


class Outcome(NamedTuple):
    """Log losses of one draw, and the certain errors of ours among its predictions."""

    ours: float
    theirs: float
    certain_errors: int
    predictions: int


def draw(X: NDArray[np.float64], y: NDArray[np.int64], rows: int, number: int) -> Draw:
    """So many rows of each class, and others to test on."""
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
        warnings.simplefilter("ignore", UserWarning)  # of few samples, which is the point
        ours = PairwiseSVC(random_state=number).fit(X, y).predict_proba(X_new)
    theirs = LogisticRegression(C=1, max_iter=2000).fit(X, y).predict_proba(X_new)
    certain = (ours.max(axis=1) > CERTAIN) & (ours.argmax(axis=1) != y_new)
    return Outcome(mean_log_loss(ours, y_new), mean_log_loss(theirs, y_new), int(certain.sum()), len(y_new))


def main() -> None:
    """Print the table and the targets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--rows", type=int, nargs="+", default=[5, 10, 20])
    asked = parser.parse_args()
    ratios, certain, predictions = [], 0, 0
    print(
        f"{'set':14} {'rows':>4} {'ours':>7} {'LogisticRegression':>19} {'ratio':>6} {'certain errors':>16}"
    )
    for name, load in SETS.items():
        X, y = load(return_X_y=True)
        for rows in asked.rows:
            found = [compare(draw(X, y, rows, number), number) for number in range(asked.draws)]
            ours, theirs, errors, tested = (np.array(values) for values in zip(*found, strict=True))
            ratios.append(ours.mean() / theirs.mean())
            certain, predictions = certain + errors.sum(), predictions + tested.sum()
            print(
                f"{name:14} {rows:4} {ours.mean():7.3f} {theirs.mean():19.3f} {ratios[-1]:6.2f}"
                f" {errors.sum():7} of {tested.sum():5}",
                flush=True,
            )
    print(f"ahead on {sum(r < 1 for r in ratios)} of {len(ratios)} (target {AHEAD} of 12)")
    print(f"worst ratio {max(ratios):.2f} (target at most {WORST})")
    print(f"certain errors {certain / predictions:.2%} (target below {CERTAIN_ERRORS:.1%})")


if __name__ == "__main__":
    main()
