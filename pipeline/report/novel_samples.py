"""Test samples that resemble no class of a run: how many would be rejected, and which are the most novel.

They are judged by the model of the run, as `PairwiseSVC.novelty` judges them. A model that is too large for the report
to read judges none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.text import plain_line
from pairloom.pipeline.model.novelty import novelty_limits, novelty_of
from pairloom.pipeline.model.prediction_sets import held_out_of
from pairloom.pipeline.report.critical_machine import raw_samples
from pairloom.pipeline.report.errors import reads_model
from pairloom.pipeline.report.page import Column, PageTable, Section
from pairloom.pipeline.run.feature_store import read_ids
from pairloom.pipeline.run.run import Run
from pairloom.pipeline.run.run_directory import RunShape
from pairloom.pipeline.run.run_model import read_run_model
from pairloom.pipeline.threads import pieces

__all__ = ["NovelSamples", "judging_bytes", "novel_samples", "novelty_section"]

#: The shares of known samples to reject in the table.
_SHARES = (0.01, 0.05, 0.1)
#: Number of samples that the page shows.
_SHOWN = 20
#: Samples are judged so many at a time, at most so many in all, and with so much memory for the logits of their pairs.
_AT_ONCE, _MOST, _LOGIT_BYTES = 1000, 5000, 32 * 2**20


class NovelSamples(NamedTuple):
    """The novelty of test samples.

    Attributes
    ----------
    sample : (S,) int64 array
    novelty : (S,) float64 array
    limits : (3,) float64 array
        The novelty above which a sample is rejected, for each share of known samples.
    """

    sample: NDArray[np.int64]
    novelty: NDArray[np.float64]
    limits: NDArray[np.float64]


def novel_samples(run: Run) -> NovelSamples | None:
    """The novelty of the test samples, of many a part in equal steps; None if the model cannot judge any."""
    if not run.shape.samples or not reads_model(run):
        return None
    model, coupling = read_run_model(run.directory).model, run.shape.couplings[0]
    try:
        scores = held_out_of(model, coupling, model.shortlist, "report")
    except ValueError:  # there are no held-out samples, or votes were counted
        return None
    if not np.isfinite(scores.strangeness).any():
        return None
    step = -(-run.shape.samples // _MOST)
    sample = np.arange(0, run.shape.samples, step)
    novelty = []
    for some in pieces(len(sample), _AT_ONCE):
        X = raw_samples(run, sample[some])
        novelty.append(
            novelty_of(model, scores, X, coupling, shortlist=model.shortlist, memory_limit=_LOGIT_BYTES)
        )
    limits = [novelty_limits(model, scores, share, "all", run.priors).max() for share in _SHARES]
    return NovelSamples(sample, np.concatenate(novelty), np.array(limits))


def novelty_section(run: Run, novel: NovelSamples, predicted: NDArray[np.int64] | None) -> Section:
    """The shares of rejected samples, and the most novel samples. ``predicted`` are the classes of all test samples."""
    shares = [
        [f"{share:.0%}", f"{(novel.novelty > limit).mean():.4f}"]
        for share, limit in zip(_SHARES, novel.limits, strict=True)
    ]
    columns = [Column("asked for", "number"), Column("rejected", "number", "share of the test samples")]
    content = {
        "samples": len(novel.sample),
        "whole": len(novel.sample) == run.shape.samples,
        "shares": PageTable("rejected", "Rejected samples", columns, shares),
        "first": _most_novel(run, novel, predicted),
    }
    return Section("novelty", "None of these", content)


def _most_novel(run: Run, novel: NovelSamples, predicted: NDArray[np.int64] | None) -> PageTable:
    first = np.argsort(-novel.novelty, kind="stable")[:_SHOWN]
    ids = read_ids(run.directory, "sample", novel.sample[first])
    columns = [
        Column(
            "test sample",
            "number" if ids.dtype.kind in "iu" else "text",
            "its id in the data, or its number",
        ),
        Column("novelty", "number"),
    ]
    rows: list[Sequence[object]] = [
        [plain_line(name), f"{novel.novelty[place]:.2f}"]
        for place, name in zip(first, ids.tolist(), strict=True)
    ]
    if predicted is not None:
        columns.append(Column("likeliest class", "name"))
        of_first = predicted[novel.sample[first]].tolist()
        rows = [[*row, run.shape.classes[c]] for row, c in zip(rows, of_first, strict=True)]
    return PageTable("novel", "The most novel test samples", columns, rows)


def judging_bytes(shape: RunShape) -> int:
    """Memory to judge samples: those that are read at a time, stored and normalised, and the logits of their pairs."""
    rows = min(shape.samples, _AT_ONCE) + shape.samples_per_slab
    return 16 * rows * shape.features + _LOGIT_BYTES
