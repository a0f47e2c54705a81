from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, log_loss

from pairloom.pipeline.display.evaluation import confusion_counts, reliability, scores, worst_pairs

random = np.random.default_rng(0)
P = random.dirichlet(np.ones(4), 200)
Y = np.array([random.choice(4, p=row) for row in P])


def test_scores_are_those_of_scikit_learn():
    found = scores(P, Y)
    assert found.accuracy == accuracy_score(Y, P.argmax(axis=1))
    assert found.log_loss == pytest.approx(log_loss(Y, P))
    np.testing.assert_array_equal(confusion_counts(P, Y), confusion_matrix(Y, P.argmax(axis=1)))


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
    assert worst_pairs(confusion, 5) == [(0, 1, 5), (1, 2, 1)]
