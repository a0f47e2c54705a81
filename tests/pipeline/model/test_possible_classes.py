"""Only these classes are possible: the pairs among them are coupled, as in a model of them alone."""

import networkx as nx
import numpy as np
import pytest
from fitted_models import COUPLINGS, Samples, blobs, fitted
from numpy.testing import assert_allclose, assert_array_equal

from pairloom import PairwiseSVC

#: Nothing here depends on classes that are not of the pair.
FIXED = {
    "kernel": "linear",
    "graph": "complete",
    "C": 1.0,
    "whiten": "none",
    "standardise": False,
    "calibration": "platt",
    "coupled_calibration": "none",
}
FIRST = [0, 1, 2, 3]


@pytest.fixture(scope="module")
def data():
    return blobs(9, n_features=5, per_class=40, spread=3.0)


@pytest.fixture(scope="module")
def new(data):
    return data.X[:60] + 0.5


@pytest.mark.parametrize("parameters", [{}, {"kernel": "rbf", "gamma": 0.1}, {"shortlist": 6}], ids=str)
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_they_are_coupled_as_the_model_of_these_classes_alone(coupling, parameters, data, new):
    settings = FIXED | parameters | {"coupling": coupling}
    of_first = np.isin(data.y, FIRST)
    alone = fitted(Samples(data.X[of_first], data.y[of_first]), **settings)
    p = fitted(data, **settings).predict_proba(new, classes=FIRST)
    assert_array_equal(p[:, 4:], 0.0)
    # machines are trained on features that are centred elsewhere: the same to the tolerance of the solver
    assert_allclose(p[:, :4], alone.predict_proba(new), atol=5e-4)


def test_all_of_a_few_possible_classes_are_coupled_where_all_classes_are_listed():
    """A model of 60 classes lists 20 of them; one of 30 classes couples all."""
    data = blobs(60, n_features=8, per_class=12, spread=1.5)
    of_possible, new = data.y < 30, data.X[:100]
    model = fitted(data, **FIXED)
    assert model.shortlist_ == 20
    p = model.predict_proba(new, classes=range(30))[:, :30]
    alone = fitted(Samples(data.X[of_possible], data.y[of_possible]), **FIXED)
    assert_allclose(p, alone.predict_proba(new), atol=5e-4)
    listed = model.set_params(shortlist=20).predict_proba(new, classes=range(30))[:, :30]
    assert np.abs(listed - p).max() > 0.01
    model.set_params(shortlist="auto")
    a, b = np.argsort(p[0])[[-1, -4]]
    why = model.explain(new[0], a, b, classes=range(30))
    assert_allclose(why.odds, np.log(p[0, a] / p[0, b]), atol=2e-3)


def test_that_is_not_to_divide_by_the_sum_of_their_probabilities(data, new):
    model = fitted(data, **FIXED)
    p, all_classes = model.predict_proba(new, classes=FIRST)[:, :4], model.predict_proba(new)[:, :4]
    assert np.abs(p - all_classes / all_classes.sum(axis=1, keepdims=True)).max() > 0.01


def test_pairs_that_were_not_trained_are_completed_through_all_classes(data, new):
    star = nx.star_graph(8)  # class 0 is not among those that are possible
    model = fitted(data, **FIXED | {"graph": star, "coupling": "bradley_terry"})
    possible = [2, 5, 7]
    p = model.predict_proba(new, classes=possible)[:, possible]
    logits = {c: model.pairs_[c, 0] for c in possible}
    potentials = np.stack([new @ logits[c].weights + logits[c].bias for c in possible], axis=1)
    expected = np.exp(potentials - potentials.max(axis=1, keepdims=True))
    assert_allclose(p, expected / expected.sum(axis=1, keepdims=True), atol=1e-4)


@pytest.mark.parametrize("shortlist", ["none", 3])
def test_every_sample_may_have_classes_of_its_own(shortlist, data, new):
    model = fitted(data, **FIXED | {"shortlist": shortlist})
    mask = np.random.default_rng(0).random((len(new), 9)) < 0.5
    mask[:, 0] = True
    mask[0] = np.arange(9) == 4
    p = model.predict_proba(new, classes=mask)
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-6)
    assert (p[~mask] == 0).all()
    assert p[0, 4] == 1.0
    for row in (1, 2, 3):
        if mask[row].sum() > 1:
            alone = model.predict_proba(new[row : row + 1], classes=np.flatnonzero(mask[row]))
            assert_allclose(p[row], alone[0], atol=1e-5)


def test_rows_with_classes_of_their_own_are_predicted_and_explained_among_these(data, new):
    model = fitted(data, kernel="linear")
    mask = np.random.default_rng(1).random((len(new), 9)) < 0.4
    mask[:, [2, 6]] = True
    p, rows = model.predict_proba(new, classes=mask), np.arange(len(new))
    predicted = model.predict(new, classes=mask)
    assert_array_equal(predicted, p.argmax(axis=1))
    assert mask[rows, predicted].all()
    assert (predicted != model.predict(new)).any()
    rejected, among = model.predict(new, reject=0.2) == -1, model.predict(new, reject=0.2, classes=mask)
    assert rejected.any()
    assert_array_equal(among, np.where(rejected, -1, predicted))
    for score in ("lac", "aps"):
        sets = model.predict_set(new, 0.9, score=score).toarray()
        assert (sets & ~mask).any()
        assert_array_equal(model.predict_set(new, 0.9, score=score, classes=mask).toarray(), sets & mask)
    row = p[:, [2, 6]].min(axis=1).argmax()
    why = model.explain(new[row], 2, 6, classes=mask[row : row + 1])
    assert_allclose([why.p_a, why.p_b], p[row, [2, 6]], atol=1e-6)
    assert_allclose(why.pairs.total + why.list_offset, why.odds, atol=1e-6)


@pytest.mark.parametrize("shortlist", ["none", 4])
def test_all_classes_are_as_none_given(shortlist, data, new):
    model = fitted(data, shortlist=shortlist)
    assert_allclose(model.predict_proba(new, classes=range(9)), model.predict_proba(new), atol=1e-5)


def test_a_class_is_predicted_from_those_that_are_possible(data, new):
    model = fitted(data)
    predicted = model.predict(new, classes=[3, 8])
    assert set(predicted) == {3, 8}
    assert_array_equal(predicted, model.classes_[model.predict_proba(new, classes=[3, 8]).argmax(axis=1)])


def test_sets_hold_possible_classes_only_and_keep_the_true_one(data, new):
    model = fitted(data)
    sets, among = model.predict_set(new), model.predict_set(new, classes=FIRST)
    assert_array_equal(among.toarray()[:, :4], sets.toarray()[:, :4])
    assert among.toarray()[:, 4:].sum() == 0
    assert among.nnz == sets.toarray()[:, :4].sum() > 0
    of_labels = model.predict_set(new, classes=FIRST, output="labels")
    assert all(set(labels) <= set(FIRST) for labels in of_labels)
    assert [len(labels) for labels in of_labels] == among.sum(axis=1).tolist()


@pytest.mark.parametrize("shortlist", ["none", 3])
def test_odds_are_explained_among_possible_classes(shortlist, data, new):
    model = fitted(data, kernel="linear", shortlist=shortlist)
    p = model.predict_proba(new.astype(np.float64), classes=FIRST)
    # Probabilities near the tolerance of a coupling have no exact odds.
    likeliest = p[:, [1, 3]].min(axis=1).argmax()
    why, p = model.explain(new[likeliest], 1, 3, classes=FIRST), p[likeliest]
    assert_allclose([why.p_a, why.p_b], [p[1], p[3]], atol=1e-6)
    assert_allclose(why.odds, np.log(p[1] / p[3]), atol=2e-3)
    assert_allclose(why.pairs.total + why.list_offset, why.odds, atol=1e-6)


def test_priors_leave_impossible_classes_out(data, new):
    model = fitted(data).set_params(priors=np.arange(1, 10) / 45)
    p = model.predict_proba(new, classes=[2, 6])
    assert_allclose(p[:, [2, 6]].sum(axis=1), 1.0)
    even = model.set_params(priors=None).predict_proba(new, classes=[2, 6])
    assert_allclose(p[:, 6] / p[:, 2] / (even[:, 6] / even[:, 2]), 7 / 3, rtol=1e-3)


def test_classes_that_are_none_are_refused(data, new):
    model = fitted(data)
    for classes, why in (
        ([0, 99], "label must be one of .* got 99"),
        ([0], "at least 2 classes, got 1"),
        ([0, 0], "at least 2 classes, got 1"),
        ([], "at least 2 classes, got 0"),
        (np.ones((3, 9), bool), r"a mask of shape \(3, 9\)"),
        (np.zeros((len(new), 9), bool), "none for row 0"),
        (np.ones((len(new), 9)), "a list of labels, or a boolean mask"),
    ):
        for method in (model.predict_proba, model.predict, model.predict_set):
            with pytest.raises(ValueError, match=why):
                method(new, classes=classes)
    for classes, why in (([1, 3, 99], "label must be one of .* got 99"), ([3], "at least 2 classes, got 1")):
        with pytest.raises(ValueError, match=f"PairwiseSVC.explain: classes.*{why}"):
            model.explain(new[0], 1, 3, classes=classes)
    with pytest.raises(ValueError, match="classes must hold a and b"):
        model.explain(new[0], 1, 8, classes=FIRST)
    on_sets = PairwiseSVC(graph="one_vs_rest", random_state=0).fit(data.X, data.y)
    with pytest.raises(ValueError, match="machines on pairs of classes"):
        on_sets.predict_proba(new, classes=FIRST)
