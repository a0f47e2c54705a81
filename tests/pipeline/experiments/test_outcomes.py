"""Outcomes on the embedded sets: the paper's findings and our own."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from pairloom import graphs
from pairloom.pipeline.experiments import (
    bipartite,
    boundaries,
    centres,
    disagreements,
    growth_curves,
    model_errors,
    quintets,
    star_centres,
    ten_class,
    triplets,
)
from pairloom.pipeline.experiments.model_errors import class_draws, mean_errors
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS


def error_of(rows):
    """Error of each model with its worst coupling."""
    errors = {}
    for row in rows:
        errors[row.model] = max(row.error, errors.get(row.model, 0))
    return errors


def test_minimal_models_leave_out_one_pair_each():
    dprime = np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0]])
    models = {name: sorted(graph.edges) for name, graph in triplets.minimal_models(dprime).items()}
    assert models == {"MIN1": [(0, 1), (0, 2)], "MIN2": [(0, 1), (1, 2)], "MIN3": [(0, 2), (1, 2)]}


def test_triplets_metrical_finding(digits):
    error = error_of(triplets.measure(digits, 120))
    assert error["maximal"] < error["MIN1"] <= error["MIN2"] <= error["MIN3"]


def test_quintets_topological_finding(digits):
    error = error_of(quintets.measure(digits, 252))
    assert error["maximal"] < error["star (G2)"] <= error["fork (G3)"] <= error["path (G4)"]


def test_ten_classes_maximal_beats_trees(digits):
    wrong = ten_class.measure(digits, 1)
    error = error_of(ten_class.rows(wrong))
    assert error["maximal"] < min(error["star"], error["MST"])
    assert ten_class.findings(wrong)[0].holds


def test_the_samples_that_are_wrong_make_up_the_errors(synthetic):
    chosen = np.array([7, 3, 40])
    wrong = model_errors.wrong_on(synthetic, chosen, triplets.minimal_models)
    assert all(
        np.isfinite(outcomes).sum() == np.isin(synthetic.labels, chosen).sum() for outcomes in wrong.values()
    )
    (errors,) = model_errors.errors_of_draws(model_errors.stacked([wrong]))
    assert errors == pytest.approx(model_errors.errors_on(synthetic, chosen, triplets.minimal_models))


def test_growth_rises_fast(synthetic):
    rows = growth_curves.measure(synthetic, 5)
    for coupling in COUPLINGS:
        for cost in growth_curves.COSTS:
            assert growth_curves.share_of_gain(rows, cost, coupling) > growth_curves.ALMOST_ALL
    early = {cost: growth_curves.accuracy_at(rows, cost, "stratified")[0.1] for cost in growth_curves.COSTS}
    assert early["confusion"] > early["uniform"]


def test_growth_ends_at_the_complete_graph_and_begins_at_the_star(digits):
    start = graphs.star(10, 4)
    curve = growth_curves.growth_curve(digits, start, list(graphs.grow(start)))
    complete = digits.errors(graphs.complete(10))
    np.testing.assert_allclose(curve[:, -1], [1 - complete[c] for c in COUPLINGS], atol=1e-12)
    np.testing.assert_allclose(curve[:, 0], 1 - digits.tree_error(start), atol=1e-12)


@pytest.mark.parametrize("other", [bipartite.BIPARTITE, bipartite.GROWN])
def test_hub_neighbours_beats_graphs_of_the_same_size(hub_rows, other):
    for coupling in ("wlw2", "stratified"):
        assert bipartite.mean_gap(hub_rows, bipartite.HUBS, other, coupling) > 0.005
        assert bipartite.mean_gap(hub_rows, bipartite.HUBS_BY_DPRIME, other, coupling) > 0.005


def test_hub_neighbours_keeps_up_with_graphs_grown_by_confusion(hub_rows):
    # A tighter bound would test the noise: on these features the two differ by less than the sampling error.
    for coupling in COUPLINGS:
        for hubs in (bipartite.HUBS, bipartite.HUBS_BY_DPRIME):
            assert bipartite.mean_gap(hub_rows, hubs, bipartite.CONFUSED, coupling) > -0.01


@pytest.mark.parametrize("other", [bipartite.BIPARTITE, bipartite.GROWN, bipartite.CONFUSED])
def test_hub_neighbours_beats_all_others_on_digits(digits, other):
    rows = bipartite.measure(digits, 5)
    for coupling in COUPLINGS:
        assert bipartite.mean_gap(rows, bipartite.HUBS, other, coupling) > 0.02


def test_bipartite_beats_grown(hub_rows):
    for coupling in COUPLINGS:
        assert bipartite.mean_gap(hub_rows, bipartite.BIPARTITE, bipartite.GROWN, coupling) > 0


def test_all_graphs_have_as_many_pairs_as_the_bipartite_one(hub_rows):
    for row in hub_rows:
        if row.graph != bipartite.COMPLETE:
            assert row.pairs == row.d * (50 - row.d)


@pytest.fixture(scope="module")
def hub_rows(synthetic):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bipartite, "SIDES", (1, 3, 5, 10))
        return bipartite.measure(synthetic, 2)


def test_near_centres_make_better_stars(digits):
    rows = star_centres.measure(digits)
    assert [row.accuracy for row in rows] == sorted((row.accuracy for row in rows), reverse=True)
    assert star_centres.findings(rows)[0].holds


def test_classical_scaling_recovers_a_map():
    places = np.random.default_rng(0).normal(size=(12, 2))
    distances = squareform(pdist(places))
    np.testing.assert_allclose(
        squareform(pdist(star_centres.classical_scaling(distances))), distances, atol=1e-10
    )


def test_the_centre_matters_less_as_the_model_grows(digits):
    rows = centres.measure(digits, 3)
    for coupling in COUPLINGS:
        assert centres.gap(rows, coupling, 0) > 2 * centres.gap(rows, coupling, 0.5)
        assert centres.gap(rows, coupling, 1) == pytest.approx(0, abs=1e-12)


def test_disagreements_are_samples_that_only_one_coupling_gets_right(digits):
    rows = disagreements.measure(digits)
    p = digits.probabilities(graphs.complete(10))
    right = {coupling: p[coupling].argmax(axis=1) == digits.labels for coupling in COUPLINGS}
    for count in disagreements.summary(rows):
        assert count.samples == np.sum(~right[count.wrong] & right[count.right])
    for row in rows:
        assert row.wrong_log_odds <= 0 <= row.right_log_odds
        assert row.true_class == digits.classes[digits.labels[row.sample]]
    followed = disagreements.findings(rows)[-1]
    assert followed.holds


def test_classes_near_counts_the_predicted_one():
    u = np.array([[3.0, 5.0], [2.0, 0.0], [0.0, 0.0]])
    logits = u[:, None] - u[None, :]
    np.testing.assert_array_equal(boundaries.classes_near(logits, np.array([0, 0])), [2, 1])


def test_boundaries_count_every_sample_once(digits):
    rows = boundaries.measure(digits)
    assert sum(row.right + row.wrong for row in rows) == len(digits.labels)
    assert sum(row.wrong for row in boundaries.summary(rows)) == sum(row.wrong for row in rows)
    assert boundaries.findings(rows)[0].holds


def test_class_draws_are_all_sets_where_there_are_few():
    assert sorted(tuple(sorted(draw.tolist())) for draw in class_draws(4, 3, 10, 0)) == [
        (0, 1, 2),
        (0, 1, 3),
        (0, 2, 3),
        (1, 2, 3),
    ]
    drawn = class_draws(50, 3, 10, 0)
    assert len(drawn) == 10
    assert all(len(set(draw.tolist())) == 3 for draw in drawn)


def test_standard_errors_leave_out_the_differences_between_draws():
    draws = [{("a", "any"): base, ("b", "any"): base + 0.1} for base in (0.0, 0.4, 0.2)]
    for row, mean in zip(mean_errors(draws), (0.2, 0.3), strict=True):
        assert row.error == pytest.approx(mean)
        assert row.standard_error == pytest.approx(0, abs=1e-12)
    assert np.isnan(mean_errors(draws[:1])[0].standard_error)
