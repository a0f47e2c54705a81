"""Training rows of a run with doubtful labels: held-out rows for the page, or all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pairloom.graphs.text import plain_line
from pairloom.pipeline.features.feature_set import names_of
from pairloom.pipeline.machines.normalisation import is_whitened
from pairloom.pipeline.model.label_doubts import LabelDoubts, doubts_of_held_out, doubts_of_rows
from pairloom.pipeline.report.page import Column, PageTable, Section
from pairloom.pipeline.report.set_tables import held_out_scores
from pairloom.pipeline.run.feature_store import drawn_samples, read_ids, read_stored_rows
from pairloom.pipeline.run.results import chosen_candidate
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_model import read_run_model

__all__ = ["audit_rows", "audit_run", "doubts_section", "held_out_doubts"]

#: Number of rows that the page shows.
_SHOWN = 50
_HEADING = ("id", "label", "better_label", "p_label", "p_better_label", "log_odds")


def held_out_doubts(run: Run) -> LabelDoubts | None:
    """The doubts about the held-out rows, by position in the store, with classes by number; None without such rows."""
    scores = held_out_scores(run)
    if scores is None:
        return None
    classes = np.arange(len(run.shape.classes))
    drawn = drawn_samples(run, is_whitened(chosen_candidate(run).whiten))
    return doubts_of_held_out(scores, run.starts[drawn.classes] + drawn.rows, classes)


def doubts_section(run: Run, doubts: LabelDoubts) -> Section:
    """The table of the most doubtful rows."""
    doubted = int(doubts.doubted.sum())
    names, ids = run.shape.classes, read_ids(run.directory, "row", doubts.row[: min(doubted, _SHOWN)])
    columns = [
        Column(
            "training row",
            "number" if ids.dtype.kind in "iu" else "text",
            "its id in the data, or its number",
        ),
        Column("label", "name"),
        Column("likelier class", "name"),
        Column("p of label", "number", "out-of-fold probability of the label"),
        Column("p", "number", "out-of-fold probability of the likelier class"),
    ]
    rows = [
        [
            plain_line(name),
            names[doubts.label[place]],
            names[doubts.better[place]],
            f"{doubts.p_label[place]:.4f}",
            f"{doubts.p_better[place]:.4f}",
        ]
        for place, name in enumerate(ids.tolist())
    ]
    table = PageTable(
        "doubts", "Labels that look wrong", columns, rows, search="a row or class", sortable=True
    )
    content = {"judged": len(doubts.row), "doubted": doubted, "table": table}
    return Section("doubts", "Labels that look wrong", content)


def audit_run(run: Run) -> LabelDoubts:
    """The doubts about all training rows of a finished run, by position in its store.

    Rows are read from the store of the run and compared with the checksums per class in its model.
    """
    model = read_run_model(run.directory, compact=False).model
    classes = np.repeat(np.arange(len(run.rows)), run.rows)
    return doubts_of_rows(
        model,
        lambda rows: read_stored_rows(run, rows.start, rows.stop),
        classes,
        model.coupling,
        owner="pairloom audit",
    )


def audit_rows(directory: Path, doubts: LabelDoubts, most: int | None = None) -> Iterator[Sequence[Any]]:
    """The first rows of doubts as CSV rows, below a heading; by default the rows that another class fits better.

    Unknown values are empty.
    """
    first = doubts.of_rows(doubts.doubted if most is None else slice(most))
    yield _HEADING
    ids = read_ids(directory, "row", first.row).tolist()
    labels = zip(ids, names_of(first.label), names_of(first.better), strict=True)
    for named, *numbers in zip(labels, first.p_label, first.p_better, first.doubt, strict=True):
        yield [*named, *("" if np.isnan(number) else f"{number:.6g}" for number in numbers)]
