"""Tables of scores: of the coupling methods, of every class, and of the pairs of classes that are confused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from pairloom.pipeline.display.evaluation import Outcomes, scores_of, worst_pairs
from pairloom.pipeline.report.page import Column, PageTable, Section
from pairloom.pipeline.report.run_results import JudgedSamples, TrainedPairs

__all__ = [
    "ClassScores",
    "ConfusedPair",
    "class_scores",
    "classes_section",
    "confused_pairs",
    "methods_section",
    "pairs_section",
]

#: Rows of the tables of classes and of pairs in the page, and of pairs.csv.
_MOST_CLASSES, _MOST_PAIRS, _MOST_PAIRS_IN_FILE = 2000, 500, 100_000


def methods_section(by_method: Mapping[str, Outcomes]) -> Section:
    """Accuracy, log loss and calibration error of each coupling with standard errors, the best in bold."""
    scores = [scores_of(outcomes) for outcomes in by_method.values()]
    accuracies, *losses = zip(*scores, strict=True)
    best, several = (max(accuracies), *map(min, losses)), len(scores) > 1
    rows = []
    for row, (method, outcomes) in enumerate(by_method.items()):
        root = math.sqrt(len(outcomes.label))
        errors = (float(outcomes.right.std()) / root, float(outcomes.losses.std()) / root, None)
        cells = [
            _score(score, error, several and score == of_best)
            for score, error, of_best in zip(scores[row], errors, best, strict=True)
        ]
        rows.append([_bold(method) if several and row == 0 else method, *cells])
    columns = [
        Column("coupling"),
        Column("accuracy", "number"),
        Column("log loss", "number", "mean of minus the logarithm of the probability of the true class"),
        Column("calibration error", "number", "expected calibration error, in 15 bins"),
    ]
    samples = len(next(iter(by_method.values())).label)
    table = PageTable("methods", "Coupling methods", columns, rows, sortable=several)
    return Section("methods", "Coupling methods", {"samples": samples, "several": several, "table": table})


def _score(value: float, error: float | None, best: bool) -> str:
    text = _bold(f"{value:.4f}") if best else f"{value:.4f}"
    return text if error is None else Markup("{} <small>±\u202f{:.4f}</small>").format(text, error)


def _bold(text: str) -> Markup:
    return Markup("<strong>{}</strong>").format(text)


class ClassScores(NamedTuple):
    """One class on the test samples. Shares without samples are None; so is ``taken_for`` without errors."""

    number: int
    name: str
    training_rows: int
    test_samples: int
    recall: float | None
    precision: float | None
    log_loss: float | None
    taken_for: str | None
    taken_for_samples: int
    machines: int
    hub: bool

    def csv_row(self) -> list[object]:
        """As a row of classes.csv, whose headings are the fields."""
        shares = [_number(value, 6) for value in (self.recall, self.precision, self.log_loss)]
        return [*self[:4], *shares, self.taken_for or "", *self[8:10], int(self.hub)]


def class_scores(
    names: Sequence[str],
    rows: Sequence[int],
    judged: JudgedSamples,
    machines: NDArray[np.integer],
    hubs: NDArray[np.integer],
) -> list[ClassScores]:
    """The scores of every class, in the order of the classes."""
    confusion, N = judged.confusion, len(names)
    samples, predicted, right = confusion.sum(axis=1), confusion.sum(axis=0), confusion.diagonal()
    losses = np.bincount(judged.model.label, judged.model.losses, N)
    errors = confusion - np.diag(right)
    worst = errors.argmax(axis=1)
    most = errors[np.arange(N), worst]
    return [
        ClassScores(
            number=c,
            name=names[c],
            training_rows=int(rows[c]),
            test_samples=int(samples[c]),
            recall=_share(right[c], samples[c]),
            precision=_share(right[c], predicted[c]),
            log_loss=_share(losses[c], samples[c]),
            taken_for=names[worst[c]] if most[c] else None,
            taken_for_samples=int(most[c]),
            machines=int(machines[c]),
            hub=bool(np.isin(c, hubs)),
        )
        for c in range(N)
    ]


def _share(part: float, whole: float) -> float | None:
    return float(part) / float(whole) if whole else None


def _number(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def classes_section(scores: Sequence[ClassScores], unit: str) -> Section:
    """The table of the classes, worst recall first. ``unit`` is what a machine is trained on."""

    def badness(row: ClassScores) -> tuple[float, int, int]:
        return (1.0 if row.recall is None else row.recall, -row.test_samples, row.number)

    columns = [
        Column("class", "name"),
        Column("recall", "number", "share of its test samples that are predicted as this class"),
        Column("precision", "number", "share of the samples predicted as this class that belong to it"),
        Column("log loss", "number", "mean over its test samples"),
        Column("most often taken for", "name"),
        Column("times", "number"),
        Column("test", "number", "test samples"),
        Column("training", "number", "training rows"),
        Column(unit, "number", f"trained {unit} that the class is in"),
    ]
    rows = [
        [
            row.name,
            *map(_number, (row.recall, row.precision, row.log_loss)),
            row.taken_for or "",
            row.taken_for_samples or "",
            row.test_samples,
            row.training_rows,
            f"{row.machines} hub" if row.hub else row.machines,
        ]
        for row in sorted(scores, key=badness)[:_MOST_CLASSES]
    ]
    table = PageTable("classes", "Classes", columns, rows, search="a class", sortable=True)
    return Section("classes", "Classes", {"number": len(scores), "shown": len(rows), "table": table})


class ConfusedPair(NamedTuple):
    """Two classes with samples of one that are predicted as the other. ``dprime`` is None if it was not trained."""

    i: int
    j: int
    i_as_j: int
    j_as_i: int
    dprime: float | None

    @property
    def errors(self) -> int:
        """Samples of either class that are predicted as the other."""
        return self.i_as_j + self.j_as_i

    def csv_row(self, names: Sequence[str]) -> list[object]:
        """As a row of pairs.csv."""
        dprime = "" if self.dprime is None else f"{self.dprime:.6g}"
        return [self.i, names[self.i], self.j, names[self.j], self.i_as_j, self.j_as_i, dprime]


def confused_pairs(judged: JudgedSamples, pairs: TrainedPairs | None) -> list[ConfusedPair]:
    """All confused pairs, worst first."""
    worst = worst_pairs(judged.confusion, _MOST_PAIRS_IN_FILE)
    i, j = np.array([(i, j) for i, j, _ in worst], np.int64).reshape(-1, 2).T
    edges = np.full(len(i), -1) if pairs is None else pairs.numbers[i, j]
    return [
        ConfusedPair(
            a,
            b,
            int(judged.confusion[a, b]),
            int(judged.confusion[b, a]),
            None if pairs is None or edge < 0 else float(pairs.dprime[edge]),
        )
        for a, b, edge in zip(i.tolist(), j.tolist(), edges.tolist(), strict=True)
    ]


def pairs_section(confused: Sequence[ConfusedPair], names: Sequence[str], on_pairs: bool) -> Section:
    """The table of the pairs that are confused most often."""
    columns = [
        Column("class", "name"),
        Column("other class", "name"),
        Column("errors", "number", "samples of either class that are predicted as the other"),
        Column("first as second", "number"),
        Column("second as first", "number"),
    ]
    if on_pairs:
        columns.append(Column("d'", "number", "distance of the two classes on the pair's held-out logits"))
    rows = [
        [names[pair.i], names[pair.j], pair.errors, pair.i_as_j, pair.j_as_i, _number(pair.dprime, 2)]
        for pair in confused[:_MOST_PAIRS]
    ]
    content = {
        "number": len(confused),
        "shown": len(rows),
        "on_pairs": on_pairs,
        "table": PageTable(
            "pairs",
            "Confused pairs",
            columns,
            [row[: len(columns)] for row in rows],
            search="a class",
            sortable=True,
        ),
    }
    return Section("pairs", "Confused pairs", content)
