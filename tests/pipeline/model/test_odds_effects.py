import networkx as nx
import numpy as np
import pytest
from exact_couplings import REFERENCES
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pairloom import complete_logits, couple_code, graphs
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.completion.couplers import CodeCoupler, PairCoupler
from pairloom.pipeline.completion.shortlist import ListMass
from pairloom.pipeline.coupling.pairs.gradient import SMOOTH_METHODS
from pairloom.pipeline.model.odds_effects import effects_of_columns, effects_of_pairs, pair_coefficients

N = 6
METHODS = list(SMOOTH_METHODS)
MODEL_GRAPHS = {
    "complete": graphs.complete(N),
    "star": graphs.star(N, centre=0),
    "path": graphs.path(N),  # has pairs at distance three, which are completed by potentials
    "mixed": nx.Graph([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (1, 5)]),
}


def completed(logits, graph):
    """(N, N) logits of all pairs, from those of the edges."""
    L = np.zeros((N, N, 1))
    for (i, j), logit in zip(graphs.edge_array(graph), logits, strict=True):
        L[i, j], L[j, i] = logit, -logit
    return complete_logits(L, graph)[:, :, 0]


def edge_logits(graph, spread=2.0, seed=0):
    return np.random.default_rng(seed).normal(0, spread, graph.number_of_edges())


@pytest.mark.parametrize("graph", MODEL_GRAPHS.values(), ids=MODEL_GRAPHS)
@pytest.mark.parametrize("method", METHODS)
def test_the_effects_sum_to_the_odds_of_the_coupling(method, graph):
    logits = edge_logits(graph)
    p = REFERENCES[method](completed(logits, graph))
    for a, b in [(0, 1), (5, 3), (2, 5)]:
        effects = effects_of_pairs(logits, a, b, plan_completion(graph), method)
        assert effects.odds == pytest.approx(np.log(p[a] / p[b]), abs=1e-7)
        assert effects.slopes @ logits == pytest.approx(effects.odds, abs=1e-8)


@pytest.mark.parametrize("graph", MODEL_GRAPHS.values(), ids=MODEL_GRAPHS)
def test_a_pair_is_the_sum_of_the_pairs_it_is_completed_from(graph):
    logits = edge_logits(graph)
    L, completion = completed(logits, graph), plan_completion(graph)
    for a in range(N):
        for b in set(range(N)) - {a}:
            assert pair_coefficients(a, b, completion) @ logits == pytest.approx(L[a, b], abs=1e-10)


def test_the_effects_of_normal_are_its_terms():
    graph = graphs.complete(4)
    logits, completion = edge_logits(graph), plan_completion(graph)
    # u_0 - u_2 is the sum over j of (L_0j - L_2j) / 4; edges are 01, 02, 03, 12, 13, 23.
    slopes = effects_of_pairs(logits, 0, 2, completion, "normal").slopes
    np.testing.assert_allclose(slopes, np.array([1, 2, 1, 1, 0, -1]) / 4, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=20)
@given(data=st.data())
def test_effects_are_antisymmetric_and_sum_to_the_odds(method, data):
    graph = data.draw(st.sampled_from(list(MODEL_GRAPHS.values())))
    logits = data.draw(arrays(np.float64, graph.number_of_edges(), elements=st.floats(-12, 12, width=32)))
    a, b = data.draw(st.permutations(range(N)))[:2]
    k = data.draw(st.sampled_from([None, 2, 3, 5]))
    there, back = (
        effects_of_pairs(logits, *pair, plan_completion(graph), method, k) for pair in ((a, b), (b, a))
    )
    assert there.slopes @ logits == pytest.approx(there.odds, abs=1e-6)
    assert there.odds == pytest.approx(-back.odds, abs=1e-8)
    np.testing.assert_allclose(there.slopes, -back.slopes, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_permutation_of_the_classes_permutes_the_effects(method):
    graph = MODEL_GRAPHS["mixed"]
    order = np.random.default_rng(3).permutation(N)
    turned = nx.relabel_nodes(graph, dict(enumerate(order.tolist())))
    logits, edges = edge_logits(graph), graphs.edge_array(graph)
    place = {edge: at for at, edge in enumerate(map(tuple, graphs.edge_array(turned).tolist()))}
    moved, at, sign = np.empty_like(logits), [], []
    for i, j in order[edges].tolist():
        at.append(place[min(i, j), max(i, j)])
        sign.append(1 if i < j else -1)
    moved[at] = np.array(sign) * logits
    here = effects_of_pairs(logits, 0, 4, plan_completion(graph), method)
    there = effects_of_pairs(moved, order[0], order[4], plan_completion(turned), method)
    np.testing.assert_allclose((there.slopes * moved)[at], here.slopes * logits, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spread", [10, 40])
def test_logits_beyond_the_clip_are_accounted_for(method, spread):
    graph = graphs.complete(N)
    logits = edge_logits(graph, spread)
    assert np.abs(logits).max() > 16
    effects = effects_of_pairs(logits, 0, 1, plan_completion(graph), method)
    assert effects.slopes @ logits == pytest.approx(effects.odds, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("k", [2, 3, N])
@pytest.mark.parametrize("method", METHODS)
def test_odds_of_a_shortlist_are_those_of_prediction(method, k):
    graph = MODEL_GRAPHS["mixed"]
    completion, logits = plan_completion(graph), edge_logits(graph)
    p = PairCoupler(completion).scored(logits[:, None].astype(np.float32), k).couple(method)[0]
    for a in range(N):
        for b in set(range(N)) - {a}:
            effects = effects_of_pairs(logits, a, b, completion, method, None if k == N else k)
            assert effects.odds == pytest.approx(np.log(p[a] / p[b]), abs=2e-5)
            assert effects.slopes @ logits == pytest.approx(effects.odds, abs=1e-8)


@pytest.mark.parametrize("graph", MODEL_GRAPHS.values(), ids=MODEL_GRAPHS)
@pytest.mark.parametrize("method", METHODS)
def test_the_offset_of_a_list_has_a_part_of_its_own(method, graph):
    completion, logits, mass = plan_completion(graph), edge_logits(graph), ListMass(0.7, 1.2)
    lists = PairCoupler(completion).scored(logits[:, None].astype(np.float32), 3)
    p, listed = lists._replace(mass=mass).couple(method)[0], set(lists.classes[0].tolist())
    for a in range(N):
        for b in set(range(N)) - {a}:
            effects = effects_of_pairs(logits, a, b, completion, method, 3, mass)
            assert effects.odds == pytest.approx(np.log(p[a] / p[b]), abs=2e-5)
            assert effects.offset == 1.2 * ((a in listed) - (b in listed))
            assert effects.slopes @ logits + effects.offset == pytest.approx(effects.odds, abs=1e-8)


@pytest.mark.parametrize("method", ["normal", "bradley_terry"])
def test_pairs_may_weigh_as_many_samples_as_they_have(method):
    graph = MODEL_GRAPHS["complete"]
    completion = plan_completion(graph).weighted_by(np.arange(1.0, N + 1))
    logits = edge_logits(graph)
    p = PairCoupler(completion).scored(logits[:, None].astype(np.float32)).couple(method)[0]
    effects = effects_of_pairs(logits, 4, 0, completion, method)
    assert effects.odds == pytest.approx(np.log(p[4] / p[0]), abs=2e-5)
    assert effects.slopes @ logits == pytest.approx(effects.odds, abs=1e-8)


def test_a_pair_that_decides_alone_has_the_whole_effect():
    """Of two classes the odds are the logit of their pair, however large."""
    effects = effects_of_pairs(np.array([30.0]), 0, 1, plan_completion(graphs.complete(2)), "wlw2")
    assert effects.slopes == pytest.approx([1.0])
    assert effects.odds == pytest.approx(30.0)


CODES = {
    "one_vs_rest": graphs.one_vs_rest(N),
    "one_vs_one": graphs.one_vs_one(N),
    "dense": graphs.dense_code(N, seed=0),
    "sparse": graphs.sparse_code(N, seed=0),
}


@pytest.mark.parametrize("method", ["bradley_terry", "linear"])
@pytest.mark.parametrize("matrix", CODES.values(), ids=CODES)
def test_the_effects_of_columns_sum_to_the_odds(matrix, method):
    coupler = CodeCoupler(graphs.model_code(matrix, "code"))
    logits = np.random.default_rng(0).normal(0, 2, matrix.shape[1])
    p = couple_code(logits[:, None], matrix, method, tol=1e-12)[0]
    for a, b in [(0, 1), (5, 2)]:
        effects = effects_of_columns(logits, a, b, coupler, method)
        assert effects.odds == pytest.approx(np.log(p[a] / p[b]), abs=1e-8)
        assert effects.slopes @ (logits - effects.neutral) == pytest.approx(effects.odds, abs=1e-6)


def test_the_closed_form_has_the_effects_of_bradley_terry():
    coupler = CodeCoupler(graphs.model_code(CODES["one_vs_rest"], "code"))
    logits = np.random.default_rng(1).normal(-1, 2, N)
    closed, iterated = (
        effects_of_columns(logits, 2, 3, coupler, m) for m in ("closed_form", "bradley_terry")
    )
    assert closed.odds == pytest.approx(iterated.odds, abs=1e-6)
    np.testing.assert_allclose(closed.slopes, iterated.slopes, atol=1e-5)


@pytest.mark.parametrize("matrix", CODES.values(), ids=CODES)
def test_machines_that_know_nothing_have_even_odds(matrix):
    coupler = CodeCoupler(graphs.model_code(matrix, "code"))
    neutral = effects_of_columns(np.zeros(matrix.shape[1]), 0, 1, coupler, "bradley_terry").neutral
    np.testing.assert_allclose(couple_code(neutral[:, None], matrix), 1 / N, atol=1e-6)
