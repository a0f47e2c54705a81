import numpy as np
import pytest
from fitted_models import blobs
from scipy import sparse
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from pairloom import NearestNeighboursCV, PairwiseSVC


@parametrize_with_checks([NearestNeighboursCV()])
def test_it_is_a_classifier_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_errors_are_those_of_fits_without_each_sample(n_classes):
    X, y = blobs(n_classes, 3, 20, spread=5.0)
    model = NearestNeighboursCV([1, 2, 5, 8]).fit(X, y)
    for J, error in model.errors_.items():
        shares = cross_val_predict(KNeighborsClassifier(J), X, y, cv=LeaveOneOut(), method="predict_proba")
        most = shares == shares.max(axis=1, keepdims=True)
        assert error == pytest.approx(1 - np.mean(most[np.arange(len(y)), y] / most.sum(axis=1)))


def test_shares_are_those_of_as_many_neighbours():
    X, y = blobs(3, 3, 20, spread=4.0)
    model = NearestNeighboursCV().fit(X[:40], y[:40])
    assert sorted(model.errors_) == list(range(1, 31))
    peer = KNeighborsClassifier(model.neighbours_).fit(X[:40], y[:40])
    np.testing.assert_allclose(model.predict_proba(X[40:]), peer.predict_proba(X[40:]))
    np.testing.assert_array_equal(model.predict(X[40:]), peer.predict(X[40:]))
    np.testing.assert_allclose(
        NearestNeighboursCV().fit(sparse.csr_matrix(X[:40]), y[:40]).predict_proba(sparse.csr_matrix(X[40:])),
        model.predict_proba(X[40:]),
    )


def test_among_equals_the_most_neighbours_are_taken():
    X, y = np.r_[np.zeros(10), np.full(10, 9.0)][:, None], np.repeat(["a", "b"], 10)
    assert NearestNeighboursCV(range(1, 10)).fit(X, y).neighbours_ == 9


def test_candidates_beyond_the_samples_are_the_largest_that_leave_one_out():
    X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 1, 1, 1])
    assert sorted(NearestNeighboursCV([2, 5, 6, 100]).fit(X, y).errors_) == [2, 5]


def test_distances_to_the_second_class_are_biased():
    """Against the obvious way: scaled distances, sorted, with J and the factor of fewest errors."""
    X, y = blobs(2, 3, 30, spread=5.0)
    biases, Js = (0.7, 0.9, 1.0, 1.2), (1, 3, 4)
    model = NearestNeighboursCV(Js, biases).fit(X[:40], y[:40])
    second = y[:40] == model.classes_[1]

    def shares(rows, bias, J, alone):
        away = np.linalg.norm(rows[:, None] - X[:40], axis=2) * np.where(second, bias, 1.0)
        if alone:
            np.fill_diagonal(away, np.inf)
        return second[np.argsort(away, axis=1)[:, :J]].mean(axis=1)

    def error(bias, J):
        p = shares(X[:40], bias, J, alone=True)
        return np.mean(np.where(p == 0.5, 0.5, (p > 0.5) != second))

    for J, least in model.errors_.items():
        assert least == pytest.approx(min(error(bias, J) for bias in biases))
    assert error(model.bias_, model.neighbours_) == pytest.approx(min(model.errors_.values()))
    p = model.predict_proba(X[40:])
    np.testing.assert_allclose(p[:, 1], shares(X[40:], model.bias_, model.neighbours_, alone=False))
    # Far from 1, the boundary has moved: the first class is favoured by a large factor.
    first = NearestNeighboursCV([3], [5.0]).fit(X[:40], y[:40]).predict_proba(X[40:])[:, 0]
    assert first.mean() > p[:, 0].mean()


def test_biases_are_factors_of_two_classes():
    X, y = blobs(3, 3, 10, spread=5.0)
    with pytest.raises(ValueError, match="biases are for two classes, got 3"):
        NearestNeighboursCV(biases=[1.0]).fit(X, y)
    with pytest.raises(ValueError, match=r"biases must be factors above 0, or None, got \[0\.0\]"):
        NearestNeighboursCV(biases=[0.0]).fit(X[:20], np.arange(20) % 2)


@pytest.mark.parametrize("neighbours", [[], [0], [1.5], "3", 3, [True]], ids=repr)
def test_candidates_must_be_counts(neighbours):
    with pytest.raises(ValueError, match="neighbours must be integers of at least 1"):
        NearestNeighboursCV(neighbours).fit([[0.0], [1.0], [2.0]], [0, 1, 1])


def test_every_pair_has_a_number_of_neighbours_of_its_own():
    X, y = blobs(5, 3, 40, spread=4.0)
    model = PairwiseSVC(
        "complete", estimator=NearestNeighboursCV(), calibration="none", coupled_calibration="none"
    ).fit(X, y)
    chosen = [pair.estimators[0].neighbours_ for pair in model.machines_]
    assert len(chosen) == 10
    assert len(set(chosen)) > 3
