"""Machines that know one fold alone: LIBSVM's on standardised samples, with the sigmoid of a cross-validation."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.calibration import _SigmoidCalibration
from sklearn.svm import SVC

from pairloom import PairwiseSVC
from pairloom.pipeline.machines.fold_alone import FoldSamples, fit_alone
from pairloom.pipeline.machines.folds import INNER_FOLDS, class_folds, class_parts

AS_IN_E1071 = {
    "kernel": "linear",
    "C": 1.0,
    "folds": 4,
    "fit_on": "fold_alone",
    "calibration": "platt",
    "coupled_calibration": "none",
    "standardise": False,
    "whiten": "none",
    "shortlist": "none",
    "random_state": 0,
}


@pytest.fixture(scope="module")
def fold():
    """Two overlapping classes, of 60 and 45 samples, in columns of very different units; one column is constant."""
    rng = np.random.default_rng(0)
    y = np.r_[np.ones(60), -np.ones(45)]
    rows = rng.standard_normal((105, 6)) + 0.8 * (y[:, None] > 0)
    rows = np.column_stack([rows * 10.0 ** np.arange(-3, 3) + 5, np.full(105, 3.0)]).astype(np.float32)
    inner = np.concatenate([rng.permutation(np.arange(n) % INNER_FOLDS) for n in (60, 45)])
    return FoldSamples(rows, y, np.ones(105), np.ones(105), inner)


def by_libsvm(fold):
    """Standardised rows as e1071 has them, and LIBSVM's machine of the chosen ones."""
    deviation = fold.rows.std(axis=0, ddof=1, dtype=np.float64)
    rows = (fold.rows - fold.rows.mean(axis=0, dtype=np.float64)) / np.where(deviation > 0, deviation, 1)
    return rows, lambda chosen: SVC(kernel="linear", C=1.0, tol=1e-6).fit(rows[chosen], fold.y[chosen])


def test_the_machine_is_that_of_libsvm_on_standardised_samples(fold):
    machine = fit_alone(fold, 1e-6, 10**6)
    rows, fitted = by_libsvm(fold)
    np.testing.assert_allclose(
        fold.rows @ machine.coef.astype(np.float64) + machine.intercept,
        fitted(np.ones(105, bool)).decision_function(rows),
        atol=2e-3,
    )


def test_the_sigmoid_is_that_of_cross_validated_decision_values(fold):
    """The decision values by LIBSVM, the sigmoid by scikit-learn."""
    rows, fitted = by_libsvm(fold)
    f = np.empty(105)
    for k in range(INNER_FOLDS):
        f[fold.inner == k] = fitted(fold.inner != k).decision_function(rows[fold.inner == k])
    sigmoid = _SigmoidCalibration().fit(f, fold.y > 0)
    A, B = fit_alone(fold, 1e-6, 10**6).platt
    assert pytest.approx((sigmoid.a_, sigmoid.b_), rel=0.01) == (A, B)


def test_the_sigmoid_is_among_those_that_libsvm_draws(fold):
    """LIBSVM draws its five folds from its own seed: its slopes vary, and ours is one of them."""
    rows, _ = by_libsvm(fold)
    slopes = []
    for seed in range(30):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of probability=True
            slopes.append(
                SVC(kernel="linear", C=1.0, probability=True, random_state=seed).fit(rows, fold.y).probA_[0]
            )
    assert min(slopes) <= fit_alone(fold, 1e-3, 10**6).platt[0] <= max(slopes)


def test_the_unit_of_a_column_does_not_matter(fold):
    machine = fit_alone(fold, 1e-6, 10**6)
    units = np.array([4.0, 0.5, 2.0, 8.0, 1.0, 0.25, 1.0], np.float32)
    changed = fit_alone(fold._replace(rows=fold.rows * units), 1e-6, 10**6)
    np.testing.assert_allclose(changed.coef * units, machine.coef, rtol=1e-5)
    assert changed.platt == pytest.approx(machine.platt, rel=1e-5)


def test_the_pair_has_the_mean_logit_of_its_folds():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 5)) + np.repeat([[0.0], [1.0]], 40, axis=0)
    y = np.repeat([0, 1], 40)
    model = PairwiseSVC("complete", **AS_IN_E1071).fit(X, y)
    centred = (X - X.mean(axis=0)).astype(np.float32)
    folds, inner = (
        np.concatenate([of(40, 4, 0, c, *more) for c in (0, 1)])
        for of, more in ((class_folds, ()), (class_parts, (INNER_FOLDS,)))
    )
    logits = np.zeros(80)
    for k in range(4):
        own = folds == k
        ones = np.ones(own.sum())
        machine = fit_alone(
            FoldSamples(centred[own], 1.0 - 2.0 * y[own], ones, ones, inner[own]), 1e-3, 10**6
        )
        A, B = machine.platt
        logits -= (A * (centred @ machine.coef + machine.intercept) + B) / 4
    np.testing.assert_allclose(model.predict_proba(X)[:, 0], 1 / (1 + np.exp(-logits)), atol=1e-4)


@pytest.mark.parametrize("rare", [1, 3, 4, 6])
def test_classes_with_few_samples_are_trained(rare):
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1, 2], [30, 30, rare])
    X = 3.0 * np.eye(3)[y] + rng.standard_normal((len(y), 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the rare class
        model = PairwiseSVC("complete", **AS_IN_E1071).fit(X, y)
    assert np.isfinite(model.machines_.coef).all()
    assert model.score(X[y != 2], y[y != 2]) > 0.8


def test_sparse_features_are_refused():
    X, y = sparse.csr_array(np.eye(8)), np.repeat([0, 1], 4)
    with pytest.raises(ValueError, match="fit_on must be another than 'fold_alone' for sparse features"):
        PairwiseSVC("complete", **AS_IN_E1071).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "needs"),
    [
        ({"kernel": "rbf"}, "kernel='linear'.* got kernel='rbf'"),
        ({"calibration": "auto"}, "calibration='platt'.* got calibration='auto'"),
        ({"thresholds": True}, "thresholds=False.* got thresholds=True"),
        ({"standardise": "auto"}, "standardise=False.* got standardise='auto'"),
        ({"whiten": 0.8}, "whiten='none'.* got whiten=0.8"),
    ],
)
def test_other_machines_are_refused(parameters, needs):
    with pytest.raises(ValueError, match=f"PairwiseSVC: fit_on='fold_alone' needs {needs}"):
        PairwiseSVC("complete", **AS_IN_E1071 | parameters).fit(np.eye(8), np.repeat([0, 1], 4))
