"""Baselines of a report, compared with scikit-learn's."""

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.metrics import log_loss

from pairloom.pipeline.display.evaluation import scores_of
from pairloom.pipeline.report.score_tables import by_frequencies, by_nearest


def test_class_frequencies_score_as_the_dummy_classifier():
    rng = np.random.default_rng(0)
    y, y_new = rng.choice(7, 300, p=np.arange(1, 8) / 28), rng.integers(7, size=90)
    dummy = DummyClassifier(strategy="prior").fit(np.zeros((300, 1)), y)
    found = scores_of(by_frequencies(np.bincount(y, minlength=7), y_new))
    p = dummy.predict_proba(np.zeros((90, 1)))
    assert found.accuracy == dummy.score(np.zeros((90, 1)), y_new)
    np.testing.assert_allclose(found.log_loss, log_loss(y_new, p, labels=np.arange(7)))
    likeliest = np.argsort(-np.bincount(y, minlength=7), kind="stable")[:5]
    assert found.top_5_accuracy == np.isin(y_new, likeliest).mean()


def test_scores_that_are_no_probabilities_have_no_log_loss():
    found = scores_of(by_nearest(np.array([[3.0, 1.0], [0.0, 2.0]]), np.array([0, 0])))
    assert found.accuracy == 0.5
    assert found.top_5_accuracy == 1.0
    assert np.isnan([found.log_loss, found.expected_calibration_error]).all()
