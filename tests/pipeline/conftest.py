import numpy as np
import pytest
from fitted_models import Problem, blobs
from sklearn.datasets import load_digits


@pytest.fixture(scope="session")
def noisy_logits():
    """A maker of antisymmetric logits u_i - u_j + noise, (N, N, R): machines that agree on the whole."""

    def make(n_classes, n_samples, spread=3.0, noise=1.0, dtype=np.float32, seed=0):
        rng = np.random.default_rng([seed, n_classes, n_samples])
        u = rng.normal(0, spread, (n_classes, n_samples))
        e = rng.normal(0, noise, (n_classes, n_classes, n_samples))
        upper = np.triu(np.ones((n_classes, n_classes)), 1)[:, :, None] * (u[:, None] - u[None, :] + e)
        return (upper - upper.transpose(1, 0, 2)).astype(dtype)

    return make


@pytest.fixture(scope="session")
def data():
    """Five classes in four dimensions: 80 training samples and 40 new ones."""
    X, y = blobs()
    return Problem(X[:80], y[:80], X[80:], y[80:])


@pytest.fixture(scope="session")
def digits():
    """scikit-learn's digits: 700 training samples and 500 new ones."""
    X, y = load_digits(return_X_y=True)
    return Problem(X[:700], y[:700], X[700:1200], y[700:1200])
