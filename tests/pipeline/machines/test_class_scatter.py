from __future__ import annotations

import numpy as np
import pytest
from whitened import whitening_of

from pairloom.pipeline.machines import normalisation as module
from pairloom.pipeline.machines.normalisation import (
    class_scatter,
    scatter_parts,
    within_classes_of,
)

SIZES = np.array([7, 1, 30, 2, 2, 12])


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(6), SIZES))
    return (rng.standard_normal((len(y), 4)) + 50 * rng.standard_normal((6, 4))[y]).astype(np.float32), y


def within(X, y):
    """Reference: the sum of squares about the class means."""
    deviations = X.astype(np.float64) - np.stack([X[y == c].mean(axis=0, dtype=np.float64) for c in y])
    return deviations.T @ deviations


@pytest.mark.parametrize("rows", [1, 5, 8, 100])
def test_the_scatter_is_that_about_the_class_means_in_batches_of_any_size(rows, samples, monkeypatch):
    monkeypatch.setattr(module, "_BATCH_NUMBERS", 4 * rows)
    X, y = samples

    def read(c, part):
        return X[y == c][part]

    found = class_scatter(read, slice(0, 6), SIZES, 4)
    np.testing.assert_array_equal(found.counts, SIZES)
    for c in range(6):
        np.testing.assert_allclose(found.means[c], X[y == c].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found.scatter, within(X, y), atol=1e-4 * np.abs(found.scatter).max())


def test_held_out_rows_have_no_part_in_it(samples):
    X, y = samples
    held_out = np.concatenate([np.flatnonzero(y == c)[: SIZES[c] // 2] for c in range(6)])
    others = np.delete(np.arange(len(y)), held_out)
    moved = X.copy()
    moved[held_out] += 1e6
    ours = whitening_of(moved, y, 0.5, held_out)
    np.testing.assert_array_equal(ours.factor, whitening_of(X, y, 0.5, held_out).factor)
    np.testing.assert_allclose(
        ours.factor, whitening_of(X[others], y[others], 0.5).factor, rtol=1e-4, atol=1e-6
    )


def test_parts_are_consecutive_classes_and_bounded_in_number_and_bytes():
    for n, D in ((2, 5), (50, 512), (1000, 512), (1654, 384), (100_000, 4), (1000, 4096)):
        parts = scatter_parts(n, D)
        assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
        assert parts[-1].stop == n
        assert len(parts) <= max(4, min(64, 2**28 // (8 * D**2)))


def test_classes_far_apart_cost_the_covariance_no_digits():
    """The scatter is not the small difference of two large sums."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(20), 50)
    X = (rng.standard_normal((1000, 3)) + 1e4 * rng.standard_normal((20, 3))[y]).astype(np.float32)
    found = within_classes_of(X, [np.flatnonzero(y == c) for c in range(20)])
    np.testing.assert_allclose(found.values.sum(), np.trace(within(X, y)) / 1000, rtol=1e-5)
