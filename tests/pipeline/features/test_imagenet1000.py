from __future__ import annotations

import numpy as np

from pairloom.pipeline.features.imagenet1000 import NAMES, synthetic_class


def test_a_thousand_classes_have_names_that_sort_in_their_order():
    assert len(set(NAMES)) == 1000
    assert sorted(NAMES) == NAMES
    assert NAMES[0] == "class 0001"


def test_the_nearest_class_mean_is_seldom_right_and_errs_within_super_classes():
    means = np.stack([synthetic_class(c, 40).mean(axis=0, dtype=np.float64) for c in range(1000)])
    labels = np.repeat(np.arange(0, 1000, 20), 10)
    X = np.concatenate([synthetic_class(c, 10, test=True) for c in range(0, 1000, 20)])
    nearest = ((means**2).sum(axis=1) - 2 * X @ means.T).argmin(axis=1)
    wrong = nearest != labels
    assert 0.1 < 1 - wrong.mean() < 0.4, "by chance it would be 0.001"
    assert (nearest[wrong] // 10 == labels[wrong] // 10).mean() > 0.05, "by chance it would be 0.009"


def test_a_shorter_draw_is_the_beginning_of_a_longer_one():
    np.testing.assert_array_equal(synthetic_class(7, 20)[:5], synthetic_class(7, 5))
    assert not np.array_equal(synthetic_class(7, 5), synthetic_class(7, 5, test=True))
