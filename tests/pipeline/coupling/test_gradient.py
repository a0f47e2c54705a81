import numpy as np
import pytest
from exact_couplings import REFERENCES

from pairloom import couple
from pairloom.pipeline.coupling.pairs.gradient import (
    GRADIENTS,
    SMOOTH_METHODS,
    gradient_of_odds,
    gradient_of_true_class,
    log_probabilities,
)

N = 5
METHODS = list(SMOOTH_METHODS)


def logits(spread, n=N, seed=0):
    upper = np.triu(np.random.default_rng(seed).normal(0, spread, (n, n)), 1)
    return (upper - upper.T)[None]


def odds_of(a, b, n=N):
    return (np.eye(n)[a] - np.eye(n)[b])[None]


def test_every_smooth_coupling_has_a_gradient():
    assert set(GRADIENTS) == set(SMOOTH_METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_log_probabilities_are_those_of_the_definition(method):
    L = logits(1.5)
    np.testing.assert_allclose(
        np.exp(log_probabilities(L, method))[0], REFERENCES[method](L[0].copy()), rtol=1e-9
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spread", [0.5, 5, 20])
@pytest.mark.parametrize("n", [2, 3, 12, 30])
def test_log_probabilities_are_those_of_couple(method, spread, n):
    L = logits(spread, n)
    p = couple(L.transpose(1, 2, 0), method)
    np.testing.assert_allclose(np.exp(log_probabilities(L, method)), p, atol=2e-5)


@pytest.mark.parametrize("method", ["normal", "bradley_terry"])
def test_weights_of_pairs_are_those_of_couple(method):
    L, w = logits(2), np.random.default_rng(1).uniform(0.2, 3, (N, N))
    p = couple(L.transpose(1, 2, 0), method, w + w.T)
    np.testing.assert_allclose(np.exp(log_probabilities(L, method, w + w.T)), p, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [1.5, 6])
def test_against_finite_differences(method, weighted, spread):
    if weighted and method in ("stratified", "wlw2"):
        pytest.skip("this coupling has no weights")
    L, h, w = logits(spread), 1e-4, np.random.default_rng(1).uniform(0.5, 2, (N, N))
    weights = w + w.T if weighted else None
    G = gradient_of_odds(L, log_probabilities(L, method, weights), odds_of(3, 1), method, weights)[0]
    np.testing.assert_allclose(G, -G.T, atol=1e-9 * np.abs(G).max())
    for i, j in zip(*np.triu_indices(N, 1), strict=True):
        step = np.zeros((1, N, N))
        step[0, i, j], step[0, j, i] = h, -h
        up, down = (log_probabilities(L + s * step, method, weights)[0] for s in (1, -1))
        slope = ((up - down)[3] - (up - down)[1]) / (2 * h)
        assert G[i, j] == pytest.approx(slope, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_the_target_of_one_class_is_the_gradient_of_its_probability(method):
    L = logits(1.5)
    log_p = log_probabilities(L, method)
    own = gradient_of_odds(L, log_p, np.eye(N)[2] - np.exp(log_p), method)
    np.testing.assert_allclose(
        own, gradient_of_true_class(L, np.exp(log_p), np.array([2]), method), atol=1e-7
    )


@pytest.mark.parametrize("method", METHODS)
def test_classes_without_hope_have_a_gradient_too(method):
    """Of log odds. `gradient_of_true_class` holds p at 1e-12, below which the loss is flat."""
    u = np.array([0.0, -20, -30, -45, -60])
    L = (u[:, None] - u)[None] + logits(0.1)
    h = 1e-3
    G = gradient_of_odds(L, log_probabilities(L, method), odds_of(4, 3), method)[0]
    step = np.zeros((1, N, N))
    step[0, 4, 3], step[0, 3, 4] = h, -h
    up, down = (log_probabilities(L + s * step, method)[0] for s in (1, -1))
    assert G[4, 3] == pytest.approx(((up - down)[4] - (up - down)[3]) / (2 * h), rel=1e-3, abs=1e-6)
