from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, log_loss, top_k_accuracy_score

from pairloom.pipeline.display.evaluation import (
    Confusions,
    confusion_counts,
    outcomes,
    reliability,
    risk_coverage_of,
    scores,
)

random = np.random.default_rng(0)
P = random.dirichlet(np.ones(4), 200)
Y = np.array([random.choice(4, p=row) for row in P])


def test_scores_are_those_of_scikit_learn():
    found = scores(P, Y)
    assert found.accuracy == accuracy_score(Y, P.argmax(axis=1))
    assert found.log_loss == pytest.approx(log_loss(Y, P))
    assert found.macro_f1 == pytest.approx(f1_score(Y, P.argmax(axis=1), average="macro"))
    np.testing.assert_array_equal(confusion_counts(P, Y), confusion_matrix(Y, P.argmax(axis=1)))


def test_the_five_likeliest_are_those_of_scikit_learn():
    p = np.random.default_rng(1).dirichlet(np.ones(12), 300)
    y = np.arange(300) % 11  # one class has no samples
    assert scores(p, y).top_5_accuracy == top_k_accuracy_score(y, p, k=5, labels=np.arange(12))
    assert scores(p, y).macro_f1 == pytest.approx(f1_score(y, p.argmax(axis=1), average="macro"))


def test_equally_likely_classes_are_ranked_as_the_predicted_one_is_chosen():
    p = np.full((3, 3), 1 / 3)
    found = outcomes(p, np.array([0, 1, 2]))
    assert found.rank.tolist() == [0, 1, 2]
    assert ((found.rank == 0) == found.right).all()


def test_risk_is_the_share_of_errors_among_the_most_confident():
    found = outcomes(P, Y)
    curve = risk_coverage_of(found)
    order = np.argsort(-P.max(axis=1))
    for n in (1, 7, 100, 200):
        assert curve.coverage[n - 1] == n / 200
        assert curve.risk[n - 1] == pytest.approx((P.argmax(axis=1) != Y)[order[:n]].mean())
        assert curve.confidence[n - 1] == P.max(axis=1)[order[n - 1]]
    assert curve.area == pytest.approx(curve.risk.mean())


def test_a_probability_of_zero_costs_a_finite_loss():
    assert scores(np.array([[1.0, 0.0]]), np.array([1])).log_loss == pytest.approx(-np.log(1e-7))


def test_calibration_error_is_the_mean_distance_from_the_diagonal():
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]])
    y = np.array([0, 1, 0, 0])
    assert scores(p, y).expected_calibration_error == pytest.approx((2 * 0.4 + 2 * 0.4) / 4)


def test_certainty_falls_into_the_last_bin():
    assert reliability(np.array([[1.0, 0.0]]), np.array([0])).samples[-1] == 1


def test_worst_pairs_count_both_ways():
    confusion = np.array([[5, 2, 0], [3, 4, 1], [0, 0, 9]])
    label, predicted = (np.repeat(cells.ravel(), confusion.ravel()) for cells in np.indices(confusion.shape))
    assert Confusions.of(label, predicted, 3).worst_pairs(5) == [(0, 1, 5), (1, 2, 1)]
