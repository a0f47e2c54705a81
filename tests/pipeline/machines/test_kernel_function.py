import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from pairloom.pipeline.features.moments import moments_of
from pairloom.pipeline.machines.kernel_function import KernelFunction, gamma_of

KERNELS = {
    "rbf": {"gamma": 0.3},
    "poly": {"gamma": 0.3, "degree": 3, "coef0": 0.5},
    "sigmoid": {"gamma": 0.3, "coef0": -0.2},
}


def rows(n, D=7, seed=0, mean=0.0):
    return np.random.default_rng(seed).standard_normal((n, D)) + mean


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_are_scikit_learns(name, dtype):
    X, Z = rows(30), rows(20, seed=1)
    found = KernelFunction(name, **KERNELS[name])(X, Z, dtype)
    assert found.dtype == dtype
    expected = pairwise_kernels(X, Z, name, **KERNELS[name])
    np.testing.assert_allclose(found, expected, rtol=1e-12 if dtype == np.float64 else 1e-6)


@pytest.mark.parametrize("degree", [1, 2, 5, 8])
def test_every_degree_is_a_power(degree):
    X, Z = rows(5), rows(6, seed=1)
    found = KernelFunction("poly", 0.5, degree, 1.0)(X, Z)
    np.testing.assert_allclose(found, (0.5 * X @ Z.T + 1.0) ** degree, rtol=1e-12)


def test_the_gram_matrix_is_symmetric_and_at_most_one():
    X = rows(40)
    gram = KernelFunction("rbf", 0.3)(X, X)
    np.testing.assert_array_equal(gram, gram.T)
    assert gram.max() <= 1
    np.testing.assert_allclose(np.diag(gram), 1, rtol=1e-14)


def test_rows_far_from_zero_lose_no_digits_once_they_are_normalised():
    X, far = rows(30), rows(30) + 1e7
    kernel = KernelFunction("rbf", 0.3)
    near, centred = kernel.normalisation(X.mean(axis=0)), kernel.normalisation(far.mean(axis=0))
    np.testing.assert_allclose(
        kernel(centred(far), centred(far)), kernel(near(X), near(X)), rtol=1e-7, atol=1e-7
    )


@pytest.mark.parametrize("name", ["poly", "sigmoid"])
def test_other_kernels_are_given_features_as_they_come(name):
    X = rows(10, mean=3.0)
    np.testing.assert_array_equal(KernelFunction(name).normalisation(X.mean(axis=0))(X), X)


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.25])
@pytest.mark.parametrize(
    "X",
    [rows(50), rows(50) * np.arange(1, 8) + 100 * np.arange(7), np.full((4, 3), 2.0), rows(9).astype("f4")],
    ids=["plain", "columns of their own", "constant", "float32"],
)
def test_gamma_is_scikit_learns(gamma, X):
    y = np.arange(len(X)) % 2
    expected = SVC(gamma=gamma).fit(X, y)._gamma
    assert gamma_of(gamma, moments_of(X), "gamma") == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("unit", [1e200, 1e-200])
def test_gamma_of_features_that_no_float_could_square(unit):
    with pytest.raises(ValueError, match="gamma='scale' needs features whose variance a float can hold"):
        gamma_of("scale", moments_of(rows(10) * unit), "gamma")


def test_what_is_an_inner_product():
    assert KernelFunction("rbf").is_inner_product
    assert KernelFunction("poly", coef0=1.0).is_inner_product
    assert not KernelFunction("poly", coef0=-1.0).is_inner_product
    assert not KernelFunction("sigmoid").is_inner_product
    # Indeed: their Gram matrices have clearly negative eigenvalues.
    X = rows(40)
    for kernel in (KernelFunction("sigmoid", 0.3, coef0=-1.0), KernelFunction("poly", 0.3, 3, -1.0)):
        assert np.linalg.eigvalsh(kernel(X, X)).min() < -0.1
