"""Only some classes are possible, and groups of classes: what coupling and groups give, on embedded sets.

"only these": ten classes that lie near each other are possible, which are a random class and those of the nearest
means. Probabilities of all classes divided by the sum of theirs, the pairs among them coupled, and a model fitted on
their rows alone, on their test samples. "differs" is the mean difference of the largest probability from the divided
one.

"groups": the class, or the finest group that is certain enough (`predict_at`), with groups from the names of the
classes: their first two characters, and their first one, as in ICD-10-CM. The table has the share of the answers at
each level, from classes to "any", and of those that contain the true class. The interval is of three standard
deviations of the test and of the held-out samples.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from pairloom import PairwiseSVC
from pairloom.benchmarks.datasets import FEATURES, Split, load, path_of, synthetic_classes
from pairloom.benchmarks.record import Column, Record
from pairloom.pipeline.features.moments import class_means

__all__ = ["measure_groups", "measure_possible"]

#: The sets, and how many classes are possible.
POSSIBLE_DATA, GROUP_DATA, N_POSSIBLE = "clinc150", "icd10cm", 10
COVERAGES = (0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class PossibleRow:
    """Probabilities where some classes are possible, the mean of the choices of these."""

    data: str
    choices: int
    method: str
    log_loss: float
    accuracy: float
    differs: float


@dataclass(frozen=True)
class GroupRow:
    """Answers for one coverage."""

    data: str
    coverage: float
    right: float
    deviations: float
    levels: list[float]


POSSIBLE_COLUMNS = (
    Column("set", lambda row: row.data, 12, left=True),
    Column("choices", lambda row: str(row.choices)),
    Column("probabilities", lambda row: row.method, 14, left=True),
    Column("log loss", lambda row: f"{row.log_loss:.4f}"),
    Column("accuracy", lambda row: f"{row.accuracy:.4f}"),
    Column("differs", lambda row: f"{row.differs:.4f}"),
)
GROUP_COLUMNS = (
    Column("set", lambda row: row.data, 12, left=True),
    Column("coverage", lambda row: f"{row.coverage:.0%}"),
    Column("right", lambda row: f"{row.right:.3f}", 7),
    Column("deviations off", lambda row: f"{row.deviations:+.1f}"),
    Column("answers by level", lambda row: ", ".join(f"{share:.1%}" for share in row.levels), 32, left=True),
)


def fitted(X: Any, y: Any) -> PairwiseSVC:
    """A model with the defaults."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of classes with few rows
        return PairwiseSVC(random_state=0).fit(X, y)


def near_classes(means: NDArray[np.floating], n: int, number: int) -> NDArray[np.int64]:
    """A random class, and those with the nearest means, in ascending order."""
    first = np.random.default_rng(number).integers(len(means))
    return np.sort(np.argsort(np.square(means - means[first]).sum(axis=1))[:n])


def probabilities(
    split: Split, model: PairwiseSVC, possible: NDArray[np.int64], X: Any
) -> Iterator[tuple[str, NDArray[np.floating]]]:
    """(R, n) probabilities of the possible classes, in each way."""
    p = model.predict_proba(X)[:, possible]
    yield "divided", p / p.sum(axis=1, keepdims=True)
    yield "coupled", model.predict_proba(X, classes=possible)[:, possible]
    is_possible = np.isin(split.y, possible)
    yield "fitted alone", fitted(split.X[is_possible], split.y[is_possible]).predict_proba(X)


def measure_possible(record: Record, choices: int, *, small: bool = False) -> list[PossibleRow]:
    """The table of probabilities where ten classes are possible."""
    record.begin("only these classes", POSSIBLE_COLUMNS, f"{N_POSSIBLE} classes that lie near each other")
    name = "synthetic" if small else POSSIBLE_DATA
    split = synthetic_classes(20, features=16, tests=400) if small else load(name)
    model = fitted(split.X, split.y)
    means = class_means(split.X, split.y, int(split.y.max()) + 1)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for number in range(choices):
        possible = near_classes(means, N_POSSIBLE, number)
        is_possible = np.isin(split.y_new, possible)
        y, divided = np.searchsorted(possible, split.y_new[is_possible]), None
        for method, p in probabilities(split, model, possible, split.X_new[is_possible]):
            divided = p if divided is None else divided
            scores = log_loss(y, p, labels=range(N_POSSIBLE)), float((p.argmax(axis=1) == y).mean())
            differs = float(np.abs(p.max(axis=1) - divided.max(axis=1)).mean())
            found.setdefault(method, []).append((*scores, differs))
    rows = [
        PossibleRow(name, choices, method, *np.mean(scores, axis=0).tolist())
        for method, scores in found.items()
    ]
    for row in rows:
        record.add(row)
    return rows


def measure_groups(record: Record, *, small: bool = False) -> list[GroupRow]:
    """The table of answers at the finest group that is certain enough."""
    record.begin("groups", GROUP_COLUMNS, "the first two characters, and the first one")
    name = "synthetic" if small else GROUP_DATA
    split, names = _named(name)
    levels = [{c: names[c][:size] for c in range(len(names))} for size in (2, 1)]
    model, rows = fitted(split.X, split.y), []
    assert model.model_.held_out is not None, "this fit holds samples out"
    n, n_held_out = len(split.y_new), len(model.model_.held_out.classes)
    truth = [split.y_new, *([level[c] for c in split.y_new] for level in levels), ["any"] * n]
    for coverage in COVERAGES:
        answers = model.predict_at(split.X_new, levels, coverage)
        right = np.mean(
            [truth[level][row] == answers.name[row] for row, level in enumerate(answers.level.tolist())]
        )
        deviation = math.sqrt(coverage * (1 - coverage) * (1 / n + 1 / n_held_out))
        shares = np.bincount(answers.level, minlength=4) / n
        rows.append(
            GroupRow(name, coverage, float(right), float(right - coverage) / deviation, shares.tolist())
        )
        record.add(rows[-1])
    return rows


def _named(name: str) -> tuple[Split, list[str]]:
    """A set, and the names of its classes."""
    if name == "synthetic":
        return synthetic_classes(12, features=16, tests=400), [
            f"{c // 6}{c // 2 % 3}{c % 2}" for c in range(12)
        ]
    with np.load(path_of(f"{FEATURES.get(name, name)}.npz")) as data:
        return load(name), data["classes"].tolist()
