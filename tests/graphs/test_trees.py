import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse.csgraph import minimum_spanning_tree

from pairloom import graphs


def degrees(graph):
    return sorted((degree for _, degree in graph.degree), reverse=True)


@st.composite
def distance_matrices(draw, least=0.0):
    n = draw(st.integers(1, 12))
    # Whole numbers, so that ties and (from least = 0) classes at distance zero are common.
    upper = np.triu(draw(hnp.arrays(float, (n, n), elements=st.integers(int(least), 6))), 1)
    return upper + upper.T


@pytest.mark.parametrize("n", [1, 2, 5])
def test_star_is_the_star_of_networkx(n):
    assert sorted(graphs.star(n).edges) == sorted(nx.star_graph(n - 1).edges)
    assert list(graphs.star(n)) == list(range(n))


def test_star_is_k1_4_around_any_center():
    for centre in range(5):
        star = graphs.star(5, centre)
        assert nx.is_isomorphic(star, nx.complete_bipartite_graph(1, 4))
        assert star.degree[centre] == 4


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_path_is_the_path_of_networkx(n):
    assert sorted(graphs.path(n).edges) == sorted(nx.path_graph(n).edges)
    assert list(graphs.path(n)) == list(range(n))


def test_star_and_path_of_two_are_one_pair():
    assert list(graphs.star(2, centre=1).edges) == list(graphs.path(2).edges) == [(0, 1)]


def test_tree_says_stars_and_paths():
    assert sorted(graphs.tree([-1, 0, 0, 0]).edges) == sorted(graphs.star(4).edges)
    assert sorted(graphs.tree([1, 2, 3, -1]).edges) == sorted(graphs.path(4).edges)
    assert list(graphs.tree([-1])) == [0]


def test_tree_takes_an_integer_array_and_remembers_plain_ints():
    parents = graphs.tree(np.array([-1, 0, 1])).graph["parents"]
    assert parents == [-1, 0, 1]
    assert all(type(parent) is int for parent in parents)


@given(st.randoms(use_true_random=False), st.integers(1, 20))
def test_tree_takes_parents_in_any_order(random, n):
    names = random.sample(range(n), n)
    parents = [-1] * n
    for i in range(1, n):
        parents[names[i]] = names[random.randrange(i)]
    tree = graphs.tree(parents)
    assert nx.is_tree(tree)
    assert all(tree.has_edge(i, parent) for i, parent in enumerate(parents) if parent >= 0)


def test_five_vertex_trees_are_all_there_are():
    ours = graphs.five_vertex_trees()
    assert {name: degrees(tree) for name, tree in ours.items()} == {
        "G2": [4, 1, 1, 1, 1],
        "G3": [3, 2, 1, 1, 1],
        "G4": [2, 2, 2, 1, 1],
    }
    for theirs in nx.nonisomorphic_trees(5):
        assert sum(nx.is_isomorphic(tree, theirs) for tree in ours.values()) == 1


@given(distance_matrices(least=1))
def test_spanning_tree_weighs_what_scipy_says(distances):
    tree = graphs.spanning_tree(distances)
    assert nx.is_tree(tree)
    assert sum(distances[i, j] for i, j in tree.edges) == minimum_spanning_tree(distances).sum()


@given(distance_matrices())
def test_spanning_tree_prefers_the_first_of_equal_pairs(distances):
    # Kruskal's algorithm, in the order that the docstring promises.
    kept = nx.utils.UnionFind(range(len(distances)))
    expected = []
    for i, j in sorted(
        zip(*np.triu_indices(len(distances), 1), strict=True), key=lambda pair: distances[pair]
    ):
        if kept[i] != kept[j]:
            kept.union(i, j)
            expected.append([i, j])
    assert graphs.edge_array(graphs.spanning_tree(distances)).tolist() == sorted(expected)


@given(distance_matrices())
def test_star_of_least_distance_is_the_lightest_star(distances):
    def weight(graph):
        return sum(distances[i, j] for i, j in graph.edges)

    n = len(distances)
    stars = [graphs.star(n, centre) for centre in range(n)]
    lightest = graphs.star_of_least_distance(distances)
    first = min(stars, key=weight)
    assert nx.utils.edges_equal(lightest.edges, first.edges)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: graphs.star(0), ValueError, "star: n must be at least 1, got 0."),
        (lambda: graphs.star(5.0), TypeError, "star: n must be an integer, got 5.0."),
        (
            lambda: graphs.star(5, 5),
            ValueError,
            "star: centre must be at least 0 and at most n - 1 = 4, got 5.",
        ),
        (lambda: graphs.path(-2), ValueError, "path: n must be at least 1, got -2."),
        (lambda: graphs.tree([]), ValueError, "tree: the number of parents must be at least 1, got 0."),
        (
            lambda: graphs.tree([-1, 2]),
            ValueError,
            "tree: parents[1] must be at least -1 and at most n - 1 = 1, got 2.",
        ),
        (
            lambda: graphs.tree([-1, -1, 0]),
            ValueError,
            "tree: parents must have -1 for exactly one class, the root, got 2 (0, 1).",
        ),
        (
            lambda: graphs.tree([1, 0]),
            ValueError,
            "tree: parents must have -1 for exactly one class, the root, got none.",
        ),
        (
            lambda: graphs.tree([-1, 0, 3, 2]),
            ValueError,
            "tree: following parents from every class must end at the root 0, got a cycle from 2, 3.",
        ),
        (
            lambda: graphs.tree([-1, 1]),
            ValueError,
            "tree: following parents from every class must end at the root 0, got a cycle from 1.",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == message
