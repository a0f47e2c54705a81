"""Graphs of diameter two and wider ones, on all classes of a set."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from tensor_errors import errors, tree_error

from pairloom import graphs
from pairloom.pipeline.experiments import diameters
from pairloom.pipeline.experiments.diameters import HOFFMAN_SINGLETON, PATH, REGULAR, STAR, TREE, Diameters
from pairloom.pipeline.experiments.trained_tensor import COUPLINGS


def test_families_have_as_many_pairs_and_their_diameters():
    drawn = list(diameters.drawn_graphs(50, np.random.default_rng(1)))
    assert all(set(graph) == set(range(50)) and nx.is_connected(graph) for _, graph in drawn)
    by_family = {}
    for family, graph in drawn:
        by_family.setdefault(family, []).append(graph)
    sizes = [49, 61, 74, 98, 147, 196]
    for family in (STAR, TREE, PATH):
        assert [graph.number_of_edges() for graph in by_family[family]] == sizes
        assert all(set(a.edges) <= set(b.edges) for a, b in pairwise(by_family[family]))
    assert {nx.diameter(graph) for graph in by_family[STAR]} == {2}
    assert nx.diameter(by_family[PATH][0]) == 49
    for family, diameter in ((HOFFMAN_SINGLETON, 2), (REGULAR, 3)):
        (graph,) = by_family[family]
        assert set(dict(graph.degree).values()) == {7}
        assert nx.diameter(graph) == diameter


def test_other_numbers_of_classes_have_no_hoffman_singleton_graph():
    drawn = list(diameters.drawn_graphs(10, np.random.default_rng(1)))
    assert {family for family, _ in drawn} == {STAR, TREE, PATH}
    assert diameters.sizes_of(4) == [3, 4]  # as many as a cycle; six are all


def test_outcomes_are_those_of_models_over_the_drawn_graphs(digits):
    measured = diameters.measure(digits, 2, seed=4)
    rng = np.random.default_rng([4, 1])
    for family, graph in diameters.drawn_graphs(10, rng):
        pairs = graph.number_of_edges()
        assert measured.diameters[family, pairs][1] == nx.diameter(graph)
        if pairs not in (9, 18):
            continue
        of = errors(digits, graph) if pairs > 9 else dict.fromkeys(COUPLINGS, tree_error(digits, graph))
        for coupling in COUPLINGS:
            right = measured.right[family, pairs, coupling][1]
            assert right.mean() == pytest.approx(1 - of[coupling], abs=1e-6)
    rows = diameters.rows(measured)
    star = next(row for row in rows if (row.graph, row.pairs) == (STAR, 9))
    centres = [np.random.default_rng([4, k]).permutation(10)[0] for k in range(2)]
    assert star.accuracy == pytest.approx(
        np.mean([1 - tree_error(digits, graphs.star(10, int(c))) for c in centres])
    )


def made_up(**changes):
    """Accuracies of which all claims hold; whatever a model gets right, a better one gets right too."""
    accuracy = {STAR: 0.8, TREE: 0.7, PATH: 0.6, HOFFMAN_SINGLETON: 0.8, REGULAR: 0.7} | changes
    sizes = {
        family: [175] if family in (HOFFMAN_SINGLETON, REGULAR) else diameters.sizes_of(50)
        for family in accuracy
    }
    keys = [(family, pairs) for family, of in sizes.items() for pairs in of]
    return Diameters(
        50,
        dict.fromkeys(keys, np.array([3.0])),
        {
            (*key, c): np.repeat([(np.arange(300) < 300 * accuracy[key[0]]).astype(np.float32)], 3, axis=0)
            for key in keys
            for c in COUPLINGS
        },
    )


def test_claims_hold_where_they_are_so():
    findings = diameters.findings(made_up())
    assert [finding.verdict for finding in findings] == 3 * ["holds"]
    assert "82.9% (linear) and 89.8% (radial)" in findings[-1].here


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({TREE: 0.5}, "trees of all classes"),
        ({STAR: 0.65}, "trees of all classes"),
        ({STAR: 0.65}, "graphs of diameter two"),
        ({REGULAR: 0.85}, "Hoffman-Singleton"),
    ],
)
def test_a_claim_differs_where_the_wider_graph_is_better(changes, differs):
    found = diameters.findings(made_up(**changes))
    assert any(f.claim.startswith(differs) for f in found if f.holds is False)
