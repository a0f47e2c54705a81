import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairloom import graphs


@st.composite
def connected_graphs(draw):
    n = draw(st.integers(2, 14))
    graph = graphs.tree([-1, *(draw(st.integers(0, i)) for i in range(n - 1))])
    classes = st.integers(0, n - 1)
    more = draw(st.lists(st.tuples(classes, classes).filter(lambda pair: pair[0] != pair[1]), max_size=n))
    graph.add_edges_from(more)
    return graph


def slow_coverage(graph):
    """Breadth-first search from every class: the pairs at distance 1, at 2, further; the largest distance."""
    kinds, diameter = ([], [], []), 0
    for i, distances in sorted(nx.all_pairs_shortest_path_length(graph)):
        for j in range(i + 1, len(graph)):
            kinds[min(distances[j], 3) - 1].append([i, j])
            diameter = max(diameter, distances[j])
    return kinds, diameter


@given(connected_graphs())
def test_against_breadth_first_search(graph):
    covered = graphs.coverage(graph)
    kinds, diameter = slow_coverage(graph)
    ours = (covered.trained, covered.through_common_neighbours, covered.by_potentials)
    assert tuple(pairs.tolist() for pairs in ours) == kinds
    assert all(pairs.ndim == 2 for pairs in ours)
    assert covered.diameter == diameter
    assert list(covered.counts.values()) == [len(pairs) for pairs in kinds]


@pytest.mark.parametrize(
    ("graph", "counts", "diameter"),
    [
        (graphs.complete(10), [45, 0, 0], 1),
        (graphs.star(2), [1, 0, 0], 1),
        (graphs.star(10), [9, 36, 0], 2),
        (graphs.bipartite(10, 3), [21, 24, 0], 2),
        (graphs.path(10), [9, 8, 28], 9),
        (graphs.five_vertex_trees()["G3"], [4, 4, 2], 3),
    ],
)
def test_known_counts(graph, counts, diameter):
    covered = graphs.coverage(graph)
    assert list(covered.counts.values()) == counts
    assert covered.diameter == diameter


def test_hubs_leave_nothing_to_potentials():
    points = np.random.default_rng(0).normal(size=(30, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    assert graphs.coverage(graphs.hub_neighbours(distances, 1, 4)).counts["by potentials"] == 0


def test_table():
    assert str(graphs.coverage(graphs.bipartite(60, 10))).splitlines() == [
        "pairs                         count   share",
        "trained                         500   28.2%",
        "through common neighbours     1,270   71.8%",
        "by potentials                     0    0.0%",
        "all                           1,770  100.0%",
        "diameter 2",
    ]


def test_a_graph_in_two_pieces_is_refused():
    with pytest.raises(ValueError, match=r"must be connected, got 2 components: \(0, 1\), \(2, 3\)\.$"):
        graphs.coverage(nx.Graph([(0, 1), (2, 3)]))
