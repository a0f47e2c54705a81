"""Normalisation of the features: centred, and divided by a power of two."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from pairloom.pipeline.features.moments import moments_of
from pairloom.pipeline.machines.normalisation import normalised_moments


def normalisation_of(X, owner, *, standardise=False):
    return normalised_moments(moments_of(X), owner, standardise=standardise).normalisation


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return 5.0 + rng.standard_normal((40, 3)) * [0.1, 1.0, 30.0]


@pytest.mark.parametrize(
    ("dtype", "unit"),
    [
        *((np.float32, unit) for unit in (1e-25, 1e-3, 1.0, 1e3, 1e25)),
        *((np.float64, unit) for unit in (1e-150, 1e-3, 1.0, 1e3, 1e150)),
    ],
)
def test_normalised_rows_have_mean_zero_and_a_total_variance_from_1_to_4(X, unit, dtype):
    rows = (unit * X).astype(dtype)
    normalised = normalisation_of(rows, "X")(rows)
    assert normalised.dtype == dtype
    np.testing.assert_allclose(normalised.mean(axis=0), 0, atol=1e-6)
    assert 1 <= normalised.var(axis=0, dtype=np.float64).sum() < 4


@pytest.mark.parametrize("power", [-300, -1, 1, 7, 300])
def test_rows_times_a_power_of_two_are_normalised_to_the_same_bits(X, power):
    one, other = (normalisation_of(rows, "X")(rows) for rows in (X, np.ldexp(X, power)))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("power", [-20, 0, 3])
def test_a_C_on_normalised_features_is_the_same_penalty(X, power):
    """w -> s w on rows / s keeps the decision values and multiplies |w|^2 by s^2, so C is multiplied by s^2 too."""
    normalisation = normalisation_of(np.ldexp(X, power), "X")
    s = 2.0**normalisation.exponent
    assert normalisation.inner_C(0.3) == 0.3 * s**2
    assert normalisation.outer_C(normalisation.inner_C(0.3)) == 0.3


def test_constant_features_become_zero():
    rows = np.full((5, 2), 7.0)
    normalisation = normalisation_of(rows, "X")
    np.testing.assert_array_equal(normalisation(rows), np.zeros((5, 2)))
    assert normalisation.inner_C(0.3) == 0.3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_standardised_columns_have_deviations_of_one_power_of_two(X, dtype):
    rows = np.column_stack([X, np.full(len(X), 7.0)]).astype(dtype)
    normalisation = normalisation_of(rows, "X", standardise=True)
    scaled = StandardScaler().fit_transform(rows.astype(np.float64))
    np.testing.assert_allclose(
        np.ldexp(normalisation(rows), normalisation.exponent),
        scaled,
        atol=1e-12 if dtype is np.float64 else 1e-5,
    )
    assert normalisation(rows).dtype == dtype
    assert normalisation.deviation[-1] == 1.0


@pytest.mark.parametrize(("dtype", "powers"), [(np.float32, [-110, 0, 110]), (np.float64, [-400, 5, 300])])
def test_the_unit_of_a_standardised_column_changes_no_bit(X, dtype, powers):
    X = np.ldexp(np.round(X * 256), -8).astype(dtype)  # few digits, so that the smallest columns lose none
    one, other = (normalisation_of(rows, "X", standardise=True)(rows) for rows in (X, np.ldexp(X, powers)))
    np.testing.assert_array_equal(one, other)


def test_weights_of_standardised_columns_are_folded_back(X):
    normalisation = normalisation_of(X, "X", standardise=True)
    weights, bias = np.float32([[1.0, -2.0, 0.5]]), np.array([0.25])
    raw, raw_bias = normalisation.fold_back(weights, bias)
    np.testing.assert_allclose(X @ raw[0] + raw_bias, normalisation(X) @ weights[0] + bias, atol=1e-4)


def test_a_range_that_overflows_is_refused_by_name():
    rows = np.array([[3e38], [-3e38], [-3e38]], np.float32)
    with pytest.raises(ValueError, match="my rows must have columns whose range float32 can hold"):
        normalisation_of(rows, "my rows")
