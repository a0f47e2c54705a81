from __future__ import annotations

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from pairloom.pipeline.features.feature_set import EMBEDDED, load_features
from pairloom.pipeline.features.imagenet50 import CLASSES, FEATURES, synthetic_class


def test_the_fifty_classes():
    assert len({row.wordnet_id for row in CLASSES}) == len({row.name for row in CLASSES}) == 50
    assert [row.wordnet_id for row in CLASSES] == sorted(row.wordnet_id for row in CLASSES)
    assert CLASSES[0][:2] == ("n01558993", "robin")
    assert CLASSES[46][:2] == ("n06874185", "traffic_light")


def test_features_look_like_a_rectified_layer():
    rows = synthetic_class(3, 20)
    assert rows.shape == (20, FEATURES)
    assert rows.min() == 0.0
    assert 0.3 < (rows == 0).mean() < 0.8
    np.testing.assert_array_equal(rows[:5], synthetic_class(3, 5))
    assert not np.array_equal(rows, synthetic_class(3, 20, test=True))


def test_the_set_as_large_as_the_papers_is_generated_as_it_is_read():
    X = EMBEDDED["imagenet50-synthetic-paper"]()["X_train"]
    assert X.shape == (500_000, FEATURES)
    np.testing.assert_array_equal(X.read(slice(30_000, 30_003)), synthetic_class(3, 3))


def test_a_linear_model_errs_on_one_sample_in_ten_to_five_within_super_classes():
    data = load_features("imagenet50-synthetic")
    assert data.synthetic
    assert data.X_test.shape == (2500, 512)
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(data.X_train, data.y_train)
    predicted = lda.predict(data.X_test)
    wrong = predicted != data.y_test
    superclass = np.array([row.superclass for row in CLASSES])
    assert 0.10 < wrong.mean() < 0.20
    assert (superclass[predicted[wrong]] == superclass[data.y_test[wrong]]).mean() > 0.75
