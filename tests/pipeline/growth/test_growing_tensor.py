"""Growing a model gives, at every step, the same result as completing and coupling from scratch."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairloom import complete_logits, couple, graphs
from pairloom.pipeline.growth import GrowingTensor, GrowthBudget, grow_model


def noisy_tensor(n, n_samples, seed):
    rng = np.random.default_rng(seed)
    u = rng.normal(0, 2, (n, 1, n_samples))
    noise = np.triu(rng.normal(0, 1, (n_samples, n, n)), 1).transpose(1, 2, 0)
    return (u - u.transpose(1, 0, 2) + noise - noise.transpose(1, 0, 2)).astype(np.float32)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(3, 9), hubs=st.integers(1, 2), seed=st.integers(0, 1000))
def test_every_step_equals_completion_of_the_grown_graph(n, hubs, seed):
    L = noisy_tensor(n, 5, seed)
    start = graphs.bipartite(n, hubs)
    edges = graphs.edge_array(start)
    model = GrowingTensor(start, L[edges[:, 0], edges[:, 1]])
    grown = start.copy()
    for i, j in graphs.grow(start, "uniform", seed=seed):
        model.add(i, j, L[i, j])
        grown.add_edge(i, j)
        expected = complete_logits(L, grown)
        np.testing.assert_allclose(model.tensor, expected, atol=2e-5)
        np.testing.assert_allclose(model.probabilities("normal"), couple(expected, "normal"), atol=1e-5)
    np.testing.assert_array_equal(model.tensor, L)


@pytest.mark.parametrize("method", ["stratified", "wlw2", "bradley_terry"])
def test_warm_starts_reach_the_same_probabilities(method):
    L = noisy_tensor(8, 40, 1)
    start = graphs.star(8)
    grown = start.copy()
    for step in grow_model(start, lambda i, j: L[i, j], method=method, every=5):
        if step.pair is not None:
            grown.add_edge(*step.pair)
        if step.probabilities is not None:
            np.testing.assert_allclose(
                step.probabilities, couple(complete_logits(L, grown), method), atol=2e-5
            )
    assert grown.number_of_edges() == 28


def test_a_step_costs_order_n():
    """The number of pairs that a step touches grows like N, not like N^2."""
    touched = {}
    for n in (50, 100, 200):
        L = noisy_tensor(n, 1, 0)
        start = graphs.star(n)
        edges = graphs.edge_array(start)
        model = GrowingTensor(start, L[edges[:, 0], edges[:, 1]])
        most = 0
        for step, (i, j) in enumerate(graphs.grow(start, "uniform", seed=0)):
            model.add(i, j, L[i, j])
            most = max(most, model.changed)
            if step == 500:
                break
        touched[n] = most
        assert most <= 2 * n
    assert touched[200] < 8 * touched[50]  # 4 where it is linear, 16 where it is quadratic


def test_a_start_that_is_too_wide_is_refused():
    with pytest.raises(ValueError, match=r"diameter at most 2.*classes 0 and 3 are further apart"):
        GrowingTensor(graphs.path(4), np.zeros((3, 1)))


def test_a_trained_pair_is_not_added_again():
    model = GrowingTensor(graphs.star(4), np.zeros((3, 1)))
    with pytest.raises(ValueError, match=r"not trained yet, got \(0, 1\)"):
        model.add(0, 1, [1.0])


def test_steps_say_what_was_added_and_stop_at_the_budget():
    L = noisy_tensor(6, 3, 0)
    steps = list(
        grow_model(
            graphs.star(6),
            lambda i, j: L[i, j],
            lambda i, j: i + j,
            method="normal",
            every=3,
            budget=GrowthBudget(pairs=9),
        )
    )
    first, *added = steps
    assert (first.pair, first.pairs) == (None, 5)
    # (1, 4) and (2, 3) cost the same: the seed decides.
    assert [step.pair for step in added[:2]] == [(1, 2), (1, 3)]
    assert {step.pair for step in added[2:]} == {(1, 4), (2, 3)}
    assert [step.pairs for step in added] == [6, 7, 8, 9]
    assert [step.probabilities is None for step in steps] == [False, True, True, False, False]
    assert {step.log_loss for step in steps} == {None}


def test_the_first_step_is_the_star():
    """[S Algorithm 1] yields the model before it adds a pair."""
    L = noisy_tensor(6, 20, 3)
    for method in ("normal", "wlw2", "stratified"):
        first, *_, last = grow_model(graphs.star(6, 2), lambda i, j: L[i, j], method=method)
        expected = couple(complete_logits(L, graphs.star(6, 2)), method)
        np.testing.assert_allclose(first.probabilities, expected, atol=1e-5)
        assert (first.pair, first.pairs, last.pairs) == (None, 5, 15)


def test_growth_ends_at_a_plateau_of_the_log_loss():
    y = np.arange(200) % 12
    own = np.eye(12)[y].T
    L = noisy_tensor(12, 200, 0) + 4 * (own[:, None] - own[None]).astype(np.float32)
    settings = {"method": "normal", "every": 5, "y": y}
    steps = list(grow_model(graphs.star(12), lambda i, j: L[i, j], **settings))
    judged = [step for step in steps if step.log_loss is not None]
    for step in judged:
        assert step.log_loss == pytest.approx(-np.log(step.probabilities[np.arange(200), y]).mean(), rel=1e-5)
    flat = [after.log_loss > 0.95 * before.log_loss for before, after in pairwise(judged)]
    first = next(k for k in range(1, len(flat)) if flat[k - 1] and flat[k])
    budget = GrowthBudget(plateau=0.05)
    *_, last = grow_model(graphs.star(12), lambda i, j: L[i, j], budget=budget, **settings)
    assert last.pairs == judged[first + 1].pairs < 66


def test_a_plateau_needs_something_to_judge_by():
    with pytest.raises(ValueError, match="method and y must be given"):
        grow_model(graphs.star(4), lambda i, j: np.zeros(1), budget=GrowthBudget(plateau=0.1))


@pytest.mark.parametrize("method", ["stratified", "wlw2", "bradley_terry"])
def test_a_warm_start_saves_iterations(method):
    L = noisy_tensor(40, 60, 2)
    cold, at_first = couple(L, method, return_diagnostics=True)
    warm, again = couple(L, method, start=cold, return_diagnostics=True)
    np.testing.assert_allclose(warm, cold, atol=1e-5)
    assert again.iterations.sum() < at_first.iterations.sum()


def test_a_start_of_another_shape_is_refused():
    with pytest.raises(
        ValueError, match=r"start must be \(3, 4\) probabilities, got an array of shape \(4, 3\)"
    ):
        couple(noisy_tensor(4, 3, 0), "wlw2", start=np.ones((4, 3)))
