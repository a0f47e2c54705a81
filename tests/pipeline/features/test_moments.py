from __future__ import annotations

import math

import numpy as np
import pytest

from pairloom.pipeline.features.moments import find_moments, moments_of
from pairloom.pipeline.threads import pieces


def samples(dtype, place, unit):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 300)
    return ((place + rng.standard_normal((300, 4)) + y[:, None]) * unit).astype(dtype), y


@pytest.mark.parametrize("size", [1, 7, 299, 300])
@pytest.mark.parametrize(("dtype", "unit"), [(np.float32, 1.0), (np.float64, 1.0), (np.float64, 2.0**900)])
def test_pieces_of_any_size_give_the_same_bits(size, dtype, unit):
    X, y = samples(dtype, 3.0, unit)
    found = find_moments(lambda: [(X[part], y[part]) for part in pieces(300, size)], 4, 5)
    for ours, whole in zip(found, moments_of(X, y, 5), strict=True):
        np.testing.assert_array_equal(ours, whole)


@pytest.mark.parametrize(
    ("dtype", "place", "unit"),
    [
        (np.float32, 0.0, 1.0),
        (np.float32, 100.0, 1e30),
        (np.float64, 1e6, 1.0),
        (np.float64, 0.0, 1e-200),
        (np.float64, 3.0, 1e300),
    ],
)
def test_moments_are_those_of_numpy(dtype, place, unit):
    X, y = samples(dtype, place, unit)
    found, scaled = moments_of(X, y, 5), X.astype(np.float64) / unit
    np.testing.assert_allclose(found.centre / unit, scaled.mean(axis=0), rtol=1e-12)
    for c in range(5):
        np.testing.assert_allclose(found.class_means[c] / unit, scaled[y == c].mean(axis=0), rtol=1e-12)
    exponent = math.frexp(unit)[1]
    expected = scaled.var(axis=0).sum() * math.ldexp(unit, -exponent) ** 2
    assert found.total_variance(exponent) == pytest.approx(expected, rel=1e-9)


def test_an_outlier_among_the_first_rows_costs_no_digits():
    X = np.random.default_rng(0).standard_normal((1000, 2))
    X[0] = 1e7
    assert moments_of(X).total_variance(0) == pytest.approx(X.var(axis=0).sum(), rel=1e-12)


def test_a_constant_column_has_no_variance_even_if_its_mean_is_rounded():
    assert moments_of(np.full((7, 2), 0.1)).total_variance(0) == 0
