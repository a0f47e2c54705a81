"""Columns divided by their standard deviation: as by a StandardScaler, in everything that a model does."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pairloom import PairwiseSVC


@pytest.fixture(scope="module")
def wine():
    """Thirteen measurements in different units: the proline of a wine is 750, its hue 1."""
    X, y = load_wine(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))
    return X[rows], y[rows]


@pytest.mark.parametrize(
    "parameters",
    [
        {"C": 0.05, "whiten": "none"},
        {"C": "auto"},
        {"kernel": "rbf"},
        {"kernel": "rbf", "gamma": "auto"},
        {"kernel": "poly", "coef0": 1.0},
        {"kernel": "sigmoid", "gamma": 0.02},
    ],
)
def test_it_is_a_standard_scaler_before_the_model(wine, parameters):
    X, y = wine
    model = PairwiseSVC("complete", standardise=True, random_state=0, tol=1e-6, **parameters).fit(X, y)
    scaled = make_pipeline(
        StandardScaler(), PairwiseSVC("complete", random_state=0, tol=1e-6, **parameters)
    ).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), scaled.predict_proba(X), atol=2e-4)
    assert pytest.approx(model.C_) == scaled[-1].C_


@pytest.mark.filterwarnings("ignore:PairwiseSVC. columns differ in scale:UserWarning")
def test_it_helps_where_columns_have_different_units(wine):
    X, y = wine
    plain, standardised = (
        PairwiseSVC("complete", whiten="none", C="scale", standardise=choice, random_state=0)
        .fit(X[:100], y[:100])
        .score(X[100:], y[100:])
        for choice in (False, True)
    )
    assert standardised > plain


def test_new_rows_are_standardised_by_the_training_rows(wine):
    X, y = wine
    model = PairwiseSVC("complete", standardise=True, kernel="linear", random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X[:1]), model.predict_proba(X)[:1], atol=1e-9)


def test_the_logits_of_pairs_are_on_features_as_they_come(wine):
    X, y = wine
    model = PairwiseSVC("complete", coupling="vote", standardise=True, kernel="linear", random_state=0).fit(
        X, y
    )
    weights, bias, _ = model.pairs_[0, 1]
    two = PairwiseSVC("complete", standardise=True, kernel="linear", random_state=0).fit(X[y < 2], y[y < 2])
    weights, bias, _ = two.pairs_[1, 0]
    np.testing.assert_allclose(
        X[y < 2] @ weights + bias, two.decision_function(X[y < 2]), rtol=1e-3, atol=1e-3
    )


def test_a_standardised_model_is_saved_grown_and_given_classes(wine, tmp_path):
    X, y = wine
    old = y != 2
    model = PairwiseSVC("star", standardise=True, kernel="linear", random_state=0).fit(X[old], y[old])
    deviation = model.model_.normalisation.deviation
    model.add_class(2, X[~old], X[old], y[old])
    assert model.score(X, y) > 0.95
    # The columns keep the units of the fit: every machine that is there stays as it is.
    np.testing.assert_array_equal(model.model_.normalisation.deviation, deviation)
    model.remove_class(0)
    model.save(tmp_path / "model")
    loaded = PairwiseSVC.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    growing = PairwiseSVC("star", standardise=True, kernel="linear", random_state=0).fit(X, y)
    assert [wave.pairs for wave in growing.grow(X, y, wave=1, plateau="never")] == [2, 3]
    assert growing.score(X, y) > 0.95


def test_machines_that_take_features_as_they_come_refuse_it(wine):
    X, y = wine
    with pytest.raises(ValueError, match=r"standardise must be False with an estimator.*StandardScaler"):
        PairwiseSVC(estimator=LogisticRegression(), standardise=True).fit(X, y)
    with pytest.raises(ValueError, match="standardise must be False with kernel='precomputed'"):
        PairwiseSVC(kernel="precomputed", standardise=True).fit(X @ X.T, y)
    with pytest.raises(ValueError, match="standardise must be True, False or 'auto', got 'yes'"):
        PairwiseSVC(standardise="yes").fit(X, y)
