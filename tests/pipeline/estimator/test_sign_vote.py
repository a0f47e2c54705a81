"""coupling="sign_vote": the machines' own signs are counted, as LIBSVM's `predict` counts them."""

import numpy as np
import pytest
from fitted_models import blobs, fitted
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC

from pairloom import PairwiseSVC

#: Machines on all samples, as LIBSVM's are.
LIKE_LIBSVM = {
    "graph": "complete",
    "coupling": "sign_vote",
    "fit_on": "all",
    "whiten": "none",
    "coupled_calibration": "none",
    "random_state": 0,
}


@pytest.fixture(scope="module")
def libsvm_digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600], X[600:]


@pytest.mark.parametrize(
    "machine", [SVC(C=1.0, gamma=1e-3), SVC(kernel="linear", C=0.01), SVC(kernel="poly", gamma=1e-3)], ids=str
)
def test_predictions_are_libsvms_with_machines_of_libsvm(libsvm_digits, machine):
    X, y, X_new = libsvm_digits
    machine.set_params(tol=1e-6)
    ours = PairwiseSVC(estimator=machine, **LIKE_LIBSVM).fit(X, y)
    np.testing.assert_array_equal(ours.predict(X_new), machine.fit(X, y).predict(X_new))


def test_predictions_are_libsvms_with_linear_machines_of_ours(libsvm_digits):
    X, y, X_new = libsvm_digits
    ours = PairwiseSVC(C=0.01, tol=1e-5, **LIKE_LIBSVM, kernel="linear").fit(X, y)
    peer = SVC(kernel="linear", C=0.01, tol=1e-5).fit(X, y)
    np.testing.assert_array_equal(ours.predict(X_new), peer.predict(X_new))


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_predictions_are_libsvms_with_kernel_machines_of_ours(libsvm_digits, kernel):
    X, y, X_new = libsvm_digits
    ours = PairwiseSVC(kernel=kernel, gamma=1e-3, C=1.0, tol=1e-6, **LIKE_LIBSVM).fit(X, y)
    peer = SVC(kernel=kernel, gamma=1e-3, C=1.0, tol=1e-6).fit(X, y)
    np.testing.assert_array_equal(ours.predict(X_new), peer.predict(X_new))


def test_predictions_are_libsvms_with_a_kernel_matrix(libsvm_digits):
    X, y, X_new = libsvm_digits
    ours = PairwiseSVC(kernel="precomputed", C=0.01, **LIKE_LIBSVM).fit(X @ X.T, y)
    peer = SVC(kernel="precomputed", C=0.01).fit(X @ X.T, y)
    np.testing.assert_array_equal(ours.predict(X_new @ X.T), peer.predict(X_new @ X.T))


def test_ties_go_to_the_class_that_comes_first_as_in_libsvm():
    """Three overlapping classes, of which each may win one pair."""
    X, y = blobs(3, 2, 60, spread=8.0)
    machine = SVC(gamma=2.0, tol=1e-6)
    ours = PairwiseSVC(estimator=machine, **LIKE_LIBSVM).fit(X, y)
    grid = np.stack(np.meshgrid(*[np.linspace(-20, 20, 150)] * 2), axis=-1).reshape(-1, 2)
    shares = ours.predict_proba(grid)
    tied = (shares == shares.max(axis=1, keepdims=True)).sum(axis=1) == 3
    assert tied.any()
    assert (ours.predict(grid[tied]) == 0).all()
    np.testing.assert_array_equal(ours.predict(grid), machine.fit(X, y).predict(grid))


def test_calibration_and_thresholds_move_the_vote_and_not_the_sign_vote():
    problem = blobs(4, 2, 60, spread=6.0)
    parameters = {**LIKE_LIBSVM, "kernel": "linear", "C": 1.0, "calibration": "platt"}
    plain, shifted = (fitted(problem, **parameters, thresholds=on) for on in (False, True))
    np.testing.assert_array_equal(plain.predict_proba(problem.X), shifted.predict_proba(problem.X))
    for model in (plain, shifted):
        own = model.predict_proba(problem.X)
        assert (own != model.set_params(coupling="vote").predict_proba(problem.X)).any()


def test_signs_are_counted_pair_by_pair(data):
    model = fitted(data, estimator=LinearSVC(), **LIKE_LIBSVM)
    wins = np.zeros((len(data.X_new), 5))
    for pair, (i, j) in zip(model.machines_, model.edges_, strict=True):
        first = pair.estimators[-1].decision_function(data.X_new) > 0
        wins[first, i] += 1
        wins[~first, j] += 1
    np.testing.assert_allclose(model.predict_proba(data.X_new), wins / 10, atol=1e-6)


def test_it_is_set_after_a_fit_and_survives_saving(data, tmp_path):
    model = fitted(data, whiten="none")
    model.set_params(coupling="sign_vote")
    model.save(tmp_path / "model")
    again = PairwiseSVC.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(data.X_new), model.predict_proba(data.X_new))
    assert (model.predict(data.X_new) == data.y_new).mean() > 0.9


def test_a_learner_without_decision_values_votes_by_its_probabilities(data):
    model = fitted(data, estimator=KNeighborsClassifier(3), **LIKE_LIBSVM)
    assert (model.predict(data.X_new) == data.y_new).mean() > 0.9
