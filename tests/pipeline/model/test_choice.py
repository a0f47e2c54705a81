"""The choice among candidates of C and whitening."""

import networkx as nx
import numpy as np
import pytest

from pairloom import graphs
from pairloom.pipeline.machines.normalisation import Normalisation, fit_normalisation
from pairloom.pipeline.model.choice import (
    Candidate,
    JudgedCandidate,
    best_candidate,
    candidate_Cs,
    linear_candidates,
    probe_graph,
)

PLAIN, WHITENED = Candidate(1.0, "none"), Candidate(1.0, 0.8)
N_SAMPLES = 100
#: Standard error of the mean of N_SAMPLES differences whose standard deviation is 1.
STANDARD_ERROR = 0.1
LOSSES = np.random.default_rng(0).uniform(2, 4, N_SAMPLES)


def judged(candidate, losses):
    return JudgedCandidate(candidate, float(np.mean(losses)), np.asarray(losses))


def less_by(standard_errors):
    """Losses whose mean is below that of LOSSES by a number of standard errors of the difference."""
    difference = np.where(np.arange(N_SAMPLES) % 2, 1.0, -1.0)
    return LOSSES + difference - standard_errors * STANDARD_ERROR


@pytest.mark.parametrize(
    ("standard_errors", "chosen"),
    [(-1.0, PLAIN), (0.1, PLAIN), (1.9, PLAIN), (2.1, WHITENED), (9.0, WHITENED)],
)
def test_a_plain_candidate_is_kept_unless_its_whitened_twin_is_clearly_better(standard_errors, chosen):
    pair = [judged(PLAIN, LOSSES), judged(WHITENED, less_by(standard_errors))]
    assert best_candidate(pair) == best_candidate(pair[::-1]) == chosen


def test_equal_losses_keep_the_plain_candidate():
    assert best_candidate([judged(WHITENED, LOSSES), judged(PLAIN, LOSSES)]) == PLAIN


def test_a_small_gain_of_every_sample_is_a_clear_one():
    """Losses are compared sample by sample, so their standard deviation over the samples, 0.6, does not matter."""
    assert best_candidate([judged(PLAIN, LOSSES), judged(WHITENED, LOSSES - 0.001)]) == WHITENED


def test_without_a_plain_twin_the_least_loss_wins():
    other_C = Candidate(3.0, "none")
    assert best_candidate([judged(WHITENED, less_by(0.1)), judged(other_C, LOSSES)]) == WHITENED


def test_a_twin_has_the_same_C():
    """The twin replaces its whitened candidate even if another plain candidate has a lower loss."""
    other_C = Candidate(3.0, "none")
    found = [judged(WHITENED, less_by(1.0)), judged(PLAIN, LOSSES), judged(other_C, LOSSES - 0.01)]
    assert best_candidate(found) == PLAIN


@pytest.mark.parametrize("best", range(3))
def test_among_plain_candidates_the_least_loss_wins(best):
    found = [
        judged(Candidate(C, "none"), LOSSES - (k == best) * 1e-6) for k, C in enumerate((0.1, 1.0, 10.0))
    ]
    assert best_candidate(found) == found[best].candidate


def test_a_row_of_the_table_has_the_C_of_features_as_they_came_and_the_loss():
    divided_by_8 = Normalisation(np.zeros(2), 3)
    row = JudgedCandidate(Candidate(64.0, 0.8), 0.25, LOSSES).row(divided_by_8)
    assert row == {"C": 1.0, "whiten": 0.8, "log_loss": 0.25}


def distances(n):
    means = np.random.default_rng(n).standard_normal((n, 3))
    return np.linalg.norm(means[:, None] - means, axis=2)


@pytest.mark.parametrize("n", [2, 3, 5, 12, 30, 60])
@pytest.mark.parametrize("family", ["complete", "star", "hub_neighbours"])
def test_candidates_are_compared_on_the_own_graph_or_on_a_far_sparser_one(n, family):
    graph = {
        "complete": lambda: graphs.complete(n),
        "star": lambda: graphs.star(n),
        "hub_neighbours": lambda: graphs.hub_neighbours(
            distances(n), hubs=min(3, n - 1), neighbours=min(9, n - 1)
        ),
    }[family]()
    probe = probe_graph(graph, lambda: distances(n))
    if probe is not graph:
        assert 3 * probe.number_of_edges() < graph.number_of_edges()
        assert sorted(probe) == list(range(n))
        assert nx.is_connected(probe)


def test_all_pairs_of_many_classes_are_too_many_to_compare_candidates_on():
    many, few = graphs.complete(60), graphs.complete(12)
    assert probe_graph(few, lambda: distances(12)) is few
    probe = probe_graph(many, lambda: distances(60))
    hub = max(probe.degree, key=lambda node: node[1])[0]
    assert probe.degree[hub] == 59
    for c in set(probe) - {hub}:
        nearest = np.argsort(distances(60)[c])[1:5].tolist()
        assert set(nearest) <= set(probe[c])


def candidates(C, whiten, X):
    """The candidates for rows X, with C on features as they came."""
    normalisation = fit_normalisation(X, "X")
    found = linear_candidates(C, whiten, normalisation(X), normalisation)
    return [(normalisation.outer_C(candidate.C), candidate.whiten) for candidate in found]


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_candidates_are_every_C_with_every_whitening_in_any_unit(unit):
    X = unit * np.random.default_rng(0).standard_normal((9, 3))
    assert candidates([0.5, 2], "auto", X) == [(0.5, "none"), (0.5, 0.8), (2.0, "none"), (2.0, 0.8)]
    assert candidates(0.5, "none", X) == [(0.5, "none")]
    assert candidates(0.5, 0, X) == [(0.5, 0.0)]


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_the_C_named_scale_is_ten_over_the_spread_of_the_features(unit):
    X = unit * np.random.default_rng(0).standard_normal((9, 3))
    assert candidates("scale", "none", X) == [(pytest.approx(10 / X.var(axis=0).sum()), "none")]


def test_the_C_named_scale_is_one_for_constant_features():
    assert candidates("scale", "none", np.full((9, 3), 7.0)) == [(1.0, "none")]


@pytest.mark.parametrize(
    ("C", "values"),
    [
        (2.0, [2.0]),
        ("scale", ["scale"]),
        ([1, "scale"], [1, "scale"]),
        ((1, 2), [1, 2]),
        (np.array([3.0]), [3.0]),
    ],
    ids=str,
)
def test_one_C_is_a_list_of_one(C, values):
    assert candidate_Cs(C) == values
