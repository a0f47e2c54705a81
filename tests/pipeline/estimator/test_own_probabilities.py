"""Two-class learners with probabilities of their own, used as they are: calibration="none" [HT 4]."""

import numpy as np
import pytest
from fitted_models import blobs, fitted
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from pairloom import PairwiseSVC, couple

AS_THEY_ARE = {"graph": "complete", "calibration": "none", "coupled_calibration": "none", "random_state": 0}
PROBABILISTIC = ["stratified", "wlw2", "normal", "bradley_terry"]


@pytest.fixture(scope="module")
def shaped():
    """Four classes of unequal shapes and sizes: training samples, new ones."""
    rng = np.random.default_rng(3)
    y = rng.choice(4, 600, p=[0.4, 0.3, 0.2, 0.1])
    shapes = rng.standard_normal((4, 3, 3))
    X = (
        np.einsum("nij,nj->ni", shapes[y], rng.standard_normal((600, 3)))
        + 1.5 * rng.standard_normal((4, 3))[y]
    )
    return X[:300], y[:300], X[300:]


@pytest.mark.parametrize("coupling", PROBABILISTIC)
@pytest.mark.parametrize(
    "learner",
    [QuadraticDiscriminantAnalysis(), make_pipeline(StandardScaler(), QuadraticDiscriminantAnalysis())],
    ids=["qda", "pipeline"],
)
def test_pairwise_qda_is_qda(shaped, learner, coupling):
    """Every pair has the Gaussians of its two classes and their shares, so the pairs agree with each other."""
    X, y, X_new = shaped
    pairs = PairwiseSVC(estimator=learner, coupling=coupling, **AS_THEY_ARE).fit(X, y)
    whole = QuadraticDiscriminantAnalysis().fit(X, y)
    assert 0.6 < whole.score(X, y) < 0.95, "an easy problem would show nothing"
    # The logits of pairs are float32. An error of one moves a probability p by p (1 - p) times as much.
    largest = np.abs(whole.predict_log_proba(X_new)).max()
    tolerance = np.finfo(np.float32).eps * largest / 4
    assert tolerance < 1e-4
    np.testing.assert_allclose(pairs.predict_proba(X_new), whole.predict_proba(X_new), atol=tolerance)


def test_pairwise_lda_is_not_lda(shaped):
    """The covariance is pooled over the pair, not over all classes [HT 2]."""
    X, y, X_new = shaped
    pairs = PairwiseSVC(estimator=LinearDiscriminantAnalysis(), **AS_THEY_ARE).fit(X, y)
    whole = LinearDiscriminantAnalysis().fit(X, y)
    assert np.abs(pairs.predict_proba(X_new) - whole.predict_proba(X_new)).max() > 0.05


def winners(wins):
    return wins == wins.max(axis=1, keepdims=True)


def test_outputs_of_zero_and_one_make_coupling_max_wins():
    """The score of bradley_terry is the sum of a class's probabilities: here, the number of its wins."""
    problem = blobs(6, 3, 60, spread=6.0)
    trees = DecisionTreeClassifier(random_state=0)  # which are certain of everything, and disagree
    model = fitted(problem, estimator=trees, coupling="bradley_terry", **AS_THEY_ARE)
    X_new = problem.X + np.random.default_rng(0).standard_normal(problem.X.shape)
    outputs = np.array([pair.estimators[0].predict_proba(X_new) for pair in model.machines_])
    assert set(np.unique(outputs)) == {0, 1}
    p = model.predict_proba(X_new)
    votes = winners(model.set_params(coupling="vote").predict_proba(X_new))
    assert votes[np.arange(len(p)), p.argmax(axis=1)].all()
    single = votes.sum(axis=1) == 1
    assert 0.5 < single.mean() < 1, "there should be ties, too"
    np.testing.assert_array_equal(p[single].argmax(axis=1), votes[single].argmax(axis=1))
    # Classes with as many wins are equally likely.
    for probabilities, tied in zip(p[~single], votes[~single], strict=True):
        assert np.ptp(probabilities[tied]) < 1e-4


@pytest.mark.parametrize("n", [3, 10, 40])
def test_any_outcome_of_a_tournament_of_certain_pairs_is_ranked_by_wins(n):
    rng = np.random.default_rng(n)
    upper = np.triu(rng.choice([-1.0, 1.0], (n, n, 50)).transpose(2, 0, 1), 1).transpose(1, 2, 0)
    logits = np.log(1e6) * (upper - upper.transpose(1, 0, 2))
    p, wins = couple(logits, "bradley_terry"), (logits > 0).sum(axis=1).T
    for probabilities, won in zip(p, wins, strict=True):
        more = won[:, None] > won
        assert (np.subtract.outer(probabilities, probabilities)[more] > -1e-6).all()
    assert winners(wins)[np.arange(50), p.argmax(axis=1)].all()


@pytest.mark.parametrize("fit_on", ["rest", "fold", "all"])
def test_where_nothing_is_learned_from_held_out_samples_each_pair_is_fitted_once_on_all_of_its(data, fit_on):
    learner = LogisticRegression()
    model = fitted(data, estimator=learner, fit_on=fit_on, **AS_THEY_ARE)
    for pair, (i, j) in zip(model.machines_, model.edges_, strict=True):
        (machine,) = pair.estimators
        of_pair = np.isin(data.y, [i, j])
        alone = LogisticRegression().fit(data.X[of_pair], data.y[of_pair] == i)
        np.testing.assert_allclose(machine.coef_, alone.coef_, rtol=1e-4)
    assert (model.scale_, model.calibration_, model.candidates_) == (1.0, "none", [])


@pytest.mark.parametrize("learned", [{"coupled_calibration": "scale"}, {"thresholds": True}], ids=str)
def test_what_is_learned_from_held_out_samples_takes_folds(data, learned):
    model = fitted(
        data, estimator=LinearDiscriminantAnalysis(), **{**AS_THEY_ARE, "fit_on": "all", **learned}
    )
    assert {len(pair.estimators) for pair in model.machines_} == {5}
    once = fitted(data, estimator=LinearDiscriminantAnalysis(), **AS_THEY_ARE)
    logits = once.model_.trained.collapsed(np.ones(1))(data.X_new)
    shifts = np.array([pair.threshold for pair in model.machines_])
    found = model.model_.trained.collapsed(model.model_.settings.scheme.shares)(data.X_new)
    np.testing.assert_allclose(found, logits - shifts[:, None], rtol=1e-5, atol=1e-5)
    assert (shifts != 0).any() == ("thresholds" in learned)
    assert (model.scale_ != 1) == ("thresholds" not in learned)


def test_the_scale_makes_overconfident_learners_honest(digits):
    naive = {"estimator": GaussianNB(var_smoothing=1e-3), "graph": "complete", "calibration": "none"}
    rows = np.arange(len(digits.y_new))
    losses = {}
    for level in ("none", "scale"):
        p = fitted(digits, coupled_calibration=level, **naive).predict_proba(digits.X_new)
        losses[level] = -np.log(np.maximum(p[rows, digits.y_new], 1e-12)).mean()
    assert losses["scale"] < 0.8 * losses["none"]


def test_classes_of_one_sample_can_be_used_where_nothing_is_held_out():
    X = np.array([[0.0], [1.0], [2.0]])
    model = PairwiseSVC(estimator=KNeighborsClassifier(1), **AS_THEY_ARE).fit(X, [0, 1, 2])
    np.testing.assert_array_equal(model.predict(X), [0, 1, 2])


@pytest.mark.parametrize(
    ("parameters", "got"),
    [
        ({}, "got kernel='auto', whose machines have none: choose 'auto', or give an estimator"),
        ({"kernel": "rbf"}, "got kernel='rbf'"),
        ({"estimator": LinearSVC()}, r"got estimator=LinearSVC\(\): choose 'platt'"),
        ({"estimator": SVC()}, r"got estimator=SVC\(\): choose 'platt'"),
    ],
    ids=str,
)
def test_machines_without_probabilities_cannot_be_used_as_they_are(data, parameters, got):
    with pytest.raises(
        ValueError, match=rf"calibration='none' needs an estimator with predict_proba.* {got}"
    ):
        fitted(data, calibration="none", **parameters)
