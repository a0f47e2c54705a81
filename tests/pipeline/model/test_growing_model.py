"""A fitted PairwiseSVC that grows: the machines of a fit on the grown graph, byte for byte."""

import numpy as np
import pytest
from fitted_models import Samples
from scipy import sparse
from sklearn.datasets import load_digits

from pairloom import PairwiseSVC
from pairloom.graphs import star


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return Samples(X[::2], y[::2])


def fitted(digits, **parameters):
    # Without a choice, which is made on the graph of the fit.
    pinned = {"graph": "star", "C": "scale", "whiten": "none", "calibration": "platt", "random_state": 0}
    pinned |= {"kernel": "linear", "standardise": False, "coupling": "stratified"}
    return PairwiseSVC(**pinned | parameters).fit(*digits)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"whiten": 0.5, "n_jobs": 2}, {"fit_on": "all"}, {"calibration": "distance"}, {"shortlist": 4}],
    ids=str,
)
def test_it_is_a_fit_on_the_grown_graph(digits, parameters):
    model = fitted(digits, **parameters)
    waves = list(model.grow(*digits, wave=6, pairs=20, plateau="never"))
    assert [wave.pairs for wave in waves] == [9, 15, 20]
    at_once = fitted(digits, **parameters | {"graph": model.graph_})
    for grown, trained in zip(model.machines_, at_once.machines_, strict=True):
        np.testing.assert_array_equal(grown, trained)
    # The scale was chosen from matrix products of other shapes, whose last bits may differ.
    assert model.scale_ == pytest.approx(at_once.scale_, rel=1e-5)
    assert model.list_mass_ == pytest.approx(at_once.list_mass_, rel=1e-3)
    assert (waves[0].mass != (1, 0)) == ("shortlist" in parameters)
    X, _ = load_digits(return_X_y=True)
    np.testing.assert_allclose(model.predict_proba(X[1::2]), at_once.predict_proba(X[1::2]), atol=1e-4)


def test_it_gets_better_and_says_so(digits):
    X, y = (part[1::2] for part in load_digits(return_X_y=True))
    model = fitted(digits)
    losses, scores = [], []
    for wave in model.grow(*digits, wave=8, plateau="never"):
        losses.append(wave.log_loss)
        scores.append(model.score(X, y))
    assert losses[-1] < 0.5 * losses[0]
    assert scores[-1] > scores[0] + 0.1
    assert len(model.edges_) == 45


def test_it_ends_at_a_plateau(digits):
    waves = list(fitted(digits).grow(*digits, wave=3, plateau=0.9))
    assert [wave.pairs for wave in waves] == [9, 12, 15]


def test_a_function_of_labels_orders_the_pairs(digits):
    X, y = digits
    names = np.array([f"digit {c}" for c in range(10)])
    model = PairwiseSVC(graph="star", whiten="none", kernel="linear").fit(X, names[y])
    first = next(model.grow(X, names[y], wave=3, cost=lambda a, b: -int(a[-1]) * int(b[-1])))
    assert first.proposed == [(8, 9), (7, 9), (7, 8)]


def test_it_grows_after_classes_have_come_and_gone(digits):
    X, y = digits
    model = PairwiseSVC(
        graph={"family": "hub_neighbours", "hubs": 1, "neighbours": 1}, whiten="none", kernel="linear"
    )
    model.fit(X[y < 9], y[y < 9])
    model.add_class(9, X[y == 9], X[y < 9], y[y < 9])
    model.remove_class(3)
    kept = {pair: machine.weights.tobytes() for pair, machine in model.pairs_.items()}
    scale = model.scale_
    waves = list(model.grow(X, y, plateau="never", share=0.8))
    assert waves[-1].pairs == 28
    for pair, weights in kept.items():
        grown = model.pairs_[pair].weights / np.float32(model.scale_) * np.float32(scale)
        np.testing.assert_allclose(grown, np.frombuffer(weights, np.float32), rtol=1e-5, atol=1e-8)


def test_a_grown_model_is_saved(digits, tmp_path):
    model = fitted(digits)
    list(model.grow(*digits, pairs=12))
    model.save(tmp_path / "model")
    again = PairwiseSVC.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(digits.X[:9]), model.predict_proba(digits.X[:9]))


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"coupled_calibration": "edges"}, "coupled_calibration must be 'scale' or 'none'"),
        ({"kernel": "rbf"}, "linear machines are needed"),
        ({"graph": "path"}, "diameter at most 2 .* got one where 0 and 3 are further apart"),
    ],
)
def test_what_cannot_grow_is_refused(digits, parameters, complaint):
    model = fitted(digits, **parameters)
    with pytest.raises(ValueError, match=complaint):
        model.grow(*digits)


def test_without_calibration_there_is_no_scale(digits):
    model = fitted(digits, coupled_calibration="none")
    list(model.grow(*digits, pairs=12))
    assert model.scale_ == 1


def test_a_graph_of_ones_own_grows(digits):
    model = fitted(digits, graph=star(10, 4))
    assert [wave.pairs for wave in model.grow(*digits, pairs=11)] == [9, 11]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"wave": 0}, "wave must be a positive integer, or None, got 0"),
        ({"wave": 2.5}, "wave must be a positive integer, or None, got 2.5"),
        ({"cost": "confusoin"}, "cost must be one of .*, got 'confusoin'"),
        ({"share": 1.5}, "share must be above 0 and at most 1, or None, got 1.5"),
    ],
)
def test_wrong_arguments_are_refused_at_once(digits, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        fitted(digits).grow(*digits, **options)


@pytest.mark.parametrize("change", ["order", "fewer", "labels"])
def test_other_samples_than_those_of_the_fit_are_refused(digits, change):
    X, y = digits
    model = fitted(digits)
    other = {
        "order": (X[::-1], y[::-1]),
        "fewer": (X[:-3], y[:-3]),
        "labels": (X, np.where(np.arange(len(y)) == 5, 77, y)),
    }[change]
    with pytest.raises(
        ValueError, match=r"grow: X must hold the samples that every class .* in the same order"
    ):
        model.grow(*other)


def test_sparse_and_double_samples_are_the_same_samples(digits):
    X, y = digits
    model = fitted(Samples(X.astype(np.float32), y))
    for same in (X.astype(np.float64), sparse.csr_array(X)):
        assert next(model.grow(same, y)).pairs == 9


@pytest.mark.parametrize(
    "changed",
    [
        {"folds": 3},
        {"fit_on": "fold"},
        {"random_state": 5},
        {"C": 100.0},
        {"whiten": 0.8},
        {"graph": "complete"},
        {"coupled_calibration": "none"},
        {"calibration_samples": 10},
    ],
    ids=str,
)
def test_parameters_that_were_set_since_the_fit_do_not_reach_the_growth(digits, changed):
    """Other folds would count training samples as held out."""
    model, unchanged = fitted(digits).set_params(**changed), fitted(digits)
    waves = [list(one.grow(*digits, pairs=14)) for one in (model, unchanged)]
    assert waves[0] == waves[1]
    for ours, theirs in zip(model.machines_, unchanged.machines_, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_model_that_was_changed_between_two_waves_is_not_spoilt(digits):
    model = fitted(digits)
    waves = model.grow(*digits, wave=5, plateau="never")
    next(waves), next(waves)
    model.remove_class(7)
    before = model.predict_proba(digits.X[:20])
    with pytest.raises(RuntimeError, match="the model must stay as it is between two waves"):
        next(waves)
    np.testing.assert_array_equal(model.predict_proba(digits.X[:20]), before)


def test_a_class_that_comes_after_growth_is_joined_to_the_hub(digits):
    X, y = digits
    old = y < 9
    model = PairwiseSVC(
        graph={"family": "hub_neighbours", "hubs": 1, "neighbours": 1}, whiten="none", kernel="linear"
    )
    (hub,) = model.fit(X[old], y[old]).graph_.graph["hubs"]
    list(model.grow(X[old], y[old], wave=3, pairs=len(model.edges_) + 3))
    model.add_class(9, X[~old], X[old], y[old], neighbours=1)
    assert model.graph_.has_edge(hub, 9)
    assert next(model.grow(X, y)).pairs == len(model.edges_)
