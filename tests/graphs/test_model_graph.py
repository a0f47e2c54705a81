import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairloom import graphs

PETS = ["cat", "dog", "gar", "owl"]


@given(st.randoms(use_true_random=False), st.integers(1, 12))
def test_edge_array_does_not_depend_on_how_the_graph_was_built(random, n):
    expected = [[i, j] for i in range(n) for j in range(i + 1, n) if random.random() < 0.5]
    shuffled = nx.Graph()
    shuffled.add_nodes_from(random.sample(range(n), n))
    shuffled.add_edges_from(random.sample(pair, 2) for pair in random.sample(expected, len(expected)))
    edges = graphs.edge_array(shuffled)
    assert edges.shape == (len(expected), 2)
    assert edges.dtype == np.int64
    assert edges.tolist() == expected


def test_edge_array_refuses_labels():
    # '0' and '1' would turn into numbers without a word.
    with pytest.raises(
        ValueError,
        match=r"^edge_array: nodes must be the classes 0\.\.1, got a graph without 0, 1\. Map labels",
    ):
        graphs.edge_array(nx.Graph([("0", "1")]))


@pytest.mark.parametrize("graph", [graphs.star(2), graphs.path(6), nx.cycle_graph(4), nx.petersen_graph()])
def test_model_graphs_pass(graph):
    graphs.check_model_graph(graph)
    graphs.check_model_graph(graph, len(graph))
    graphs.check_model_graph(graph, class_names=[f"class {i}" for i in graph])


def test_any_order_of_nodes_passes():
    graphs.check_model_graph(nx.Graph([(2, 1), (0, 2)]), n_classes=3)


@pytest.mark.parametrize("graph", [nx.DiGraph([(0, 1)]), nx.MultiGraph([(0, 1)]), [(0, 1)]])
def test_only_simple_undirected_graphs_pass(graph):
    kind = type(graph).__name__
    with pytest.raises(
        TypeError, match=rf"^model graph: must be an undirected networkx\.Graph, got {kind}\.$"
    ):
        graphs.check_model_graph(graph)
    with pytest.raises(
        TypeError, match=rf"^relabel_to_indices: must be an undirected networkx\.Graph, got {kind}"
    ):
        graphs.relabel_to_indices(graph, [0, 1])


@pytest.mark.parametrize(
    ("graph", "known", "message"),
    [
        (graphs.star(1), {}, "must have at least 2 classes, got 1."),
        (nx.Graph(), {}, "must have at least 2 classes, got 0."),
        (graphs.star(3), {"n_classes": 5}, "nodes must be the classes 0..4, got a graph without 3, 4."),
        (graphs.star(3), {"class_names": PETS}, "nodes must be the classes 0..3, got a graph without 'owl'."),
        (graphs.star(5), {"n_classes": 3}, "nodes must be the classes 0..2, got also 3, 4."),
        (nx.Graph([(1, 2)]), {}, "nodes must be the classes 0..1, got a graph without 0."),
        (
            nx.Graph([("cat", "dog"), ("dog", "owl")]),
            {},
            "nodes must be the classes 0..2, got a graph without 0, 1, 2. "
            "Map labels such as 'cat', 'dog' and 1 more with relabel_to_indices.",
        ),
        (nx.Graph([(0, 1), (1, 1)]), {}, "must not join a class to itself, got 1."),
        (
            nx.Graph([(0, 1), (1, 1)]),
            {"class_names": np.array(["cat", "dog"])},
            "must not join a class to itself, got 'dog'.",
        ),
        (nx.Graph([(3, 2), (1, 0)]), {}, "must be connected, got 2 components: (0, 1), (2, 3)."),
        (
            nx.Graph([(0, 3), (1, 2)]),
            {"class_names": PETS},
            "must be connected, got 2 components: ('cat', 'owl'), ('dog', 'gar').",
        ),
        (
            nx.disjoint_union(nx.star_graph(7), nx.empty_graph(9)),
            {},
            "must be connected, got 10 components: "
            "(0, 1, 2, 3, 4 and 3 more), (8), (9), (10), (11) and 5 more.",
        ),
    ],
)
def test_what_is_wrong_is_named(graph, known, message):
    with pytest.raises(ValueError, match="model graph") as raised:
        graphs.check_model_graph(graph, **known)
    assert str(raised.value) == f"model graph: {message}"


def test_names_and_number_of_classes_must_agree():
    message = r"^check_model_graph: class_names must have n_classes = 5 names, got 4\.$"
    with pytest.raises(ValueError, match=message):
        graphs.check_model_graph(graphs.star(5), 5, PETS)


@given(st.permutations(range(6)))
def test_relabelling_follows_the_order_of_the_classes(order):
    letters = "abcdef"
    cycle = nx.relabel_nodes(nx.cycle_graph(6), dict(enumerate(letters)))
    classes = np.array([letters[i] for i in order])
    relabelled = graphs.relabel_to_indices(cycle, classes)
    assert list(relabelled) == list(range(6))
    back = nx.relabel_nodes(relabelled, dict(enumerate(classes.tolist())))
    assert nx.utils.edges_equal(back.edges, cycle.edges)


@pytest.mark.parametrize("classes", [[30, 10, 20], [(0, 1), "x", 2.5], [-1, 5, "5"]])
def test_labels_need_not_be_strings(classes):
    graph = nx.Graph([classes[:2], classes[1:]], family="mine")
    relabelled = graphs.relabel_to_indices(graph, classes)
    assert graphs.edge_array(relabelled).tolist() == [[0, 1], [1, 2]]
    assert relabelled.graph == {"family": "mine"}


def test_relabelling_keeps_the_data_of_edges_and_leaves_the_original_alone():
    graph = nx.Graph()
    graph.add_edge("cat", "dog", weight=2.0)
    relabelled = graphs.relabel_to_indices(graph, ["dog", "cat"])
    relabelled.edges[0, 1]["weight"] += 1
    assert relabelled.edges[0, 1]["weight"] == 3.0
    assert graph.edges["cat", "dog"]["weight"] == 2.0


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (["cat", "dogs", "owl"], "every node must be a class, got 'dog'. Did you mean 'dogs'?"),
        (["cat", "owl"], "every node must be a class, got 'dog'."),
        (["cat", "dog", "owl", "gar"], "every class must be a node, got a graph without 'gar'."),
        (["cat", "dog", "owl", "cat"], "classes must be distinct, got 'cat' more than once."),
    ],
)
def test_relabelling_errors(classes, message):
    pets = nx.Graph([("cat", "dog"), ("dog", "owl")])
    with pytest.raises(ValueError, match="relabel_to_indices") as raised:
        graphs.relabel_to_indices(pets, classes)
    assert str(raised.value) == f"relabel_to_indices: {message}"
