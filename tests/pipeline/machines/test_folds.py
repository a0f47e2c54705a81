import numpy as np
import pytest

from pairloom.pipeline.machines.folds import class_folds, fold_scheme


@pytest.mark.parametrize("n", [2, 3, 7, 100])
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
