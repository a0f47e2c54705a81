import networkx as nx
import numpy as np
import pytest

from pairloom import graphs


@pytest.mark.parametrize(
    "code", [graphs.one_vs_rest(5), graphs.one_vs_one(4), graphs.dense_code(7), graphs.sparse_code(8)]
)
def test_there_and_back(code):
    graph = graphs.code_graph(code)
    assert nx.is_bipartite(graph)
    assert graph.number_of_edges() == np.count_nonzero(code)
    np.testing.assert_array_equal(graphs.code_from_graph(graph), code)


def test_the_order_of_nodes_and_edges_does_not_matter():
    graph = graphs.code_graph(graphs.sparse_code(6))
    shuffled = nx.Graph()
    shuffled.add_edges_from((v, u, data) for u, v, data in reversed(list(graph.edges(data=True))))
    np.testing.assert_array_equal(graphs.code_from_graph(shuffled), graphs.sparse_code(6))


def test_classes_and_machines_are_marked_as_networkx_does():
    graph = graphs.code_graph(graphs.one_vs_one(3))
    assert [node for node, side in graph.nodes(data="bipartite") if side == 0] == [0, 1, 2]
    assert [node for node, side in graph.nodes(data="bipartite") if side == 1] == [
        ("machine", 0),
        ("machine", 1),
        ("machine", 2),
    ]


def changed(edit):
    graph = graphs.code_graph(graphs.one_vs_one(3))
    edit(graph)
    return graph


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda g: g.add_node("cat"), "must be classes 0..3 and machines ('machine', 0..2), got 'cat'."),
        (lambda g: g.add_node(("machine", 9)), "got ('machine', 9)."),
        (lambda g: g.add_edge(0, 1, sign=1), "every edge must join a class to a machine, got (0, 1)."),
        (
            lambda g: g.add_edge(0, ("machine", 0), sign=2),
            "must be +1 or -1, got 2 between 0 and ('machine', 0).",
        ),
        (lambda g: g.add_edge(2, ("machine", 0)), "must be +1 or -1, got None between 2 and ('machine', 0)."),
        (lambda g: g.remove_edge(0, ("machine", 0)), "every column of code must have a class at +1"),
    ],
)
def test_graphs_that_are_no_code(edit, message):
    with pytest.raises(ValueError, match=r"^code_from_graph: ") as raised:
        graphs.code_from_graph(changed(edit))
    assert message in str(raised.value)


@pytest.mark.parametrize("graph", [nx.DiGraph(), nx.MultiGraph(), [[1], [-1]]])
def test_other_types(graph):
    with pytest.raises(TypeError, match=r"^code_from_graph: graph must be an undirected networkx\.Graph"):
        graphs.code_from_graph(graph)
