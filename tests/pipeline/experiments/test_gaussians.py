"""Ten Gaussian classes, beside the findings of [HT]."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from pairloom.pipeline.experiments import gaussians


def test_the_classes_have_orthonormal_axes_and_the_bayes_rule_is_that_of_their_densities():
    rng = np.random.default_rng(0)
    classes = gaussians.gaussian_classes(rng)
    products = classes.axes.transpose(0, 2, 1) @ classes.axes
    np.testing.assert_allclose(products, np.broadcast_to(np.eye(20), products.shape), atol=1e-12)
    assert ((classes.deviations >= 0.01) & (classes.deviations <= 1.01)).all()
    X, y = classes.draw(20, rng)
    covariances = (classes.axes * classes.deviations[:, None] ** 2) @ classes.axes.transpose(0, 2, 1)
    densities = [
        multivariate_normal(mean, covariance, allow_singular=True).logpdf(X)
        for mean, covariance in zip(classes.means, covariances, strict=True)
    ]
    np.testing.assert_array_equal(classes.likeliest(X), np.argmax(densities, axis=0))
    assert np.mean(classes.likeliest(X) != y) < 0.02


def test_samples_have_the_covariance_of_their_class():
    rng = np.random.default_rng(1)
    classes = gaussians.gaussian_classes(rng)
    X, y = classes.draw(20_000, rng)
    along = (X[y == 3] - classes.means[3]) @ classes.axes[3]
    np.testing.assert_allclose(along.std(axis=0), classes.deviations[3], rtol=0.03)
    assert np.abs(np.corrcoef(along.T) - np.eye(20)).max() < 0.05


@pytest.mark.long
def test_what_the_paper_found_is_found_here(digits):
    rows = gaussians.measure(digits, 2, seed=1)
    assert len(rows) == 2 * len(gaussians.RULES)
    assert [row.error for row in rows if row.simulation == 1] == gaussians.simulate(digits, (1, 1))
    error = {row.rule: row.error for row in gaussians.summary(rows)}
    assert error["Bayes"] < 0.01 < error["Bayes, eigenvalues uniform"]
    for name in gaussians.LEARNERS:
        assert error[f"{name}, coupled"] < 0.8 * error[name]
    assert {finding.source for finding in gaussians.findings(rows)} == {"[HT]"}


def simulated_rows(coupled, simulations=20):
    """Errors about the given ones, in every simulation a little higher or lower."""
    errors = {"Bayes": 0.005, "LDA": 0.4, "LDA, coupled": coupled, "LDA, max-wins": coupled + 0.01}
    noise = np.random.default_rng(0).normal(scale=0.02, size=(simulations, len(gaussians.RULES)))
    return [
        gaussians.RuleError(number, rule, errors.get(rule, 0.1) + (rule != "Bayes") * noise[number, k])
        for number in range(simulations)
        for k, rule in enumerate(gaussians.RULES)
    ]


@pytest.mark.parametrize(("coupled", "verdict"), [(0.2, "holds"), (0.24, "undecided"), (0.39, "differs")])
def test_half_is_judged_with_its_limit(coupled, verdict):
    _, half, *_ = gaussians.findings(simulated_rows(coupled))
    assert half.verdict == verdict
    assert "0.6 of it allowed" in half.here


def test_one_simulation_decides_nothing():
    assert {finding.verdict for finding in gaussians.findings(simulated_rows(0.2, 1))} == {"undecided"}
