"""Sparse graphs of very many classes, fitted one by one."""

import numpy as np
import pytest

from pairloom import PairwiseSVC, graphs
from pairloom.pipeline.experiments import many_classes
from pairloom.pipeline.experiments.bipartite import BIPARTITE, GROWN, HUBS
from pairloom.pipeline.experiments.many_classes import FAMILIES, SIDES, Outcomes
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS


def test_graphs_of_a_size_have_as_many_pairs(digits_features):
    for d in (2, 4):
        drawn = {
            family: many_classes.graph_of(digits_features, family, d, np.random.default_rng(d))
            for family in FAMILIES
        }
        assert {graph.number_of_edges() for graph in drawn.values()} == {d * (10 - d)}
        assert sorted(dict(drawn[BIPARTITE].degree).values()) == sorted([10 - d] * d + [d] * (10 - d))
        assert max(dict(drawn[GROWN].degree).values()) == 9


@pytest.mark.long
def test_models_are_those_of_the_estimator(digits_features):
    data = digits_features
    found = many_classes.models_over(data, BIPARTITE, 3, seed=1)
    graph = many_classes.graph_of(data, BIPARTITE, 3, np.random.default_rng([1, 3]))
    svc = PairwiseSVC(
        graph,
        coupling="wlw2",
        calibration="distance",
        C="scale",
        whiten="none",
        kernel="linear",
        standardise=False,
        random_state=1,
    )
    score = svc.fit(data.X_train, data.y_train).score(data.X_test, data.y_test)
    (first, *_) = found.models
    assert (first.coupling, first.pairs, first.accuracy) == ("wlw2", 21, pytest.approx(score))
    assert first.share_of_pairs == pytest.approx(21 / graphs.complete(10).number_of_edges())
    assert [model.coupling for model in found.models] == list(COUPLINGS)


def made_up(**accuracies):
    """Outcomes of which all claims hold; whatever a model gets right, a better one gets right too."""
    accuracy = {BIPARTITE: 0.7, GROWN: 0.6, HUBS: 0.8} | accuracies
    return Outcomes(
        [],
        {
            (family, d, c): (np.arange(400) < 400 * accuracy[family]).astype(np.float32)[None]
            for family in FAMILIES
            for d in SIDES
            for c in COUPLINGS
        },
    )


def test_claims_are_judged_by_accuracies():
    assert [f.verdict for f in many_classes.findings(made_up())] == ["holds"] * 3
    assert [f.verdict for f in many_classes.findings(made_up(**{HUBS: 0.65}))] == [
        "holds",
        "differs",
        "holds",
    ]
    assert [f.source for f in many_classes.findings(made_up())] == ["[S]", "Pairloom", "Pairloom"]
