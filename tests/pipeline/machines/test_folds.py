import warnings

import numpy as np
import pytest

from pairloom.pipeline.machines.folds import (
    NEVER_HELD_OUT,
    PARTS,
    class_folds,
    class_parts,
    fold_scheme,
    folds_of,
    usable_folds,
)


@pytest.mark.parametrize("n", [5, 7, 100])
@pytest.mark.parametrize("n_folds", [2, 4, 5])
def test_folds_are_even_and_depend_on_seed_and_class_only(n, n_folds):
    folds = class_folds(n, n_folds, 3, 8)
    counts = np.bincount(folds, minlength=n_folds)
    assert counts.sum() == n
    assert counts.max() - counts.min() <= 1
    np.testing.assert_array_equal(folds, class_folds(n, n_folds, 3, 8))
    if n == 100:
        assert (folds != class_folds(n, n_folds, 3, 9)).any()
        assert (folds != class_folds(n, n_folds, 4, 8)).any()


@pytest.mark.parametrize("n_folds", [2, 4, 5])
def test_a_class_with_fewer_samples_than_folds_is_never_held_out(n_folds):
    for n in range(1, n_folds):
        np.testing.assert_array_equal(class_folds(n, n_folds, 3, 8), np.full(n, NEVER_HELD_OUT))
        np.testing.assert_array_equal(class_parts(n, n_folds, 3, 8), np.full(n, NEVER_HELD_OUT))
    assert sorted(class_folds(n_folds, n_folds, 3, 8)) == list(range(n_folds))
    np.testing.assert_array_equal(class_parts(n_folds, n_folds, 3, 8), np.zeros(n_folds))


@pytest.mark.parametrize("n", [5, 7, 33, 100])
@pytest.mark.parametrize("n_folds", [2, 4, 5])
def test_every_fold_is_dealt_evenly_into_parts(n, n_folds):
    dealt = (n, n_folds, 3, 8)
    folds, parts = class_folds(*dealt), class_parts(*dealt)
    assert set(parts) == set(range(min(PARTS, -(-n // n_folds))))
    for k in range(n_folds):
        counts = np.bincount(parts[folds == k], minlength=PARTS)
        assert counts.max() - counts.min() <= 1
    np.testing.assert_array_equal(parts, class_parts(*dealt))
    if n == 100:
        assert (parts != class_parts(n, n_folds, 3, 9)).any()
        assert (parts != class_parts(n, n_folds, 4, 8)).any()


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        (
            4,
            "Fit: 2 of 5 classes have fewer than 4 samples, the least has 1: all their samples train every machine",
        ),
        ("auto", "Fit: 1 of 5 classes have a single sample, which trains every machine"),
    ],
)
def test_rare_classes_are_counted_in_one_warning(folds, message):
    with pytest.warns(UserWarning, match=message) as caught:
        assert usable_folds(folds, np.array([90, 3, 1, 40, 16]), "Fit") == 4
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("folds", "counts", "usable"),
    [
        (4, [9, 4, 5], 4),
        (3, [3, 3], 3),
        ("auto", [3, 3], 3),
        ("auto", [2, 2, 2], 2),
        ("auto", [8, 9], 8),
        ("auto", [2, 90], 4),
    ],
)
def test_folds_that_every_class_can_fill_are_no_warning(folds, counts, usable):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert usable_folds(folds, np.array(counts), "Fit") == usable


@pytest.mark.parametrize(
    ("counts", "folds"),
    [
        ([16, 16, 16], 4),
        ([15, 15, 40], 8),
        ([2, 16, 1000], 4),
        ([2, 15, 1000], 8),
        ([7, 7, 7], 7),
        ([3, 2], 3),
        ([1, 40, 40], 4),
    ],
)
def test_auto_is_more_folds_where_half_of_the_classes_are_small(counts, folds):
    assert folds_of("auto", np.array(counts)) == folds


@pytest.mark.parametrize(
    ("counts", "fit_on", "folds"),
    [
        ([16, 16, 16], "rest", 8),
        ([4096, 4096], "rest", 8),
        ([4096, 4097], "rest", 4),
        ([16, 15, 400], "rest", 4),
        ([16, 16, 16], "all", 4),
        ([16, 16, 16], "fold", 4),
        ([16, 16, 16], "fold_alone", 4),
        ([9, 2, 3], "fold", 8),
    ],
)
def test_auto_is_more_folds_for_machines_with_a_kernel_on_few_samples(counts, fit_on, folds):
    assert folds_of("auto", np.array(counts), kernel_on_pairs=True, fit_on=fit_on) == folds


@pytest.mark.parametrize("folds", [2, 4, 100])
def test_folds_that_were_asked_for_are_taken_as_they_are(folds):
    assert folds_of(folds, np.array([5, 2, 3])) == folds


def test_more_folds_than_the_largest_class_has_samples_are_an_error():
    message = "Fit: folds must be at least 2 and at most the size of the largest class, 5, got 6"
    with pytest.raises(ValueError, match=message):
        usable_folds(6, np.array([5, 2, 3]), "Fit")


@pytest.mark.parametrize("folds", [4, "auto"])
def test_one_sample_of_each_class_is_an_error(folds):
    with pytest.raises(
        ValueError, match="Fit: a class must have at least 2 samples, to hold one out, got one of"
    ):
        usable_folds(folds, np.array([1, 1, 1]), "Fit")


def test_rest():
    scheme = fold_scheme(3, "rest")
    own = np.eye(3)
    np.testing.assert_array_equal(scheme.fitted_on, 1 - own)
    np.testing.assert_array_equal(scheme.calibrated_on, own)
    np.testing.assert_array_equal(scheme.out_of_fold, own)
    np.testing.assert_allclose(scheme.shares, 1 / 3)


def test_fold():
    scheme = fold_scheme(3, "fold")
    own = np.eye(3)
    np.testing.assert_array_equal(scheme.fitted_on, own)
    np.testing.assert_array_equal(scheme.calibrated_on, 1 - own)
    np.testing.assert_allclose(scheme.out_of_fold, (1 - own) / 2)


def test_all_predicts_with_the_machine_that_saw_everything():
    scheme = fold_scheme(3, fit_on="all")
    assert scheme.n_machines == 4
    assert scheme.pooled
    np.testing.assert_array_equal(scheme.shares, [0, 0, 0, 1])
    assert scheme.fitted_on[-1].all()
    assert not scheme.calibrated_on[-1].any()


@pytest.mark.parametrize("n_folds", [2, 3, 5])
@pytest.mark.parametrize("fit_on", ["rest", "fold", "all"])
def test_no_machine_judges_what_it_was_fitted_on(n_folds, fit_on):
    scheme = fold_scheme(n_folds, fit_on)
    assert not (scheme.fitted_on & scheme.calibrated_on).any()
    assert not (scheme.fitted_on.T & (scheme.out_of_fold > 0)).any()
    np.testing.assert_allclose(scheme.out_of_fold.sum(axis=1), 1)
    np.testing.assert_allclose(scheme.shares.sum(), 1)
    # Every fold calibrates some machine.
    assert scheme.calibrated_on.any(axis=0).all()
