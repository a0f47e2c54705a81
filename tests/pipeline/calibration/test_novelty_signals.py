"""Signals of novelty without a class are those of the model that never had it."""

import networkx as nx
import numpy as np
import pytest
from scipy.linalg import eigh

from pairloom.graphs import complete, hub_neighbours
from pairloom.pipeline.calibration.novelty_signals import (
    ClassPlaces,
    fit_signals,
    learned_weights,
    nearest_distances,
    without_own_class,
)
from pairloom.pipeline.completion.couplers import coupler_of
from pairloom.pipeline.machines.normalisation import WithinClasses


def places_of(n_classes, n_features, seed=0):
    """The places of random classes, their means, shares and shrunk covariance."""
    random = np.random.default_rng(seed)
    rows = random.standard_normal((200, n_features)) @ random.standard_normal((n_features, n_features))
    values, vectors = eigh(rows.T @ rows / len(rows))
    within = WithinClasses(np.zeros(n_features), values, vectors, np.eye(n_features))
    means, counts = 3 * random.standard_normal((n_classes, n_features)), random.integers(5, 50, n_classes)
    shrunk = 0.9 * (rows.T @ rows / len(rows)) + 0.1 * values.mean() * np.eye(n_features)
    return ClassPlaces.of(within, means, counts), means, counts / counts.sum(), shrunk


def relative_mahalanobis(X, means, shares, covariance, origin):
    """As it is defined: the least squared distance to a class, less that to the whole."""
    apart = (means - origin) * np.sqrt(shares)[:, None]
    inverses = np.linalg.inv(covariance), np.linalg.inv(covariance + apart.T @ apart)
    by_class = [np.einsum("rd,de,re->r", X - mean, inverses[0], X - mean) for mean in means]
    return np.min(by_class, axis=0) - np.einsum("rd,de,re->r", X - origin, inverses[1], X - origin)


@pytest.mark.parametrize(("n_classes", "n_features"), [(3, 8), (12, 5), (2, 1)])
def test_distances_are_relative_mahalanobis_distances_with_and_without_a_class(n_classes, n_features):
    places, means, shares, covariance = places_of(n_classes, n_features)
    random = np.random.default_rng(1)
    X, own = 4 * random.standard_normal((20, n_features)), random.integers(0, n_classes, 20)
    origin = shares @ means
    expected = relative_mahalanobis(X, means, shares, covariance, origin)
    np.testing.assert_allclose(places.distances(X), expected, rtol=1e-3, atol=1e-3)
    without = places.distances_without(X, own)
    for r, c in enumerate(own):
        others = np.arange(n_classes) != c
        one = relative_mahalanobis(X[[r]], means[others], shares[others], covariance, origin)
        np.testing.assert_allclose(without[[r]], one, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("size", [0.0, 1e-8], ids=["none", "rounding"])
def test_rows_that_do_not_differ_within_classes_measure_no_distance(size):
    random = np.random.default_rng(3)
    within = WithinClasses(np.zeros(4), size**2 * random.random(4), np.eye(4), np.eye(4))
    assert ClassPlaces.of(within, random.standard_normal((10, 4)), np.ones(10)) is None


def test_signals_without_a_class_are_those_of_the_pairs_of_the_others():
    random = np.random.default_rng(2)
    coupler, n = coupler_of(complete(7)), 7
    logits = random.standard_normal((coupler.n_machines, 9)).astype(np.float32)
    own = random.integers(0, n, 9)
    scored = coupler.scored(logits)
    p = scored.couple("normal", 2.0)
    found = without_own_class(scored, p, own, coupler, 2.0)
    smaller = coupler_of(complete(n - 1))
    for r, c in enumerate(own):
        kept = (coupler.completion.edges != c).all(axis=1)
        alone = smaller.scored(np.ascontiguousarray(logits[kept, r : r + 1]))
        signals = fit_signals(alone, np.full((1, n - 1), 0.5), 2.0)
        np.testing.assert_allclose(found[r, 0], signals[0, 0], rtol=1e-5)
        of_others = np.delete(p[r].astype(float), c)
        largest = of_others.max() / of_others.sum()
        np.testing.assert_allclose(found[r, 1], np.log(1 / largest - 1), rtol=1e-5)


def test_the_potentials_of_lists_without_a_class_are_near_those_of_the_smaller_graph():
    """Nearer than those of the whole graph, by a tenth of what the class changes."""
    random = np.random.default_rng(3)
    n, samples = 40, 60
    places = random.standard_normal((n, 3))
    graph = hub_neighbours(np.linalg.norm(places[:, None] - places, axis=2), 3, 12)
    coupler = coupler_of(graph)
    i, j = coupler.completion.edges.T
    u = 2 * random.standard_normal((samples, n))
    logits = (u[:, i] - u[:, j] + 0.5 * random.standard_normal((samples, len(i)))).astype(np.float32).T
    own = u.argmax(axis=1)
    scored = coupler.scored(np.ascontiguousarray(logits), 10)
    found = without_own_class(scored, np.full((samples, n), 1 / n), own, coupler)[:, 0]
    exact, whole = [], []
    for r, c in enumerate(own):
        smaller = graph.copy()
        smaller.remove_node(c)
        order = {node: place for place, node in enumerate(sorted(smaller))}
        kept = (coupler.completion.edges != c).all(axis=1)
        of_smaller = coupler_of(nx.relabel_nodes(smaller, order))
        one = of_smaller.scored(np.ascontiguousarray(logits[kept, r : r + 1]), 9)
        exact.append(fit_signals(one, np.full((1, n - 1), 0.5))[0, 0])
        whole.append(-np.delete(scored.potentials[r], c).max())
    error = np.abs(found - exact).mean()
    assert error < 0.1 * np.abs(np.array(whole) - exact).mean()


def test_a_vector_of_its_own_is_hidden_from_a_sample():
    vectors = np.array([[0.0, 0.0], [3.0, 4.0]])
    hidden = np.array([[True, False], [False, False]])
    found = nearest_distances(vectors, vectors, hidden)
    np.testing.assert_allclose(found[0], np.log(5))
    assert found[1] < -5
    np.testing.assert_allclose(nearest_distances(vectors, np.array([[0.0, 2.0]])), np.log(2))


def test_a_signal_that_tells_nothing_weighs_less_and_none_counts_the_wrong_way():
    random = np.random.default_rng(4)
    known = random.standard_normal((400, 3))
    novel = random.normal([2.0, 0.0, -1.0], size=(400, 3))
    weights = learned_weights(known, novel, np.ones(400))
    assert weights.weight[0] > 2 * weights.weight[1]
    assert weights.weight[2] == pytest.approx(0, abs=0.05)
    assert (weights.weight >= 0).all()
    assert weights(known).std() == pytest.approx(1, rel=0.05)
    for few in (
        learned_weights(known, None, np.ones(400)),
        learned_weights(known[:9], novel[:9], np.ones(9)),
    ):
        np.testing.assert_array_equal(few.weight, np.full(3, 1 / 3))
