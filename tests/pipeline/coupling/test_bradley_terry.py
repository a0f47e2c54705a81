import numpy as np
import pytest
from scipy.optimize import minimize, root

from pairloom import couple

CLIP = 16


def by_minimisation(logits, weights=None):
    """The loss of [HT eq. 4], minimised over log p by scipy, for one sample."""
    n = len(logits)
    r = 1 / (1 + np.exp(-np.clip(logits.astype(np.float64), -CLIP, CLIP)))
    n_ij = (np.ones((n, n)) if weights is None else weights) * (1 - np.eye(n))

    def loss(u):
        # sum_{i != j} n_ij r_ij log mu_ij, up to a constant.
        d = u[:, None] - u
        mu = 1 / (1 + np.exp(-d))
        return (n_ij * r * np.logaddexp(0, -d)).sum(), (n_ij * (mu - r)).sum(axis=1)

    def curvature(u):
        mu = 1 / (1 + np.exp(u - u[:, None]))
        H = n_ij * mu * mu.T
        return np.diag(H.sum(axis=1)) - H

    start = np.clip(logits, -CLIP, CLIP).mean(axis=1)
    found = minimize(loss, start, jac=True, hess=curvature, method="trust-ncg", options={"gtol": 1e-10})
    # The gradient locates the minimum more precisely than the loss. u is determined up to a constant.
    polished = root(
        lambda u: loss(u)[1] + u.sum(), found.x - found.x.mean(), jac=lambda u: curvature(u) + 1, tol=1e-14
    )
    p = np.exp(polished.x - polished.x.max())
    return p / p.sum()


def sweeps_of_hastie_and_tibshirani(r, sweeps):
    """[HT section 2] p_i <- p_i sum_j r_ij / sum_j mu_ij for each i in turn, renormalised, from equal shares."""
    n = len(r)
    p = np.full(n, 1 / n)
    others = ~np.eye(n, dtype=bool)
    for _ in range(sweeps):
        for i in range(n):
            mu_i = p[i] / (p[i] + p[others[i]])
            p[i] *= r[i, others[i]].sum() / mu_i.sum()
            p /= p.sum()
    return p


class TestTheExampleOfHastieAndTibshirani:
    """[HT eq. 1]: r_12 = 0.9, r_13 = 0.4, r_23 = 0.7, for which they print (0.47, 0.25, 0.28)."""

    r = np.array([[0, 0.9, 0.4], [0.1, 0, 0.7], [0.6, 0.3, 0]])

    @property
    def logits(self):
        r = self.r + 0.5 * np.eye(3)
        return np.log(r / (1 - r))

    def test_ours_is_the_minimum(self):
        p = couple(self.logits[:, :, None], "bradley_terry")[0]
        assert p == pytest.approx(by_minimisation(self.logits), abs=1e-6)
        assert p.round(3).tolist() == [0.481, 0.242, 0.277]

    def test_theirs_is_three_sweeps_on_the_way_there(self):
        assert sweeps_of_hastie_and_tibshirani(self.r, 3).round(2).tolist() == [0.47, 0.25, 0.28]
        limit = sweeps_of_hastie_and_tibshirani(self.r, 200)
        assert limit == pytest.approx(couple(self.logits[:, :, None], "bradley_terry")[0], abs=1e-6)

    def test_the_most_probable_class_may_lose_a_pair(self):
        """[HT] The first class is the most probable, although it loses to the third."""
        p = couple(self.logits[:, :, None], "bradley_terry")[0]
        assert self.r[0, 2] < 0.5
        assert p[0] > p[2] > p[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3, 5, 10, 33])
@pytest.mark.parametrize(("spread", "noise"), [(3, 1), (3, 0.01), (0, 1), (3, 5)])
@pytest.mark.parametrize("weighted", [False, True])
def test_against_minimisation(n_classes, spread, noise, weighted, dtype, noisy_logits):
    logits = np.clip(noisy_logits(n_classes, 4, spread, noise, dtype), -CLIP, CLIP)
    sizes = np.random.default_rng(0).integers(1, 500, n_classes)
    weights = np.add.outer(sizes, sizes).astype(float) if weighted else None
    p, diagnostics = couple(logits, "bradley_terry", weights, return_diagnostics=True)
    expected = np.array([by_minimisation(logits[:, :, r], weights) for r in range(4)])
    assert p == pytest.approx(expected, abs=1e-5)
    assert diagnostics.converged.all()


@pytest.mark.parametrize("n_classes", [3, 10, 30])
@pytest.mark.parametrize(("spread", "noise"), [(50, 20), (0, 30), (30, 1), (0, 1e4), (1e4, 1e4)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_score_equations_hold_for_loud_machines(n_classes, spread, noise, weighted, noisy_logits):
    """[HT eq. 5] sum_j n_ij mu_ij = sum_j n_ij r_ij. Small steps far from the solution must not end the iteration."""
    logits = noisy_logits(n_classes, 20, spread, noise, np.float64)
    sizes = np.random.default_rng(0).integers(1, 9, n_classes)
    n_ij = np.add.outer(sizes, sizes) if weighted else np.ones((n_classes, n_classes))
    n_ij = n_ij * (1 - np.eye(n_classes))
    p, diagnostics = couple(logits, "bradley_terry", n_ij if weighted else None, return_diagnostics=True)
    assert diagnostics.converged.all()
    r = 1 / (1 + np.exp(-np.clip(logits, -CLIP, CLIP)))
    mu = p.T[:, None] / (p.T[:, None] + p.T[None, :])
    score = np.einsum("ij,ijr->ri", n_ij, r - mu)
    # How much p would still change: the residual of a class is weighted by its probability.
    assert (abs(score) * p / n_ij.sum(axis=1)).max() < 1e-5


def test_weights_count_samples():
    """A pair trained on many samples outweighs two pairs trained on few."""
    logits = np.zeros((3, 3, 1))
    logits[0, 1], logits[1, 0] = 2, -2  # the others say that 0 and 1 are alike
    weights = np.ones((3, 3))
    weights[0, 1] = weights[1, 0] = 1e6
    p = couple(logits, "bradley_terry", weights)[0]
    assert np.log(p[0] / p[1]) == pytest.approx(2, abs=1e-4)
    even = couple(logits, "bradley_terry")[0]
    assert np.log(even[0] / even[1]) < 1.9
