import re

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairloom import complete_logits, couple, graphs
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.completion.slab import couple_slab, slab_width
from pairloom.pipeline.coupling.pairs.couple import METHODS

MODEL_GRAPHS = {
    "star": graphs.star(7, centre=3),
    "bipartite": graphs.bipartite(11, 3),
    "hub_neighbours": graphs.hub_neighbours(abs(np.subtract.outer(range(19), range(19))).astype(float), 2, 3),
    "complete": graphs.complete(6),
    "path": graphs.path(9),
    "two cliques and a path": nx.convert_node_labels_to_integers(nx.barbell_graph(7, 3)),
}
#: Samples per slab: less than a block of 16, one block, several blocks, and more than there are samples.
WIDTHS = [1, 7, 16, 50, 1000]


def edge_logits_for(graph, n_samples):
    rng = np.random.default_rng(n_samples)
    return rng.normal(0, 3, (graph.number_of_edges(), n_samples)).astype(np.float32)


def tensor_of(edge_logits, graph):
    tensor = np.full((len(graph), len(graph), edge_logits.shape[1]), np.nan, np.float32)
    i, j = graphs.edge_array(graph).T
    tensor[i, j], tensor[j, i] = edge_logits, -edge_logits
    return tensor


def limit_for(width, n_classes):
    """The memory limit, in bytes, for a number of samples and the block of 16 that the coupling needs."""
    return 4 * n_classes**2 * (16 + width)


@pytest.mark.parametrize("name", MODEL_GRAPHS)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_it_is_completion_then_coupling_to_the_bit(name, width, n_jobs):
    graph = MODEL_GRAPHS[name]
    edge_logits = edge_logits_for(graph, 83)
    completed = complete_logits(tensor_of(edge_logits, graph), graph)
    limit = limit_for(width, len(graph))
    completion = plan_completion(graph)
    coupled = couple_slab(edge_logits, completion, list(METHODS), memory_limit=limit, n_jobs=n_jobs)
    for method in METHODS:
        assert coupled[method].tobytes() == couple(completed, method).tobytes()


@pytest.mark.parametrize("name", MODEL_GRAPHS)
def test_normal_alone_needs_no_tensor(name):
    """Sums are in another order, so the last bits differ."""
    graph = MODEL_GRAPHS[name]
    edge_logits, completion = edge_logits_for(graph, 30), plan_completion(graph)
    completed = complete_logits(tensor_of(edge_logits, graph), graph)
    alone = couple_slab(edge_logits, completion, ["normal"])["normal"]
    assert alone == pytest.approx(couple(completed, "normal"), abs=5e-6)


def test_normal_alone_where_its_matrix_is_beyond_the_limit():
    """A graph with nearly all pairs: N x E is larger than a slab of the tensor."""
    graph = graphs.complete(40)
    edge_logits, completion = edge_logits_for(graph, 20), plan_completion(graph)
    limit = limit_for(1, 40)
    assert 4 * 40 * graph.number_of_edges() > limit
    p = couple_slab(edge_logits, completion, ["normal"], memory_limit=limit)["normal"]
    completed = complete_logits(tensor_of(edge_logits, graph), graph)
    assert p.tobytes() == couple(completed, "normal").tobytes()


@pytest.mark.parametrize("methods", [["normal"], ["stratified", "vote"], list(METHODS), []])
def test_no_samples(methods):
    graph = graphs.path(4)
    coupled = couple_slab(edge_logits_for(graph, 0), plan_completion(graph), methods)
    assert {method: p.shape for method, p in coupled.items()} == dict.fromkeys(methods, (0, 4))


def test_edge_logits_are_left_alone():
    graph = graphs.path(5)
    edge_logits = edge_logits_for(graph, 10)
    before = edge_logits.copy()
    couple_slab(edge_logits, plan_completion(graph), list(METHODS))
    assert np.array_equal(edge_logits, before)


def test_a_view_of_more_samples():
    graph = graphs.path(5)
    edge_logits, completion = edge_logits_for(graph, 60), plan_completion(graph)
    whole = couple_slab(edge_logits, completion, ["stratified"])["stratified"]
    part = couple_slab(edge_logits[:, 20:41], completion, ["stratified"])["stratified"]
    assert np.array_equal(part, whole[20:41])


class TestSlabWidth:
    @settings(max_examples=50)
    @given(n_classes=st.integers(2, 2000), memory_limit=st.integers(10**3, 10**10))
    def test_the_tensor_and_a_block_fit(self, n_classes, memory_limit):
        needed = 4 * n_classes**2 * 17
        if memory_limit < needed:
            with pytest.raises(
                ValueError, match=f"memory_limit must be at least {needed:,} bytes for {n_classes}"
            ):
                slab_width(n_classes, memory_limit)
        else:
            width = slab_width(n_classes, memory_limit)
            assert 1 <= width <= 1024
            assert 4 * n_classes**2 * (width + 16) <= memory_limit
            assert width < 16 or width % 16 == 0

    def test_too_little_memory_is_said_before_anything_is_done(self):
        graph = graphs.path(50)
        with pytest.raises(
            ValueError, match="couple_slab: memory_limit must be at least 170,000 bytes for 50 classes"
        ):
            couple_slab(edge_logits_for(graph, 5), plan_completion(graph), ["vote"], memory_limit=1000)


class TestChecks:
    graph = graphs.star(4, centre=1)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("methods", [["normal"], ["wlw2"]])
    def test_the_first_edge_that_is_not_finite(self, value, methods):
        edge_logits = edge_logits_for(self.graph, 9)
        edge_logits[1, 5] = edge_logits[2, 0] = value
        with pytest.raises(ValueError, match=re.escape(f"got {value} for edge (1, 2), sample 5.")):
            couple_slab(edge_logits, plan_completion(self.graph), methods)

    @pytest.mark.parametrize("shape", [(4, 7), (3,), (3, 7, 1)])
    def test_shape(self, shape):
        with pytest.raises(
            ValueError,
            match=re.escape(f"must have shape (3, R), one row for each edge of the graph, got {shape}"),
        ):
            couple_slab(np.zeros(shape, np.float32), plan_completion(self.graph), ["normal"])

    def test_method(self):
        with pytest.raises(ValueError, match="Did you mean 'wlw2'"):
            couple_slab(edge_logits_for(self.graph, 2), plan_completion(self.graph), ["normal", "wlw"])
