import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.calibration import _SigmoidCalibration

from pairloom.pipeline.machines.pair_calibration import fit_platt


def targets(y, weight):
    n_plus, n_minus = weight[y > 0].sum(), weight[y < 0].sum()
    return np.where(y > 0, (n_plus + 1) / (n_plus + 2), 1 / (n_minus + 2))


def log_loss(A, B, f, y, weight):
    z = A * f + B
    return weight @ (targets(y, weight) * np.logaddexp(0, z) + (1 - targets(y, weight)) * np.logaddexp(0, -z))


def draw(seed, n=60, scale=1.0, shift=0.0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.3, 1, -1)
    y[:2] = 1, -1
    return scale * (y + 1.5 * rng.standard_normal(n)) + shift, y


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (1e-6, 0), (1e6, 0), (1, 100)])
def test_no_minimiser_finds_less(seed, scale, shift):
    f, y = draw(seed, scale=scale, shift=shift)
    weight = np.ones(len(y))
    fit = fit_platt(f, y)
    peer = minimize(lambda p: log_loss(*p, (f - shift) / scale, y, weight), np.zeros(2), tol=1e-10)
    assert fit.converged
    assert log_loss(fit.A, fit.B, f, y, weight) <= peer.fun * (1 + 1e-7)
    assert fit.A < 0


@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_scikit_learn(seed):
    f, y = draw(seed, n=300)
    peer = _SigmoidCalibration().fit(f, y)
    fit = fit_platt(f, y, tol=1e-8)
    np.testing.assert_allclose([fit.A, fit.B], [peer.a_, peer.b_], rtol=1e-3)


def test_a_weight_of_two_is_the_sample_twice():
    f, y = draw(0)
    twice = np.arange(len(f)) % 3 == 0
    repeated = fit_platt(np.concatenate([f, f[twice]]), np.concatenate([y, y[twice]]), tol=1e-9)
    weighted = fit_platt(f, y, sample_weight=1.0 + twice, tol=1e-9)
    np.testing.assert_allclose(weighted[:2], repeated[:2], rtol=1e-6)


def test_exchanging_the_classes_changes_the_sign():
    f, y = draw(1)
    one, other = fit_platt(f, y, tol=1e-9), fit_platt(-f, -y, tol=1e-9)
    np.testing.assert_allclose([one.A, one.B], [other.A, -other.B], rtol=1e-6)


def test_perfectly_separated_stays_finite():
    f = np.concatenate([np.full(50, 3.0), np.full(50, -3.0)])
    fit = fit_platt(f, np.sign(f))
    # Two distinct values and two targets: the curve passes through both.
    p = 1 / (1 + np.exp(fit.A * np.array([3.0, -3.0]) + fit.B))
    np.testing.assert_allclose(p, [51 / 52, 1 / 52], rtol=1e-4)


@pytest.mark.parametrize("value", [0.0, 2.5, -1e8])
def test_equal_decisions_give_the_mean_target(value):
    y = np.array([1, 1, 1, -1])
    fit = fit_platt(np.full(4, value), y)
    p = 1 / (1 + np.exp(fit.A * value + fit.B))
    assert p == pytest.approx(targets(y, np.ones(4)).mean(), rel=1e-4)


@pytest.mark.parametrize("label", [-1, 1])
def test_one_sample(label):
    fit = fit_platt(np.array([0.7]), np.array([label]))
    p = 1 / (1 + np.exp(fit.A * 0.7 + fit.B))
    assert p == pytest.approx(2 / 3 if label > 0 else 1 / 3, rel=1e-4)


def test_huge_decision_values_do_not_overflow():
    f = np.array([1e300, -1e300, 1e299, -1e299])
    fit = fit_platt(f, np.sign(f))
    logits = -(fit.A * f + fit.B)
    assert np.isfinite(logits).all()
    assert (np.sign(logits) == np.sign(f)).all()


def test_the_iteration_limit_is_visible():
    f, y = draw(0)
    fit = fit_platt(f, y, max_iterations=1)
    assert fit.iterations == 1
    assert not fit.converged
