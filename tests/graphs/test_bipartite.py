import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairloom import graphs


@given(st.data())
def test_bipartite_is_complete_bipartite(data):
    n = data.draw(st.integers(2, 15))
    hubs = data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=n - 1))
    graph = graphs.bipartite(n, hubs)
    assert nx.is_isomorphic(graph, nx.complete_bipartite_graph(len(hubs), n - len(hubs)))
    assert all((i in hubs) != (j in hubs) for i, j in graph.edges)
    assert graph.graph["hubs"] == sorted(hubs)


def test_a_number_of_hubs_means_the_first_classes():
    assert list(graphs.bipartite(5, 2).edges) == list(graphs.bipartite(5, np.array([1, 0])).edges)


def test_one_hub_is_a_star():
    assert nx.is_isomorphic(graphs.bipartite(5, 1), graphs.star(5))
    assert list(graphs.bipartite(2, [1]).edges) == [(0, 1)]


@pytest.mark.parametrize(
    ("n", "hubs", "message"),
    [
        (1, 1, "bipartite: n must be at least 2, got 1."),
        (5, 0, "bipartite: hubs must be at least 1 and at most n - 1 = 4, got 0."),
        (5, 5, "bipartite: hubs must be at least 1 and at most n - 1 = 4, got 5."),
        (5, [], "bipartite: the number of hubs must be at least 1 and at most n - 1 = 4, got 0."),
        (2, [0, 1], "bipartite: the number of hubs must be at least 1 and at most n - 1 = 1, got 2."),
        (5, [1, 7], "bipartite: every class of hubs must be at least 0 and at most n - 1 = 4, got 7."),
        (5, [1, 2, 1], "bipartite: hubs must be distinct classes, got 1 more than once."),
    ],
)
def test_errors(n, hubs, message):
    with pytest.raises(ValueError, match="bipartite") as raised:
        graphs.bipartite(n, hubs)
    assert str(raised.value) == message


def test_hubs_of_strings_are_refused():
    with pytest.raises(TypeError, match=r"^bipartite: every class of hubs must be an integer, got 'cat'\.$"):
        graphs.bipartite(5, ["cat"])
