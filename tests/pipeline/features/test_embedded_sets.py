"""The embedded sets: as hard as they say, and the same however many rows are drawn."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from pairloom.pipeline.features.embedded_sets import CLASSES, EMBEDDED, FEATURES, IMAGENET50, IMAGENET1000
from pairloom.pipeline.features.feature_set import load_features


def test_the_fifty_classes():
    assert len({row.wordnet_id for row in CLASSES}) == len({row.name for row in CLASSES}) == 50
    assert [row.wordnet_id for row in CLASSES] == sorted(row.wordnet_id for row in CLASSES)
    assert CLASSES[0][:2] == ("n01558993", "robin")
    assert CLASSES[46][:2] == ("n06874185", "traffic_light")


def test_features_look_like_a_rectified_layer():
    rows = IMAGENET50.rows_of_class(3, 20)
    assert rows.shape == (20, FEATURES)
    assert rows.min() == 0.0
    assert 0.3 < (rows == 0).mean() < 0.8
    np.testing.assert_array_equal(rows[:5], IMAGENET50.rows_of_class(3, 5))
    assert not np.array_equal(rows, IMAGENET50.rows_of_class(3, 20, test=True))


def test_the_set_as_large_as_the_papers_is_generated_as_it_is_read():
    X = EMBEDDED["imagenet50-synthetic-paper"]()["X_train"]
    assert X.shape == (500_000, FEATURES)
    np.testing.assert_array_equal(X.read(slice(30_000, 30_003)), IMAGENET50.rows_of_class(3, 3))


@pytest.mark.long
def test_a_linear_model_errs_on_one_sample_in_ten_to_five_within_super_classes():
    data = load_features("imagenet50-synthetic")
    assert data.synthetic
    assert data.X_test.shape == (2500, 512)
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(data.X_train, data.y_train)
    predicted = lda.predict(data.X_test)
    wrong = predicted != data.y_test
    superclass_of = {row.name: row.superclass for row in CLASSES}
    superclass = np.array([superclass_of[name] for name in data.classes])
    assert 0.10 < wrong.mean() < 0.20
    assert (superclass[predicted[wrong]] == superclass[data.y_test[wrong]]).mean() > 0.75


def test_a_thousand_classes_have_names_that_sort_in_their_order():
    assert len(set(IMAGENET1000.names)) == 1000
    assert sorted(IMAGENET1000.names) == list(IMAGENET1000.names)
    assert IMAGENET1000.names[0] == "class 0001"


def test_the_nearest_class_mean_is_seldom_right_and_errs_within_super_classes():
    means = np.stack([IMAGENET1000.rows_of_class(c, 40).mean(axis=0, dtype=np.float64) for c in range(1000)])
    labels = np.repeat(np.arange(0, 1000, 20), 10)
    X = np.concatenate([IMAGENET1000.rows_of_class(c, 10, test=True) for c in range(0, 1000, 20)])
    nearest = ((means**2).sum(axis=1) - 2 * X @ means.T).argmin(axis=1)
    wrong = nearest != labels
    assert 0.1 < 1 - wrong.mean() < 0.4, "by chance it would be 0.001"
    assert (nearest[wrong] // 10 == labels[wrong] // 10).mean() > 0.05, "by chance it would be 0.009"


def test_a_shorter_draw_is_the_beginning_of_a_longer_one():
    np.testing.assert_array_equal(IMAGENET1000.rows_of_class(7, 20)[:5], IMAGENET1000.rows_of_class(7, 5))
    assert not np.array_equal(IMAGENET1000.rows_of_class(7, 5), IMAGENET1000.rows_of_class(7, 5, test=True))
