"""Sets of classes of the test samples of a run: how many hold the true class, and how large they are.

They are those of ``predict_set(X, coverage)``. Where lists of the likeliest classes are stored, a set may have classes
that are not listed; its size is then at least the number of listed ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.pipeline.calibration.held_out_scores import HeldOutScores, weighted_quantiles
from pairloom.pipeline.calibration.novelty_signals import NoveltyWeights
from pairloom.pipeline.display.evaluation import Outcomes
from pairloom.pipeline.display.top_probabilities import TopProbabilities
from pairloom.pipeline.report.page import Column, PageTable, Section
from pairloom.pipeline.run.results import read_scores
from pairloom.pipeline.run.run import Run

__all__ = ["SetCounts", "SetLimits", "held_out_scores", "set_limits", "sets_section"]

#: The coverages of the table.
_COVERAGES = (0.8, 0.9, 0.95, 0.99)


def held_out_scores(run: Run) -> HeldOutScores | None:
    """What the model of a run says of its held-out samples; None without any."""
    if not run.shape.draws or run.settings.coupled_calibration == "none":
        return None
    table, weights = read_scores(run.directory, 0)
    return HeldOutScores.from_table(table, len(run.shape.classes), NoveltyWeights(*weights))


class SetCounts(NamedTuple):
    """Sets of some samples, by coverage.

    Attributes
    ----------
    samples : int
    held, classes : (C,) int64 arrays
        How many sets hold the true class, and how many classes they have together.
    whole : (C,) bool array
        Whether no set has classes that are not listed.
    """

    samples: int
    held: NDArray[np.int64]
    classes: NDArray[np.int64]
    whole: NDArray[np.bool_]

    @classmethod
    def joined(cls, parts: Sequence[SetCounts]) -> SetCounts:
        """Samples that were counted in parts."""
        samples, held, classes, whole = zip(*parts, strict=True)
        return cls(sum(samples), np.sum(held, axis=0), np.sum(classes, axis=0), np.all(whole, axis=0))


class SetLimits(NamedTuple):
    """(C, N) the least probability with which each class is in a set, by coverage."""

    least: NDArray[np.float64]

    def counts_of(self, outcomes: Outcomes, top: TopProbabilities) -> SetCounts:
        """The sets of some samples, whose likeliest classes are listed."""
        n_listed, n_classes = top.p.shape[1], self.least.shape[1]
        listed = np.array([(top.p >= least[top.classes]).sum() for least in self.least])
        cut = [bool((top.p[:, -1] >= least.min()).any()) for least in self.least]
        whole = np.full(len(cut), True) if n_listed == n_classes else ~np.array(cut)
        held = (outcomes.likelihood >= self.least[:, outcomes.label]).sum(axis=1)
        return SetCounts(len(outcomes.label), held, listed, whole)


def set_limits(run: Run) -> SetLimits | None:
    """The limits of sets; None without held-out samples, or where stored probabilities are those of other priors."""
    scores = held_out_scores(run)
    if scores is None or not len(scores.classes) or run.priors is not None:
        return None
    extra = scores.weight_of_class(len(run.shape.classes))
    least = [1 - weighted_quantiles(1 - scores.p, scores.weight, coverage, extra) for coverage in _COVERAGES]
    return SetLimits(np.array(least))


def sets_section(counts: SetCounts) -> Section:
    """The table of coverages, and of the sets of the test samples."""
    columns = [
        Column("coverage asked for", "number"),
        Column("sets with the true class", "number", "share of the test samples"),
        Column("mean size", "number", "classes per set"),
    ]
    rows = [
        [
            f"{coverage:.0%}",
            f"{held / counts.samples:.4f}",
            f"{'' if whole else 'at least '}{classes / counts.samples:.2f}",
        ]
        for coverage, held, classes, whole in zip(_COVERAGES, *counts[1:], strict=True)
    ]
    table = PageTable("sets", "Sets of classes", columns, rows)
    return Section("sets", "Sets of classes", {"samples": counts.samples, "table": table})
