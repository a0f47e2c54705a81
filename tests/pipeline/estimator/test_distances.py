"""calibration="distance": logits are distances to the hyperplane, in feature space where there is a kernel."""

import numpy as np
import pytest
from fitted_models import fitted
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from pairloom import PairwiseSVC

DISTANCE = {"calibration": "distance", "graph": "complete", "random_state": 0}
GAMMA = 0.02


def norm_in_feature_space(machine, gamma):
    """|w| = sqrt(sum over support vectors of alpha_i alpha_j k(x_i, x_j)), by two loops."""
    total = 0.0
    for a, x in zip(machine.dual_coef_[0], machine.support_vectors_, strict=True):
        for b, z in zip(machine.dual_coef_[0], machine.support_vectors_, strict=True):
            total += a * b * np.exp(-gamma * ((x - z) ** 2).sum())
    return np.sqrt(total)


def test_of_a_kernel_they_are_measured_in_feature_space(data):
    model = fitted(data, estimator=SVC(gamma=GAMMA, C=1.0), **DISTANCE)
    assert model.calibration_ == "distance"
    assert model.candidates_ == []
    for pair in model.machines_[:3]:
        norms = [norm_in_feature_space(machine, GAMMA) for machine in pair.estimators]
        np.testing.assert_allclose(pair.platt, [(-1 / norm, 0) for norm in norms], rtol=1e-6)


def test_a_precomputed_kernel_is_the_same_model(data):
    X, y, X_new, _ = data
    direct = fitted(data, estimator=SVC(gamma=GAMMA, C=1.0, tol=1e-7), **DISTANCE)
    gram = PairwiseSVC(kernel="precomputed", C=1.0, tol=1e-7, **DISTANCE).fit(rbf_kernel(X, gamma=GAMMA), y)
    assert gram.scale_ == pytest.approx(direct.scale_, rel=1e-4)
    p = gram.predict_proba(rbf_kernel(X_new, X, gamma=GAMMA))
    np.testing.assert_allclose(p, direct.predict_proba(X_new), atol=1e-5)
    platt = PairwiseSVC(kernel="precomputed", C=1.0, **DISTANCE | {"calibration": "platt"})
    assert (
        np.abs(
            platt.fit(rbf_kernel(X, gamma=GAMMA), y).predict_proba(rbf_kernel(X_new, X, gamma=GAMMA)) - p
        ).max()
        > 0.01
    )


def test_sparse_samples_have_the_same_distances(data):
    dense = fitted(data, kernel="rbf", C=1.0, **DISTANCE)
    sparse = PairwiseSVC(kernel="rbf", C=1.0, **DISTANCE).fit(csr_array(data.X), data.y)
    p = sparse.predict_proba(csr_array(data.X_new))
    np.testing.assert_allclose(p, dense.predict_proba(data.X_new), atol=1e-5)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "precomputed"])
def test_every_kernel_that_is_an_inner_product_has_them(data, kernel):
    X, X_new = data.X, data.X_new
    if kernel == "precomputed":
        X, X_new = rbf_kernel(X, gamma=GAMMA), rbf_kernel(X_new, X, gamma=GAMMA)
    model = PairwiseSVC(kernel=kernel, C=1.0, **DISTANCE).fit(X, data.y)
    assert model.score(X_new, data.y_new) >= 0.9


@pytest.mark.filterwarnings("ignore:Training. . of 40 machines stopped:sklearn.exceptions.ConvergenceWarning")
def test_a_kernel_that_is_the_linear_one_has_the_distances_of_linear_machines(data):
    centred = data._replace(X=data.X - data.X.mean(axis=0), X_new=data.X_new - data.X.mean(axis=0))
    linear = fitted(centred, C=1.0, whiten="none", tol=1e-5, **DISTANCE)
    gram = PairwiseSVC(kernel="precomputed", C=1.0, **DISTANCE).fit(centred.X @ centred.X.T, data.y)
    p = gram.predict_proba(centred.X_new @ centred.X.T)
    np.testing.assert_allclose(p, linear.predict_proba(centred.X_new), atol=2e-3)


@pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC(random_state=0)], ids=str)
def test_a_linear_classifier_of_scikit_learn_has_them(data, estimator):
    model = fitted(data, estimator=estimator, **DISTANCE)
    assert model.calibration_ == "distance"
    for pair in model.machines_:
        for machine, (A, B) in zip(pair.estimators, pair.platt, strict=True):
            assert pytest.approx(-1 / np.linalg.norm(machine.coef_), rel=1e-12) == A
            assert B == 0
    assert model.score(data.X_new, data.y_new) > 0.9
    # Logits are the mean distance times one slope, which is the scale.
    e, (i, j) = 0, model.edges_[0]
    pair = model.machines_[e]
    distances = [m.decision_function(data.X_new) / np.linalg.norm(m.coef_) for m in pair.estimators]
    two = np.isin(data.y, (i, j))
    assert two.any()
    logits = model.model_.trained.collapsed(model.model_.settings.scheme.shares)(data.X_new)[e]
    np.testing.assert_allclose(logits, np.mean(distances, axis=0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(model.model_.coupled.slope, np.full(len(model.edges_), model.scale_))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"coupled_calibration": "none"},
            "calibration='distance' needs coupled_calibration='scale' or 'edges'.* got 'none'",
        ),
        (
            {"kernel": "sigmoid"},
            "calibration='distance' needs machines whose norm in feature space is known .* got kernel='sigmoid'",
        ),
        (
            {"estimator": KNeighborsClassifier(3)},
            "calibration='distance' needs machines whose norm .* got estimator=KNeighborsClassifier",
        ),
        (
            {"estimator": make_pipeline(StandardScaler(), LogisticRegression())},
            "calibration='distance' needs machines whose norm .* got estimator=Pipeline",
        ),
        (
            {"estimator": SVC(kernel="sigmoid")},
            "calibration='distance' needs machines whose norm .* got estimator=SVC",
        ),
    ],
    ids=["no scale", "sigmoid", "neighbours", "pipeline", "sigmoid estimator"],
)
def test_what_cannot_be_measured_or_scaled_is_refused(data, parameters, message):
    with pytest.raises(ValueError, match=f"(?s)PairwiseSVC: {message}"):
        fitted(data, **DISTANCE | parameters)
