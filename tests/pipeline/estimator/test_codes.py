"""PairwiseSVC on sets of classes: the code of all pairs is the complete graph, and every other code is honest."""

import networkx as nx
import numpy as np
import pytest
from fitted_models import fitted
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.multiclass import OutputCodeClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from pairloom import PairwiseSVC, couple_code, graphs
from pairloom.graphs.code_matrix import different_machines
from pairloom.pipeline.calibration.held_out import mean_log_loss

FAMILIES = ("one_vs_rest", "one_vs_one", "dense", "sparse")
PINNED = {"C": "scale", "whiten": "none", "calibration": "platt"}


@pytest.mark.parametrize("calibration", ["platt", "distance"])
@pytest.mark.parametrize("weight", ["none", "counts"])
@pytest.mark.parametrize("fit_on", ["rest", "all"])
def test_the_code_of_all_pairs_is_the_complete_graph(data, calibration, weight, fit_on):
    uneven = data._replace(X=data.X[: 60 + 5], y=data.y[: 60 + 5])
    settings = PINNED | {"calibration": calibration, "fit_on": fit_on, "machine_weight": weight}
    by_code = fitted(uneven, graph="one_vs_one", **settings)
    by_pairs = fitted(uneven, graph="complete", coupling="bradley_terry", **settings)
    for ours, theirs in zip(by_code.machines_, by_pairs.machines_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert by_code.scale_ == pytest.approx(by_pairs.scale_, rel=1e-4)
    by_code = fitted(uneven, graph="one_vs_one", coupled_calibration="none", **settings | PINNED)
    by_pairs = fitted(
        uneven,
        graph="complete",
        coupling="bradley_terry",
        coupled_calibration="none",
        **settings | PINNED,
    )
    np.testing.assert_allclose(
        by_code.predict_proba(data.X_new), by_pairs.predict_proba(data.X_new), atol=1e-6
    )


def test_by_default_the_code_of_all_pairs_chooses_as_the_complete_graph_does(data):
    by_code = fitted(data, graph="one_vs_one")
    by_pairs = fitted(data, graph="complete", coupling="bradley_terry")
    assert (by_code.C_, by_code.whiten_, by_code.calibration_) == (
        by_pairs.C_,
        by_pairs.whiten_,
        by_pairs.calibration_,
    )
    np.testing.assert_allclose(
        [row["log_loss"] for row in by_code.candidates_],
        [row["log_loss"] for row in by_pairs.candidates_],
        atol=1e-5,
    )
    np.testing.assert_allclose(
        by_code.predict_proba(data.X_new), by_pairs.predict_proba(data.X_new), atol=1e-5
    )


@pytest.mark.long
def test_with_the_same_codes_it_is_as_good_as_output_codes_and_has_probabilities(digits):
    """scikit-learn's OutputCodeClassifier has no probabilities. Its codes are random, so take the mean of three."""
    scaler = StandardScaler().fit(digits.X)
    digits = digits._replace(X=scaler.transform(digits.X), X_new=scaler.transform(digits.X_new))
    ours, theirs = [], []
    for seed in range(3):
        peer = OutputCodeClassifier(LinearSVC(), code_size=1.5, random_state=seed).fit(digits.X, digits.y)
        book = peer.code_book_.astype(np.int8)
        model = fitted(digits, graph=book[:, different_machines(book)])
        ours.append(model.score(digits.X_new, digits.y_new))
        theirs.append(peer.score(digits.X_new, digits.y_new))
        assert log_loss(digits.y_new, model.predict_proba(digits.X_new)) < 0.75
    assert np.mean(ours) >= np.mean(theirs)


@pytest.mark.long
@pytest.mark.parametrize(("family", "accuracy"), [("one_vs_rest", 0.91), ("dense", 0.86), ("sparse", 0.91)])
def test_every_family_tells_digits_apart(digits, family, accuracy):
    model = fitted(digits, graph=family)
    p = model.predict_proba(digits.X_new)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    assert model.score(digits.X_new, digits.y_new) > accuracy
    assert log_loss(digits.y_new, p) < 0.6


@pytest.mark.filterwarnings("ignore:The scale of the coupled model:UserWarning")
@pytest.mark.quick("one_vs_rest-auto-platt", "sparse-auto-distance")
@pytest.mark.parametrize(
    ("family", "coupling", "calibration"),
    [
        *((family, "auto", how) for family in FAMILIES for how in ("platt", "distance")),
        # By distances the loss of linear decoding is far above log N, out of fold too: "auto" takes Platt's sigmoid.
        ("sparse", "linear", "auto"),
    ],
)
def test_noise_is_told_from_nothing(family, coupling, calibration):
    rng, y = np.random.default_rng(2), np.repeat(np.arange(10), 40)
    X, X_new = rng.standard_normal((len(y), 32)), rng.standard_normal((2000, 32))
    settings = {"coupling": coupling, "calibration": calibration, "C": [0.01, 1.0], "whiten": "none"}
    model = PairwiseSVC(family, random_state=0, **settings).fit(X, y)
    assert all(row["log_loss"] > np.log(10) - 0.03 for row in model.candidates_)
    assert mean_log_loss(model.predict_proba(X_new), rng.integers(0, 10, 2000)) <= np.log(10) + 0.01


@pytest.mark.filterwarnings("ignore:couple_code. method 'zadrozny' did not converge")
def test_probabilities_are_those_of_couple_code(data):
    model = fitted(data, graph="sparse", **PINNED)
    logits = model.model_.predictor.logits(model.model_.normalisation(data.X_new))
    np.testing.assert_allclose(model.predict_proba(data.X_new), couple_code(logits, model.code_), atol=1e-6)
    for coupling in ("linear", "zadrozny"):
        model.set_params(coupling=coupling)
        np.testing.assert_allclose(
            model.predict_proba(data.X_new), couple_code(logits, model.code_, coupling), atol=1e-6
        )


def test_machines_weigh_as_many_samples_as_they_have(data):
    few = np.flatnonzero((data.y != 0) | (np.arange(len(data.y)) % 2 == 0))
    uneven = data._replace(X=data.X[few], y=data.y[few])
    model = fitted(uneven, graph="sparse", machine_weight="counts", **PINNED)
    counts = np.bincount(uneven.y) @ (model.code_ != 0)
    logits = model.model_.predictor.logits(model.model_.normalisation(data.X_new))
    expected = couple_code(logits, model.code_, weights=counts, barrier=None)
    np.testing.assert_allclose(model.predict_proba(data.X_new), expected, atol=1e-5)
    unweighted = couple_code(logits, model.code_)
    assert np.abs(expected - unweighted).max() > 1e-3


def test_pairs_weigh_as_many_samples_as_they_have_with_a_shortlist_too(data):
    few = np.flatnonzero((data.y != 0) | (np.arange(len(data.y)) % 2 == 0))
    uneven = data._replace(X=data.X[few], y=data.y[few])
    model = fitted(
        uneven, graph="complete", coupling="bradley_terry", machine_weight="counts", shortlist=4, **PINNED
    )
    listed = model.predict_proba(data.X_new)
    whole = model.set_params(shortlist="none").predict_proba(data.X_new)
    np.testing.assert_allclose(listed, whole, atol=0.05)
    one = model.predict_proba(data.X_new[:1])
    np.testing.assert_allclose(one, whole[:1], atol=1e-6)


def test_one_class_against_the_rest_has_a_closed_form(data):
    model = fitted(data, graph="one_vs_rest", **PINNED)
    p = model.predict_proba(data.X_new)
    np.testing.assert_allclose(
        model.set_params(coupling="closed_form").predict_proba(data.X_new), p, atol=1e-5
    )
    assert fitted(data, graph="one_vs_rest", coupling="closed_form", **PINNED).score(
        data.X_new, data.y_new
    ) == pytest.approx((p.argmax(axis=1) == data.y_new).mean(), abs=0.05)


@pytest.mark.parametrize("graph", [*FAMILIES, "array", "bipartite"])
def test_a_saved_model_predicts_the_same_bits(data, graph, tmp_path):
    code = graphs.dense_code(5, seed=3)
    asked = {"array": code, "bipartite": graphs.code_graph(code)}.get(graph, graph)
    model = fitted(data, graph=asked, machine_weight="counts", **PINNED)
    model.save(tmp_path / "model")
    loaded = PairwiseSVC.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(data.X_new), model.predict_proba(data.X_new))
    np.testing.assert_array_equal(loaded.code_, model.code_)
    assert loaded.model_.code.label == model.model_.code.label
    loaded.fit(data.X, data.y)  # its parameters are those of a code too
    np.testing.assert_array_equal(loaded.code_, model.code_)


def test_rows_of_a_code_are_in_the_order_of_the_sorted_labels(data):
    names = np.array(["eel", "dog", "cat", "bee", "ant"])
    code = graphs.one_vs_rest(5)[:, [2, 0, 1, 3, 4]]
    model = PairwiseSVC(code, random_state=0, **PINNED).fit(data.X, names[data.y])
    assert model.classes_.tolist() == sorted(names)
    logits = model.model_.predictor.logits(model.model_.normalisation(data.X))
    # Machine 0 has the third label, "cat", against the rest.
    assert logits[0][names[data.y] == "cat"].mean() > 0 > logits[0][names[data.y] != "cat"].mean()


def test_the_graph_of_a_code_is_bipartite(data):
    model = fitted(data, graph="dense", **PINNED)
    np.testing.assert_array_equal(graphs.code_from_graph(model.graph_), model.code_)
    assert nx.is_bipartite(model.graph_)
    assert not hasattr(model, "edges_")
    assert not hasattr(model, "pairs_")
    assert not hasattr(fitted(data, graph="star", **PINNED), "code_")


def test_any_classifier_may_be_the_machine(data):
    model = fitted(data, graph="one_vs_rest", estimator=LogisticRegression())
    assert model.score(data.X_new, data.y_new) > 0.85
    assert len(model.machines_) == 5
    kernel = fitted(data, graph="dense", kernel="rbf")
    assert kernel.score(data.X_new, data.y_new) > 0.9


def test_threads_do_not_change_a_bit(data):
    one, three = (fitted(data, graph="sparse", n_jobs=n_jobs) for n_jobs in (1, 3))
    np.testing.assert_array_equal(one.predict_proba(data.X_new), three.predict_proba(data.X_new))


@pytest.mark.filterwarnings("ignore:The scale of the coupled model:UserWarning")
@pytest.mark.parametrize("graph", FAMILIES)
def test_two_classes_are_one_machine(data, graph):
    two = np.flatnonzero(data.y < 2)
    model = PairwiseSVC(graph, random_state=0, **PINNED).fit(data.X[two], data.y[two])
    assert model.code_.tolist() == [[1], [-1]]
    pair = PairwiseSVC("complete", random_state=0, **PINNED).fit(data.X[two], data.y[two])
    np.testing.assert_allclose(model.predict_proba(data.X_new), pair.predict_proba(data.X_new), atol=1e-6)


def test_weights_of_samples_reach_the_machines(data):
    model = fitted(data, graph="one_vs_rest", **PINNED)
    weighted = fitted(data, graph="one_vs_rest", class_weight={0: 50.0}, **PINNED)
    rise = weighted.predict_proba(data.X_new)[:, 0] - model.predict_proba(data.X_new)[:, 0]
    assert rise.mean() > 0


@pytest.mark.long
def test_every_machine_may_have_a_slope_and_shift_of_its_own(digits):
    few = digits._replace(X=digits.X[:300], y=digits.y[:300])
    scaled = fitted(few, graph="one_vs_rest", **PINNED)
    learned = fitted(few, graph="one_vs_rest", coupled_calibration="edges", **PINNED)
    assert len(np.unique(learned.model_.coupled.slope)) > 1
    losses = [log_loss(digits.y_new, model.predict_proba(digits.X_new)) for model in (scaled, learned)]
    assert losses[1] < losses[0] + 0.05


def test_a_class_can_go(data):
    model = fitted(data, graph="one_vs_rest", **PINNED)
    before = model.machines_
    model.remove_class(1)
    assert model.classes_.tolist() == [0, 2, 3, 4]
    np.testing.assert_array_equal(model.code_, graphs.one_vs_rest(4))
    np.testing.assert_array_equal(model.machines_.coef, before.coef[[0, 2, 3, 4]])
    others = data.y_new != 1
    assert model.score(data.X_new[others], data.y_new[others]) > 0.9
    model.remove_class(0).remove_class(2)
    assert model.code_.tolist() == [[1], [-1]]
    assert model.predict_proba(data.X_new).shape == (len(data.X_new), 2)


def test_a_class_without_which_two_others_look_alike_stays(data):
    code = np.array([[1, 1, 0], [1, 0, 0], [-1, 0, -1], [-1, -1, 0], [0, 0, 1]], np.int8)
    model = fitted(data, graph=code, **PINNED)
    before = model.model_
    message = r"remove_class: label must leave a usable code, got 3: .* rows of classes 0 and 1 are equal"
    with pytest.raises(ValueError, match=message):
        model.remove_class(3)
    assert model.model_ is before


@pytest.mark.parametrize(
    "change",
    [
        lambda model, X, y: model.add_class(9, X[:8], X, y),
        lambda model, X, y: model.retrain_pairs([(0, 1)], X, y),
        lambda model, X, y: list(model.grow(X, y)),
    ],
    ids=["add_class", "retrain_pairs", "grow"],
)
def test_what_needs_pairs_says_so(data, change):
    model = fitted(data, graph="dense", **PINNED)
    message = r"machines on pairs of classes are needed, got a model of 10 machines on sets of 5 classes"
    with pytest.raises(ValueError, match=message):
        change(model, data.X, data.y)


def test_more_than_fifty_classes_are_coupled_without_lists():
    X, y = make_blobs([8] * 52, 20, center_box=(-20, 20), random_state=0)
    model = PairwiseSVC("one_vs_rest", calibration_samples=60, random_state=0, **PINNED).fit(X, y)
    assert model.model_.shortlist == "none"
    assert model.score(X, y) > 0.5
    with pytest.raises(ValueError, match="shortlist must be 'auto' or 'none' for machines on sets"):
        model.set_params(shortlist=10).predict(X)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_machines_with_a_kernel_are_the_same_on_the_code_of_all_pairs(data, kernel):
    settings = {"kernel": kernel, "coupled_calibration": "none", "calibration": "platt"}
    by_code = fitted(data, graph="one_vs_one", **settings)
    by_pairs = fitted(data, graph="complete", coupling="bradley_terry", **settings)
    for ours, theirs in zip(by_code.machines_, by_pairs.machines_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(
        by_code.predict_proba(data.X_new), by_pairs.predict_proba(data.X_new), atol=1e-6
    )


@pytest.mark.parametrize("family", ["one_vs_rest", "dense", "sparse"])
def test_machines_with_a_kernel_on_sets_of_classes_are_saved_and_tell_the_classes_apart(
    data, family, tmp_path
):
    model = fitted(data, graph=family, kernel="rbf")
    p = model.predict_proba(data.X_new)
    assert mean_log_loss(p, data.y_new) < 0.5 * np.log(len(model.classes_))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(PairwiseSVC.load(tmp_path / "model").predict_proba(data.X_new), p)
