"""PairwiseSVC: its probabilities, scikit-learn's habits, weights, bits and graphs."""

import re
import tracemalloc

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from fitted_models import COUPLINGS, blobs, fitted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from pairloom import PairwiseSVC
from pairloom.pipeline.completion import slab
from pairloom.pipeline.completion.shortlist import with_mass
from pairloom.pipeline.model.fitted_model import PREDICTION_BATCH

FOLDS_OF_REPEATS = "a sample of weight 2 is in one fold, two samples are in two: other machines"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": FOLDS_OF_REPEATS,
    "check_sample_weight_equivalence_on_sparse_data": FOLDS_OF_REPEATS,
    # Depends on the sizes of the batches: float32 products of other shapes differ in the last bits.
    "check_methods_subset_invariance": "asks for 1e-7 of float32 logits",
}


# The checks fit noise and classes of a few samples, and the estimator says so. Some leave random_state as it is: folds
# that differ from run to run would warn now and then.
expected_warnings = pytest.mark.filterwarnings(
    "ignore:The scale of the coupled model:UserWarning",
    "ignore:PairwiseSVC. . of . classes have:UserWarning",
    "ignore:couple. method 'wlw2' did not converge:sklearn.exceptions.ConvergenceWarning",
)


@expected_warnings
@parametrize_with_checks([PairwiseSVC(random_state=0)], expected_failed_checks=lambda estimator: EXPECTED)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.long
@expected_warnings
@parametrize_with_checks(
    [
        PairwiseSVC(folds=3, coupling="normal", whiten="none", random_state=0),
        PairwiseSVC(folds=3, kernel="rbf", class_weight="balanced", random_state=0),
        PairwiseSVC(
            folds=3,
            coupling="wlw2",
            graph="complete",
            coupled_calibration="none",
            whiten=0.8,
            random_state=0,
        ),
    ],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_scikit_learn_with_other_parameters(estimator, check):
    check(estimator)


# Probabilities.


@pytest.mark.filterwarnings("ignore:The scale of the coupled model:UserWarning")
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
    model = PairwiseSVC(
        graph, coupling=coupling, whiten="none", priors=priors, folds=2, random_state=seed
    ).fit(X.astype(dtype), y)
    everywhere = np.concatenate([X, 100 * X, np.zeros((3, 3))]).astype(dtype)
    p = model.predict_proba(everywhere)
    assert p.dtype == dtype
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(everywhere))
    if with_priors:
        assert (p[:, 0] == 0).all()


def test_decision_function_is_the_log_probability(data):
    model = fitted(data)
    log_p = model.predict_log_proba(data.X_new)
    np.testing.assert_array_equal(log_p, np.log(model.predict_proba(data.X_new)))
    np.testing.assert_array_equal(model.decision_function(data.X_new), log_p)
    two = data.y < 2
    binary = PairwiseSVC(random_state=0).fit(data.X[two], data.y[two])
    log_p = binary.predict_log_proba(data.X_new)
    np.testing.assert_allclose(binary.decision_function(data.X_new), log_p[:, 1] - log_p[:, 0])


@pytest.mark.parametrize("coupling", ["stratified", "normal"])
def test_new_priors_by_bayes_rule_without_a_refit(data, coupling):
    y = data.y
    model = fitted(data, coupling=coupling)
    p, shares = model.predict_proba(data.X_new), np.bincount(y) / len(y)
    priors = np.array([0.5, 0.2, 0.1, 0.15, 0.05])
    machines = model.machines_
    q = model.set_params(priors=10 * priors).predict_proba(data.X_new)
    by_hand = p * priors / shares
    np.testing.assert_allclose(q, by_hand / by_hand.sum(axis=1, keepdims=True), rtol=1e-5)
    assert model.machines_ is machines
    by_label = dict(zip(model.classes_.tolist(), priors, strict=True))
    np.testing.assert_array_equal(model.set_params(priors=by_label).predict_proba(data.X_new), q)
    np.testing.assert_allclose(model.set_params(priors=shares).predict_proba(data.X_new), p, rtol=1e-5)


@pytest.mark.long
def test_one_scale_improves_the_likelihood_of_new_samples(digits):
    _, _, X_new, y_new = digits
    losses = {
        level: log_loss(
            y_new,
            fitted(
                digits, coupled_calibration=level, graph="complete", calibration="platt", C="scale"
            ).predict_proba(X_new),
        )
        for level in ("none", "scale", "edges")
    }
    assert losses["scale"] < 0.7 * losses["none"]
    assert losses["edges"] < losses["scale"]


def test_normal_coupling_of_linear_machines_is_one_linear_classifier(digits):
    """It sums the logits of all machines, including those trained on two classes that the sample is not of.

    So it is less accurate than couplings that bound what one pair can say: 0.92 against 0.95 here. That is a property
    of the method, not of the machines: LIBSVM's machines lose as much.
    """
    X, y, X_new, y_new = digits
    normal, stratified = (
        fitted(digits, coupling=c, graph="complete", kernel="linear") for c in ("normal", "stratified")
    )
    a, b = X_new[:200], X_new[200:400]
    for model, linear in ((normal, True), (stratified, False)):
        midway = (log_odds(model, a) + log_odds(model, b)) / 2
        assert np.allclose(log_odds(model, (a + b) / 2), midway, atol=1e-4) == linear
    votes = SVC(kernel="linear", C=0.008, decision_function_shape="ovo").fit(X, y).decision_function(X_new)
    scores = np.zeros((len(X_new), 10))
    for f, (i, j) in zip(votes.T, np.argwhere(np.triu(np.ones((10, 10)), 1)), strict=True):
        scores[:, i] += f
        scores[:, j] -= f
    peer = (scores.argmax(axis=1) == y_new).mean()
    best = stratified.score(X_new, y_new)
    assert peer < best - 0.01
    assert normal.score(X_new, y_new) < best - 0.01


@pytest.mark.quick("linear-stratified", "linear-bradley_terry", "rbf-normal", "rbf-wlw2", "rbf-vote")
@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("parameters", [{}, {"kernel": "rbf", "C": 1.0}], ids=["linear", "rbf"])
def test_a_shortlist_couples_the_likeliest_classes_only(digits, coupling, parameters):
    pinned = {"C": "scale", "whiten": "none", "calibration": "platt", "graph": "complete"} | parameters
    model = fitted(digits, coupling=coupling, shortlist=4, **pinned)
    fit, X_new = model.model_, digits.X_new[:100]
    logits = fit.predictor.logits(fit.prepared(X_new))
    lists = with_mass(fit.coupler.scored(logits.astype(np.float32), 4), fit.coupled.mass)
    expected = lists.couple(coupling)
    p = model.predict_proba(X_new)
    np.testing.assert_allclose(p, expected, atol=1e-4)
    alone = np.concatenate([model.predict_proba(x[None]) for x in X_new[:10]])
    np.testing.assert_allclose(alone, p[:10], atol=1e-4)
    # It is a parameter of prediction: another one takes effect at once.
    everything = model.set_params(shortlist="none").predict_proba(X_new)
    np.testing.assert_array_equal(model.set_params(shortlist=None).predict_proba(X_new), everything)
    np.testing.assert_array_equal(model.set_params(shortlist=10).predict_proba(X_new), everything)
    # As many as the model was calibrated for.
    np.testing.assert_array_equal(model.set_params(shortlist="auto").predict_proba(X_new), p)
    if coupling != "normal":  # which of a complete graph is the ranking itself
        assert np.abs(everything - p).max() > 1e-3


@pytest.mark.parametrize("n_classes", [50, 51])
def test_of_more_than_fifty_classes_twenty_are_coupled(n_classes):
    X, y = blobs(n_classes, 6, 8)
    model = PairwiseSVC(C="scale", whiten="none", calibration="distance", random_state=0).fit(X, y)
    p = model.predict_proba(X)
    for shortlist, same in ((20, n_classes > 50), ("none", n_classes <= 50)):
        assert np.array_equal(model.set_params(shortlist=shortlist).predict_proba(X), p) == same


@pytest.mark.parametrize("shortlist", [1, 0, -3, 2.5, "all", True], ids=str)
def test_a_shortlist_that_is_none_is_refused(data, shortlist):
    message = f"PairwiseSVC: shortlist must be an integer of at least 2, 'auto' or 'none', got {shortlist!r}"
    model = fitted(data)
    with pytest.raises(ValueError, match=re.escape(message)):
        model.set_params(shortlist=shortlist).fit(data.X, data.y)
    with pytest.raises(ValueError, match=re.escape(message)):
        model.predict_proba(data.X_new)


def log_odds(model, X):
    """The log odds of every class against the first."""
    log_p = model.predict_log_proba(X)
    return log_p[:, 1:] - log_p[:, :1]


# scikit-learn's habits.


def test_it_works_in_a_pipeline_a_search_and_cross_validation(data):
    X, y, X_new, y_new = data
    estimator = PairwiseSVC(whiten="none", calibration="distance", random_state=0)
    pipeline = make_pipeline(StandardScaler(), estimator)
    search = GridSearchCV(
        pipeline,
        {"pairwisesvc__C": [1e-6, 1.0], "pairwisesvc__graph": ["star"]},
        scoring="neg_log_loss",
        cv=3,
    )
    with pytest.warns(
        UserWarning, match="scale of the coupled model.* is at its lower bound"
    ):  # C=1e-6 guesses
        search.fit(X, y)
    assert search.best_params_["pairwisesvc__C"] == 1.0
    assert (search.predict(X_new) == search.predict_proba(X_new).argmax(axis=1)).all()
    assert search.score(X_new, y_new) > -0.8
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.7


def test_clones_parameters_and_representations_are_scikit_learns(data):
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


def test_feature_names_are_kept_and_checked(data):
    X = pd.DataFrame(data.X, columns=list("abcd"))
    model = PairwiseSVC(random_state=0).fit(X, data.y)
    assert model.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(model.predict_proba(X), fitted(data).predict_proba(data.X))
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
def test_labels_may_be_of_any_kind_that_sorts(data, label):
    labels = label(data.y)
    model = PairwiseSVC(random_state=0).fit(data.X, labels)
    assert model.classes_.tolist() == sorted(set(np.asarray(labels).tolist()))
    assert model.classes_.dtype == np.asarray(labels).dtype
    predicted = model.predict(data.X)
    assert predicted.dtype == np.asarray(labels).dtype
    assert (predicted == np.asarray(labels)).mean() > 0.75


def test_float32_gives_float32_and_integers_are_numbers(data):
    X, X_new = data.X.astype(np.float32), data.X_new.astype(np.float32)
    model = PairwiseSVC(random_state=0).fit(X, data.y)
    assert model.predict_proba(X_new).dtype == np.float32
    assert model.predict_log_proba(X_new).dtype == np.float32
    np.testing.assert_allclose(model.predict_proba(X_new), fitted(data).predict_proba(data.X_new), atol=1e-5)
    rounded = data._replace(X=np.round(data.X), X_new=np.round(data.X_new))
    whole = PairwiseSVC(random_state=0).fit(rounded.X.astype(int), data.y)
    np.testing.assert_array_equal(
        whole.predict_proba(rounded.X_new.astype(int)), fitted(rounded).predict_proba(rounded.X_new)
    )


def test_csr_samples_give_what_dense_ones_do(data):
    X, X_new = data.X * (abs(data.X) > 3), data.X_new * (abs(data.X_new) > 3)
    dense = PairwiseSVC(kernel="linear", tol=1e-6, random_state=0).fit(X, data.y)
    sparse = PairwiseSVC(kernel="linear", tol=1e-6, random_state=0).fit(csr_array(X), data.y)
    np.testing.assert_allclose(dense.predict_proba(X_new), sparse.predict_proba(csr_array(X_new)), atol=1e-5)


def test_features_far_from_zero_lose_nothing(data):
    """At 1e7 float32 resolves steps of one only: the machines must be given centred features."""
    near, far = fitted(data), PairwiseSVC(random_state=0).fit(data.X + 1e7, data.y)
    np.testing.assert_allclose(far.predict_proba(data.X_new + 1e7), near.predict_proba(data.X_new), atol=1e-5)


@pytest.mark.parametrize("factor", [1e-30, 1e-6, 1e6, 1e30])
def test_the_unit_of_the_features_does_not_matter(data, factor):
    """Features and weights are rounded otherwise, which is felt more the steeper a model is: this one is not."""
    parameters = {"C": "scale", "calibration": "platt", "whiten": "none", "random_state": 0}
    other = PairwiseSVC(**parameters).fit(factor * data.X, data.y)
    expected = fitted(data, **parameters).predict_proba(data.X_new)
    np.testing.assert_allclose(other.predict_proba(factor * data.X_new), expected, atol=1e-5)


@pytest.mark.parametrize("power", [-70, 3, 70])
def test_features_times_a_power_of_two_give_the_same_bits(data, power):
    other = data._replace(X=np.ldexp(data.X, power), X_new=np.ldexp(data.X_new, power))
    p = fitted(data).predict_proba(data.X_new)
    np.testing.assert_array_equal(fitted(other).predict_proba(other.X_new), p)


# Weights.


def test_a_weight_of_zero_is_absence(data):
    X, y, X_new, _ = data
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y)) * (np.arange(len(y)) % 4 > 0)
    weighted = PairwiseSVC(random_state=0).fit(X, y, sample_weight=weight)
    absent = PairwiseSVC(random_state=0).fit(X[weight > 0], y[weight > 0], sample_weight=weight[weight > 0])
    np.testing.assert_array_equal(weighted.predict_proba(X_new), absent.predict_proba(X_new))


def test_equal_weights_are_a_cost(data):
    """Only the machines: Platt's targets depend on the sum of weights, so the probabilities differ a little."""
    X, y = data.X, data.y
    weighted = PairwiseSVC(C=1.0, whiten="none", random_state=0).fit(X, y, sample_weight=np.full(len(y), 2.0))
    plain = PairwiseSVC(C=2.0, whiten="none", random_state=0).fit(X, y)
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
    # Platt's sigmoids know the sizes of the classes, which distances do not.
    plain, balanced = (
        PairwiseSVC(class_weight=w, C="scale", calibration="platt", random_state=0)
        .fit(X[unbalanced], y[unbalanced])
        .predict(X[y == 0])
        for w in (None, "balanced")
    )
    assert (balanced == 0).mean() > (plain == 0).mean()


def test_class_weights_by_label(data):
    labels = np.array(list("abcde"))[data.y]
    named = PairwiseSVC(class_weight={"b": 9.0}, random_state=0).fit(data.X, labels)
    numbered = PairwiseSVC(class_weight={1: 9.0}, random_state=0).fit(data.X, data.y)
    np.testing.assert_array_equal(named.predict_proba(data.X_new), numbered.predict_proba(data.X_new))


# Bits.


@pytest.mark.long
@pytest.mark.parametrize("coupling", ["stratified", "normal"])
def test_threads_do_not_change_a_bit(digits, coupling):
    models = [fitted(digits, coupling=coupling, graph="complete", n_jobs=n) for n in (None, 2, 3, -1)]
    p = models[0].predict_proba(digits.X_new)
    for model in models[1:]:
        np.testing.assert_array_equal(model.machines_.beta, models[0].machines_.beta)
        np.testing.assert_array_equal(model.predict_proba(digits.X_new), p)


def test_random_state_decides_every_draw(data):
    p = fitted(data, random_state=3).predict_proba(data.X_new)
    np.testing.assert_array_equal(fitted(data, random_state=3).predict_proba(data.X_new), p)
    assert (fitted(data, random_state=4).predict_proba(data.X_new) != p).any()
    drawn = []
    for seed in (1, 1, 2):
        np.random.seed(seed)  # noqa: NPY002  # None is numpy's global generator, as in scikit-learn
        drawn.append(fitted(data, random_state=None).predict_proba(data.X_new))
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[2] != drawn[0]).any()
    by_generator = [
        fitted(data, random_state=np.random.RandomState(5)).predict_proba(data.X_new) for _ in range(2)
    ]
    np.testing.assert_array_equal(*by_generator)


def test_the_company_of_a_sample_matters_to_the_last_bits_only(digits):
    model = fitted(digits)
    together = model.predict_proba(digits.X_new[:300])
    alone = np.concatenate([model.predict_proba(x[None]) for x in digits.X_new[:300:30]])
    np.testing.assert_allclose(alone, together[::30], atol=1e-5)


@pytest.mark.parametrize("coupling", ["stratified", "wlw2"])
def test_a_memory_limit_splits_batches_into_slabs_and_changes_no_bit(data, coupling, monkeypatch):
    X = np.concatenate([data.X, data.X_new] * 3)[: PREDICTION_BATCH + 44]
    p = fitted(data, coupling=coupling).predict_proba(X)
    # 5 classes take 100 bytes per sample, and a block of 16 samples is set aside for the coupling.
    small = fitted(data, coupling=coupling, memory_limit=100 * (16 + 48))
    widths, couple = [], slab.couple
    monkeypatch.setattr(
        slab, "couple", lambda L, *args, **kw: widths.append(L.shape[2]) or couple(L, *args, **kw)
    )
    np.testing.assert_array_equal(small.predict_proba(X), p)
    assert widths == [48, 48, 48, 48, 48, 16, 44]


def test_a_memory_limit_below_one_block_of_samples_is_refused(data):
    model = fitted(data).set_params(memory_limit=1000)
    with pytest.raises(
        ValueError, match="memory_limit must be at least 1,700 bytes for 5 classes, got 1,000"
    ):
        model.predict_proba(data.X_new)


# Graphs.


def test_a_graph_may_be_a_name_a_mapping_or_of_networkx(data):
    X, y, X_new, _ = data
    labels = np.array(list("abcde"))[y]
    by_mapping = PairwiseSVC({"family": "star", "centre": 1}, random_state=0).fit(X, labels)
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
    labels = data.y + 1  # 1..5: a graph on 0..4 can only be over indices, one on 1..5 only over labels
    for graph in (nx.path_graph(5), nx.relabel_nodes(nx.path_graph(5), lambda i: i + 1)):
        model = PairwiseSVC(graph, random_state=0).fit(data.X, labels)
        np.testing.assert_array_equal(model.edges_, [[0, 1], [1, 2], [2, 3], [3, 4]])


def test_pairs_are_found_either_way_round(data):
    labels = np.array(list("abcde"))[data.y]
    model = PairwiseSVC("star", coupling="normal", random_state=0).fit(data.X, labels)
    pairs = model.pairs_
    assert len(pairs) == 4
    assert set(pairs) == {("a", c) for c in "bcde"}
    one, other = pairs["a", "b"], pairs["b", "a"]
    np.testing.assert_array_equal(one.weights, -other.weights)
    assert one.bias == -other.bias
    assert one.dprime == other.dprime > 0
    # On a star normal coupling leaves the trained odds as they are.
    log_p = model.predict_log_proba(data.X_new)
    np.testing.assert_allclose(data.X_new @ one.weights + one.bias, log_p[:, 0] - log_p[:, 1], atol=1e-3)
    assert ("b", "c") not in pairs
    with pytest.raises(KeyError, match=re.escape("('b', 'c')")):
        pairs["b", "c"]
    with pytest.raises(AttributeError, match="linear machines"):
        fitted(data, kernel="rbf").pairs_  # noqa: B018


@pytest.fixture(scope="module")
def wide():
    """Many more columns than rows."""
    random, y = np.random.default_rng(0), np.arange(60) % 3
    X = random.standard_normal((60, 20_000)).astype(np.float32)
    X[:, :10] += y[:, None]
    return X, y


def test_a_wide_table_is_fitted_without_a_matrix_of_its_columns_by_its_columns(wide):
    X, y = wide
    tracemalloc.start()
    model = PairwiseSVC(random_state=0).fit(X, y)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.whiten_ == "none"
    assert most < 4 * X.shape[1] ** 2 / 4


def test_whitening_of_too_many_columns_is_refused(wide):
    with pytest.raises(
        ValueError, match=r'PairwiseSVC: whiten must be "none" or "auto" with more than 16,384'
    ):
        PairwiseSVC(whiten=0.8).fit(*wide)
