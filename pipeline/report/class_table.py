"""The table of classes: how well each is recognised, and which it is taken for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.report.csv_file import csv_text
from pairloom.pipeline.report.judged_samples import JudgedSamples
from pairloom.pipeline.report.section import Section
from pairloom.pipeline.report.table import Cell, Column, Name, table
from pairloom.pipeline.storage.names import csv_cell

__all__ = ["ClassRow", "class_rows", "classes_csv", "classes_section"]

#: Rows of the table in the page.
_MOST = 2000


class ClassRow(NamedTuple):
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


def class_rows(
    names: Sequence[str],
    rows: Sequence[int],
    judged: JudgedSamples,
    machines: NDArray[np.integer],
    hubs: NDArray[np.integer],
) -> list[ClassRow]:
    """One row per class, in the order of the classes."""
    confusion, N = judged.confusion, len(names)
    samples, predicted, right = confusion.sum(axis=1), confusion.sum(axis=0), confusion.diagonal()
    losses = np.bincount(judged.model.label, judged.model.losses, N)
    errors = confusion - np.diag(right)
    worst = errors.argmax(axis=1)
    most = errors[np.arange(N), worst]
    return [
        ClassRow(
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


def classes_section(rows: Sequence[ClassRow], unit: str) -> Section:
    """The table, worst recall first. ``unit`` says what a machine is trained on."""
    shown = sorted(rows, key=lambda row: (_or_one(row.recall), -row.test_samples, row.number))[:_MOST]
    columns = [
        Column("class"),
        Column("recall", True, "share of the class's test samples that are predicted as it"),
        Column("precision", True, "share of the samples predicted as it that are of it"),
        Column("log loss", True, "mean over its test samples"),
        Column("most often taken for"),
        Column("times", True),
        Column("test", True, "test samples"),
        Column("training", True, "training rows"),
        Column(unit, True, f"trained {unit} that the class is in"),
    ]
    few = "" if len(shown) == len(rows) else f" The page has the {_MOST:,} worst; classes.csv has all."
    body = f"<p>Every class on the test samples, worst first.{few}</p>" + table(
        "classes",
        columns,
        [_cells(row) for row in shown],
        "Classes",
        search="a class",
        sortable=True,
    )
    return Section("classes", "Classes", body)


def _cells(row: ClassRow) -> list[Cell]:
    return [
        Name(row.name),
        _number(row.recall, ".3f"),
        _number(row.precision, ".3f"),
        _number(row.log_loss, ".3f"),
        "" if row.taken_for is None else Name(row.taken_for),
        row.taken_for_samples or "",
        row.test_samples,
        row.training_rows,
        f"{row.machines} hub" if row.hub else row.machines,
    ]


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _or_one(share: float | None) -> float:
    return 1.0 if share is None else share


def classes_csv(rows: Sequence[ClassRow]) -> str:
    """All rows as a CSV file."""
    return csv_text(
        ClassRow._fields,
        (
            [
                row.number,
                csv_cell(row.name),
                *row[2:4],
                *(_number(value, ".6f") for value in row[4:7]),
                csv_cell(row.taken_for or ""),
                *row[8:10],
                int(row.hub),
            ]
            for row in rows
        ),
    )
