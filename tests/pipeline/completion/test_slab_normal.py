import networkx as nx
import numpy as np
import pytest

from pairloom import complete_logits, couple, graphs
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.completion.slab import hub_classes, normal_from_edges, operator_bytes


def line(n):
    return abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float)


MODEL_GRAPHS = {
    "one pair": graphs.path(2),
    "star": graphs.star(7, centre=3),
    "bipartite": graphs.bipartite(11, 3),
    "bipartite, scattered hubs": graphs.bipartite(9, [1, 4, 8]),
    "bipartite, half and half": graphs.bipartite(8, 4),
    "hub_neighbours": graphs.hub_neighbours(line(23), 2, 3),
    "hubs that are joined": graphs.hub_neighbours(line(12), 3, 0),
    "complete": graphs.complete(6),
    "path": graphs.path(9),
    "cycle": nx.cycle_graph(10),
    "two cliques and a path": nx.convert_node_labels_to_integers(nx.barbell_graph(5, 3)),
}


def tensor_of(edge_logits, completion):
    n = completion.n_classes
    tensor = np.full((n, n, edge_logits.shape[1]), np.nan, edge_logits.dtype)
    i, j = completion.edges.T
    tensor[i, j], tensor[j, i] = edge_logits, -edge_logits
    return tensor


@pytest.mark.parametrize("name", MODEL_GRAPHS)
@pytest.mark.parametrize("n_samples", [0, 1, 100])
def test_it_is_completion_then_normal_coupling(name, n_samples):
    graph = MODEL_GRAPHS[name]
    completion = plan_completion(graph)
    edge_logits = np.random.default_rng(0).normal(0, 3, (len(completion.edges), n_samples)).astype(np.float32)
    tensor = complete_logits(tensor_of(edge_logits.astype(np.float64), completion), graph)
    p = normal_from_edges(edge_logits, completion)
    assert p.dtype == np.float32
    assert p == pytest.approx(couple(tensor, "normal"), abs=5e-6)


def test_more_samples_than_are_taken_at_a_time():
    completion = plan_completion(graphs.bipartite(5, 2))
    edge_logits = np.random.default_rng(0).normal(0, 3, (6, 5000)).astype(np.float32)
    tensor = complete_logits(tensor_of(edge_logits, completion), graphs.bipartite(5, 2))
    assert normal_from_edges(edge_logits, completion) == pytest.approx(couple(tensor, "normal"), abs=5e-6)


def test_probabilities_are_positive_however_loud_the_machines():
    completion = plan_completion(graphs.star(4, centre=0))
    p = normal_from_edges(np.full((3, 2), 1e4, np.float32), completion)
    assert (p > 0).all()
    assert p.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize(
    ("graph", "hubs"),
    [
        (graphs.star(5, centre=2), [2]),
        (graphs.bipartite(9, [1, 4, 8]), [1, 4, 8]),
        (graphs.bipartite(9, [0, 1, 2, 3, 4, 5]), [6, 7, 8]),
        (nx.cycle_graph(4), [0, 2]),
        (graphs.path(2), [0]),
    ],
)
def test_complete_bipartite_graphs_are_recognised(graph, hubs):
    completion = plan_completion(graph)
    assert hub_classes(completion).tolist() == hubs
    assert operator_bytes(completion) == 0


@pytest.mark.parametrize("graph", [graphs.path(4), graphs.complete(3), nx.cycle_graph(6), nx.cycle_graph(5)])
def test_others_are_not(graph):
    completion = plan_completion(graph)
    assert hub_classes(completion) is None
    assert operator_bytes(completion) == 4 * len(graph) * graph.number_of_edges()
