"""PairwiseSVC with a kernel: the machines of scikit-learn's SVC, weighted, calibrated and coupled."""

import numpy as np
import pytest
from fitted_models import Problem, fitted
from scipy.sparse import csr_array
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_wine
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pairloom import PairwiseSVC

KERNELS = [
    {"kernel": "rbf", "gamma": 0.1},
    {"kernel": "poly", "gamma": 0.3, "degree": 2, "coef0": 1.0},
    {"kernel": "sigmoid", "gamma": 0.05, "coef0": -0.1},
]
PLAIN = {"C": 1.0, "graph": "complete", "fit_on": "all", "folds": 3, "calibration": "platt", "tol": 1e-8}


@pytest.fixture(scope="module")
def scaled(data):
    scaler = StandardScaler().fit(data.X)
    return data._replace(X=scaler.transform(data.X), X_new=scaler.transform(data.X_new))


def decision_values_of_whole_machines(model, X):
    """(E, R) decision values of the machines that were fitted on all samples of their pair (fit_on="all")."""
    trained, n_machines = model.model_.trained, model.machines_.intercept.shape[1]
    shares, (E, M) = np.eye(n_machines)[-1], model.machines_.intercept.shape
    plain = np.zeros((E, M, 2))
    plain[..., 0] = -1
    return trained._replace(machines=trained.machines._replace(platt=plain)).collapsed(shares)(
        model.model_.normalisation(X)
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["kernel"])
@pytest.mark.parametrize("weighted", ["", "class_weight", "sample_weight", "both"])
def test_the_machines_are_those_of_svc_with_its_weights(scaled, kernel, weighted):
    """SVC trains all pairs too, with one gamma; its decision values by pair are ours, first class positive."""
    # Odd weights: with all coefficients at bounds that add up to the same, any intercept in an interval is optimal.
    class_weight = {0: 3.1, 2: 0.37} if weighted in ("class_weight", "both") else None
    weight = np.random.default_rng(0).uniform(0.2, 2, 80) if weighted in ("sample_weight", "both") else None
    model = PairwiseSVC(**kernel, **PLAIN, class_weight=class_weight, random_state=0)
    model.fit(scaled.X, scaled.y, sample_weight=weight)
    peer = SVC(**kernel, C=1.0, tol=1e-8, decision_function_shape="ovo", class_weight=class_weight)
    peer.fit(scaled.X, scaled.y, sample_weight=weight)
    np.testing.assert_allclose(
        decision_values_of_whole_machines(model, scaled.X_new).T,
        peer.decision_function(scaled.X_new),
        atol=5e-5,
    )


@pytest.mark.parametrize("gamma", ["scale", "auto"])
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_words_for_gamma_mean_what_they_do_in_svc(data, gamma, kernel):
    model = PairwiseSVC(kernel=kernel, gamma=gamma, **PLAIN, random_state=0).fit(data.X, data.y)
    peer = SVC(kernel=kernel, gamma=gamma, C=1.0, tol=1e-8, decision_function_shape="ovo").fit(data.X, data.y)
    expected = peer.decision_function(data.X_new)
    np.testing.assert_allclose(
        decision_values_of_whole_machines(model, data.X_new).T, expected, atol=2e-5 * np.abs(expected).max()
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["kernel"])
def test_threads_do_not_change_a_bit(scaled, kernel):
    model, two = (fitted(scaled, **kernel, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert model.score(scaled.X_new, scaled.y_new) > 0.8
    np.testing.assert_array_equal(model.predict_proba(scaled.X_new), two.predict_proba(scaled.X_new))


def test_gamma_degree_and_coef0_matter(scaled):
    p = [
        fitted(scaled, kernel="poly", **changed).predict_proba(scaled.X_new)
        for changed in ({}, {"gamma": 0.05}, {"degree": 2}, {"coef0": 1.0})
    ]
    for a in range(4):
        for b in range(a):
            assert np.abs(p[a] - p[b]).max() > 0.01


def test_a_curved_kernel_separates_rings_that_a_line_cannot():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2200, 2))
    y = np.digitize(np.linalg.norm(X, axis=1), [0.8, 1.5])
    assert PairwiseSVC(kernel="rbf", random_state=0).fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.9
    with pytest.warns(UserWarning, match="does no better than guessing"):
        line = PairwiseSVC(kernel="linear", random_state=0).fit(X[:200], y[:200])
    assert line.score(X[200:], y[200:]) < 0.8


@pytest.mark.filterwarnings(
    "ignore:Training. . of 40 machines stopped:sklearn.exceptions.ConvergenceWarning",
    "ignore:PairwiseSVC. 1 of 5 classes have fewer:UserWarning",
)
def test_a_linear_gram_matrix_is_the_linear_kernel(data):
    X, y, X_new, _ = data
    centre = X.mean(axis=0)
    X, X_new = X - centre, X_new - centre
    linear = PairwiseSVC(C=1.0, whiten="none", tol=1e-5, random_state=0).fit(X, y)
    gram = PairwiseSVC(kernel="precomputed", C=1.0, tol=1e-5, random_state=0).fit(X @ X.T, y)
    np.testing.assert_array_equal(gram.edges_, linear.edges_)
    np.testing.assert_allclose(gram.predict_proba(X_new @ X.T), linear.predict_proba(X_new), atol=5e-4)
    scores = cross_val_score(PairwiseSVC(kernel="precomputed", C=1.0), X @ X.T, y, cv=2)
    assert scores.mean() > 0.6


def test_a_precomputed_matrix_may_be_weighted_and_is_the_kernel_itself(scaled):
    weight = np.random.default_rng(0).uniform(0.2, 2, 80)
    common = {"C": 1.0, "graph": "complete", "tol": 1e-6, "random_state": 0}
    direct = PairwiseSVC(kernel="poly", gamma=0.3, degree=2, coef0=1.0, **common)
    direct.fit(scaled.X, scaled.y, sample_weight=weight)

    def values(X):
        return polynomial_kernel(X, scaled.X, gamma=0.3, degree=2, coef0=1.0)

    matrix = PairwiseSVC(kernel="precomputed", **common).fit(values(scaled.X), scaled.y, sample_weight=weight)
    np.testing.assert_allclose(
        matrix.predict_proba(values(scaled.X_new)), direct.predict_proba(scaled.X_new), atol=1e-4
    )
    with pytest.raises(ValueError, match="X has 4 features, but PairwiseSVC is expecting 80"):
        matrix.predict_proba(scaled.X_new)


def test_a_weight_of_zero_is_no_sample(scaled):
    kept = np.arange(80) % 5 > 0
    weighted = PairwiseSVC(kernel="rbf", gamma=0.1, random_state=0).fit(
        scaled.X, scaled.y, sample_weight=kept
    )
    without = PairwiseSVC(kernel="rbf", gamma=0.1, random_state=0).fit(scaled.X[kept], scaled.y[kept])
    np.testing.assert_array_equal(weighted.predict_proba(scaled.X_new), without.predict_proba(scaled.X_new))


def test_sparse_samples_are_the_same_samples(data):
    dense = fitted(data, kernel="poly", coef0=1.0)
    sparse = PairwiseSVC(kernel="poly", coef0=1.0, random_state=0).fit(csr_array(data.X), data.y)
    np.testing.assert_array_equal(
        sparse.predict_proba(csr_array(data.X_new)), dense.predict_proba(data.X_new)
    )


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid"])
def test_the_unit_of_the_features_changes_no_bit(data, kernel, unit):
    one, other = (
        PairwiseSVC(kernel=kernel, random_state=0)
        .fit(data.X * scale, data.y)
        .predict_proba(data.X_new * scale)
        for scale in (1.0, unit)
    )
    np.testing.assert_array_equal(one, other)


def test_the_place_of_the_features_does_not_matter_to_the_radial_kernel(data):
    common = {"kernel": "rbf", "tol": 1e-6, "gamma": 0.02, "random_state": 0}
    near = PairwiseSVC(**common).fit(data.X, data.y).predict_proba(data.X_new)
    far = PairwiseSVC(**common).fit(data.X + 1e6, data.y).predict_proba(data.X_new + 1e6)
    np.testing.assert_allclose(far, near, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The scale of the coupled model:UserWarning")
def test_of_several_costs_and_calibrations_the_best_is_kept(scaled):
    model = fitted(scaled, kernel="rbf", C=[1e-3, 1.0, 100.0])
    rows = [(row["C"], row["whiten"], row["calibration"]) for row in model.candidates_]
    assert rows[0] == (1.0, "none", "slopes")
    assert {C for C, _, _ in rows[1:]} == {1e-3, 100.0}
    assert (model.C_, model.whiten_, "slopes") in rows
    losses = {row["calibration"]: row["log_loss"] for row in model.calibrations_[:3]}
    assert losses.keys() == {"distance", "slopes", "platt"}
    assert losses[model.calibration_] < min(losses.values()) + 0.1


def test_C_is_chosen_for_kernels_too_and_scale_is_10(scaled):
    model = fitted(scaled, kernel="rbf", calibration="platt")
    assert {row["C"] for row in model.candidates_} == {1.0, 10.0, 100.0}
    assert model.C_ in (1.0, 10.0, 100.0)
    assert fitted(scaled, kernel="rbf", C="scale", calibration="platt").C_ == 10.0


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("name", ["digits", "wine"])
def test_predictions_are_at_least_those_of_svc(kernel, name, digits):
    problem = digits
    if name == "wine":
        X, y = load_wine(return_X_y=True)
        X, order = StandardScaler().fit_transform(X), np.random.default_rng(0).permutation(len(y))
        X, y = X[order], y[order]
        problem = Problem(X[:100], y[:100], X[100:], y[100:])
    model = fitted(problem, kernel=kernel, graph="complete")
    peer = SVC(kernel=kernel, C=10.0).fit(problem.X, problem.y)
    p = model.predict_proba(problem.X_new)
    # One sample of 78, five of 500: the mean of four machines on three quarters each is another machine.
    assert model.score(problem.X_new, problem.y_new) >= peer.score(problem.X_new, problem.y_new) - 0.0129
    if name == "digits":
        sure = CalibratedClassifierCV(SVC(kernel=kernel, C=10.0), ensemble=False).fit(problem.X, problem.y)
        assert log_loss(problem.y_new, p) < log_loss(problem.y_new, sure.predict_proba(problem.X_new))


def test_a_kernel_and_the_same_kernel_of_scikit_learn_are_one_model(scaled):
    """estimator=SVC(...) trains the same machines by scikit-learn, for whom wants its solver."""
    common = {"graph": "complete", "random_state": 0, "calibration": "distance"}
    own = PairwiseSVC(kernel="rbf", gamma=0.1, C=1.0, tol=1e-6, **common).fit(scaled.X, scaled.y)
    foreign = PairwiseSVC(estimator=SVC(gamma=0.1, C=1.0, tol=1e-6), **common).fit(scaled.X, scaled.y)
    assert own.scale_ == pytest.approx(foreign.scale_, rel=1e-3)
    np.testing.assert_allclose(
        own.predict_proba(scaled.X_new), foreign.predict_proba(scaled.X_new), atol=1e-4
    )
    gram = PairwiseSVC(kernel="precomputed", C=1.0, tol=1e-6, **common)
    gram.fit(rbf_kernel(scaled.X, gamma=0.1), scaled.y)
    p = gram.predict_proba(rbf_kernel(scaled.X_new, scaled.X, gamma=0.1))
    np.testing.assert_allclose(p, own.predict_proba(scaled.X_new), atol=1e-5)


@pytest.mark.parametrize("coef0", [-1.0, 1.0])
def test_distances_are_for_polynomials_that_are_inner_products(scaled, coef0):
    model = PairwiseSVC(kernel="poly", coef0=coef0, calibration="distance", random_state=0)
    if coef0 < 0:
        with pytest.raises(
            ValueError, match=r"a polynomial with coef0 < 0 is.* got kernel='poly', coef0=-1.0"
        ):
            model.fit(scaled.X, scaled.y)
        assert fitted(scaled, kernel="poly", coef0=coef0).calibration_ == "platt"
    else:
        assert model.fit(scaled.X, scaled.y).calibration_ == "distance"
