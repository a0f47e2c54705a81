from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pairloom import graphs


def pairs(graph):
    return {(i, j) for i, j in graphs.edge_array(graph).tolist()}


@st.composite
def growths(draw):
    n = draw(st.integers(2, 9))
    start = draw(
        st.sampled_from([graphs.star(n), graphs.path(n), graphs.bipartite(n, n // 2), graphs.complete(n)])
    )
    # Few different values, so that ties are common.
    return start, draw(hnp.arrays(float, (n, n), elements=st.integers(0, 3)))


def symmetric(matrix):
    upper = np.triu(matrix, 1)
    return upper + upper.T


def assert_completes(start, order):
    assert len(order) == len(set(order))
    assert all(i < j for i, j in order)
    assert pairs(start).isdisjoint(order)
    assert pairs(start).union(order) == pairs(graphs.complete(len(start)))


def assert_cheapest_first(order, cost):
    costs = [cost(i, j) for i, j in order]
    assert costs == sorted(costs)


@given(growths())
def test_confusion_adds_the_most_confused_first(growth):
    start, confusion = growth
    order = list(graphs.grow(start, "confusion", matrix=confusion))
    assert_completes(start, order)
    assert_cheapest_first(order, lambda i, j: -(confusion[i, j] + confusion[j, i]) / 2)


@given(growths())
def test_dprime_adds_the_nearest_first(growth):
    start, dprime = growth[0], symmetric(growth[1])
    order = list(graphs.grow(start, "dprime", matrix=dprime))
    assert_completes(start, order)
    assert_cheapest_first(order, lambda i, j: dprime[i, j])


@given(growths())
def test_a_function_adds_its_least_value_first(growth):
    start, values = growth
    order = list(graphs.grow(start, lambda i, j: values[i, j]))
    assert_completes(start, order)
    assert_cheapest_first(order, lambda i, j: values[i, j])


@given(growths(), st.integers(0, 2**32))
def test_uniform_is_a_permutation_that_the_seed_fixes(growth, seed):
    start = growth[0]
    order = list(graphs.grow(start, seed=seed))
    assert_completes(start, order)
    assert order == list(graphs.grow(start, "uniform", seed=seed))


def test_uniform_changes_with_the_seed():
    assert list(graphs.grow(graphs.star(10), seed=0)) != list(graphs.grow(graphs.star(10), seed=1))


def costs_with_ties():
    """Six missing pairs of a star of five: one costs less, five cost the same."""
    confusion = np.zeros((5, 5))
    confusion[2, 3] = 1
    return [
        ("confusion", confusion),
        ("dprime", 1 - np.eye(5) - confusion - confusion.T),
        (lambda i, j: (i, j) != (2, 3), None),
    ]


@pytest.mark.parametrize(("cost", "matrix"), costs_with_ties())
def test_ties_are_broken_at_random_by_the_seed(cost, matrix):
    def order(seed):
        return tuple(graphs.grow(graphs.star(5), cost, matrix=matrix, seed=seed))

    drawn = [order(seed) for seed in range(600)]
    assert {first for first, *_ in drawn} == {(2, 3)}
    # Each of the five others comes second 1/5 of 600 times, standard deviation 10.
    seconds = [second for _, second, *_ in drawn]
    assert len(set(seconds)) == 5
    assert all(80 < seconds.count(pair) < 160 for pair in set(seconds))
    assert [order(seed) for seed in range(600)] == drawn


def test_equal_costs_are_the_uniform_cost():
    start = graphs.star(9)
    for cost in (lambda i, j: 1.0, "dprime", "confusion"):
        matrix = None if callable(cost) else np.zeros((9, 9))
        assert list(graphs.grow(start, cost, matrix=matrix, seed=4)) == list(graphs.grow(start, seed=4))


def test_uniform_gives_every_order_its_share():
    # Three missing pairs have six orders; each is drawn 1/6 of 1200 times, standard deviation 13.
    drawn = [tuple(graphs.grow(graphs.star(4), seed=seed)) for seed in range(1200)]
    assert {drawn.count(order) > 130 for order in set(drawn)} == {True}
    assert len(set(drawn)) == 6


@pytest.mark.parametrize("cost", ["uniform", "dprime"])
def test_a_larger_start_keeps_the_order(cost):
    matrix = None if cost == "uniform" else symmetric(np.arange(64.0).reshape(8, 8) % 5)
    small, large = graphs.star(8), graphs.star(8)
    large.add_edges_from([(1, 2), (3, 5), (6, 7)])
    whole = list(graphs.grow(small, cost, matrix=matrix))
    assert [pair for pair in whole if not large.has_edge(*pair)] == list(
        graphs.grow(large, cost, matrix=matrix)
    )


def test_the_start_may_be_grown_on_the_way():
    graph = graphs.star(5)
    expected = list(graphs.grow(graph))
    taken = []
    for pair in graphs.grow(graph):
        graph.add_edge(*pair)
        taken.append(pair)
    assert taken == expected
    assert pairs(graph) == pairs(graphs.complete(5))


def test_a_complete_start_has_nothing_to_add():
    assert list(graphs.grow(graphs.complete(4))) == list(graphs.grow(graphs.star(2))) == []


def test_grown_is_the_star_and_the_first_pairs():
    for edges in range(5, 16):
        graph = graphs.grown(6, edges, centre=2, seed=3)
        star = graphs.star(6, 2)
        assert pairs(graph) == pairs(star).union(islice(graphs.grow(star, seed=3), edges - 5))
        assert graph.number_of_edges() == edges


def test_grown_graphs_are_nested():
    confusion = np.random.default_rng(0).integers(0, 9, (7, 7))
    sizes = [pairs(graphs.grown(7, edges, "confusion", matrix=confusion)) for edges in range(6, 22)]
    assert all(smaller < larger for smaller, larger in pairwise(sizes))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: graphs.grow(graphs.star(3), "confusoin"),
            "grow: cost must be one of 'uniform', 'confusion', 'dprime' or a function of (i, j), "
            "got 'confusoin'. Did you mean 'confusion'?",
        ),
        (
            lambda: graphs.grow(graphs.star(3), "dprime"),
            "grow: matrix must be given for the cost 'dprime', got None.",
        ),
        (
            lambda: graphs.grow(graphs.star(3), matrix=np.zeros((3, 3))),
            "grow: matrix must be None for the cost 'uniform', got a matrix.",
        ),
        (
            lambda: graphs.grow(graphs.star(3), "confusion", matrix=np.zeros((4, 4))),
            "grow: matrix must be of shape (3, 3), one row per class, got (4, 4).",
        ),
        (
            lambda: graphs.grow(graphs.star(3), "dprime", matrix=[[0, 1, 2], [1, 0, 3], [2, 5, 0]]),
            "grow: matrix must be symmetric, got matrix[1, 2] = 3.0 and matrix[2, 1] = 5.0.",
        ),
        (
            lambda: graphs.grow(graphs.star(4), lambda i, j: float("nan") if (i, j) == (1, 3) else 0.0),
            "grow: cost must be a number for every pair, got cost(1, 3) = nan.",
        ),
        (lambda: graphs.grow(graphs.star(3), seed=-1), "grow: seed must be at least 0, got -1."),
        (lambda: graphs.grow(graphs.star(1)), "model graph: must have at least 2 classes, got 1."),
        (
            lambda: graphs.grown(5, 3),
            "grown: edges must be at least 4 and at most n (n - 1) / 2 = 10, got 3.",
        ),
        (
            lambda: graphs.grown(5, 11),
            "grown: edges must be at least 4 and at most n (n - 1) / 2 = 10, got 11.",
        ),
    ],
)
def test_errors_come_before_the_first_pair(call, message):
    with pytest.raises(ValueError, match=r"^(grown?|model graph): ") as raised:
        call()
    assert str(raised.value) == message


def test_grown_refuses_a_cost_that_its_label_could_not_hold():
    with pytest.raises(
        ValueError, match=r"^grown: cost must be one of 'uniform', 'confusion', 'dprime', got <"
    ):
        graphs.grown(5, 6, lambda i, j: i)
