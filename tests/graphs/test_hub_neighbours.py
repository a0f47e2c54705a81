import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pairloom import graphs
from pairloom.graphs.hubs import hubs_of, hubs_to_mark


def on_a_line(points):
    points = np.asarray(points, dtype=float)
    return abs(points[:, None] - points)


@st.composite
def problems(draw):
    n = draw(st.integers(1, 12))
    # Few places for many classes, so that ties and classes at distance zero are common.
    distances = on_a_line(draw(hnp.arrays(int, n, elements=st.integers(0, 5))))
    return distances, draw(st.sets(st.integers(0, n - 1), min_size=1)), draw(st.integers(0, n - 1))


def slow_hub_neighbours(distances, hubs, neighbours):
    n = len(distances)
    pairs = {frozenset((hub, i)) for hub in hubs for i in range(n) if i != hub}
    for i in range(n):
        others = sorted((j for j in range(n) if j != i), key=lambda j: (distances[i, j], j))
        pairs |= {frozenset((i, j)) for j in others[:neighbours]}
    return sorted(sorted(pair) for pair in pairs)


@given(problems())
def test_against_the_slow_reference(problem):
    graph = graphs.hub_neighbours(*problem)
    assert list(graph) == list(range(len(problem[0])))
    assert graphs.edge_array(graph).tolist() == slow_hub_neighbours(*problem)


@given(problems())
def test_one_central_hub_alone_is_the_star_of_least_distance(problem):
    distances = problem[0]
    hub_alone = graphs.hub_neighbours(distances, hubs=1, neighbours=0)
    assert nx.utils.edges_equal(hub_alone.edges, graphs.star_of_least_distance(distances).edges)


def test_all_hubs_or_all_neighbours_is_complete():
    distances = on_a_line(range(6))
    complete = graphs.complete(6)
    assert nx.utils.edges_equal(graphs.hub_neighbours(distances, 6, 0).edges, complete.edges)
    assert nx.utils.edges_equal(graphs.hub_neighbours(distances, [4], 5).edges, complete.edges)


def test_hubs_are_joined_to_each_other():
    distances = on_a_line([0, 1, 10, 11])
    graph = graphs.hub_neighbours(distances, hubs=[0, 3], neighbours=0)
    assert graph.has_edge(0, 3)
    assert graph.number_of_edges() == 5


def test_a_pair_of_hub_and_neighbour_is_one_edge():
    # 1 is the hub, and the nearest class of both its neighbours.
    graph = graphs.hub_neighbours(on_a_line([0, 2, 4]), hubs=[1], neighbours=1)
    assert graphs.edge_array(graph).tolist() == [[0, 1], [1, 2]]


def test_a_number_of_hubs_takes_the_most_central_classes():
    assert graphs.hub_neighbours(on_a_line([0, 9, 5, 4, 20]), 2, 0).graph["hubs"] == [2, 3]
    assert graphs.hub_neighbours(on_a_line([1, 1, 1, 1]), 2, 0).graph["hubs"] == [0, 1]


def test_defaults_fit_any_number_of_classes():
    for n, hubs, neighbours in [(1, 1, 0), (2, 2, 1), (5, 3, 4), (40, 3, 20)]:
        label = graphs.hub_neighbours(on_a_line(range(n))).graph
        assert (len(label["hubs"]), label["neighbours"]) == (hubs, neighbours)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"neighbours": 60}, "hub_neighbours: neighbours must be at least 0 and at most n - 1 = 49, got 60."),
        ({"neighbours": -1}, "hub_neighbours: neighbours must be at least 0 and at most n - 1 = 49, got -1."),
        ({"hubs": 0}, "hub_neighbours: hubs must be at least 1 and at most n = 50, got 0."),
        ({"hubs": 51}, "hub_neighbours: hubs must be at least 1 and at most n = 50, got 51."),
        ({"hubs": [2, 2]}, "hub_neighbours: hubs must be distinct classes, got 2 more than once."),
        ({"hubs": []}, "hub_neighbours: the number of hubs must be at least 1 and at most n = 50, got 0."),
    ],
)
def test_errors(parameters, message):
    with pytest.raises(ValueError, match="hub_neighbours") as raised:
        graphs.hub_neighbours(on_a_line(range(50)), **parameters)
    assert str(raised.value) == message


@pytest.mark.parametrize("hubs", [1, 5, [40, 3]])
def test_only_the_classes_that_the_family_names_are_hubs(hubs):
    """Near classes may be joined to most of the others; a figure that marked these too would show no structure."""
    graph = graphs.hub_neighbours(on_a_line(np.arange(50.0)), hubs, neighbours=40)
    assert sum(degree > 25 for _, degree in graph.degree) > 20
    pairs = graphs.decomposition_of(graph)
    assert hubs_of(pairs).tolist() == hubs_to_mark(pairs).tolist() == graph.graph["hubs"]


def test_of_a_graph_that_names_no_hubs_they_are_the_classes_joined_to_all_others():
    graph = nx.star_graph(6)
    graph.add_edges_from([(1, 2), (1, 3), (1, 4)])
    pairs = graphs.decomposition_of(graph)
    assert hubs_of(pairs).tolist() == hubs_to_mark(pairs).tolist() == [0]
    graph.add_edges_from([(1, 5), (1, 6)])
    assert hubs_of(graphs.decomposition_of(graph)).tolist() == [0, 1]
    graph.graph["hubs"] = "of a user, not of a family"
    assert hubs_of(graphs.decomposition_of(graph)).tolist() == [0, 1]


def test_all_classes_of_a_complete_graph_are_hubs_but_none_is_marked():
    pairs = graphs.decomposition_of(graphs.complete(4))
    assert hubs_of(pairs).tolist() == [0, 1, 2, 3]
    assert hubs_to_mark(pairs).tolist() == []
