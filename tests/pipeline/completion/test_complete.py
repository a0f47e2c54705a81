import re
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairloom import complete_logits, graphs


def slow_completion(logits, graph):
    """[S eq. 4, 5] pair by pair, and the potentials of the whole graph for the pairs without a common neighbour."""
    n, n_samples = len(logits), logits.shape[2]
    edges = list(graph.edges())
    rows = np.zeros((len(edges), n))
    for k, (i, j) in enumerate(edges):
        rows[k, i], rows[k, j] = 1, -1
    trained = np.array([logits[i, j] for i, j in edges], np.float64).reshape(len(edges), n_samples)
    u = np.linalg.lstsq(rows, trained, rcond=None)[0]
    completed = np.zeros((n, n, n_samples))
    for i in range(n):
        for j in range(n):
            common = sorted(set(graph[i]) & set(graph[j]))
            if graph.has_edge(i, j):
                completed[i, j] = logits[i, j]
            elif i != j and common:
                completed[i, j] = np.mean([logits[i, m] + logits[m, j] for m in common], axis=0)
            elif i != j:
                completed[i, j] = u[i] - u[j]
    return completed


@st.composite
def connected_graphs(draw, max_classes=9):
    n = draw(st.integers(2, max_classes))
    graph = nx.empty_graph(n)
    graph.add_edges_from((i, draw(st.integers(0, i - 1))) for i in range(1, n))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] != pair[1])
    graph.add_edges_from(draw(st.lists(pairs, max_size=n)))
    return graph


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(graph=connected_graphs(), n_samples=st.integers(0, 3), seed=st.integers(0, 99))
def test_against_the_slow_reference(dtype, graph, n_samples, seed):
    n = len(graph)
    upper = np.random.default_rng(seed).normal(0, 3, (n, n, n_samples))
    logits = (upper - upper.transpose(1, 0, 2)).astype(dtype)
    for i in range(n):
        for j in range(n):
            if not graph.has_edge(i, j):
                logits[i, j] = np.nan  # not read
    completed = complete_logits(logits, graph)
    assert completed.dtype == dtype
    expected = slow_completion(logits, graph)
    assert completed == pytest.approx(expected, abs=1e-4 if dtype == np.float32 else 1e-10)
    assert np.array_equal(completed, -completed.transpose(1, 0, 2))
    for i, j in graph.edges():
        assert np.array_equal(completed[i, j], logits[i, j])


def over_edges(u, graph):
    """The logits u_i - u_j of the edges, and NaN for other pairs."""
    logits = np.full((len(u), len(u), 1), np.nan)
    for i, j in graph.edges():
        logits[i, j], logits[j, i] = u[i] - u[j], u[j] - u[i]
    return logits


class TestTheSign:
    """[S] prints L_it - L_tj (Algorithm 1) and o_ik / o_kj (eq. 4 and 5); with an antisymmetric L it must be a plus.

    With the minus, the logit of a missing pair i, j through m would be u_i + u_j - 2 u_m.
    """

    u = np.array([5.0, 1.0, 2.0, 4.0, 8.0])

    @pytest.mark.parametrize(
        "graph",
        [
            graphs.star(5, centre=0),
            graphs.star(5, centre=3),
            graphs.bipartite(5, 2),
            graphs.hub_neighbours(abs(np.subtract.outer(range(5), range(5))).astype(float), 1, 1),
            nx.cycle_graph(5),
        ],
        ids=["star", "star 3", "bipartite", "hub_neighbours", "cycle"],
    )
    def test_consistent_logits_come_back_on_graphs_of_diameter_two(self, graph):
        assert nx.diameter(graph) == 2
        completed = complete_logits(over_edges(self.u, graph), graph)
        assert completed[:, :, 0] == pytest.approx(self.u[:, None] - self.u, abs=1e-12)

    def test_by_hand(self):
        """Class 1 has odds e^1 against the centre and class 2 has e^-3, so 1 against 2 is at e^(1 - -3)."""
        logits = np.zeros((3, 3, 1))
        logits[1, 0], logits[0, 1] = 1, -1
        logits[2, 0], logits[0, 2] = -3, 3
        completed = complete_logits(logits, graphs.star(3, centre=0))
        assert completed[1, 2, 0] == 4
        assert completed[2, 1, 0] == -4


def test_on_a_tree_the_odds_are_multiplied_along_the_path():
    rng = np.random.default_rng(0)
    graph = nx.Graph([(0, 1), (1, 2), (2, 3), (2, 4), (4, 5), (0, 6)])
    upper = rng.normal(size=(7, 7, 2))
    logits = upper - upper.transpose(1, 0, 2)
    completed = complete_logits(logits, graph)
    for i, j in [(0, 3), (0, 5), (6, 5), (3, 5), (5, 6)]:
        path = nx.shortest_path(graph, i, j)
        along = sum(logits[a, b] for a, b in pairwise(path))
        assert completed[i, j] == pytest.approx(along, abs=1e-12)


def test_a_complete_graph_is_left_as_it_is(noisy_logits):
    logits = noisy_logits(6, 5)
    assert np.array_equal(complete_logits(logits, graphs.complete(6)), logits)


def test_the_logits_are_not_written_to(noisy_logits):
    logits = noisy_logits(6, 5)
    before = logits.copy()
    complete_logits(logits, graphs.path(6))
    assert np.array_equal(logits, before)


def test_one_sample_is_as_among_many():
    """To the bit, also for pairs completed by potentials, so the number of samples per slab does not matter."""
    graph = nx.convert_node_labels_to_integers(nx.barbell_graph(9, 4))
    upper = np.random.default_rng(0).normal(0, 3, (len(graph), len(graph), 37)).astype(np.float32)
    logits = upper - upper.transpose(1, 0, 2)
    alone = np.concatenate([complete_logits(logits[:, :, [r]], graph) for r in range(37)], axis=2)
    assert np.array_equal(alone, complete_logits(logits, graph))


class TestChecks:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize(
        ("forward", "backward"),
        [
            (np.nan, 0),
            (0, np.nan),
            (np.inf, -np.inf),
            (np.inf, np.inf),
            (np.inf, 5),
            (5, np.inf),
            (1, 1),
            (2, -1.9),
        ],
    )
    def test_the_first_offence_is_named(self, dtype, forward, backward, noisy_logits):
        logits = noisy_logits(5, 9, dtype=dtype)
        logits[0, 3, 4], logits[3, 0, 4] = forward, backward
        logits[0, 4, 1], logits[4, 0, 1] = forward, backward
        with pytest.raises(
            ValueError, match=r"complete_logits: .* must be finite and antisymmetric, got L\[0, 3, 4\]"
        ):
            complete_logits(logits, graphs.star(5, centre=0))

    def test_a_graph_that_is_not_connected(self):
        with pytest.raises(
            ValueError, match=re.escape("must be connected, got 2 components: (0, 1), (2, 3)")
        ):
            complete_logits(np.zeros((4, 4, 1)), nx.Graph([(0, 1), (2, 3)]))

    def test_a_graph_of_other_classes(self):
        with pytest.raises(ValueError, match="model graph"):
            complete_logits(np.zeros((4, 4, 1)), graphs.path(5))

    @pytest.mark.parametrize("shape", [(3, 3), (3, 4, 2), (1, 1, 5)])
    def test_shape(self, shape):
        with pytest.raises(
            ValueError, match=re.escape("complete_logits: logits must be (N, N, R)") + ".*got shape"
        ):
            complete_logits(np.zeros(shape), graphs.path(3))
