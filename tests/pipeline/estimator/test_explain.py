"""Explanations agree with what the model predicts, and their parts sum to the whole."""

import numpy as np
import pandas as pd
import pytest
from fitted_models import blobs, fitted
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel

from pairloom import PairwiseSVC

SMOOTH = ["stratified", "wlw2", "normal", "bradley_terry"]
VARIANTS = {
    "distance": {"calibration": "distance"},
    "platt": {"calibration": "platt"},
    "whitened": {"whiten": 0.5, "calibration": "platt"},
    "folds of the paper": {"fit_on": "fold", "calibration": "platt"},
    "one machine": {"fit_on": "all"},
    "thresholds": {"thresholds": True, "calibration": "platt"},
    "edges": {"coupled_calibration": "edges"},
    "learned": {"learn": "coupled"},
    "standardised": {"standardise": True},
}


def logit_of(model, x, a, b):
    """The pair's logit by the model's own affine map, as prediction has it."""
    machine = model.pairs_[a, b]
    return machine.weights.astype(np.float64) @ x + machine.bias


def check_sums(explained):
    """What every explanation has to hold."""
    parts = explained.pairs.total + explained.prior + explained.list_offset
    assert parts == pytest.approx(explained.odds, abs=1e-6)
    assert explained.remainder == pytest.approx(0, abs=1e-6)
    if explained.route != "none":
        assert explained.logit_parts.total == pytest.approx(explained.logit, abs=1e-9)
    if explained.contributions is not None:
        assert explained.contributions.total == explained.logit
    if explained.odds_contributions is not None:
        assert explained.odds_contributions.total == pytest.approx(explained.pairs.total, abs=1e-9)


def check_odds(explained, model, x):
    """Prediction is in float32, and iterates to a tolerance of 1e-6."""
    p = dict(zip(model.classes_.tolist(), model.predict_proba(x[None])[0].tolist(), strict=True))
    low = min(p[explained.a], p[explained.b])
    expected = np.log(p[explained.a] / p[explained.b])
    assert explained.odds == pytest.approx(expected, abs=1e-4 + 1e-5 / low)
    assert (explained.p_a, explained.p_b) == (p[explained.a], p[explained.b])


@pytest.mark.parametrize("parameters", VARIANTS.values(), ids=VARIANTS)
def test_the_contributions_of_features_sum_to_the_logit_of_the_pair(parameters, data):
    model = fitted(data, graph="complete", **parameters)
    for x in data.X_new[:5]:
        explained = model.explain(x, 3, 1)
        check_sums(explained)
        check_odds(explained, model, x)
        assert explained.route == "trained"
        assert explained.logit == pytest.approx(logit_of(model, x, 3, 1), rel=1e-5, abs=1e-5)


def test_the_mean_of_platt_logits_is_the_mean_of_the_contributions_of_the_folds(data):
    """From the machines of every fold, one by one: no affine map of the whole model is used."""
    model = fitted(data, graph="complete", calibration="platt", whiten=0.5, folds=4)
    machines, whitening = model.machines_, model.model_.trained.whitening
    (e,) = np.flatnonzero((model.edges_ == [1, 3]).all(axis=1))
    x = data.X_new[0]
    row = model.model_.normalisation(x)
    of_folds, intercepts = [], []
    for m in range(4):
        A, B = machines.platt[e, m]
        w = (machines.coef[e, m] @ whitening.factor.T).astype(np.float64)  # on features that are not whitened
        f_at_the_mean = machines.intercept[e, m] - w @ whitening.mean
        of_folds.append(-A * w * row)
        intercepts.append(-(A * f_at_the_mean + B))
    explained = model.explain(x, 1, 3).contributions
    np.testing.assert_allclose(
        explained.values, model.scale_ * np.mean(of_folds, axis=0), rtol=1e-4, atol=1e-5
    )
    assert explained.intercept == pytest.approx(model.scale_ * np.mean(intercepts), rel=1e-4, abs=1e-5)


def test_contributions_are_in_the_original_columns(data):
    """A feature that is moved by d moves the logit by its coefficient times d, and its own contribution alone."""
    model = fitted(data, graph="complete", whiten=0.5)
    x = data.X_new[0]
    before = model.explain(x, 0, 1)
    parts = before.contributions
    np.testing.assert_allclose(parts.values, parts.coefficients * (x - parts.baseline), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(parts.inputs, x)
    after = model.explain(x + np.array([0, 0, 1.5, 0]), 0, 1)
    change = after.contributions.values - parts.values
    np.testing.assert_allclose(change, [0, 0, 1.5 * parts.coefficients[2], 0], atol=1e-5)
    assert after.logit - before.logit == pytest.approx(change[2], abs=1e-5)


def test_the_mean_training_sample_has_nothing_but_the_intercept(data):
    model = fitted(data, graph="complete")
    explained = model.explain(data.X.mean(axis=0), 0, 1)
    np.testing.assert_allclose(explained.contributions.values, 0, atol=1e-5)
    assert explained.logit == pytest.approx(explained.contributions.intercept, abs=1e-5)


@pytest.mark.parametrize("coupling", SMOOTH)
@pytest.mark.parametrize(
    "graph", ["complete", "star", "path", {"family": "hub_neighbours", "hubs": 1, "neighbours": 1}]
)
def test_every_graph_and_coupling_is_explained(graph, coupling, data):
    model = fitted(data, graph=graph, coupling=coupling)
    for x, (a, b) in zip(data.X_new, [(0, 1), (4, 2), (3, 0), (1, 4)], strict=False):
        explained = model.explain(x, a, b)
        check_sums(explained)
        check_odds(explained, model, x)
        opposite = model.explain(x, b, a)
        assert opposite.logit == pytest.approx(-explained.logit, abs=1e-9)
        assert opposite.odds == pytest.approx(-explained.odds, abs=1e-9)
        np.testing.assert_allclose(opposite.pairs.effects, -explained.pairs.effects, atol=1e-6)


def test_a_pair_without_a_machine_says_where_its_logit_comes_from(data):
    x = data.X_new[0]
    star = fitted(data, graph={"family": "star", "centre": 2})
    explained = star.explain(x, 0, 1)
    assert explained.route == "common neighbours"
    through = [
        (pair, part)
        for pair, part in zip(
            explained.logit_parts.pairs.tolist(), explained.logit_parts.effects, strict=True
        )
        if part
    ]
    assert [pair for pair, _ in through] == [[0, 2], [1, 2]]
    assert explained.logit == pytest.approx(logit_of(star, x, 0, 2) + logit_of(star, x, 2, 1), abs=1e-5)
    assert "not trained: the mean over 1 class joined to both" in str(explained)
    path = fitted(data, graph="path")
    far = path.explain(x, 0, 4)
    assert far.route == "potentials"
    along = sum(logit_of(path, x, c, c + 1) for c in range(4))
    assert far.logit == pytest.approx(along, rel=1e-5)
    assert "from potentials of the graph, through 4 pairs" in str(far)


def test_the_logits_of_pairs_are_turned_to_the_class_that_is_asked_for(data):
    model, x = fitted(data, graph="complete"), data.X_new[0]
    explained = model.explain(x, 3, 1)
    for (first, second), logit in zip(explained.pairs.pairs.tolist(), explained.pairs.logits, strict=True):
        assert second != 3
        assert first == 3 or second != 1
        assert logit == pytest.approx(logit_of(model, x, first, second), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("coupling", SMOOTH)
def test_a_shortlist_is_explained_for_listed_classes_and_others(coupling):
    X, y = blobs(12, 4, 16, seed=1)
    model = PairwiseSVC("complete", shortlist=4, coupling=coupling, random_state=0).fit(X, y)
    order = np.argsort(-model.predict_proba(X[:1])[0])
    for a, b in [(order[0], order[1]), (order[0], order[-1]), (order[-1], order[-2]), (order[-1], order[1])]:
        explained = model.explain(X[0], a, b)
        check_sums(explained)
        check_odds(explained, model, X[0])
    assert model.explain(X[0], order[0], order[-1]).list_offset == model.model_.coupled.mass.offset != 0
    assert "being in the shortlist, or not" in str(model.explain(X[0], order[0], order[-1]))
    assert model.explain(X[0], order[0], order[1]).list_offset == 0


@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid"])
def test_the_contributions_of_support_vectors_sum_to_the_logit(kernel, data):
    model = fitted(data, graph="complete", kernel=kernel, gamma=0.05)
    x = data.X_new[0]
    explained = model.explain(x, 2, 0)
    check_sums(explained)
    check_odds(explained, model, x)
    parts = explained.contributions
    assert parts.kind == "support vector"
    (e,) = np.flatnonzero((model.edges_ == [0, 2]).all(axis=1))
    logits = model.model_.predictor.logits(model.model_.normalisation(x[None]))
    assert explained.logit == pytest.approx(-logits[e, 0], rel=1e-5)
    used = np.flatnonzero(parts.values)
    assert {parts.names[at].rsplit(", ")[1] for at in used} <= {"0", "2"}, "of the two classes only"


def named_rows(explained):
    """The names of the support vectors, without the words around them."""
    return [name.removeprefix("training row ").rpartition(",")[0] for name in explained.contributions.names]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_support_vector_is_named_by_its_training_row(weighted, data):
    weight = np.where(np.arange(len(data.y)) % 5 == 2, 0.0, 1.0) if weighted else None
    model = PairwiseSVC("complete", kernel="rbf", random_state=0).fit(data.X, data.y, weight)
    rows = [int(name) for name in named_rows(model.explain(data.X_new[0], 0, 1))]
    vectors = model.model_.trained.vectors + model.model_.normalisation.centre
    np.testing.assert_allclose(data.X[rows], vectors, atol=1e-6)
    assert not weighted or all(weight[rows])


def test_rows_of_a_data_frame_are_named_by_its_index(data, tmp_path):
    pandas = pytest.importorskip("pandas")
    index = [f"person {3 * row}" for row in range(len(data.X))]
    frame = pandas.DataFrame(data.X, index=index).rename(columns=str)
    new = pandas.DataFrame(data.X_new[:1], index=["person x"], columns=frame.columns)
    model = PairwiseSVC("complete", kernel="rbf", random_state=0).fit(frame, data.y)
    model.save(tmp_path / "model")
    numbered = fitted(data, graph="complete", kernel="rbf").explain(data.X_new[0], 0, 1)
    for one in (model, PairwiseSVC.load(tmp_path / "model")):
        explained = one.explain(new, 0, 1)
        assert named_rows(explained) == [index[int(row)] for row in named_rows(numbered)]
        assert explained.sample == one.explain(new.iloc[0], 0, 1).sample == "person x"
        assert str(explained).startswith("Sample person x: why 0 and not 1?")


def test_a_row_of_a_kernel_matrix_is_explained(data):
    matrix, new = rbf_kernel(data.X, gamma=0.1), rbf_kernel(data.X_new[:1], data.X, gamma=0.1)
    model = PairwiseSVC("complete", kernel="precomputed", random_state=0).fit(matrix, data.y)
    explained = model.explain(new, 0, 1)
    check_sums(explained)
    rows = [int(name.split()[2].rstrip(",")) for name in explained.contributions.names]
    np.testing.assert_array_equal(explained.contributions.inputs, new[0, rows])


def test_machines_of_an_estimator_have_odds_and_no_contributions(data):
    model = fitted(data, graph="complete", estimator=LogisticRegression(), calibration="platt")
    explained = model.explain(data.X_new[0], 0, 1)
    check_sums(explained)
    check_odds(explained, model, data.X_new[0])
    assert explained.contributions is None
    assert "not known for the machines of an estimator" in str(explained)


@pytest.mark.parametrize("graph", ["one_vs_rest", "dense", "sparse"])
def test_machines_on_sets_of_classes_are_explained_by_their_columns(graph, data):
    model = fitted(data, graph=graph)
    x = data.X_new[0]
    explained = model.explain(x, 3, 1)
    check_sums(explained)
    check_odds(explained, model, x)
    assert explained.route == "none" or graph == "sparse"
    assert len(explained.pairs.effects) == model.code_.shape[1]
    assert "Machines that moved the coupled odds" in str(explained)


def test_a_code_of_pairs_has_the_logit_of_its_pair(data):
    x = data.X_new[0]
    code = fitted(data, graph="one_vs_one").explain(x, 3, 1)
    check_sums(code)
    assert code.route == "trained"
    pairs = fitted(data, graph="complete", coupling="bradley_terry").explain(x, 3, 1)
    assert code.logit == pytest.approx(pairs.logit, rel=0.05)


def test_priors_have_a_part_of_their_own(data):
    model = fitted(data, graph="complete")
    x = data.X_new[0]
    without = model.explain(x, 0, 1)
    model.set_params(priors=[0.5, 0.1, 0.1, 0.1, 0.2])
    explained = model.explain(x, 0, 1)
    check_sums(explained)
    check_odds(explained, model, x)
    shares = model.class_shares_
    assert explained.prior == pytest.approx(np.log(0.5 / shares[0] / (0.1 / shares[1])))
    assert explained.odds - explained.prior == pytest.approx(without.odds)
    assert "priors" in str(explained)


def test_counted_samples_weigh_in_the_explanation_too(data):
    model = fitted(data, graph="complete", coupling="bradley_terry", machine_weight="counts")
    explained = model.explain(data.X_new[0], 0, 1)
    check_sums(explained)
    check_odds(explained, model, data.X_new[0])


def test_the_names_of_the_columns_are_used(data):
    names = ["height", "width", "<b>age</b>", "x" * 90]
    frame = pd.DataFrame(data.X, columns=names)
    model = PairwiseSVC("complete", random_state=0).fit(frame, data.y)
    explained = model.explain(frame.iloc[0], 0, 1)
    assert explained.contributions.names.tolist() == names
    assert "height" in str(explained)
    shown = explained._repr_html_()
    assert "&lt;b&gt;age&lt;/b&gt;" in shown
    assert "<b>age" not in shown
    assert model.explain(frame.iloc[[0]], 0, 1).logit == explained.logit


def test_a_sample_may_be_sparse_a_list_or_a_row(data):
    model = fitted(data, graph="complete")
    x = data.X_new[0]
    expected = model.explain(x, 0, 1).odds
    for given in (x[None], x.tolist(), sparse.csr_matrix(x[None])):
        assert model.explain(given, 0, 1).odds == pytest.approx(expected, abs=1e-12)


def test_a_saved_model_explains_the_same(data, tmp_path):
    model = fitted(data)
    model.save(tmp_path / "model")
    x = data.X_new[0]
    assert str(PairwiseSVC.load(tmp_path / "model").explain(x, 0, 1)) == str(model.explain(x, 0, 1))


def test_the_text_has_the_sums_of_its_tables(data):
    model = PairwiseSVC("complete", random_state=0).fit(data.X, np.array(list("abcde"))[data.y])
    explained = model.explain(data.X_new[0], "a", "b")
    text = str(explained)
    assert text.splitlines()[0] == "Why a and not b?"
    assert text == repr(explained)
    sums = [line.split() for line in text.splitlines() if line.strip().startswith("sum")]
    assert [float(last) for _, last in sums] == pytest.approx([explained.logit, explained.odds], abs=6e-4)


WRONG = [
    ((np.zeros(4), 0, 9), ValueError, r"explain: b: label must be one of 0, 1, 2, 3, 4, got 9"),
    ((np.zeros(4), "0", 1), ValueError, r"explain: a: label must be one of .* got '0'"),
    ((np.zeros(4), 2, 2), ValueError, "b must be another class than a, got 2 for both"),
    (
        (np.zeros((2, 4)), 0, 1),
        ValueError,
        r"x must be one sample, .* got shape \(2, 4\): explain samples one by one",
    ),
    ((np.zeros((1, 2, 4)), 0, 1), ValueError, "x must be one sample"),
    ((3.0, 0, 1), ValueError, r"x must be one sample, .* got shape \(\)"),
    ((np.zeros(3), 0, 1), ValueError, "3 features, but PairwiseSVC is expecting 4"),
    ((np.full(4, np.nan), 0, 1), ValueError, "contains NaN"),
    ((np.full(4, 1e300), 0, 1), ValueError, "features of the size of the fit's"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), WRONG)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_cannot_be_explained_is_refused(arguments, error, message, data):
    with pytest.raises(error, match=message):
        fitted(data, graph="complete").explain(*arguments)


@pytest.mark.parametrize("coupling", ["vote", "sign_vote"])
def test_votes_have_no_odds(coupling, data):
    model = fitted(data, graph="complete", coupling=coupling)
    with pytest.raises(ValueError, match=rf"explain: coupling must be one of 'normal', .* got '{coupling}'"):
        model.explain(data.X_new[0], 0, 1)


def test_zadrozny_has_no_gradient(data):
    model = fitted(data, graph="dense").set_params(coupling="zadrozny")
    with pytest.raises(ValueError, match="coupling must be one of 'bradley_terry', 'linear', 'closed_form'"):
        model.explain(data.X_new[0], 0, 1)


def test_a_class_without_a_share_has_no_odds(data):
    model = fitted(data, graph="complete", priors=[0, 1, 1, 1, 1])
    with pytest.raises(ValueError, match="priors must be positive for both classes"):
        model.explain(data.X_new[0], 0, 1)


def test_an_estimator_must_be_fitted_first():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        PairwiseSVC().explain([1, 2], 0, 1)
