import re

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from pairloom import PairwiseSVC, graphs
from pairloom.pipeline.svm import fit_linear_svm

COUPLINGS = ["stratified", "wlw2", "normal", "bradley_terry", "vote"]

FOLDS_OF_REPEATS = "a sample of weight 2 is in one fold, two samples are in two: other machines"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": FOLDS_OF_REPEATS,
    "check_sample_weight_equivalence_on_sparse_data": FOLDS_OF_REPEATS,
    # Passes or fails with the sizes of the batches: float32 products of other shapes differ in the last bits.
    "check_methods_subset_invariance": "asks for 1e-7 of float32 logits",
}


def expected_failures(estimator):
    if estimator.folds > 3:
        return EXPECTED | {"check_fit2d_1feature": "has classes of 3 samples, which are too few for 4 folds"}
    return EXPECTED


@parametrize_with_checks(
    [
        PairwiseSVC(),
        PairwiseSVC(folds=3, coupling="normal", whiten=None),
        PairwiseSVC(folds=3, coupling="wlw2", graph="complete", calibrate=None, whiten=0.8),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn(estimator, check):
    check(estimator)


def blobs(n_classes=5, n_features=4, per_class=24, spread=2.0, seed=0):
    X, y = make_blobs([per_class] * n_classes, n_features, cluster_std=spread, random_state=seed)
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], y[order]


@pytest.fixture(scope="module")
def data():
    X, y = blobs()
    return X[:80], y[:80], X[80:], y[80:]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:700], y[:700], X[700:1200], y[700:1200]


def fitted(data, **parameters):
    return PairwiseSVC(**({"random_state": 0} | parameters)).fit(data[0], data[1])


# What it promises of probabilities.


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    coupling=st.sampled_from(COUPLINGS),
    graph=st.sampled_from(["complete", "star", "path", "hub_neighbours"]),
    n_classes=st.integers(2, 5),
    spread=st.sampled_from([1e-3, 1.0, 30.0]),
    dtype=st.sampled_from([np.float32, np.float64]),
    with_priors=st.booleans(),
    seed=st.integers(0, 5),
)
def test_the_prediction_is_the_largest_probability(
    coupling, graph, n_classes, spread, dtype, with_priors, seed
):
    X, y = blobs(n_classes, 3, 10, spread, seed)
    priors = np.arange(n_classes) if with_priors else None
    model = PairwiseSVC(graph, coupling, whiten=None, priors=priors, folds=2, random_state=seed).fit(
        X.astype(dtype), y
    )
    everywhere = np.concatenate([X, 100 * X, np.zeros((3, 3))]).astype(dtype)
    p = model.predict_proba(everywhere)
    assert p.dtype == dtype
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(everywhere))
    if with_priors:
        assert (p[:, 0] == 0).all()


def test_decision_function_is_the_log_probability(data):
    model = fitted(data)
    log_p = model.predict_log_proba(data[2])
    np.testing.assert_array_equal(log_p, np.log(model.predict_proba(data[2])))
    np.testing.assert_array_equal(model.decision_function(data[2]), log_p)
    two = data[1] < 2
    binary = PairwiseSVC(random_state=0).fit(data[0][two], data[1][two])
    log_p = binary.predict_log_proba(data[2])
    np.testing.assert_allclose(binary.decision_function(data[2]), log_p[:, 1] - log_p[:, 0])


@pytest.mark.parametrize("coupling", ["stratified", "normal"])
def test_new_priors_by_bayes_rule_without_a_refit(data, coupling):
    X, y = data[0], data[1]
    model = fitted(data, coupling=coupling)
    p, shares = model.predict_proba(data[2]), np.bincount(y) / len(y)
    priors = np.array([0.5, 0.2, 0.1, 0.15, 0.05])
    machines = model.machines_
    q = model.set_params(priors=10 * priors).predict_proba(data[2])
    by_hand = p * priors / shares
    np.testing.assert_allclose(q, by_hand / by_hand.sum(axis=1, keepdims=True), rtol=1e-5)
    assert model.machines_ is machines
    np.testing.assert_allclose(model.set_params(priors=shares).predict_proba(data[2]), p, rtol=1e-5)
    assert X.shape == (80, 4)


def test_one_scale_improves_the_likelihood_of_new_samples(digits):
    X, y, X_new, y_new = digits
    losses = {
        calibrate: log_loss(y_new, fitted(digits, calibrate=calibrate, graph="complete").predict_proba(X_new))
        for calibrate in (None, "scale", "platt")
    }
    assert losses["scale"] < 0.7 * losses[None]
    assert losses["platt"] < 1.1 * losses["scale"]
    assert len(X) == len(y)


def test_normal_coupling_of_linear_machines_is_one_linear_classifier(digits):
    """It sums the logits of all machines, of those too that know nothing of the sample: 0.93 on digits, where couplings
    that bound a pair's say have 0.98. That is the method, not the machines: the same happens with LIBSVM's.
    """
    X, y, X_new, y_new = digits
    votes = SVC(kernel="linear", C=0.008, decision_function_shape="ovo").fit(X, y).decision_function(X_new)
    scores = np.zeros((len(X_new), 10))
    for f, (i, j) in zip(votes.T, np.argwhere(np.triu(np.ones((10, 10)), 1)), strict=True):
        scores[:, i] += f
        scores[:, j] -= f
    peer = (scores.argmax(axis=1) == y_new).mean()
    ours = fitted(digits, coupling="normal", graph="complete").score(X_new, y_new)
    stratified = fitted(digits, graph="complete").score(X_new, y_new)
    assert peer < stratified - 0.01
    assert ours == pytest.approx(peer, abs=0.04)


# scikit-learn's habits.


def test_in_a_pipeline_a_search_and_cross_validation(data):
    X, y, X_new, y_new = data
    pipeline = make_pipeline(StandardScaler(), PairwiseSVC(whiten=None, random_state=0))
    search = GridSearchCV(
        pipeline,
        {"pairwisesvc__C": [1e-6, 1.0], "pairwisesvc__graph": ["star"]},
        scoring="neg_log_loss",
        cv=3,
    ).fit(X, y)
    assert search.best_params_["pairwisesvc__C"] == 1.0
    assert (search.predict(X_new) == search.predict_proba(X_new).argmax(axis=1)).all()
    assert search.score(X_new, y_new) > -0.8
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.7


def test_clone_parameters_and_representations(data):
    model = fitted(data, graph={"family": "bipartite", "hubs": 2}, C=[0.1, 1.0], estimator=None)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "classes_")
    assert "PairwiseSVC" in model._repr_html_()
    assert "bipartite" in repr(model)
    assert copy.set_params(coupling="wlw2").coupling == "wlw2"
    with pytest.raises(ValueError, match="Invalid parameter 'couplings'"):
        copy.set_params(couplings="wlw2")
    nested = PairwiseSVC(estimator=LogisticRegression())
    assert nested.set_params(estimator__C=3.0).estimator.C == 3.0


def test_feature_names(data):
    X = pd.DataFrame(data[0], columns=list("abcd"))
    model = PairwiseSVC(random_state=0).fit(X, data[1])
    assert model.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(model.predict_proba(X), fitted(data).predict_proba(data[0]))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[list("dcba")])


@pytest.mark.parametrize(
    "label",
    [
        lambda y: np.array(["gar", "owl", "ant", "bee", "cat"])[y],
        lambda y: np.array(["gar", "owl", "ant", "bee", "cat"], dtype=object)[y],
        lambda y: 10 - 3 * y,
        lambda y: (y - 2.0) * 5,
        lambda y: pd.Series(y).map(dict(enumerate("vwxyz"))),
        lambda y: y > 2,
    ],
    ids=["str", "object", "int", "float", "series", "bool"],
)
def test_labels_of_any_kind(data, label):
    labels = label(data[1])
    model = PairwiseSVC(random_state=0).fit(data[0], labels)
    assert model.classes_.tolist() == sorted(set(np.asarray(labels).tolist()))
    assert model.classes_.dtype == np.asarray(labels).dtype
    predicted = model.predict(data[0])
    assert predicted.dtype == np.asarray(labels).dtype
    assert (predicted == np.asarray(labels)).mean() > 0.75


def test_float32_and_integers(data):
    X, X_new = data[0].astype(np.float32), data[2].astype(np.float32)
    model = PairwiseSVC(random_state=0).fit(X, data[1])
    assert model.predict_proba(X_new).dtype == np.float32
    assert model.predict_log_proba(X_new).dtype == np.float32
    np.testing.assert_allclose(
        model.predict_proba(X_new), fitted(data).predict_proba(data[2]), rtol=0.05, atol=2e-3
    )
    assert PairwiseSVC().fit(np.round(data[0]).astype(int), data[1]).predict_proba([[1, 2, 3, 4]]).shape == (
        1,
        5,
    )


def test_csr_is_dense(data):
    X, X_new = data[0] * (abs(data[0]) > 3), data[2] * (abs(data[2]) > 3)
    dense = PairwiseSVC(random_state=0).fit(X, data[1])
    sparse = PairwiseSVC(random_state=0).fit(csr_array(X), data[1])
    np.testing.assert_array_equal(dense.predict_proba(X_new), sparse.predict_proba(csr_array(X_new)))


def test_features_far_from_zero(data):
    """float32 machines and a mean of 1e7: what is left of the features is in the differences."""
    near, far = fitted(data), PairwiseSVC(random_state=0).fit(data[0] + 1e7, data[1])
    np.testing.assert_allclose(far.predict_proba(data[2] + 1e7), near.predict_proba(data[2]), atol=2e-3)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_the_unit_of_the_features_does_not_matter(data, factor):
    other = PairwiseSVC(random_state=0).fit(factor * data[0], data[1])
    np.testing.assert_allclose(
        other.predict_proba(factor * data[2]), fitted(data).predict_proba(data[2]), atol=5e-3
    )


# Weights.


def test_a_weight_of_zero_is_absence(data):
    X, y, X_new, _ = data
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y)) * (np.arange(len(y)) % 4 > 0)
    weighted = PairwiseSVC(random_state=0).fit(X, y, sample_weight=weight)
    absent = PairwiseSVC(random_state=0).fit(X[weight > 0], y[weight > 0], sample_weight=weight[weight > 0])
    np.testing.assert_array_equal(weighted.predict_proba(X_new), absent.predict_proba(X_new))


def test_equal_weights_are_a_cost(data):
    """The machines see C times the weight; Platt's targets see the sum of weights, so a small difference stays."""
    X, y = data[:2]
    weighted = PairwiseSVC(C=1.0, whiten=None, random_state=0).fit(X, y, sample_weight=np.full(len(y), 2.0))
    plain = PairwiseSVC(C=2.0, whiten=None, random_state=0).fit(X, y)
    np.testing.assert_array_equal(weighted.machines_.coef, plain.machines_.coef)


def test_class_weight_moves_decisions_and_is_a_sample_weight(data):
    X, y, X_new, _ = data
    counts = [
        (PairwiseSVC(class_weight={0: w, 3: 1.0}, random_state=0).fit(X, y).predict(X_new) == 0).sum()
        for w in (1e-3, 1.0, 1e3)
    ]
    assert counts[0] < counts[1] < counts[2]
    by_class = PairwiseSVC(class_weight={0: 5.0}, random_state=0).fit(X, y)
    by_sample = PairwiseSVC(random_state=0).fit(X, y, sample_weight=np.where(y == 0, 5.0, 1.0))
    np.testing.assert_array_equal(by_class.predict_proba(X_new), by_sample.predict_proba(X_new))
    unbalanced = np.concatenate([np.flatnonzero(y != 0), np.flatnonzero(y == 0)[:5]])
    recall = [
        (
            PairwiseSVC(class_weight=w, random_state=0).fit(X[unbalanced], y[unbalanced]).predict(X[y == 0])
            == 0
        ).mean()
        for w in (None, "balanced")
    ]
    assert recall[1] >= recall[0]


def test_class_weights_by_label(data):
    labels = np.array(list("abcde"))[data[1]]
    named = PairwiseSVC(class_weight={"b": 9.0}, random_state=0).fit(data[0], labels)
    numbered = PairwiseSVC(class_weight={1: 9.0}, random_state=0).fit(data[0], data[1])
    np.testing.assert_array_equal(named.predict_proba(data[2]), numbered.predict_proba(data[2]))


# Bits.


@pytest.mark.parametrize("coupling", ["stratified", "normal"])
def test_threads_do_not_change_a_bit(digits, coupling):
    models = [fitted(digits, coupling=coupling, graph="complete", n_jobs=n) for n in (None, 2, 3, -1)]
    p = models[0].predict_proba(digits[2])
    for model in models[1:]:
        np.testing.assert_array_equal(model.machines_.coef, models[0].machines_.coef)
        np.testing.assert_array_equal(model.predict_proba(digits[2]), p)


def test_random_state(data):
    p = fitted(data, random_state=3).predict_proba(data[2])
    np.testing.assert_array_equal(fitted(data, random_state=3).predict_proba(data[2]), p)
    np.testing.assert_array_equal(
        fitted(data, random_state=None).predict_proba(data[2]),
        fitted(data, random_state=0).predict_proba(data[2]),
    )
    assert (fitted(data, random_state=4).predict_proba(data[2]) != p).any()
    by_generator = [
        fitted(data, random_state=np.random.RandomState(5)).predict_proba(data[2]) for _ in range(2)
    ]
    np.testing.assert_array_equal(*by_generator)


def test_the_company_of_a_sample_matters_to_the_last_bits_only(digits):
    model = fitted(digits)
    together = model.predict_proba(digits[2][:300])
    alone = np.concatenate([model.predict_proba(x[None]) for x in digits[2][:300:30]])
    np.testing.assert_allclose(alone, together[::30], atol=1e-5)


@pytest.mark.parametrize("coupling", ["stratified", "wlw2"])
def test_memory_limit(data, coupling):
    p = fitted(data, coupling=coupling).predict_proba(data[2])
    # 5 classes: 100 bytes a sample, and a block of 64 beside it.
    small = fitted(data, coupling=coupling, memory_limit=7000)
    np.testing.assert_allclose(small.predict_proba(data[2]), p, atol=1e-5)
    with pytest.raises(
        ValueError, match=r"memory_limit must be at least [\d,]+ bytes for 5 classes, got 1,000"
    ):
        small.set_params(memory_limit=1000).predict_proba(data[2])


def test_verbose_shows_a_bar(data, capsys):
    fitted(data, verbose=False)
    assert capsys.readouterr().out == ""
    fitted(data, verbose=True)
    assert re.search(r"pairs .*100%", capsys.readouterr().out)


# Graphs.


def test_graphs_by_name_mapping_and_networkx(data):
    X, y, X_new, _ = data
    labels = np.array(list("abcde"))[y]
    by_mapping = PairwiseSVC({"family": "star", "center": 1}, random_state=0).fit(X, labels)
    star = nx.star_graph(4)
    over_labels = nx.relabel_nodes(star, dict(enumerate("bacde")))
    over_indices = nx.relabel_nodes(star, dict(enumerate([1, 0, 2, 3, 4])))
    p = by_mapping.predict_proba(X_new)
    for graph in (over_labels, over_indices):
        model = PairwiseSVC(graph, random_state=0).fit(X, labels)
        np.testing.assert_array_equal(model.predict_proba(X_new), p)
        np.testing.assert_array_equal(model.edges_, [[0, 1], [1, 2], [1, 3], [1, 4]])
    assert len(fitted(data, graph="complete").edges_) == 10
    assert len(fitted(data, graph={"family": "hub_neighbours", "hubs": 1, "neighbours": 0}).edges_) == 4
    assert nx.is_tree(fitted(data, graph="spanning_tree").graph_)


def test_a_graph_over_integer_labels_is_read_as_labels_where_it_can_be(data):
    labels = data[1] + 1  # 1..5: a graph on 0..4 can only be over indices, one on 1..5 only over labels
    for graph in (nx.path_graph(5), nx.relabel_nodes(nx.path_graph(5), lambda i: i + 1)):
        model = PairwiseSVC(graph, random_state=0).fit(data[0], labels)
        np.testing.assert_array_equal(model.edges_, [[0, 1], [1, 2], [2, 3], [3, 4]])


def test_pairs_both_ways_round(data):
    labels = np.array(list("abcde"))[data[1]]
    model = PairwiseSVC("star", coupling="normal", random_state=0).fit(data[0], labels)
    pairs = model.pairs_
    assert len(pairs) == 4
    assert set(pairs) == {("a", c) for c in "bcde"}
    one, other = pairs["a", "b"], pairs["b", "a"]
    np.testing.assert_array_equal(one.weights, -other.weights)
    assert one.bias == -other.bias
    assert one.dprime == other.dprime > 0
    # On a star normal coupling leaves the trained odds as they are.
    log_p = model.predict_log_proba(data[2])
    np.testing.assert_allclose(data[2] @ one.weights + one.bias, log_p[:, 0] - log_p[:, 1], atol=1e-3)
    assert ("b", "c") not in pairs
    with pytest.raises(KeyError, match=re.escape("('b', 'c')")):
        pairs["b", "c"]
    with pytest.raises(AttributeError, match="linear machines"):
        fitted(data, kernel="rbf").pairs_  # noqa: B018


# Machines.


def test_a_list_of_costs(data):
    model = fitted(data, C=[1e-7, "scale", 1.0], whiten=None)
    table = model.candidates_
    assert [row["C"] for row in table][::2] == [1e-7, 1.0]
    best = min(table, key=lambda row: row["log_loss"])
    assert best["C"] == model.C_
    assert len({row["log_loss"] for row in table}) == 3
    assert fitted(data, C=1.0, whiten=None).candidates_ == []
    assert fitted(data, C=2.5, whiten=None).C_ == 2.5


def test_the_cost_named_scale(data):
    spread = data[0].var(axis=0).sum()
    assert pytest.approx(10 / spread) == fitted(data, whiten=None).C_


@pytest.mark.parametrize("whiten", [None, 0.0, 0.8, 1.0, "auto"])
def test_whitening(data, whiten):
    model = fitted(data, whiten=whiten)
    if whiten == "auto":
        assert {row["whiten"] for row in model.candidates_} == {None, 0.8}
        assert model.whiten_ in (None, 0.8)
    else:
        assert model.whiten_ == whiten
    assert model.score(data[2], data[3]) > 0.7


def test_thresholds_shift_the_pairs():
    X, y = blobs(3, 2, 60, spread=6.0)
    without, shifted = (
        PairwiseSVC(whiten=None, thresholds=on, random_state=0).fit(X, y) for on in (False, True)
    )
    assert (without.machines_.threshold == 0).all()
    assert (shifted.machines_.threshold != 0).any()
    np.testing.assert_array_equal(without.machines_.coef, shifted.machines_.coef)
    assert shifted.score(X, y) > without.score(X, y) - 0.1


@pytest.mark.parametrize("fit_on", ["rest", "fold"])
def test_machines_are_those_of_the_folds(data, fit_on):
    model = fitted(data, whiten=None, graph="star", C=0.1, fit_on=fit_on)
    assert model.machines_.coef.shape == (4, 4, 4)
    from pairloom.pipeline.folds import class_folds

    X, y = data[0] - data[0].mean(axis=0), data[1]
    a, b = X[y == 0], X[y == 1]
    folds = np.concatenate([class_folds(len(a), 4, 0, 0), class_folds(len(b), 4, 0, 1)])
    chosen = folds != 2 if fit_on == "rest" else folds == 2
    rows, signs = np.concatenate([a, b])[chosen], np.r_[np.ones(len(a)), -np.ones(len(b))][chosen]
    alone = fit_linear_svm(rows.astype(np.float32), signs, C=0.1)
    np.testing.assert_allclose(model.machines_.coef[0, 2], alone.coef, rtol=0.05, atol=2e-3)


def test_crossval_is_near_to_libsvm():
    """LIBSVM draws its folds at random and couples by wlw2: close, not equal."""
    X, y = load_iris(return_X_y=True)
    ours = PairwiseSVC(
        "complete",
        "wlw2",
        C=1.0,
        folds=5,
        calibration="crossval",
        calibrate=None,
        whiten=None,
        random_state=0,
    ).fit(X, y)
    peer = SVC(kernel="linear", C=1.0, probability=True, random_state=0).fit(X, y)
    p, q = ours.predict_proba(X), peer.predict_proba(X)
    assert (p.argmax(axis=1) == q.argmax(axis=1)).mean() > 0.98
    assert np.abs(p - q).mean() < 0.03
    # The last machine is fitted on everything: LIBSVM's own.
    centred = X - X.mean(axis=0)
    np.testing.assert_allclose(ours.machines_.coef[:, -1], peer.coef_, rtol=0.05, atol=0.02)
    decision = centred @ ours.machines_.coef[0, -1] + ours.machines_.intercept[0, -1]
    np.testing.assert_allclose(decision, X @ peer.coef_[0] + peer.intercept_[0], atol=0.1)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid"])
def test_other_kernels(data, kernel):
    X, y, X_new, y_new = [StandardScaler().fit(data[0]).transform(Z) if Z.ndim == 2 else Z for Z in data]
    model = PairwiseSVC(kernel=kernel, C=1.0, random_state=0).fit(X, y)
    assert model.score(X_new, y_new) > 0.6
    assert len(model.machines_) == len(model.edges_)
    two = PairwiseSVC(kernel=kernel, C=1.0, n_jobs=2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X_new), two.predict_proba(X_new))


def test_a_kernel_of_curved_classes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2))
    y = np.digitize(np.linalg.norm(X, axis=1), [0.8, 1.5])
    assert PairwiseSVC(kernel="rbf", random_state=0).fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.9
    assert PairwiseSVC(random_state=0).fit(X[:200], y[:200]).score(X[200:], y[200:]) < 0.8


def test_a_linear_gram_matrix_is_the_linear_kernel(data):
    X, y, X_new, _ = data
    centre = X.mean(axis=0)
    X, X_new = X - centre, X_new - centre
    linear = PairwiseSVC(C=1.0, whiten=None, tolerance=1e-6, random_state=0).fit(X, y)
    gram = PairwiseSVC(kernel="precomputed", C=1.0, random_state=0).fit(X @ X.T, y)
    np.testing.assert_array_equal(gram.edges_, linear.edges_)
    np.testing.assert_allclose(gram.predict_proba(X_new @ X.T), linear.predict_proba(X_new), atol=0.02)
    scores = cross_val_score(PairwiseSVC(kernel="precomputed", C=1.0), X @ X.T, y, cv=2)
    assert scores.mean() > 0.6


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
    assert model.candidates_ == []  # C is the estimator's own affair


# Bad input.


def test_features_that_are_not_numbers(data):
    for bad in (np.nan, np.inf):
        X = data[0].copy()
        X[3, 1] = bad
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            PairwiseSVC().fit(X, data[1])
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            fitted(data).predict_proba(X)


def test_one_class(data):
    with pytest.raises(ValueError, match="y must hold at least 2 classes, got one class: 'gar'"):
        PairwiseSVC().fit(data[0], ["gar"] * 80)


def test_a_class_smaller_than_folds(data):
    y = np.where(np.arange(80) < 3, "gar", np.array(list("abcde"))[data[1]])
    message = r"folds must be at least 2 and at most .* smallest class \(class 'gar' has 3 samples\), got 4"
    with pytest.raises(ValueError, match=message):
        PairwiseSVC().fit(data[0], y)
    assert PairwiseSVC(folds=3).fit(data[0], y).classes_[-1] == "gar"


def test_weights_that_leave_too_little(data):
    X, y = data[:2]
    with pytest.raises(ValueError, match="at least 2 classes, got one class: 2"):
        PairwiseSVC().fit(X, y, sample_weight=(y == 2) * 1.0)
    with pytest.raises(ValueError, match="class_weight must be positive, got 0 for class 1"):
        PairwiseSVC(class_weight={1: 0.0}).fit(X, y)
    with pytest.raises(ValueError, match="sample_weight and class_weight are for kernel='linear'"):
        PairwiseSVC(kernel="rbf").fit(X, y, sample_weight=np.ones(80))
    with pytest.raises(ValueError, match="sample_weight and class_weight are for kernel='linear'"):
        PairwiseSVC(estimator=LogisticRegression(), class_weight="balanced").fit(X, y)


@pytest.mark.parametrize("whiten", [None, 0.0, 0.8, "auto"])
def test_constant_columns_and_constant_features(data, whiten):
    X, y, X_new, y_new = data
    constant = np.column_stack([X, np.full(len(X), 7.0)])
    model = PairwiseSVC(whiten=whiten, random_state=0).fit(constant, y)
    assert model.score(np.column_stack([X_new, np.full(len(X_new), 7.0)]), y_new) > 0.7
    nothing = PairwiseSVC(whiten=whiten, random_state=0).fit(np.ones((80, 3)), y)
    p = nothing.predict_proba(np.ones((2, 3)))
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p[0], np.bincount(y) / 80, atol=0.1)


def test_the_same_rows_under_both_labels(data):
    X = np.repeat(data[0][:20], 2, axis=0)
    y = np.tile([0, 1], 20)
    p = PairwiseSVC(random_state=0).fit(X, y).predict_proba(X)
    assert np.isfinite(p).all()
    assert np.abs(p - 0.5).max() < 0.45


def test_the_wrong_number_of_features(data):
    with pytest.raises(ValueError, match="X has 3 features, but PairwiseSVC is expecting 4 features"):
        fitted(data).predict(data[2][:, :3])


def test_features_beyond_float32(data):
    with pytest.raises(ValueError, match="X must have a standard deviation between 1e-15 and 1e"):
        PairwiseSVC().fit(data[0] * 1e30, data[1])


def test_unfitted(data):
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        with pytest.raises(NotFittedError, match="PairwiseSVC instance is not fitted"):
            getattr(PairwiseSVC(), method)(data[0])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"graph": "hub_neighbors"},
            "graph must be one of .*got 'hub_neighbors'. Did you mean 'hub_neighbours'?",
        ),
        ({"graph": {"family": "bipartit"}}, "got 'bipartit'. Did you mean 'bipartite'?"),
        ({"graph": {"family": "bipartite", "hub": 2}}, "has no parameter 'hub'.* Did you mean 'hubs'?"),
        ({"graph": nx.path_graph(4)}, "every class must be a node|every node must be a class|missing"),
        ({"graph": nx.Graph([(0, 1), (2, 3), (3, 4)])}, "must be connected, got 2 components"),
        ({"coupling": "stratifed"}, "PairwiseSVC: coupling must be one of .*Did you mean 'stratified'?"),
        ({"kernel": "liner"}, "PairwiseSVC: kernel must be one of .*got 'liner'. Did you mean 'linear'?"),
        ({"fit_on": "folds"}, "PairwiseSVC: fit_on must be one of 'rest', 'fold', got 'folds'."),
        (
            {"calibration": "mean"},
            "PairwiseSVC: calibration must be one of 'average', 'crossval', got 'mean'",
        ),
        ({"calibrate": "plat"}, "PairwiseSVC: calibrate must be one of .*Did you mean 'platt'?"),
        ({"calibrate": "platt", "coupling": "vote"}, "calibrate='platt' needs a coupling with a gradient"),
        ({"C": 0}, "C must be positive, 'scale', or a list of these, got 0"),
        ({"C": -1.0}, "C must be positive.*got -1.0"),
        ({"C": np.nan}, "C must be positive.*got nan"),
        ({"C": np.inf}, "C must be positive.*got inf"),
        ({"C": "scal"}, "C must be positive.*got 'scal'"),
        ({"C": []}, r"C must be positive.*got \[\]"),
        ({"C": [1.0, 0.0]}, r"C must be positive.*got \[1.0, 0.0\]"),
        ({"whiten": 1.5}, "whiten must be None, 'auto' or from 0 to 1, got 1.5"),
        ({"whiten": "yes"}, "whiten must be None, 'auto' or from 0 to 1, got 'yes'"),
        ({"whiten": [0.5]}, r"whiten must be None, 'auto' or from 0 to 1, got \[0.5\]"),
        ({"folds": 1}, "folds must be an integer of at least 2, got 1"),
        ({"folds": 2.5}, "folds must be an integer of at least 2, got 2.5"),
        ({"tolerance": 0}, "tolerance must be positive, got 0"),
        ({"memory_limit": -1}, "memory_limit must be positive, got -1"),
        ({"priors": [1, 2]}, r"priors must be 5 non-negative numbers, one a class, got \[1, 2\]"),
        ({"priors": [1, 1, 1, 1, -1]}, "priors must be 5 non-negative numbers"),
        ({"priors": [0] * 5}, "priors must be 5 non-negative numbers"),
        ({"priors": [np.nan] * 5}, "priors must be 5 non-negative numbers"),
        ({"priors": {"a": 1}}, "priors must be 5 non-negative numbers"),
        (
            {"kernel": "precomputed"},
            r"X must be a square kernel matrix for kernel='precomputed', got \(80, 4\)",
        ),
    ],
    ids=str,
)
def test_messages(data, parameters, message):
    with pytest.raises(ValueError, match=message):
        fitted(data, **parameters)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"graph": 3},
            "graph must be a family's name, a mapping with the key 'family' or a networkx.Graph, got 3",
        ),
        ({"graph": {"hubs": 3}}, "a mapping with the key 'family'"),
        ({"graph": nx.DiGraph([(0, 1)])}, "must be an undirected networkx.Graph, got DiGraph"),
        ({"estimator": LinearRegression()}, "estimator must be a classifier with decision_function or"),
    ],
    ids=str,
)
def test_wrong_types(data, parameters, message):
    with pytest.raises(TypeError, match=message):
        fitted(data, **parameters)


def test_a_bad_coupling_or_prior_after_the_fit(data):
    model = fitted(data)
    with pytest.raises(ValueError, match="PairwiseSVC: coupling must be one of"):
        clone_state(model, coupling="norml").predict(data[2])
    with pytest.raises(ValueError, match="priors must be 5"):
        clone_state(model, priors=[1.0]).predict(data[2])


def clone_state(model, **parameters):
    import copy

    return copy.copy(model).set_params(**parameters)


def test_settings_changed_after_the_fit_do_not_change_the_machines(data):
    model = fitted(data, kernel="rbf")
    p = model.predict_proba(data[2])
    np.testing.assert_array_equal(clone_state(model, folds=7).predict_proba(data[2]), p)
    linear = fitted(data)
    p = linear.predict_proba(data[2])
    np.testing.assert_array_equal(clone_state(linear, folds=7, kernel="poly").predict_proba(data[2]), p)


@pytest.mark.parametrize("family", sorted(set(graphs.FAMILIES) - {"grown"}))  # is given an order of pairs
def test_every_family_by_name(data, family):
    needed = {"bipartite": {"hubs": 2}, "tree": {"parents": [-1, 0, 0, 1, 1]}}.get(family, {})
    model = fitted(data, graph={"family": family} | needed, whiten=None)
    assert nx.is_connected(model.graph_)
    assert np.isfinite(model.predict_proba(data[2])).all()
