import networkx as nx
import pytest

from pairloom import graphs


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_complete_is_the_complete_graph_of_networkx(n):
    graph = graphs.complete(n)
    assert list(graph) == list(range(n))
    assert graphs.edge_array(graph).tolist() == sorted(map(list, nx.complete_graph(n).edges))


def test_errors():
    with pytest.raises(ValueError, match=r"^complete: n must be at least 1, got 0\.$"):
        graphs.complete(0)
