import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from pairloom.pipeline.experiments import softmax_layer
from pairloom.pipeline.experiments.softmax_layer import softmax_answers


def test_the_layer_is_as_good_as_a_logistic_regression(digits_features, digits):
    data = digits_features
    scaler = StandardScaler().fit(data.X_train)
    other = LogisticRegression(max_iter=1000).fit(scaler.transform(data.X_train), data.y_train)
    accuracy = np.mean(digits.network.argmax(axis=1) == data.y_test)
    assert accuracy == pytest.approx(other.score(scaler.transform(data.X_test), data.y_test), abs=0.02)
    np.testing.assert_allclose(digits.network.sum(axis=1), 1, rtol=1e-5)
    assert digits.stand_in


def test_the_confusion_is_out_of_fold(digits_features):
    """A layer that knows its samples by heart would confuse none of them, even if their labels are random."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 300)).astype(np.float32), np.arange(200) % 4
    data = digits_features._replace(X_train=X, y_train=y, X_test=X[:8], y_test=y[:8], classes=tuple("abcd"))
    answers = softmax_answers(data)
    assert (answers.probabilities.argmax(axis=1) == y[:8]).all()
    assert np.trace(answers.confusion) < 100
    np.testing.assert_array_equal(answers.confusion.sum(axis=1), 50)


def test_neither_threads_nor_other_rows_of_the_same_kind_change_the_answers(digits_features, monkeypatch):
    first, again = (softmax_answers(digits_features, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(first.probabilities, again.probabilities)
    np.testing.assert_array_equal(first.confusion, again.confusion)
    monkeypatch.setattr(softmax_layer, "MOST_ROWS", 500)
    fewer = softmax_answers(digits_features)
    np.testing.assert_array_equal(fewer.confusion.sum(axis=1), 50)
    assert np.mean(fewer.probabilities.argmax(axis=1) == first.probabilities.argmax(axis=1)) > 0.9


def test_a_class_that_is_never_held_out_has_a_layer_too(digits_features):
    few = (digits_features.y_train != 3) | (np.cumsum(digits_features.y_train == 3) <= 2)
    data = digits_features._replace(
        X_train=digits_features.X_train[few], y_train=digits_features.y_train[few]
    )
    answers = softmax_answers(data)
    assert answers.confusion[3].sum() == 0
    assert (answers.probabilities[:, 3] > 0).all()
