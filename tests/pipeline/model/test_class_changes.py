"""Classes are added and removed, pairs trained again: all other machines stay the same to the byte."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from pairloom import PairwiseSVC

X, Y = load_digits(return_X_y=True)
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])[Y]
FIT, TEST = np.arange(len(X)) % 4 == 0, np.arange(len(X)) % 4 == 1


def fitted(without=None, **parameters):
    chosen = FIT & (without != NAMES)
    parameters = {
        "graph": {"family": "hub_neighbours", "hubs": 2, "neighbours": 3},
        "whiten": 0.8,
        "random_state": 0,
        **parameters,
    }
    return PairwiseSVC(**parameters, kernel="linear").fit(X[chosen], NAMES[chosen]), X[chosen], NAMES[chosen]


def machines_by_pair(model):
    """Every array of every pair's machines as bytes, by the pair's labels."""
    labels = model.classes_.tolist()
    return {
        (labels[i], labels[j]): b"".join(values[e].tobytes() for values in model.machines_)
        for e, (i, j) in enumerate(model.edges_.tolist())
    }


@pytest.mark.parametrize(
    "label", ["eight", "zero", "two"]
)  # first, last and in the middle of the sorted labels
def test_a_new_class_trains_its_own_edges_only(label):
    model, X_old, y_old = fitted(without=label)
    before = machines_by_pair(model)
    model.add_class(label, X[FIT & (label == NAMES)], X_old, y_old)
    after = machines_by_pair(model)
    assert set(before) < set(after)
    assert {pair: after[pair] for pair in before} == before
    assert all(label in pair for pair in set(after) - set(before))
    assert 4 <= len(set(after) - set(before)) <= 5  # three neighbours and two hubs, which may be among them
    assert model.classes_.tolist() == sorted(set(NAMES))
    assert model.score(X[TEST], NAMES[TEST]) > 0.9


def test_a_new_class_is_nearly_as_good_as_a_full_fit():
    whole, _, _ = fitted()
    model, X_old, y_old = fitted(without="three")
    model.add_class("three", X[FIT & (NAMES == "three")], X_old, y_old)
    assert model.score(X[TEST], NAMES[TEST]) > whole.score(X[TEST], NAMES[TEST]) - 0.02


def test_removing_what_was_added_gives_back_the_same_probabilities():
    model, X_old, y_old = fitted(without="five")
    before, p = machines_by_pair(model), model.predict_proba(X[TEST])
    model.add_class("five", X[FIT & (NAMES == "five")], X_old, y_old)
    model.remove_class("five")
    assert machines_by_pair(model) == before
    np.testing.assert_array_equal(model.predict_proba(X[TEST]), p)


@pytest.mark.parametrize(("first", "second"), [("one", "nine"), ("nine", "one")])
def test_two_classes_added_in_either_order_leave_the_old_machines_alone(first, second):
    old, with_first = FIT & ~np.isin(NAMES, [first, second]), FIT & (second != NAMES)
    model = PairwiseSVC(graph="complete", whiten="none", random_state=0, kernel="linear").fit(
        X[old], NAMES[old]
    )
    before = machines_by_pair(model)
    model.add_class(first, X[FIT & (first == NAMES)], X[old], NAMES[old])
    # The samples of the model now include those of the first new class.
    model.add_class(second, X[FIT & (second == NAMES)], X[with_first], NAMES[with_first])
    after = machines_by_pair(model)
    assert {pair: after[pair] for pair in before} == before
    assert len(after) == len(before) + 8 + 9
    assert model.score(X[TEST], NAMES[TEST]) > 0.9


def test_removing_a_class_trains_nothing_and_predicts_the_rest():
    model, _, _ = fitted()
    before = machines_by_pair(model)
    model.remove_class("seven")
    assert machines_by_pair(model) == {pair: value for pair, value in before.items() if "seven" not in pair}
    others = TEST & (NAMES != "seven")
    assert model.score(X[others], NAMES[others]) > 0.9


def test_a_pair_is_improved_alone():
    model, X_fit, y_fit = fitted()
    before = machines_by_pair(model)
    pair = next(iter(before))
    # A smaller C: of separable classes, a larger one may leave every machine as it is.
    model.retrain_pairs([pair[::-1]], X_fit, y_fit, C=0.01 * model.C_)
    after = machines_by_pair(model)
    assert [other for other in before if before[other] != after[other]] == [pair]


def test_the_mass_of_the_lists_stays_as_it_was():
    model, X_old, y_old = fitted(without="five", shortlist=4)
    mass = model.list_mass_
    assert mass != (1, 0)
    model.add_class("five", X[FIT & (NAMES == "five")], X_old, y_old)
    assert model.list_mass_ == mass
    model.remove_class("two")
    assert model.list_mass_ == mass


def test_retraining_with_the_same_parameters_changes_nothing():
    model, X_fit, y_fit = fitted()
    before = machines_by_pair(model)
    model.retrain_pairs(list(before)[:3], X_fit, y_fit)
    assert machines_by_pair(model) == before


def test_a_changed_model_can_be_saved(tmp_path):
    model, X_old, y_old = fitted(without="five")
    model.add_class("five", X[FIT & (NAMES == "five")], X_old, y_old).save(tmp_path / "model")
    again = PairwiseSVC.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X[TEST]), model.predict_proba(X[TEST]))
    again.remove_class("one")
    others = FIT & (NAMES != "one")
    again.add_class("one", X[FIT & (NAMES == "one")], X[others], NAMES[others])
    assert again.classes_.tolist() == model.classes_.tolist()


@pytest.mark.parametrize("n_samples", [1, 3])
def test_a_class_of_fewer_samples_than_folds_is_added(n_samples):
    """All its samples are in every machine, as in a fit."""
    model, X_old, y_old = fitted(without="five")
    model.add_class("five", X[FIT & (NAMES == "five")][:n_samples], X_old, y_old)
    five = model.classes_.tolist().index("five")
    p = model.predict_proba(X[FIT & (NAMES == "five")][:n_samples])
    others = model.predict_proba(X[TEST & (NAMES != "five")])
    assert p[:, five].min() > others[:, five].mean()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.add_class("one", X[:9], X[FIT], NAMES[FIT]), "label must be new, got 'one'"),
        (lambda m: m.add_class("ten", X[:9], X[FIT][:, :5], NAMES[FIT]), r"X must be \(n, 64\)"),
        (lambda m: m.remove_class("eigth"), "got 'eigth'. Did you mean 'eight'"),
        (lambda m: m.retrain_pairs([("one", "ten")], X[FIT], NAMES[FIT]), "got 'ten'"),
    ],
)
def test_errors_name_the_parameter(change, message):
    model, _, _ = fitted()
    with pytest.raises(ValueError, match=message):
        change(model)


def test_the_only_hub_cannot_go():
    model, _, _ = fitted(graph={"family": "star", "centre": 3})
    with pytest.raises(ValueError, match="connected"):
        model.remove_class(model.classes_[3])


@pytest.mark.parametrize("change", ["add_class", "retrain_pairs", "grow"])
def test_weights_that_are_not_kept_are_not_left_out(change, tmp_path):
    few = FIT & (Y < 5)
    model = PairwiseSVC(graph="star", whiten="none", kernel="linear").fit(
        X[few], NAMES[few], np.ones(few.sum())
    )
    model.save(tmp_path / "model")
    arguments = {
        "add_class": ("seven", X[Y == 7], X[few], NAMES[few]),
        "retrain_pairs": ([("zero", "four")], X[few], NAMES[few]),
        "grow": (X[few], NAMES[few]),
    }[change]
    for weighted in (model, PairwiseSVC.load(tmp_path / "model")):
        with pytest.raises(
            ValueError, match=f"{change}: sample_weight is not stored with the model; refit without it"
        ):
            getattr(weighted, change)(*arguments)
