"""FittedModel never changes: a change makes another one, and a change that fails leaves the estimator as it was."""

from dataclasses import FrozenInstanceError, fields, is_dataclass

import networkx as nx
import numpy as np
import pytest
from fitted_models import fitted

from pairloom.pipeline.model import class_changes
from pairloom.pipeline.model.prediction import predict_probabilities

CENTRE = 2


@pytest.fixture
def model(data):
    """A star over integer labels: class 2 is its only hub."""
    return fitted(data, graph={"family": "star", "centre": CENTRE}, whiten=0.5)


def content_of(value, name="model"):
    """All values of a model, down to arrays, numbers and strings: a mapping of path -> value."""
    if is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
    elif hasattr(value, "_asdict"):
        parts = value._asdict()
    elif isinstance(value, nx.Graph):
        parts = {"nodes": list(value), "edges": list(value.edges(data=True)), "about": dict(value.graph)}
    else:
        return {name: value}
    return {
        path: found
        for key, part in parts.items()
        for path, found in content_of(part, f"{name}.{key}").items()
    }


def arrays_of(model):
    """All arrays of a model, including those that it computes once: edges, affine map and completion."""
    computed = {name: getattr(model, name) for name in ("edges", "predictor", "completion")}
    everything = content_of(model) | {
        path: part for name, value in computed.items() for path, part in content_of(value, name).items()
    }
    return {path: part for path, part in everything.items() if isinstance(part, np.ndarray)}


def bytes_of(arrays):
    return {path: (values.dtype, values.shape, values.tobytes()) for path, values in arrays.items()}


def rest_of(model):
    """All values of a model that are not arrays, as text."""
    return {path: repr(part) for path, part in content_of(model).items() if not isinstance(part, np.ndarray)}


def other_samples(data):
    """Samples of a class that is not in the problem."""
    return np.random.default_rng(5).normal(9.0, 1.0, (12, data.X.shape[1]))


CHANGES = {
    "add_class": lambda model, data: model.add_class(7, other_samples(data), data.X, data.y),
    "remove_class": lambda model, data: model.remove_class(4),
    "retrain_pairs": lambda model, data: model.retrain_pairs([(0, CENTRE)], data.X, data.y, C=5.0),
    "grow": lambda model, data: list(model.grow(data.X, data.y, pairs=7, plateau="never")),
}


@pytest.mark.parametrize("name", [field.name for field in fields(class_changes.FittedModel)])
def test_no_field_can_be_set(model, name):
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(model.model_, name, getattr(model.model_, name))


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_makes_another_model_and_writes_nothing_into_the_old_one(model, data, change):
    old = model.model_
    arrays, p = arrays_of(old), model.predict_proba(data.X_new)
    before, rest = bytes_of(arrays), rest_of(old)
    CHANGES[change](model, data)
    assert model.model_ is not old
    assert (model.predict_proba(data.X_new).shape != p.shape) or (model.predict_proba(data.X_new) != p).any()
    assert bytes_of(arrays) == before
    assert bytes_of(arrays_of(old)) == before
    assert rest_of(old) == rest
    np.testing.assert_array_equal(predict_probabilities(old, data.X_new, "stratified"), p)


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_of_read_only_arrays_changes_like_any_other(model, data, change):
    writeable = fitted(data, **model.get_params())
    for values in arrays_of(model.model_).values():
        values.setflags(write=False)
    for one in (model, writeable):
        CHANGES[change](one, data)
    assert bytes_of(arrays_of(model.model_)) == bytes_of(arrays_of(writeable.model_))
    np.testing.assert_array_equal(model.predict_proba(data.X_new), writeable.predict_proba(data.X_new))


FAILURES = {
    "add_class of NaN": (
        lambda model, data: model.add_class(7, other_samples(data) * np.nan, data.X, data.y),
        ValueError,
        "add_class: X_new must be a matrix of finite numbers: Input X_new contains NaN",
    ),
    "add_class of one feature": (
        lambda model, data: model.add_class(7, other_samples(data)[:, :1], data.X, data.y),
        ValueError,
        r"add_class: X_new must be \(n, 4\), the features of the fit, got \(12, 1\)",
    ),
    "add_class of a string among integers": (
        lambda model, data: model.add_class("seven", other_samples(data), data.X, data.y),
        TypeError,
        "add_class: label must be of the type of the model's labels, such as 0, got 'seven' of type str",
    ),
    "add_class of an old class": (
        lambda model, data: model.add_class(3, other_samples(data), data.X, data.y),
        ValueError,
        "add_class: label must be new, got 3",
    ),
    "add_class beside other samples": (
        lambda model, data: model.add_class(7, other_samples(data), data.X + 1, data.y),
        ValueError,
        "add_class: X must hold the samples that every class of the model was fitted on",
    ),
    "remove_class of the only hub": (
        lambda model, data: model.remove_class(CENTRE),
        ValueError,
        "must be connected, got 4 components",
    ),
    "remove_class of a stranger": (
        lambda model, data: model.remove_class(9),
        ValueError,
        "remove_class: label must be one of 0, 1, 2, 3, 4, got 9",
    ),
    "retrain_pairs of a stranger": (
        lambda model, data: model.retrain_pairs([(0, CENTRE), (0, 9)], data.X, data.y),
        ValueError,
        "retrain_pairs: label must be one of .* got 9",
    ),
    "retrain_pairs of a pair that was not trained": (
        lambda model, data: model.retrain_pairs([(0, CENTRE), (0, 1)], data.X, data.y),
        ValueError,
        r"retrain_pairs: pairs must be edges of the graph, got \(0, 1\)",
    ),
    "retrain_pairs of none": (
        lambda model, data: model.retrain_pairs([], data.X, data.y),
        ValueError,
        "retrain_pairs: pairs must hold at least one pair of labels, got none",
    ),
    "retrain_pairs with a word for C": (
        lambda model, data: model.retrain_pairs([(0, CENTRE)], data.X, data.y, C="scale"),
        ValueError,
        "retrain_pairs: C must be a positive number, got 'scale'",
    ),
    "retrain_pairs with an infinite C": (
        lambda model, data: model.retrain_pairs([(0, CENTRE)], data.X, data.y, C=np.inf),
        ValueError,
        "retrain_pairs: C must be a positive number, got inf",
    ),
    "retrain_pairs with a negative tol": (
        lambda model, data: model.retrain_pairs([(0, CENTRE)], data.X, data.y, tol=-1),
        ValueError,
        "retrain_pairs: tol must be a positive number, got -1",
    ),
    "grow on other samples": (
        lambda model, data: model.grow(data.X[::-1], data.y[::-1]),
        ValueError,
        "grow: X must hold the samples that every class of the model was fitted on",
    ),
    "grow by a cost that fails": (
        lambda model, data: next(model.grow(data.X, data.y, cost=lambda a, b: 1 / 0)),
        ZeroDivisionError,
        "division by zero",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_change_that_is_refused_leaves_the_model_as_it_was(model, data, name):
    change, error, message = FAILURES[name]
    assert_untouched(model, data, change, error, message)


@pytest.mark.parametrize("change", ["add_class", "retrain_pairs"])
def test_a_change_that_is_interrupted_in_training_leaves_the_model_as_it_was(
    model, data, change, monkeypatch
):
    def interrupted(*args, **keywords):
        raise KeyboardInterrupt("in the middle")

    monkeypatch.setattr(class_changes, "train_machines", interrupted)
    assert_untouched(model, data, CHANGES[change], KeyboardInterrupt, "in the middle")


def assert_untouched(model, data, change, error, message):
    old, p = model.model_, model.predict_proba(data.X_new)
    arrays = arrays_of(old)
    before, rest = bytes_of(arrays), rest_of(old)
    with pytest.raises(error, match=message):
        change(model, data)
    assert model.model_ is old
    assert bytes_of(arrays) == before
    assert rest_of(old) == rest
    np.testing.assert_array_equal(model.predict_proba(data.X_new), p)


def test_growth_that_fails_in_a_later_wave_keeps_the_last_whole_model(model, data):
    costs = iter(range(1000))
    waves = model.grow(data.X, data.y, wave=2, plateau="never", cost=lambda a, b: fails_after(6 + 4, costs))
    next(waves), next(waves)
    # 6 pairs are missing at first, 4 after a wave of 2, and the third judgement fails.
    kept, p = model.model_, model.predict_proba(data.X_new)
    assert len(kept.edges) == 6
    with pytest.raises(ZeroDivisionError):
        next(waves)
    assert model.model_ is kept
    np.testing.assert_array_equal(model.predict_proba(data.X_new), p)


def fails_after(calls, counter):
    count = next(counter)
    return 1 / (count < calls)


def test_a_changed_model_predicts_by_its_own_machines(model, data):
    """The new model does not keep the affine map that the old one had cached."""
    old = model.model_
    first = arrays_of(old)  # computes edges, affine map and completion
    model.retrain_pairs([(0, CENTRE)], data.X, data.y, C=5.0)
    after = arrays_of(model.model_)
    np.testing.assert_array_equal(
        after["predictor.logits.weights"][1:], first["predictor.logits.weights"][1:]
    )
    assert (after["predictor.logits.weights"][0] != first["predictor.logits.weights"][0]).any()
