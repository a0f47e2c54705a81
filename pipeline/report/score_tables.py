"""Tables of scores: coupling methods, classes, confused pairs; baselines without a model; errors against coverage."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from pairloom.pipeline.display.evaluation import (
    Confusions,
    Outcomes,
    RiskCoverage,
    Scores,
    risk_coverage_of,
    scores_of,
)
from pairloom.pipeline.features.moments import class_totals
from pairloom.pipeline.report.page import Chart, Column, PageTable, Section, round_ticks
from pairloom.pipeline.report.run_results import NUMBERS_AT_ONCE, JudgedSamples, TrainedPairs
from pairloom.pipeline.run.feature_store import read_normalisation, read_samples, read_stored_rows
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.threads import pieces

__all__ = [
    "FREQUENCIES",
    "NEAREST",
    "ClassScores",
    "ConfusedPair",
    "baseline_outcomes",
    "by_frequencies",
    "by_nearest",
    "class_scores",
    "classes_section",
    "confused_pairs",
    "coverage_section",
    "methods_section",
    "pairs_section",
]


#: Maximum number of rows in the page's tables of classes and of pairs, and in pairs.csv.
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
    """The best value of each score: the largest, or the least for losses and errors."""
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
    """The scores of a class on the test samples. Shares of no samples are None, as is ``taken_for`` without errors."""

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
    """(N,) the class with which each class is most often confused, and how often: zero if never."""
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
    """The table of the classes, worst recall first. ``unit`` names the pairs or columns of the machines."""

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
    """Two classes of which samples of one are predicted as the other. ``dprime`` is None if the pair is not trained."""

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


#: Shares of the samples in the table, the most confident first.
_SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
#: Maximum number of points of the curve.
_POINTS = 200


def coverage_section(outcomes: Outcomes) -> Section:
    """Risk against coverage: the share of errors among the most confident samples, against their share of all."""
    curve = risk_coverage_of(outcomes)
    some = np.unique(np.linspace(0, len(curve.risk) - 1, _POINTS).astype(int))
    top = max(float(curve.risk.max()), 1e-3)
    plane = Chart(52, 16, 334, 190, (0.0, 1.0), (0.0, 1.06 * top))
    content = {
        "area": curve.area,
        "risk": float(curve.risk[-1]),
        "plane": plane,
        "x_ticks": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        "y_ticks": round_ticks(0.0, top, 4),
        "path": plane.path(curve.coverage[some], curve.risk[some]),
        "table": _table(curve),
    }
    return Section("coverage", "Errors against coverage", content)


def _table(curve: RiskCoverage) -> PageTable:
    last = len(curve.risk) - 1
    places = [max(0, min(last, round(share * (last + 1)) - 1)) for share in _SHARES]
    rows = [
        [f"{curve.coverage[at]:.0%}", at + 1, f"{curve.risk[at]:.4f}", f"{curve.confidence[at]:.4f}"]
        for at in dict.fromkeys(places)
    ]
    columns = [
        Column("coverage", "number", "share of the samples that are predicted"),
        Column("samples", "number"),
        Column("errors", "number", "share of these that are predicted wrong"),
        Column("confidence", "number", "the least probability of the predicted class among them"),
    ]
    return PageTable("coverage", "Errors against coverage", columns, rows)


FREQUENCIES, NEAREST = "class frequencies", "nearest centroid"
#: Maximum size of the training rows, rows times features, for which centroids are computed: 1 GiB of float32.
_MOST_NUMBERS = 2**28
#: Maximum number of multiplications for distances, a few seconds: with more samples, every k-th is compared.
_MOST_WORK = 2e10


def baseline_outcomes(run: Run, labels: NDArray[np.int64]) -> dict[str, Outcomes]:
    """The outcomes of the labelled test samples by each baseline; without centroids if there are very many rows."""
    shape = run.shape
    baselines = {FREQUENCIES: by_frequencies(np.array(shape.rows), labels)}
    if sum(shape.rows) * shape.numbers_per_row <= _MOST_NUMBERS:
        step = max(1, round(shape.samples * len(shape.classes) * shape.numbers_per_row / _MOST_WORK))
        baselines[NEAREST] = _of_samples(_scores(run, step), labels[::step])
    return baselines


def by_frequencies(rows: NDArray[np.integer], labels: NDArray[np.int64]) -> Outcomes:
    """Outcomes if every sample is predicted with the class shares of the training set."""
    shares, n = rows / rows.sum(), len(labels)
    place = np.empty(len(rows), np.int64)
    place[np.argsort(-shares, kind="stable")] = np.arange(len(rows))
    likeliest = int(shares.argmax())
    return Outcomes(
        labels, np.full(n, likeliest), np.full(n, shares[likeliest]), shares[labels], place[labels]
    )


def by_nearest(scores: NDArray[np.floating], labels: NDArray[np.int64]) -> Outcomes:
    """Outcomes by scores (sample, class) that are not probabilities, so that confidences are unknown."""
    every = np.arange(len(labels))
    unknown = np.full(len(labels), np.nan)
    rank = (scores > scores[every, labels][:, None]).sum(axis=1)
    return Outcomes(labels, scores.argmax(axis=1), unknown, unknown, rank)


def _of_samples(parts: Iterator[NDArray[np.floating]], labels: NDArray[np.int64]) -> Outcomes:
    found, start = [], 0
    for scores in parts:
        found.append(by_nearest(scores, labels[start : start + len(scores)]))
        start += len(scores)
    return Outcomes.joined(found)


def _scores(run: Run, step: int) -> Iterator[NDArray[np.floating]]:
    """x · m - |m|² / 2 for every step-th test sample x and every centroid m; the nearest centroid has the largest."""
    centroids = _centroids(run)
    squares = centroids.multiply(centroids) if issparse(centroids) else centroids**2
    half = np.asarray(squares.sum(axis=1)) / 2
    most = max(1, NUMBERS_AT_ONCE // len(half))
    for slab in pieces(run.shape.samples, run.shape.samples_per_slab):
        X = read_samples(run, slab)[-slab.start % step :: step]
        for some in pieces(X.shape[0], most):
            products = X[some] @ centroids.T
            yield (products.toarray() if issparse(products) else products) - half


def _centroids(run: Run) -> Any:
    """(N, D) means of the normalised training rows of each class, CSR if they are sparse."""
    N, D = len(run.shape.classes), run.shape.features
    classes, rows = np.repeat(np.arange(N), run.rows), run.rows[:, None]
    sums: Any = np.zeros((N, D)) if run.shape.sparse is None else csr_array((N, D))
    for some in run.row_blocks:
        X = read_normalisation(run)(read_stored_rows(run, some.start, some.stop))
        sums = sums + class_totals(X, classes[some], N)
    if issparse(sums):
        return csr_array(sums.multiply(1 / rows), dtype=np.float32)
    return np.asarray(sums / rows, np.float32)
