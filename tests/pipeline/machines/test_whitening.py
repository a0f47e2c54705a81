import numpy as np
import pytest
from whitened import whitening_of

from pairloom.pipeline.machines.normalisation import centring, within_classes_of


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), (40, 50, 60))
    mixing = rng.standard_normal((4, 4))
    return (rng.standard_normal((150, 4)) @ mixing + 3 * rng.standard_normal((3, 4))[y]).astype(np.float32), y


def within(X, y):
    """Reference: the pooled within-class covariance."""
    return sum(np.cov(X[y == c].T, bias=True) * (y == c).sum() for c in np.unique(y)) / len(y)


@pytest.mark.parametrize("shrinkage", [0.0, 0.4, 1.0])
def test_the_shrunk_covariance_becomes_a_multiple_of_the_identity(samples, shrinkage):
    X, y = samples
    S = within(X.astype(np.float64), y)
    shrunk = (1 - shrinkage) * S + shrinkage * np.trace(S) / 4 * np.eye(4)
    factor = whitening_of(X, y, shrinkage).factor.astype(np.float64)
    white = factor.T @ shrunk @ factor
    np.testing.assert_allclose(white, white[0, 0] * np.eye(4), atol=1e-3 * white[0, 0])


@pytest.mark.parametrize("shrinkage", ["none", 0.0, 0.4, 1.0])
def test_the_mean_squared_norm_stays(samples, shrinkage):
    """So a value of C has the same meaning with and without whitening."""
    X, y = samples
    white = whitening_of(X, y, shrinkage)(X)
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-4)
    assert (white**2).sum(axis=1).mean() == pytest.approx(X.var(axis=0).sum(), rel=1e-3)


def test_shrunk_to_the_end_it_only_centres(samples):
    X, y = samples
    np.testing.assert_allclose(whitening_of(X, y, 1.0)(X), centring(X)(X), atol=1e-5)


@pytest.mark.parametrize("shrinkage", ["none", 0.0, 0.4])
def test_folds_back_exactly(samples, shrinkage):
    X, y = samples
    whitening = whitening_of(X, y, shrinkage)
    rng = np.random.default_rng(1)
    weights, bias = rng.standard_normal((7, 4)).astype(np.float32), rng.standard_normal(7)
    raw, shifted = whitening.fold_back(weights, bias)
    np.testing.assert_allclose(X @ raw.T + shifted, whitening(X) @ weights.T + bias, atol=5e-5)


def test_invariance_to_linear_maps_without_shrinkage(samples):
    """Up to scale, inner products of whitened samples do not change under an invertible map of the features."""
    X, y = samples
    B = np.random.default_rng(2).standard_normal((4, 4))
    one, other = (whitening_of(Z, y, 0.0)(Z) for Z in (X, (X @ B).astype(np.float32)))
    gram, peer = (Z.astype(np.float64) @ Z.T.astype(np.float64) for Z in (one, other))
    np.testing.assert_allclose(gram / np.trace(gram), peer / np.trace(peer), atol=1e-4)


@pytest.mark.parametrize("shrinkage", [0.0, 0.5, 1.0])
def test_a_constant_column_becomes_zero_and_constant_features_are_left_alone(samples, shrinkage):
    X, y = samples
    with_constant = np.column_stack([X, np.full(len(X), 7.0, np.float32)])
    white = whitening_of(with_constant, y, shrinkage)(with_constant)
    assert np.isfinite(white).all()
    np.testing.assert_allclose(white[:, -1], 0, atol=1e-5)
    if shrinkage == 0:
        alone = whitening_of(X, y, shrinkage)(X)
        np.testing.assert_allclose(white[:, :-1], alone, atol=1e-4)
    nothing = whitening_of(np.ones((150, 2), np.float32), y, shrinkage)
    np.testing.assert_array_equal(nothing.factor, np.eye(2))


def test_fewer_rows_than_features_and_classes_of_one_row_stay_finite():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6, 20)).astype(np.float32), np.array([0, 0, 1, 1, 2, 3])
    for shrinkage in (0.0, 0.8):
        assert np.isfinite(whitening_of(X, y, shrinkage)(X)).all()


def test_the_covariance_is_that_of_the_classes(samples):
    X, y = samples
    decomposed = within_classes_of(X, [np.flatnonzero(y == c) for c in range(3)])
    S = (decomposed.vectors * decomposed.values) @ decomposed.vectors.T
    np.testing.assert_allclose(S, within(X.astype(np.float64), y), atol=1e-3)
    np.testing.assert_allclose(decomposed.total, np.cov(X.T, bias=True), rtol=1e-3, atol=1e-3)
