from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pairloom import graphs


@st.composite
def codes(draw):
    """Any usable code of up to six classes: some of all machines, without classes that are not told apart."""
    n = draw(st.integers(2, 6))
    entries = st.lists(st.sampled_from([-1, 0, 1]), min_size=n, max_size=n)
    machines = entries.filter(lambda column: {-1, 1} <= set(column))
    columns = draw(
        st.lists(machines, min_size=1, max_size=8, unique_by=lambda c: tuple(max(c, [-x for x in c])))
    )
    rows = np.unique(np.array(columns).T, axis=0)
    return graphs.check_code(rows[rows.any(axis=1)])


def closed_sets_by_enumeration(code):
    """Every set of classes, neither empty nor all, that has exactly one side of no machine inside."""
    n = len(code)
    sides = [(set(np.flatnonzero(c == 1)), set(np.flatnonzero(c == -1))) for c in code.T]
    return [
        set(chosen)
        for size in range(1, n)
        for chosen in combinations(range(n), size)
        if all((plus <= set(chosen)) == (minus <= set(chosen)) for plus, minus in sides)
    ]


@given(code=codes())
def test_connectedness_is_that_of_every_partition(code):
    closed = closed_sets_by_enumeration(code)
    assert graphs.code_is_connected(code) == (not closed)
    if closed:
        found = graphs.closed_classes(code)
        assert set(found) in closed
        assert len(found) == min(map(len, closed))


@given(code=codes())
def test_a_connected_code_identifies_the_probabilities(code):
    if graphs.code_is_connected(code):
        assert graphs.code_identifies(code)


@given(code=codes())
def test_the_rank_is_that_of_the_linear_equations_at_any_probabilities(code):
    p = np.random.default_rng(1).dirichlet(np.full(len(code), 5.0))
    plus, minus = p @ (code == 1), p @ (code == -1)
    equations = (code == 1) * minus - (code == -1) * plus
    rank = np.linalg.matrix_rank(equations, tol=1e-9)
    assert graphs.code_identifies(code) == (rank == len(code) - 1)


@given(n=st.integers(2, 7), data=st.data())
def test_codes_of_pairs_are_connected_as_their_graphs_are(n, data):
    pairs = data.draw(st.sets(st.sampled_from(list(combinations(range(n), 2))), min_size=1))
    graph = nx.empty_graph(n)
    graph.add_edges_from(pairs)
    code = np.zeros((n, len(pairs)), int)
    for q, (i, j) in enumerate(sorted(pairs)):
        code[i, q], code[j, q] = 1, -1
    assume(code.any(axis=1).all())
    assert graphs.code_is_connected(code) == graphs.code_identifies(code) == nx.is_connected(graph)
    if not nx.is_connected(graph):
        assert set(graphs.closed_classes(code)) in list(nx.connected_components(graph))


@pytest.mark.parametrize("n", [3, 4, 10])
def test_named_codes(n):
    assert graphs.code_is_connected(graphs.one_vs_rest(n))
    assert graphs.code_is_connected(graphs.one_vs_one(n))
    # No machine of four classes or more has a side of one class, so any one of them may vanish.
    assert graphs.code_is_connected(graphs.dense_code(n)) == (n == 3)


def test_identified_is_not_connected():
    """Three splits of four classes determine p, but with noise the best p may lie at the boundary."""
    assert graphs.code_identifies(graphs.dense_code(4))
    assert graphs.closed_classes(graphs.dense_code(4)) == [0]


def test_many_classes_are_answered_exactly():
    assert graphs.code_is_connected(graphs.one_vs_one(60))
    assert graphs.code_identifies(graphs.one_vs_one(60))
    without_links = np.kron(np.eye(2, dtype=int), graphs.one_vs_one(20))
    assert graphs.closed_classes(without_links) == list(range(20))
    assert not graphs.code_identifies(without_links)


def test_a_bad_code_is_refused_in_the_name_of_the_question():
    with pytest.raises(ValueError, match=r"^code_is_connected: every class must take part"):
        graphs.code_is_connected([[1], [-1], [0]])
    with pytest.raises(ValueError, match=r"^code_identifies: every class must take part"):
        graphs.code_identifies([[1], [-1], [0]])
