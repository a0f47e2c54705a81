"""The machines of PairwiseSVC: costs, whitening, folds and any two-class learner."""

import numpy as np
import pytest
from fitted_models import blobs, fitted
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pairloom import PairwiseSVC
from pairloom.pipeline.machines.folds import class_folds
from pairloom.pipeline.machines.svm import fit_linear_svm, rounded_weights


def test_of_a_list_of_costs_one_with_nearly_the_least_log_loss_is_kept(digits):
    """The middle one is tried first. Which of those that cannot be told apart is kept, `best_candidate` says."""
    pinned = {"kernel": "linear", "standardise": False, "whiten": "none", "calibration": "platt"}
    model = fitted(digits, C=[1e-7, "scale", 1.0], **pinned)
    losses = {row["C"]: row["log_loss"] for row in model.candidates_}
    assert list(losses) == pytest.approx([10 / digits.X.var(axis=0).sum(), 1e-7, 1.0])
    assert len(set(losses.values())) == 3
    assert losses[model.C_] < min(losses.values()) + 0.01 < losses[1e-7]
    assert fitted(digits, C=1.0, **pinned).candidates_ == []
    assert fitted(digits, kernel="linear", C=2.5, whiten="none").C_ == 2.5


def test_the_cost_named_scale_is_ten_over_the_spread(data):
    spread = data.X.var(axis=0).sum()
    assert pytest.approx(10 / spread) == fitted(data, C="scale", whiten="none").C_


def test_auto_chooses_among_costs_whitenings_and_calibrations(data):
    """Both whitenings with the middle C, then the other values of C with the best; calibrations on the machines."""
    model = fitted(data)
    scale = 10 / data.X.var(axis=0).sum()
    rows = [(row["C"], row["whiten"], row["calibration"]) for row in model.candidates_]
    assert len(set(rows)) == len(rows) == 2 + 2
    assert [C for C, _, _ in rows] == pytest.approx([scale, scale, scale / 10, 10 * scale])
    assert [whiten for _, whiten, _ in rows[:2]] == ["none", 0.8]
    assert rows[2][1] == rows[3][1]
    assert {calibration for *_, calibration in rows} == {"slopes"}
    assert (model.C_, model.whiten_, "slopes") in rows
    assert [row["calibration"] for row in model.calibrations_[:3]] == ["distance", "slopes", "platt"]
    chosen = {"C": model.C_, "whiten": model.whiten_, "calibration": model.calibration_}
    chosen["coupling"] = model.coupling_
    pinned = fitted(data, **chosen)
    assert pinned.candidates_ == pinned.calibrations_ == []
    np.testing.assert_allclose(model.predict_proba(data.X_new), pinned.predict_proba(data.X_new), atol=1e-5)


@pytest.mark.parametrize("parameters", [{"coupled_calibration": "none"}, {"kernel": "sigmoid"}], ids=str)
def test_where_there_is_no_choice_of_a_calibration_it_is_platts(data, parameters):
    model = fitted(data, C=1.0, whiten="none", **parameters)
    assert model.calibration_ == "platt"
    assert model.candidates_ == []


@pytest.mark.parametrize("whiten", [0.0, 0.8])
def test_whitening_shapes_the_machines(data, whiten):
    model, plain = fitted(data, whiten=whiten), fitted(data, whiten="none")
    assert (model.whiten_, plain.whiten_) == (whiten, "none")
    assert (
        np.abs(model.machines_.coef - plain.machines_.coef).max() > 0.02 * np.abs(plain.machines_.coef).max()
    )
    assert model.score(data.X_new, data.y_new) > 0.95


def test_auto_whitens_where_the_classes_share_a_long_thin_shape(data):
    round_classes = fitted(data, whiten="auto")
    assert {row["whiten"] for row in round_classes.candidates_} == {"none", 0.8}
    assert round_classes.whiten_ == "none"
    # 12 samples per class are too few for a pair to find out which two of 40 features are noise.
    rng, y = np.random.default_rng(1), np.arange(240) % 20
    X = rng.standard_normal((240, 40)) * np.r_[6, 6, np.ones(38)] + 0.6 * rng.standard_normal((20, 40))[y]
    assert PairwiseSVC(whiten="auto", random_state=0, kernel="linear").fit(X, y).whiten_ == 0.8


def test_thresholds_shift_the_logits_of_the_pairs_and_nothing_else():
    wide = blobs(3, 2, 60, spread=6.0)
    without, shifted = (
        fitted(wide, whiten="none", coupled_calibration="none", thresholds=on) for on in (False, True)
    )
    assert (without.machines_.threshold == 0).all()
    assert (shifted.machines_.threshold != 0).all()
    for threshold, pair in zip(shifted.machines_.threshold, without.pairs_, strict=True):
        np.testing.assert_array_equal(shifted.pairs_[pair].weights, without.pairs_[pair].weights)
        assert shifted.pairs_[pair].bias == pytest.approx(without.pairs_[pair].bias - threshold, rel=1e-6)


@pytest.mark.parametrize("fit_on", ["rest", "fold"])
def test_machines_are_those_of_the_folds(data, fit_on):
    model = fitted(data, whiten="none", graph="star", C=0.1, fit_on=fit_on)
    normalisation = model.model_.normalisation
    X, y = normalisation(data.X), data.y
    a, b = X[y == 0], X[y == 1]
    folds = np.concatenate([class_folds(len(a), 4, 0, 0), class_folds(len(b), 4, 0, 1)])
    chosen = folds != 2 if fit_on == "rest" else folds == 2
    rows, signs = np.concatenate([a, b])[chosen], np.r_[np.ones(len(a)), -np.ones(len(b))][chosen]
    alone = fit_linear_svm(rows.astype(np.float32), signs, C=normalisation.inner_C(0.1))
    expected = rounded_weights(alone.coef, model.tol)
    np.testing.assert_allclose(model.machines_.coef[0, 2], expected, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:.*probability:FutureWarning")
def test_fit_on_all_is_near_to_libsvm():
    """LIBSVM draws its folds at random and couples by wlw2: close, not equal."""
    X, y = load_iris(return_X_y=True)
    ours = PairwiseSVC(
        "complete",
        coupling="wlw2",
        C=1.0,
        folds=5,
        fit_on="all",
        coupled_calibration="none",
        whiten="none",
        random_state=0,
        kernel="linear",
    ).fit(X, y)
    peer = SVC(kernel="linear", C=1.0, probability=True, random_state=0).fit(X, y)
    p, q = ours.predict_proba(X), peer.predict_proba(X)
    assert (p.argmax(axis=1) == q.argmax(axis=1)).mean() > 0.98
    assert np.abs(p - q).mean() < 0.03
    # The last machine is fitted on all samples, as LIBSVM's is, but on normalised features.
    normalisation = ours.model_.normalisation
    last = ours.machines_.coef[:, -1]
    np.testing.assert_allclose(np.ldexp(last, -normalisation.exponent), peer.coef_, rtol=0.05, atol=0.02)
    decision = normalisation(X) @ last[0] + ours.machines_.intercept[0, -1]
    np.testing.assert_allclose(decision, X @ peer.coef_[0] + peer.intercept_[0], atol=0.1)


@pytest.mark.parametrize(
    "estimator",
    [
        LinearDiscriminantAnalysis(),
        KNeighborsClassifier(3),
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=["lda", "neighbours", "logistic", "pipeline"],
)
def test_any_two_class_learner(data, estimator):
    X, y, X_new, y_new = data
    model = PairwiseSVC(estimator=estimator, C=[1.0, 2.0], random_state=0).fit(X, y)
    assert model.score(X_new, y_new) > 0.7
    assert (model.predict(X_new) == model.predict_proba(X_new).argmax(axis=1)).all()
    assert not hasattr(estimator, "classes_")
    # C is a parameter of the estimator itself, and only what is known to be linear has a choice of calibrations.
    compared = [row["calibration"] for row in model.calibrations_ if row["coupling"] == "stratified"]
    every = ["distance", "slopes", "platt"]
    assert compared == (every if isinstance(estimator, LogisticRegression) else every[-1:])
