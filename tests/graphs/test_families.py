import json

import networkx as nx
import numpy as np
import pytest

from pairloom import graphs

N = 7
POINTS = np.random.default_rng(0).normal(size=(N, 2))
DISTANCES = np.linalg.norm(POINTS[:, None] - POINTS, axis=-1)
PARAMETERS = {
    "star": {"centre": np.int64(3)},
    "path": {},
    "tree": {"parents": np.array([3, 3, 3, -1, 0, 0, 5])},
    "spanning_tree": {},
    "star_of_least_distance": {},
    "bipartite": {"hubs": np.array([5, 2])},
    "complete": {},
    "hub_neighbours": {"hubs": 2, "neighbours": np.int64(2)},
    "grown": {"edges": 9, "seed": 4},
}


def with_distances(family, parameters):
    return {**parameters, "distances": DISTANCES} if graphs.needs_distances(family) else parameters


def test_every_family_is_tested_here():
    assert set(PARAMETERS) == set(graphs.FAMILIES)


@pytest.mark.parametrize("family", PARAMETERS)
def test_the_label_is_json_and_builds_the_graph_again(family):
    graph = graphs.build(family, N, **with_distances(family, PARAMETERS[family]))
    label = json.loads(json.dumps(graph.graph))
    assert label["family"] == family
    again = graphs.build(**with_distances(family, label))
    assert again.graph == graph.graph
    np.testing.assert_array_equal(graphs.edge_array(again), graphs.edge_array(graph))


@pytest.mark.parametrize("family", PARAMETERS)
def test_every_family_builds_model_graphs_of_plain_ints(family):
    graph = graphs.build(family, N, **with_distances(family, PARAMETERS[family]))
    graphs.check_model_graph(graph, N)
    assert list(graph) == list(range(N))
    assert {type(end) for edge in graph.edges for end in edge} == {int}
    assert {type(node) for _, adjacent in graph.adjacency() for node in adjacent} == {int}


def test_build_is_the_function_of_that_name():
    assert nx.utils.edges_equal(graphs.build("star", 5, centre=2).edges, graphs.star(5, 2).edges)
    built = graphs.build("hub_neighbours", N, distances=DISTANCES)
    assert nx.utils.edges_equal(built.edges, graphs.hub_neighbours(DISTANCES).edges)


def test_needs_distances_refuses_an_unknown_family_in_its_own_name():
    message = r"^needs_distances: family must be one of .*, got 'pathe'\. Did you mean 'path'\?$"
    with pytest.raises(ValueError, match=message):
        graphs.needs_distances("pathe")


def test_families_cannot_be_changed():
    with pytest.raises(TypeError):
        graphs.FAMILIES["star"] = graphs.path


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: graphs.build("hub_neighbors", 5),
            "family must be one of 'star', 'path', 'tree', 'spanning_tree', 'star_of_least_distance', 'bipartite', "
            "'complete', 'hub_neighbours', 'grown', got 'hub_neighbors'. Did you mean 'hub_neighbours'?",
        ),
        (
            lambda: graphs.build("xyz", 5),
            "family must be one of 'star', 'path', 'tree', 'spanning_tree', 'star_of_least_distance', 'bipartite', "
            "'complete', 'hub_neighbours', 'grown', got 'xyz'.",
        ),
        (
            lambda: graphs.build("star", 5, center=2),
            "family 'star' has no parameter 'center', it has 'centre'. Did you mean 'centre'?",
        ),
        (lambda: graphs.build("path", 5, centre=2), "family 'path' has no parameter 'centre', it has none."),
        (lambda: graphs.build("bipartite", 5), "hubs must be given for family 'bipartite', got none."),
        (
            lambda: graphs.build("hub_neighbours", 5, hubs=2),
            "distances must be given for family 'hub_neighbours', got none.",
        ),
        (lambda: graphs.build("star", 0), "n must be at least 1, got 0."),
        (
            lambda: graphs.build("spanning_tree", 5, distances=DISTANCES),
            "distances of family 'spanning_tree' must be for n = 5 classes, got 7.",
        ),
        (
            lambda: graphs.build("tree", 5, parents=[-1, 0]),
            "parents of family 'tree' must be for n = 5 classes, got 2.",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match="build") as raised:
        call()
    assert str(raised.value) == f"build: {message}"
