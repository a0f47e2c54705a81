"""Normalisation of the features: centred, and divided by a power of two."""

import numpy as np
import pytest

from pairloom.pipeline.machines.normalisation import fit_normalisation


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
    normalised = fit_normalisation(rows, "X")(rows)
    assert normalised.dtype == dtype
    np.testing.assert_allclose(normalised.mean(axis=0), 0, atol=1e-6)
    assert 1 <= normalised.var(axis=0, dtype=np.float64).sum() < 4


@pytest.mark.parametrize("power", [-300, -1, 1, 7, 300])
def test_rows_times_a_power_of_two_are_normalised_to_the_same_bits(X, power):
    one, other = (fit_normalisation(rows, "X")(rows) for rows in (X, np.ldexp(X, power)))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("power", [-20, 0, 3])
def test_a_C_on_normalised_features_is_the_same_penalty(X, power):
    """w -> s w on rows / s keeps the decision values and multiplies |w|^2 by s^2, so C is multiplied by s^2 too."""
    normalisation = fit_normalisation(np.ldexp(X, power), "X")
    s = 2.0**normalisation.exponent
    assert normalisation.inner_C(0.3) == 0.3 * s**2
    assert normalisation.outer_C(normalisation.inner_C(0.3)) == 0.3


def test_constant_features_become_zero():
    rows = np.full((5, 2), 7.0)
    normalisation = fit_normalisation(rows, "X")
    np.testing.assert_array_equal(normalisation(rows), np.zeros((5, 2)))
    assert normalisation.inner_C(0.3) == 0.3


def test_a_range_that_overflows_is_refused_by_name():
    rows = np.array([[3e38], [-3e38], [-3e38]], np.float32)
    with pytest.raises(ValueError, match="my rows must have columns whose range float32 can hold"):
        fit_normalisation(rows, "my rows")
