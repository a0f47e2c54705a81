"""The list and the neighbours of a model are widened where classes overlap, and only there."""

from itertools import pairwise

import numpy as np
import pytest

from pairloom import PairwiseSVC, graphs
from pairloom.pipeline.calibration import list_length
from pairloom.pipeline.calibration.held_out import log_losses
from pairloom.pipeline.calibration.list_length import LONGEST
from pairloom.pipeline.model import fitting
from pairloom.pipeline.model.fitting import (
    MOST_BYTES,
    MOST_NEIGHBOURS,
    next_graphs,
    within_memory,
)

FIXED = {"kernel": "linear", "C": "scale", "whiten": "none", "standardise": False, "random_state": 0}


def overlapping(spread, n_classes=90, rows=20, seed=0):
    """Classes around points of a plane: the larger the spread, the more of them a sample may belong to."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0, 10, (n_classes, 2))
    y = np.repeat(np.arange(n_classes), rows)
    X = (centres[y] + spread * rng.standard_normal((len(y), 2))).astype(np.float32)
    return X[::2], y[::2], X[1::2], y[1::2]


@pytest.fixture(scope="module")
def blurred():
    return overlapping(2.5)


@pytest.fixture(scope="module")
def widened(blurred):
    """A model that takes every step, whatever it gains."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_length, "_STANDARD_ERRORS", -np.inf)
        return PairwiseSVC(**FIXED).fit(*blurred[:2])


def test_the_list_doubles_and_neighbours_follow_as_far_as_the_budget_goes(widened):
    assert widened.shortlist_ == LONGEST
    assert widened.graph_.graph["neighbours"] == MOST_NEIGHBOURS


@pytest.fixture(scope="module")
def uneven():
    """Classes that overlap, each with a spread of its own: their ranking by sums of logits is poor."""
    rng = np.random.default_rng(0)
    centres, y = rng.standard_normal((90, 10)), np.repeat(np.arange(90), 40)
    spread = 2 * np.exp(0.5 * rng.standard_normal(90))
    X = (centres[y] + spread[y, None] * rng.standard_normal((len(y), 10))).astype(np.float32)
    return X[::2], y[::2], X[1::2], y[1::2]


@pytest.mark.long
def test_a_longer_list_is_taken_where_held_out_samples_gain_and_new_samples_then_gain_too(uneven):
    X, y, X_new, y_new = uneven
    longer, usual = (PairwiseSVC(**FIXED | given).fit(X, y) for given in ({}, {"shortlist": 20}))
    assert longer.shortlist_ > 20
    gains = log_losses(usual.predict_proba(X_new), y_new) - log_losses(longer.predict_proba(X_new), y_new)
    assert gains.mean() > 3 * gains.std() / np.sqrt(len(gains))


def test_nothing_is_widened_without_a_gain(blurred):
    """In a plane the ranking of the classes is as good as their coupling."""
    assert PairwiseSVC(**FIXED).fit(*blurred[:2]).shortlist_ == 20


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"shortlist": 30}, 30),
        ({"graph": {"family": "hub_neighbours", "neighbours": 10}}, LONGEST),
        ({"coupled_calibration": "none", "calibration": "platt"}, 20),
    ],
    ids=str,
)
def test_what_a_user_asks_for_is_kept(blurred, given, found, monkeypatch):
    monkeypatch.setattr(list_length, "_STANDARD_ERRORS", -np.inf)
    model = PairwiseSVC(**FIXED | given).fit(*blurred[:2])
    assert model.shortlist_ == found
    assert ("graph" in given) == (model.graph_.graph["neighbours"] == 10)


def test_the_machines_are_those_of_a_fit_with_the_graph_and_the_list(blurred, widened):
    X, y, X_new, _ = blurred
    at_once = PairwiseSVC(
        graph=widened.graph_,
        shortlist=widened.shortlist_,
        calibration=widened.calibration_,
        coupling=widened.coupling_,
        **FIXED,
    ).fit(X, y)
    for name in ("coef", "intercept"):
        np.testing.assert_array_equal(*(getattr(model.machines_, name) for model in (widened, at_once)))
    assert widened.scale_ == pytest.approx(at_once.scale_, rel=0.01)
    np.testing.assert_allclose(widened.predict_proba(X_new), at_once.predict_proba(X_new), atol=0.01)


def test_a_saved_model_keeps_its_list(blurred, widened, tmp_path):
    widened.save(tmp_path / "model")
    read = PairwiseSVC.load(tmp_path / "model")
    assert read.shortlist_ == widened.shortlist_
    np.testing.assert_array_equal(read.predict_proba(blurred[2]), widened.predict_proba(blurred[2]))


def test_no_longer_list_is_tried_for_classes_that_are_rarely_missed(monkeypatch):
    monkeypatch.setattr(list_length, "_STANDARD_ERRORS", -np.inf)
    X, y, _, _ = overlapping(0.1)
    assert PairwiseSVC(**FIXED).fit(X, y).shortlist_ == 20


def test_the_next_graphs_have_all_pairs_of_those_before_and_keep_to_the_budget():
    near = np.abs(np.subtract.outer(np.arange(100.0), np.arange(100.0)))
    first = graphs.hub_neighbours(near, 3, 20)
    found = [first, *next_graphs(first, lambda: near, 1)]
    assert [graph.graph["neighbours"] for graph in found] == [20, 40, MOST_NEIGHBOURS]
    for graph, wider in pairwise(found):
        assert set(graph.edges) < set(wider.edges)
    too_large = MOST_BYTES // found[2].number_of_edges() + 1
    assert len(list(next_graphs(first, lambda: near, too_large))) == 1


def test_graphs_that_memory_cannot_hold_are_left_with_a_warning(monkeypatch):
    near = np.abs(np.subtract.outer(np.arange(100.0), np.arange(100.0)))
    first = graphs.hub_neighbours(near, 3, 20)
    fits, too_large = next_graphs(first, lambda: near, 1)
    monkeypatch.setattr(fitting, "available_bytes", lambda: 3 * 10**6 * fits.number_of_edges() + 1000)
    with pytest.warns(UserWarning, match=r"joined to 60 neighbours: that needs about [\d.]+ GiB, and"):
        assert list(within_memory(iter([fits, too_large]), 1e6, 0)) == [fits]
