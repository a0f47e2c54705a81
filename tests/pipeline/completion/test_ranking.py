"""The ranking of all classes: least-squares potentials of the trained pairs."""

import networkx as nx
import numpy as np
import pytest

from pairloom import couple, graphs
from pairloom.pipeline.completion.complete import plan_completion, plan_ranking
from pairloom.pipeline.coupling.pairs.couple import softmax

LINE = abs(np.subtract.outer(range(19), range(19))).astype(float)
MODEL_GRAPHS = {
    "two classes": graphs.complete(2),
    "path": graphs.path(9),
    "star": graphs.star(7, centre=3),
    "bipartite": graphs.bipartite(11, 3),
    "hub_neighbours": graphs.hub_neighbours(LINE, 2, 3),
    "two cliques and a path": nx.convert_node_labels_to_integers(nx.barbell_graph(7, 3)),
    "complete": graphs.complete(6),
    "all pairs but one": graphs.complete(6).copy(),
}
MODEL_GRAPHS["all pairs but one"].remove_edge(1, 4)
NAMES = pytest.mark.parametrize("name", MODEL_GRAPHS)


def edge_logits_of(graph, n_samples=23):
    rng = np.random.default_rng(n_samples)
    return rng.normal(0, 3, (graph.number_of_edges(), n_samples)).astype(np.float32)


@NAMES
def test_potentials_are_the_least_squares_solution_that_sums_to_zero(name):
    graph = MODEL_GRAPHS[name]
    edges, logits = graphs.edge_array(graph), edge_logits_of(graph)
    differences = np.zeros((len(edges), len(graph)))
    differences[np.arange(len(edges)), edges[:, 0]] = 1
    differences[np.arange(len(edges)), edges[:, 1]] = -1
    # Of all solutions, which differ by a constant, lstsq gives the shortest.
    expected = np.linalg.lstsq(differences, logits.astype(np.float64))[0]
    found = plan_ranking(len(graph), edges).potentials(logits)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(found.sum(axis=0), 0, atol=1e-4)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_of_a_complete_graph_they_are_normal_coupling(noisy_logits, n):
    L, completion = noisy_logits(n, 40), plan_completion(graphs.complete(n))
    potentials = completion.ranking.potentials(L[tuple(completion.edges.T)])
    np.testing.assert_allclose(softmax(potentials.T), couple(L, "normal"), rtol=1e-4, atol=1e-7)


@NAMES
def test_a_complete_graph_and_one_that_is_factorised_agree(name):
    """A pair that is trained to the difference of the potentials changes none of them."""
    graph = MODEL_GRAPHS[name]
    logits = edge_logits_of(graph)
    completion = plan_completion(graph)
    u = completion.ranking.potentials(logits).astype(np.float64)
    whole = graphs.complete(len(graph))
    i, j = graphs.edge_array(whole).T
    consistent = (u[i] - u[j]).astype(np.float32)
    np.testing.assert_allclose(plan_completion(whole).ranking.potentials(consistent), u, atol=1e-5)


@NAMES
def test_they_are_linear_in_the_logits_so_weights_are_ranked_like_samples(name):
    graph = MODEL_GRAPHS[name]
    ranking, rng = plan_completion(graph).ranking, np.random.default_rng(0)
    weights, bias = (
        rng.standard_normal((graph.number_of_edges(), 5)),
        rng.standard_normal(graph.number_of_edges()),
    )
    X = rng.standard_normal((8, 5))
    of_samples = ranking.potentials(weights @ X.T + bias[:, None])
    of_weights = ranking.potentials(weights) @ X.T + ranking.potentials(bias[:, None])
    np.testing.assert_allclose(of_weights, of_samples, atol=1e-5)


@NAMES
def test_of_samples_one_by_one_they_are_the_same(name):
    graph = MODEL_GRAPHS[name]
    ranking, logits = plan_completion(graph).ranking, edge_logits_of(graph)
    found = ranking.of_samples(np.ascontiguousarray(logits.T))
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, ranking.potentials(logits).T, atol=1e-5)


def test_a_completion_plans_its_ranking_once():
    completion = plan_completion(graphs.path(4))
    assert completion.ranking is completion.ranking
