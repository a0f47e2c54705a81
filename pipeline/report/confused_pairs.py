"""The table of pairs of classes that are confused, with the machine between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pairloom.pipeline.report.csv_file import csv_text
from pairloom.pipeline.report.evaluation import worst_pairs
from pairloom.pipeline.report.judged_samples import JudgedSamples
from pairloom.pipeline.report.section import Section
from pairloom.pipeline.report.table import Cell, Column, Name, table
from pairloom.pipeline.report.trained_pairs import TrainedPairs
from pairloom.pipeline.storage.names import csv_cell

__all__ = ["ConfusedPair", "confused_pairs", "pairs_csv", "pairs_section"]

#: Rows of the table in the page, and of the file.
_MOST, _MOST_IN_FILE = 500, 100_000


class ConfusedPair(NamedTuple):
    """Two classes with samples of one that are predicted as the other. ``dprime`` is None without a machine."""

    i: int
    j: int
    i_as_j: int
    j_as_i: int
    dprime: float | None


def confused_pairs(judged: JudgedSamples, pairs: TrainedPairs | None) -> list[ConfusedPair]:
    """All confused pairs, worst first."""
    worst = worst_pairs(judged.confusion, _MOST_IN_FILE)
    i, j = np.array([(i, j) for i, j, _ in worst], np.int64).reshape(-1, 2).T
    found = np.full(len(i), -1) if pairs is None else pairs.places_of(i, j)
    return [
        ConfusedPair(
            a,
            b,
            int(judged.confusion[a, b]),
            int(judged.confusion[b, a]),
            None if pairs is None or edge < 0 else float(pairs.dprime[edge]),
        )
        for a, b, edge in zip(i.tolist(), j.tolist(), found.tolist(), strict=True)
    ]


def pairs_section(confused: Sequence[ConfusedPair], names: Sequence[str], on_pairs: bool) -> Section:
    """The table of the worst pairs."""
    columns = [
        Column("class"),
        Column("other class"),
        Column("errors", True, "samples of either class that are predicted as the other"),
        Column("first as second", True),
        Column("second as first", True),
    ]
    if on_pairs:
        columns.append(Column("d'", True, "distance of the two classes on the pair's held-out logits"))
    rows = [_cells(pair, names)[: len(columns)] for pair in confused[:_MOST]]
    few = "" if len(rows) == len(confused) else f" The page has the worst {_MOST}; pairs.csv has all."
    told = (
        " d' is the distance between the two classes on the held-out logits of their machine, in standard deviations;"
        " pairs without one were not trained."
        if on_pairs
        else ""
    )
    text = f"<p>{len(confused):,} pairs of classes are confused at least once.{few}{told}</p>"
    body = text + table("pairs", columns, rows, "Confused pairs", search="a class", sortable=True)
    return Section("pairs", "Confused pairs", body if rows else "<p>No two classes are confused.</p>")


def _cells(pair: ConfusedPair, names: Sequence[str]) -> list[Cell]:
    return [
        Name(names[pair.i]),
        Name(names[pair.j]),
        pair.i_as_j + pair.j_as_i,
        pair.i_as_j,
        pair.j_as_i,
        "" if pair.dprime is None else f"{pair.dprime:.2f}",
    ]


def pairs_csv(confused: Sequence[ConfusedPair], names: Sequence[str]) -> str:
    """All confused pairs as a CSV file."""
    return csv_text(
        ("i", "class_i", "j", "class_j", "i_as_j", "j_as_i", "dprime"),
        (
            [
                pair.i,
                csv_cell(names[pair.i]),
                pair.j,
                csv_cell(names[pair.j]),
                pair.i_as_j,
                pair.j_as_i,
                "" if pair.dprime is None else f"{pair.dprime:.6g}",
            ]
            for pair in confused
        ),
    )
