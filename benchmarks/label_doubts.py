"""How well `label_doubts` finds wrong labels, compared with cleanlab's ranking by a logistic regression.

One label in twenty of the training rows is changed to a random other class. Both rank all rows. cleanlab gets the
probabilities of a logistic regression with C = 10 in units of the variance, from five folds, and ranks by the
probability of the label (its default). It needs ``pip install cleanlab``.

"precision" is the share of wrong labels among the first 5% of the rows, "AP" the average precision. Seconds are CPU
time of the fit, which a user of `PairwiseSVC` has done already, and of the ranking, which for cleanlab includes its
five fits. "rank MB" is the memory that the ranking added to the process at its peak. "synthetic5000" has 5000 classes
of 40 rows; it shows time and memory only for ours, since cleanlab's logistic regressions would take hours.
"""

import importlib.util
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict

from pairloom import PairwiseSVC
from pairloom.benchmarks.datasets import Split, load, synthetic_classes
from pairloom.benchmarks.memory import added_memory
from pairloom.benchmarks.record import Column, Record

__all__ = ["DATA", "MANY_CLASSES", "measure_doubts"]

DATA = ("clinc150", "letter", "icd10cm")
#: Synthetic sets that only ours ranks.
MANY_CLASSES = {"synthetic5000": 5000}
SHARE = 0.05


@dataclass(frozen=True)
class Row:
    """One ranking of the rows of one set, the mean of its draws."""

    data: str
    draws: int
    method: str
    precision: float
    average_precision: float
    fit_s: float
    rank_s: float
    rank_bytes: float


COLUMNS = (
    Column("set", lambda row: row.data, 12, left=True),
    Column("draws", lambda row: str(row.draws), 5),
    Column("ranked by", lambda row: row.method, 14, left=True),
    Column("precision", lambda row: f"{row.precision:.3f}"),
    Column("AP", lambda row: f"{row.average_precision:.3f}", 6),
    Column("fit CPU s", lambda row: f"{row.fit_s:.1f}"),
    Column("rank CPU s", lambda row: f"{row.rank_s:.1f}"),
    Column("rank MB", lambda row: f"{row.rank_bytes / 1e6:.0f}", 7),
)


class Ranked(NamedTuple):
    """The rows in the order of doubt, the CPU seconds of fit and ranking, and the memory of the ranking."""

    rows: NDArray[np.integer]
    fit_s: float
    rank_s: float
    rank_bytes: float


def with_wrong_labels(y: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The labels with one in twenty changed to another class, and the mask of the changed ones.

    Examples
    --------
    >>> changed, wrong = with_wrong_labels(np.zeros(100, np.int64) + np.arange(100) % 2, 0)
    >>> int(wrong.sum()), bool(((changed != np.arange(100) % 2) == wrong).all())
    (5, True)
    """
    random, n_classes = np.random.default_rng(seed), int(y.max()) + 1
    rows = random.permutation(len(y))[: round(SHARE * len(y))]
    changed, wrong = y.copy(), np.zeros(len(y), bool)
    changed[rows] = (y[rows] + random.integers(1, n_classes, len(rows))) % n_classes
    wrong[rows] = True
    return changed, wrong


def ours(X: NDArray[np.float32], y: NDArray[np.int64]) -> Ranked:
    """`PairwiseSVC.label_doubts`."""
    begun = time.process_time()
    model = PairwiseSVC(random_state=0).fit(X, y)
    fitted = time.process_time()
    with added_memory() as added:
        rows = model.label_doubts(y, X).row
    return Ranked(rows, fitted - begun, time.process_time() - fitted, added.bytes)


def cleanlab(X: NDArray[np.float32], y: NDArray[np.int64]) -> Ranked:
    """cleanlab's ranking."""
    from cleanlab.rank import get_label_quality_scores

    begun = time.process_time()
    model = LogisticRegression(C=10 / X.var(axis=0).sum(), max_iter=300)
    with added_memory() as added:
        p = cross_val_predict(model, X, y, cv=5, method="predict_proba")
        rows = np.argsort(get_label_quality_scores(y, p), kind="stable")
    return Ranked(rows, 0.0, time.process_time() - begun, added.bytes)


def _split(name: str) -> Split:
    if name == "synthetic":
        return synthetic_classes(8, features=16, tests=8)
    if name in MANY_CLASSES:
        return synthetic_classes(MANY_CLASSES[name], tests=1)
    return load(name)


def measure_doubts(record: Record, names: Iterable[str], draws: int) -> list[Row]:
    """The table of both rankings; without cleanlab, only of ours."""
    record.begin("label doubts", COLUMNS, f"5% of the labels are wrong; {draws} draws")
    methods = {"label_doubts": ours}
    if importlib.util.find_spec("cleanlab") is None:
        record.note("cleanlab is not installed, so it is left out: pip install cleanlab")
    else:
        methods["cleanlab"] = cleanlab
    measured = []
    for name in names:
        split = _split(name)
        for method, rank in methods.items():
            if name in MANY_CLASSES and method != "label_doubts":
                continue
            found = []
            for seed in range(draws):
                y, wrong = with_wrong_labels(split.y, seed)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    rows, *costs = rank(split.X, y)
                first = rows[: round(SHARE * len(rows))]
                score = np.empty(len(rows))
                score[rows] = -np.arange(len(rows))
                found.append((wrong[first].mean(), average_precision_score(wrong, score), *costs))
            measured.append(Row(name, draws, method, *np.mean(found, axis=0).tolist()))
            record.add(measured[-1])
    return measured
