"""Tables of scores: of the coupling methods, of every class, and of the pairs of classes that are confused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from pairloom.pipeline.display.evaluation import Confusions, Outcomes, Scores, scores_of
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


def methods_section(by_method: Mapping[str, Outcomes], baselines: Mapping[str, Outcomes]) -> Section:
    """Scores of each coupling with standard errors, the best in bold, and those of the baselines below."""
    scores = [scores_of(outcomes) for outcomes in by_method.values()]
    best, several = _best(scores), len(scores) > 1
    rows: list[list[object]] = [
        [
            _bold(method) if several and row == 0 else method,
            *_cells(scores[row], outcomes, best if several else None),
        ]
        for row, (method, outcomes) in enumerate(by_method.items())
    ]
    rows += [[name, *_cells(scores_of(found), found, None)] for name, found in baselines.items()]
    columns = [
        Column("coupling"),
        Column("accuracy", "number"),
        Column("log loss", "number", "mean of minus the logarithm of the probability of the true class"),
        Column("calibration error", "number", "expected calibration error, in 15 bins"),
        Column("top 5", "number", "share of the samples whose class is among the five likeliest"),
        Column("macro F1", "number", "mean over the classes of the F1 of each"),
    ]
    samples = len(next(iter(by_method.values())).label)
    table = PageTable("methods", "Coupling methods", columns, rows, sortable=several)
    content = {"samples": samples, "several": several, "baselines": list(baselines), "table": table}
    return Section("methods", "Coupling methods", content)


def _best(scores: Sequence[Scores]) -> Scores:
    """The best of each score: the largest, of losses and errors the least."""
    columns = zip(*scores, strict=True)
    return Scores(*(best(column) for best, column in zip((max, min, min, max, max), columns, strict=True)))


def _cells(scores: Scores, outcomes: Outcomes, best: Scores | None) -> list[str]:
    root = math.sqrt(len(outcomes.label))
    errors = (float(outcomes.right.std()) / root, float(outcomes.losses.std()) / root, None, None, None)
    bold = [best is not None and score == best[place] for place, score in enumerate(scores)]
    return [_score(*cell) for cell in zip(scores, errors, bold, strict=True)]


def _score(value: float, error: float | None, best: bool) -> str:
    if math.isnan(value):
        return "–"
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
    samples, predicted, right = confusion.by_true, confusion.by_predicted, confusion.right
    losses = np.bincount(judged.model.label, judged.model.losses, N)
    worst, most = _most_frequent_errors(confusion)
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


def _most_frequent_errors(confusion: Confusions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(N,) the class that each class is most often taken for, and how often: zero if never."""
    errors, N = confusion.errors, confusion.n_classes
    order = np.lexsort([errors.predicted, -errors.samples, errors.true])
    classes, first = np.unique(errors.true[order], return_index=True)
    worst, most = np.zeros(N, np.int64), np.zeros(N, np.int64)
    worst[classes], most[classes] = errors.predicted[order[first]], errors.samples[order[first]]
    return worst, most


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
    worst = judged.confusion.worst_pairs(_MOST_PAIRS_IN_FILE)
    i, j = np.array([(i, j) for i, j, _ in worst], np.int64).reshape(-1, 2).T
    edges = np.full(len(i), -1) if pairs is None else pairs.number(i, j)
    columns = (i, j, judged.confusion.at(i, j), judged.confusion.at(j, i), edges)
    return [
        ConfusedPair(a, b, a_as_b, b_as_a, None if pairs is None or edge < 0 else float(pairs.dprime[edge]))
        for a, b, a_as_b, b_as_a, edge in zip(*(column.tolist() for column in columns), strict=True)
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
