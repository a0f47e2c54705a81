import numpy as np
import pytest


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
