"""How many neighbours are joined to every class, where nobody says."""

import numpy as np
import pytest

from pairloom import PairwiseSVC, graphs
from pairloom.pipeline.model.choice import MANY, USUAL, asks_for_neighbours

FIXED = {"C": "scale", "whiten": "none", "calibration": "distance", "random_state": 0}


@pytest.mark.parametrize(
    ("asked", "open_"),
    [
        ("hub_neighbours", True),
        ({"family": "hub_neighbours"}, True),
        ({"family": "hub_neighbours", "hubs": 1}, True),
        ({"family": "hub_neighbours", "neighbours": None}, True),
        ({"family": "hub_neighbours", "neighbours": 5}, False),
        ("complete", False),
        ({"family": "bipartite", "hubs": 2}, False),
        (graphs.star(30), False),
    ],
    ids=str,
)
def test_the_number_is_open_unless_it_is_given(asked, open_):
    assert asks_for_neighbours(asked, 30) == open_
    assert not asks_for_neighbours(asked, USUAL + 1), "with so few classes all are neighbours"


def samples(n_classes, dimensions, clusters, spread, seed=0):
    """Classes that each consist of some clusters."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), 60)
    means = rng.normal(0, spread, (n_classes, clusters, dimensions))
    return means[y, rng.integers(0, clusters, len(y))] + rng.normal(0, 0.7, (len(y), dimensions)), y


def test_classes_with_few_rivals_keep_the_usual_number():
    """Far apart in sixty dimensions, classes are not confused, and more neighbours bring nothing."""
    X, y = samples(60, 60, 1, 2.0)
    assert PairwiseSVC(**FIXED, kernel="linear").fit(X, y).graph_.graph["neighbours"] == USUAL


def test_classes_with_many_rivals_get_more():
    """Four clusters of each class in six dimensions: every class has clusters of most others beside its own."""
    X, y = samples(60, 6, 4, 2.0)
    model = PairwiseSVC(**FIXED, kernel="linear").fit(X, y)
    assert model.graph_.graph["neighbours"] == MANY
    assert len(model.graph_.graph["hubs"]) == 3


def test_a_number_that_is_given_is_kept():
    X, y = samples(60, 6, 4, 2.0)
    model = PairwiseSVC(
        {"family": "hub_neighbours", "hubs": 2, "neighbours": 7}, **FIXED, kernel="linear"
    ).fit(X, y)
    assert model.graph_.graph["neighbours"] == 7
    assert len(model.graph_.graph["hubs"]) == 2
