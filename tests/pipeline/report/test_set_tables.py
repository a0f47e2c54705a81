"""Sets of classes are counted from the likeliest classes; where these may not be all, that is said."""

import numpy as np
import pytest

from pairloom.pipeline.display.evaluation import outcomes
from pairloom.pipeline.display.top_probabilities import TopProbabilities
from pairloom.pipeline.report.set_tables import SetCounts, SetLimits, sets_section


@pytest.fixture
def samples():
    random = np.random.default_rng(0)
    return random.dirichlet(np.full(8, 0.5), 40), random.integers(8, size=40)


def test_counts_are_those_of_all_probabilities(samples):
    p, y = samples
    limits = SetLimits(np.array([np.full(8, 0.3), np.linspace(0.05, 0.4, 8)]))
    parts = [
        limits.counts_of(outcomes(p[some], y[some]), TopProbabilities.of(p[some], 8))
        for some in (slice(0, 15), slice(15, 40))
    ]
    counts = SetCounts.joined(parts)
    for least, held, classes in zip(limits.least, counts.held, counts.classes, strict=True):
        sets = p >= least
        assert (held, classes) == (sets[np.arange(40), y].sum(), sets.sum())
    assert counts.whole.all()


def test_lists_that_are_cut_give_a_least_size(samples):
    p, y = samples
    limits = SetLimits(np.full((4, 8), [[0.6], [0.45], [0.34], [0.01]]))
    counts = limits.counts_of(outcomes(p, y), TopProbabilities.of(p, 3))
    # At most two classes have 0.34 or more.
    assert counts.whole.tolist() == [True, True, True, False]
    assert counts.held[3] == (p[np.arange(40), y] >= 0.01).sum()
    sizes = [row[2] for row in sets_section(counts).content["table"].rows]
    assert sizes[1] == f"{(p >= 0.45).sum() / 40:.2f}"
    assert sizes[3].startswith("at least ")
