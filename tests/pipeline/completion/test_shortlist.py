"""Shortlists: the likeliest classes of a sample are completed and coupled, the others keep what the ranking says."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairloom import couple, graphs
from pairloom.pipeline.completion.complete import complete_slab, plan_completion
from pairloom.pipeline.completion.couplers import AllPairs, CompletedPairs, PairCoupler
from pairloom.pipeline.completion.shortlist import (
    ListMass,
    affine_shortlists,
    shortlist_size,
    shortlists,
    top_classes,
)
from pairloom.pipeline.completion.slab import couple_slab
from pairloom.pipeline.coupling.pairs.couple import METHODS, softmax

LINE = abs(np.subtract.outer(range(19), range(19))).astype(float)
MODEL_GRAPHS = {
    "path": graphs.path(9),
    "star": graphs.star(7, centre=3),
    "hub_neighbours": graphs.hub_neighbours(LINE, 2, 3),
    "bipartite": graphs.bipartite(11, 3),
    "two cliques and a path": nx.convert_node_labels_to_integers(nx.barbell_graph(7, 3)),
    "complete": graphs.complete(6),
}
NAMES = pytest.mark.parametrize("name", MODEL_GRAPHS)


def problem(name, n_samples=31):
    """The completion of a graph, the logits of its edges and the potentials of its classes."""
    completion = plan_completion(MODEL_GRAPHS[name])
    rng = np.random.default_rng(n_samples)
    logits = rng.normal(0, 2, (len(completion.edges), n_samples)).astype(np.float32)
    return completion, logits, completion.ranking.of_samples(sample_by_sample(logits))


def sample_by_sample(logits):
    return np.ascontiguousarray(logits.T)


@NAMES
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_a_list_of_all_classes_is_exact_coupling(name, method, scale):
    completion, logits, potentials = problem(name)
    listed = shortlists(sample_by_sample(logits), potentials, completion, completion.n_classes)
    expected = couple_slab(logits, completion, [method], scales={method: scale})[method]
    np.testing.assert_allclose(listed.couple(method, scale), expected, rtol=2e-4, atol=1e-6)


@NAMES
@pytest.mark.parametrize("k", [2, 3, 5])
def test_blocks_are_entries_of_the_completed_tensor(name, k):
    completion, logits, potentials = problem(name)
    n, n_samples = completion.n_classes, logits.shape[1]
    whole = complete_slab(logits, completion, np.empty((n, n, n_samples), np.float32))
    listed = shortlists(sample_by_sample(logits), potentials, completion, k)
    assert listed.classes.shape == (n_samples, k)
    for r, classes in enumerate(listed.classes):
        np.testing.assert_allclose(
            listed.tensor[:, :, r], whole[np.ix_(classes, classes, [r])][:, :, 0], atol=2e-5
        )
    np.testing.assert_array_equal(listed.tensor, -listed.tensor.transpose(1, 0, 2))


@NAMES
@pytest.mark.parametrize("k", [2, 3, 5])
def test_edges_that_are_applied_when_needed_give_the_same_lists(name, k):
    completion, rng = plan_completion(MODEL_GRAPHS[name]), np.random.default_rng(k)
    weights = rng.standard_normal((len(completion.edges), 4)).astype(np.float32)
    bias = rng.standard_normal(len(completion.edges)).astype(np.float32)
    X = rng.standard_normal((17, 4)).astype(np.float32)
    logits = weights @ X.T + bias[:, None]
    potentials = completion.ranking.of_samples(sample_by_sample(logits))
    one = shortlists(sample_by_sample(logits), potentials, completion, k)
    other = affine_shortlists(X, weights, bias, potentials, completion, k)
    np.testing.assert_array_equal(other.classes, one.classes)
    np.testing.assert_array_equal(other.potentials, one.potentials)
    np.testing.assert_allclose(other.tensor, one.tensor, rtol=1e-5, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(list(MODEL_GRAPHS)),
    method=st.sampled_from(list(METHODS)),
    k=st.integers(2, 6),
    scale=st.sampled_from([0.01, 1.0, 3.0]),
    size=st.sampled_from([0.1, 2.0, 10.0]),
    seed=st.integers(0, 1000),
)
def test_listed_classes_share_what_the_ranking_gives_them_and_the_others_keep_theirs(
    name, method, k, scale, size, seed
):
    completion = plan_completion(MODEL_GRAPHS[name])
    logits = np.random.default_rng(seed).normal(0, size, (len(completion.edges), 9)).astype(np.float32)
    potentials = completion.ranking.of_samples(sample_by_sample(logits))
    listed = shortlists(sample_by_sample(logits), potentials, completion, k)
    p, ranked = listed.couple(method, scale), softmax(potentials * np.float32(scale))
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    for r, classes in enumerate(listed.classes):
        others = np.setdiff1d(np.arange(completion.n_classes), classes)
        np.testing.assert_array_equal(p[r, others], ranked[r, others])
        assert p[r].argmax() in classes
        assert p[r, classes].max() >= p[r, others].max(initial=0)
        alone = couple(np.float32(scale) * listed.tensor[:, :, [r]], method)[0]
        np.testing.assert_allclose(p[r, classes], alone * ranked[r, classes].sum(), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_the_mass_of_the_list_moves_its_odds_against_the_rest(method):
    completion, logits, potentials = problem("hub_neighbours")
    even = shortlists(sample_by_sample(logits), potentials, completion, 4)
    moved = even._replace(mass=ListMass(0.6, 1.5))
    p, of_list = moved.couple(method, 0.8), even.lists.couple(method, 0.8)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    for r, classes in enumerate(even.classes):
        others = np.setdiff1d(np.arange(completion.n_classes), classes)
        u = 0.8 * 0.6 * potentials[r].astype(float)
        odds = np.exp(u[classes]).sum() / np.exp(u[others]).sum() * np.exp(1.5)
        mass = odds / (1 + odds)
        np.testing.assert_allclose(p[r, classes], mass * of_list[r], rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(p[r, others], (1 - mass) * softmax(u[others]), rtol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_an_even_mass_changes_no_bit(method):
    completion, logits, potentials = problem("hub_neighbours")
    even = shortlists(sample_by_sample(logits), potentials, completion, 4)
    p = softmax(potentials * np.float32(0.8))
    share = np.take_along_axis(p, even.classes, axis=1).sum(axis=1, keepdims=True)
    listed = couple(even.tensor * np.float32(0.8), method)
    np.put_along_axis(p, even.classes, listed * share, axis=1)
    np.testing.assert_array_equal(even.couple(method, 0.8), p)


def test_voting_takes_the_listed_class_that_wins_most_pairs():
    completion, logits, potentials = problem("hub_neighbours", 60)
    listed = shortlists(sample_by_sample(logits), potentials, completion, 4)
    p = listed.couple("vote")
    wins = (listed.tensor > 0).sum(axis=1).T
    expected = [classes[count.argmax()] for classes, count in zip(listed.classes, wins, strict=True)]
    np.testing.assert_array_equal(p.argmax(axis=1), expected)


def test_the_best_classes_are_listed_in_ascending_order():
    u = np.array([[0.1, 3.0, -1.0, 2.0, 0.0], [5.0, 4.0, 3.0, 2.0, 1.0]], np.float32)
    np.testing.assert_array_equal(top_classes(u, 2), [[1, 3], [0, 1]])
    np.testing.assert_array_equal(top_classes(u, 3), [[0, 1, 3], [0, 1, 2]])
    np.testing.assert_array_equal(top_classes(u, 5), [range(5), range(5)])


@NAMES
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shortlist", [None, 3])
def test_some_of_the_samples_are_coupled_like_all(name, method, shortlist):
    completion, logits, _ = problem(name)
    samples = PairCoupler(completion).scored(logits, shortlist)
    for some in (slice(1, None, 3), slice(0, 5), slice(4, 4)):
        p = samples.of_samples(some).couple(method, 1.3)
        # The kernels couple samples in blocks, and the last bits may depend on the place in one.
        np.testing.assert_allclose(p, samples.couple(method, 1.3)[some], rtol=1e-4, atol=1e-6)


@NAMES
@pytest.mark.parametrize("method", METHODS)
def test_a_shortlist_of_all_classes_or_none_couples_all_pairs(name, method):
    """Completed once if the memory allows for two tensors, else whenever they are coupled."""
    completion, logits, _ = problem(name)
    n, n_samples = completion.n_classes, logits.shape[1]
    expected = couple_slab(logits, completion, [method], scales={method: 1.3})[method]
    for size in (None, n, n + 5):
        for memory, kind in ((8 * n**2 * n_samples, CompletedPairs), (8 * n**2 * n_samples - 1, AllPairs)):
            samples = PairCoupler(completion).scored(logits, size, memory)
            assert isinstance(samples, kind)
            np.testing.assert_allclose(samples.couple(method, 1.3), expected, rtol=1e-5, atol=1e-7)


def test_a_longer_list_is_nearer_to_exact_coupling(noisy_logits):
    """Of machines that agree on the whole, as those of a model do."""
    completion = plan_completion(graphs.complete(30))
    logits = noisy_logits(30, 200, spread=2.0)[tuple(completion.edges.T)]
    exact = PairCoupler(completion).scored(logits).couple("stratified")
    away = [
        np.abs(PairCoupler(completion).scored(logits, k).couple("stratified") - exact).sum(axis=1).mean()
        for k in (3, 10, 25)
    ]
    assert away[0] > 2 * away[1] > 4 * away[2]


@pytest.mark.parametrize(
    ("shortlist", "n_classes", "size"),
    [
        ("auto", 50, None),
        ("auto", 51, 20),
        ("auto", 1000, 20),
        ("none", 1000, None),
        (20, 1000, 20),
        (999, 1000, 999),
        (1000, 1000, None),
        (7, 3, None),
    ],
)
def test_how_many_classes_are_listed(shortlist, n_classes, size):
    assert shortlist_size(shortlist, n_classes) == size
