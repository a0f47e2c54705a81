"""The parts of a page that grow with the classes, at a thousand of them."""

from __future__ import annotations

import numpy as np
import pytest

from pairloom.pipeline.display.class_layout import order_classes
from pairloom.pipeline.display.evaluation import Confusions, Outcomes
from pairloom.pipeline.display.top_probabilities import TopProbabilities
from pairloom.pipeline.report.class_maps import graph_section, maps_section
from pairloom.pipeline.report.page import page
from pairloom.pipeline.report.run_results import ConfidentErrors, JudgedSamples, TrainedPairs
from pairloom.pipeline.report.score_tables import (
    class_scores,
    classes_section,
    confused_pairs,
    pairs_section,
)


def judged_samples(N: int, R: int) -> JudgedSamples:
    """Samples of which a third are predicted as any other class."""
    random = np.random.default_rng(0)
    label = np.arange(R) % N
    predicted = np.where(random.uniform(size=R) < 0.35, random.integers(0, N, R), label)
    found = Outcomes(label, predicted, random.uniform(size=R), random.uniform(size=R), label % 9)
    likeness = random.uniform(size=(N, N)) ** 4
    none = ConfidentErrors(np.empty(0, np.int64), TopProbabilities.of(np.empty((0, N)), 20))
    return JudgedSamples({"stratified": found}, Confusions.of(label, predicted, N), likeness, none)


@pytest.mark.long
@pytest.mark.parametrize("family", ["star", "complete"])
def test_the_page_of_a_thousand_classes_stays_below_five_megabytes(family):
    N = 1000
    names = [f"a class with a name of usual length, number {c}" for c in range(N)]
    edges = np.column_stack(np.triu_indices(N, 1))
    edges = edges[(edges == 7).any(axis=1)] if family == "star" else edges
    dprime = np.random.default_rng(1).gamma(4.0, 1.0, len(edges))
    hubs = np.array([7]) if family == "star" else np.empty(0, np.int64)
    pairs, judged = TrainedPairs(N, edges, dprime, hubs), judged_samples(N, 50_000)
    order, confused = order_classes(judged.likeness), confused_pairs(judged, pairs)
    sections = [
        maps_section(names, order, judged, confused, pairs),
        pairs_section(confused, names, True),
        classes_section(class_scores(names, [50] * N, judged, pairs.degrees, pairs.hubs), "pairs"),
        graph_section(names, order, pairs, family),
    ]
    text = page("a thousand", "", [], [], sections, {"names": names})
    assert len(text.encode()) < 5e6
    if family == "complete":
        assert "The page has the worst 500; pairs.csv has all." in text
        assert "The 3,000 pairs with the lowest d' are drawn." in text
