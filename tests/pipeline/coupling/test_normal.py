import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pairloom import couple


def by_least_squares(logits, weights=None):
    """min over u of sum n_ij (u_i - u_j - L_ij)^2, as a least-squares problem with one row per pair."""
    n = len(logits)
    first, second = np.triu_indices(n, 1)
    rows = np.zeros((len(first), n))
    rows[np.arange(len(first)), first], rows[np.arange(len(first)), second] = 1, -1
    root = np.ones(len(first)) if weights is None else np.sqrt(weights[first, second])
    right = root[:, None] * logits[first, second].astype(np.float64)
    u = np.linalg.lstsq(root[:, None] * rows, right, rcond=None)[0]
    odds = np.exp(u - u.max(axis=0))
    return (odds / odds.sum(axis=0)).T


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3, 10, 40])
@pytest.mark.parametrize("noise", [0.1, 1, 10])
def test_against_least_squares(n_classes, noise, dtype, noisy_logits):
    logits = noisy_logits(n_classes, 50, noise=noise, dtype=dtype)
    precision = 2e-6 if dtype == np.float32 else 1e-12
    assert couple(logits, "normal") == pytest.approx(by_least_squares(logits), abs=precision)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [3, 10, 40])
def test_weights_against_least_squares(n_classes, dtype, noisy_logits):
    logits = noisy_logits(n_classes, 50, dtype=dtype)
    sizes = np.random.default_rng(0).integers(1, 500, n_classes)
    weights = np.add.outer(sizes, sizes).astype(float)
    p = couple(logits, "normal", weights)
    precision = 2e-6 if dtype == np.float32 else 1e-11
    assert p == pytest.approx(by_least_squares(logits, weights), abs=precision)
    assert abs(p - couple(logits, "normal")).max() > 1e-3  # weights matter where logits disagree


@pytest.mark.parametrize("weighted", [False, True])
@given(data=st.data(), n=st.integers(2, 8))
def test_bayes_covariance(weighted, data, n):
    """Adding c_i - c_j to every logit multiplies p_i by exp(c_i): how new priors are applied."""
    numbers = st.floats(-5, 5)
    upper = np.triu(data.draw(hnp.arrays(float, (n, n), elements=numbers)), 1)
    logits = (upper - upper.T)[:, :, None]
    c = data.draw(hnp.arrays(float, n, elements=numbers))
    weights = 1.0 + np.abs(upper + upper.T) if weighted else None
    shifted = couple(logits + (c[:, None] - c)[:, :, None], "normal", weights)
    covariant = couple(logits, "normal", weights) * np.exp(c)
    assert shifted == pytest.approx(covariant / covariant.sum(axis=1, keepdims=True), rel=1e-9)


def test_other_methods_are_not_covariant(noisy_logits):
    """So the property above is one of `normal` in particular."""
    logits, c = noisy_logits(5, 10), np.linspace(-2, 2, 5).astype(np.float32)
    for method in ("wlw2", "stratified", "bradley_terry"):
        covariant = couple(logits, method) * np.exp(c)
        covariant /= covariant.sum(axis=1, keepdims=True)
        shifted = couple(logits + (c[:, None] - c)[:, :, None], method)
        assert abs(shifted - covariant).max() > 1e-3
