"""Potentials of sparse graphs: those of the dense factor, whichever way they are found."""

import pickle

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csgraph

from pairloom import graphs
from pairloom.pipeline.completion.laplacian import SparseLaplacian

POINTS = np.random.default_rng(1).normal(size=(150, 4))
GRAPHS = {
    "hubs and neighbours": graphs.hub_neighbours(graphs.PointDistances(POINTS), 3, 10),
    "neighbours alone": graphs.model_graph(
        150, [(i, (i + d) % 150) for i in range(150) for d in (1, 2, 3)], "ring"
    ),
    "star": graphs.star(150),
    "path": graphs.path(150),
    "bipartite": graphs.bipartite(150, 3),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("columns", [1, 130])
def test_the_divergence_of_the_potentials_is_that_which_was_given(name, columns):
    edges = graphs.edge_array(GRAPHS[name])
    laplacian = csgraph.laplacian(nx.to_scipy_sparse_array(GRAPHS[name], range(150)).astype(np.float64))
    sums = laplacian @ np.random.default_rng(0).normal(size=(150, columns))
    found = SparseLaplacian(150, edges)(sums)
    np.testing.assert_allclose(laplacian @ found, sums, atol=1e-6 * np.abs(sums).max())
    np.testing.assert_allclose(found.sum(axis=0), 0, atol=1e-8)


@pytest.mark.parametrize("name", ["hubs and neighbours", "path"])
def test_one_column_and_zeros(name):
    solve = SparseLaplacian(150, graphs.edge_array(GRAPHS[name]))
    sums = np.zeros(150)
    assert not solve(sums).any()
    sums[[0, 1]] = 1, -1
    np.testing.assert_allclose(solve(sums), solve(np.stack([sums, 0 * sums], axis=1))[:, 0], atol=1e-12)


@pytest.mark.parametrize("name", ["hubs and neighbours", "path"])
def test_it_survives_pickling(name):
    solve = SparseLaplacian(150, graphs.edge_array(GRAPHS[name]))
    sums = np.zeros(150)
    sums[[3, 4]] = 1, -1
    before = solve(sums)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(solve))(sums), before)


@pytest.mark.parametrize("name", GRAPHS)
def test_sums_that_were_rounded_have_the_same_potentials(name):
    edges = graphs.edge_array(GRAPHS[name])
    laplacian = csgraph.laplacian(nx.to_scipy_sparse_array(GRAPHS[name], range(150)).astype(np.float64))
    exact = laplacian @ np.random.default_rng(0).normal(size=(150, 5))
    rounded = exact.astype(np.float32) + np.float32(1e-4)
    solve = SparseLaplacian(150, edges)
    expected = solve(exact)
    np.testing.assert_allclose(solve(rounded), expected, atol=1e-4 * np.abs(expected).max())
