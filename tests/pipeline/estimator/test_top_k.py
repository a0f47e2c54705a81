"""Probabilities of the likeliest classes: those among all, and the mass of the rest."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from pairloom import PairwiseSVC


@pytest.fixture(scope="module")
def samples():
    return make_blobs(900, 8, centers=60, cluster_std=2.0, random_state=3)


@pytest.fixture(scope="module")
def model(samples):
    return PairwiseSVC(C=1.0, whiten="none", calibration="distance").fit(*samples)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 20, 60, 99])
def test_they_are_the_largest_of_all(model, samples, k, dtype):
    X = samples[0][:300].astype(dtype)
    p, (listed, rest) = model.predict_proba(X), model.predict_proba(X, top_k=k)
    assert listed.shape == p.shape
    assert listed.format == "csr"
    assert listed.dtype == rest.dtype == dtype
    assert np.all(np.diff(listed.indptr) == min(k, 60))
    dense = listed.toarray()
    np.testing.assert_array_equal(dense[dense > 0], p[dense > 0])
    np.testing.assert_array_equal(dense.argmax(axis=1), p.argmax(axis=1))
    np.testing.assert_array_equal(np.sort(dense)[:, -min(k, 60) :], np.sort(p)[:, -min(k, 60) :])
    np.testing.assert_allclose(listed.sum(axis=1) + rest, 1, atol=1e-6)
    assert (rest >= 0).all()


def test_priors_are_applied_before_classes_are_left_out(samples):
    model = PairwiseSVC(C=1.0, whiten="none", calibration="distance").fit(*samples)
    priors = np.arange(1, 61) / np.arange(1, 61).sum()
    p = model.set_params(priors=priors).predict_proba(samples[0][:50])
    listed, rest = model.predict_proba(samples[0][:50], top_k=5)
    np.testing.assert_array_equal(np.sort(listed.toarray())[:, -5:], np.sort(p)[:, -5:])
    np.testing.assert_allclose(listed.sum(axis=1) + rest, 1, atol=1e-6)


@pytest.mark.parametrize("bad", [0, -3, 2.5, "all"])
def test_a_number_of_classes_is_at_least_one(model, samples, bad):
    with pytest.raises((ValueError, TypeError), match=r"PairwiseSVC: top_k must be (an integer|at least 1)"):
        model.predict_proba(samples[0][:2], top_k=bad)
