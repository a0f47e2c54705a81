"""Distances in blocks: the same neighbours, hubs and graphs as from the matrix of all distances."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from pairloom import graphs
from pairloom.graphs import point_distances


@pytest.fixture(params=["dense", "sparse"])
def points(request):
    rng = np.random.default_rng(5)
    values = rng.normal(3, 1, (300, 16)) * (rng.random((300, 16)) < 0.4)
    return values if request.param == "dense" else csr_array(values)


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    monkeypatch.setattr(point_distances, "_AT_ONCE", 7000)


def all_distances(points):
    values = points if isinstance(points, np.ndarray) else points.toarray()
    return cdist(values, values)


def test_a_row_is_that_of_the_matrix(points):
    distances = graphs.PointDistances(points)
    np.testing.assert_allclose(distances[17], all_distances(points)[17], atol=1e-6)
    np.testing.assert_allclose(np.asarray(distances), all_distances(points), atol=1e-6)


@pytest.mark.parametrize("hubs", [2, [4, 9]])
def test_the_graph_is_that_of_the_matrix(points, hubs):
    found = graphs.hub_neighbours(graphs.PointDistances(points), hubs, 5)
    expected = graphs.hub_neighbours(all_distances(points), hubs, 5)
    assert found.graph == expected.graph
    assert graphs.edge_array(found).tolist() == graphs.edge_array(expected).tolist()


@pytest.mark.parametrize("k", [0, 1, 70, 149])
def test_no_other_point_is_nearer_where_many_are_at_the_same_place(k):
    points = np.random.default_rng(5).integers(0, 3, (150, 3)).astype(np.float64)
    distances, found = all_distances(points), graphs.PointDistances(points).nearest(k)
    np.fill_diagonal(distances, np.inf)
    assert found.shape == (len(distances), k)
    np.testing.assert_allclose(
        np.take_along_axis(distances, found, axis=1), np.sort(distances, axis=1)[:, :k], atol=1e-6
    )
    assert all(len(set(row)) == k for row in found.tolist())


@pytest.mark.parametrize(
    "asked", ["complete", "star", {"family": "hub_neighbours", "neighbours": 3, "hubs": 2}, "one_vs_rest"]
)
def test_a_decomposition_is_that_of_the_requested_graph(asked):
    points = np.random.default_rng(0).normal(size=(12, 3))
    arguments = (asked, list("abcdefghijkl"), lambda: graphs.PointDistances(points))
    found, expected = (
        graphs.requested_decomposition(*arguments),
        graphs.decomposition_of(graphs.requested_graph(*arguments)),
    )
    assert found.described() == expected.described()
    assert dict(found.label) == dict(expected.label)


@pytest.mark.parametrize("bad", [{"neighbour": 3}, {"n": 4}, {"neighbours": 99}])
def test_the_parameters_of_a_decomposition_are_checked_as_those_of_a_graph(bad):
    arguments = (
        {"family": "hub_neighbours", **bad},
        "abc",
        lambda: np.ones((3, 3)) - np.eye(3),
        "graph.family",
    )
    with pytest.raises(ValueError, match=r"hub_neighbours|graph") as of_graph:
        graphs.requested_graph(*arguments)
    with pytest.raises(ValueError, match=r"hub_neighbours|graph") as of_decomposition:
        graphs.requested_decomposition(*arguments)
    assert str(of_decomposition.value) == str(of_graph.value)
