"""Groups of classes: their probabilities are sums, and the deepest group that is sure enough is answered."""

import numpy as np
import pytest
from fitted_models import blobs, fitted
from numpy.testing import assert_allclose, assert_array_equal

from pairloom.pipeline.model.class_groups import answers_at, class_groups

PARENTS = {c: "low" if c < 3 else "high" for c in range(6)}


@pytest.fixture(scope="module")
def model():
    return fitted(blobs(6, per_class=100, spread=5.0))


@pytest.fixture(scope="module")
def new():
    return blobs(6, per_class=400, spread=5.0)


def test_probabilities_of_groups_are_sums(model, new):
    names, p = model.group_proba(new.X[:20], PARENTS)
    leaves = model.predict_proba(new.X[:20])
    assert names.tolist() == ["low", "high"]
    assert_allclose(p, np.stack([leaves[:, :3].sum(axis=1), leaves[:, 3:].sum(axis=1)], axis=1))


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.97])
def test_answers_are_right_as_often_as_asked_for(coverage, model, new):
    answers = model.predict_at(new.X, PARENTS, coverage)
    truth = np.stack(
        [
            new.y.astype(object),
            np.array([PARENTS[c] for c in new.y], object),
            np.full(len(new.y), "any", object),
        ]
    )
    right = answers.name == truth[answers.level, np.arange(len(new.y))]
    # 600 held-out samples: three standard deviations are 0.05 at 80%
    assert right.mean() > coverage - 0.05
    assert (right.mean() < coverage + 0.1) or (answers.level == 0).all()


def test_answers_are_coarser_for_a_larger_coverage(model, new):
    sure, surer = model.predict_at(new.X, PARENTS, 0.7), model.predict_at(new.X, PARENTS, 0.97)
    assert (sure.level <= surer.level).all()
    assert sure.level.mean() < surer.level.mean()


def test_the_deepest_group_that_is_sure_enough_is_answered():
    labels = np.array(["a1", "a2", "b1", "b2"])
    groups = class_groups(
        labels, [{"a1": "a", "a2": "a", "b1": "b", "b2": "b"}, {"a": "all", "b": "all"}], "test"
    )
    p = np.array([[0.9, 0.05, 0.05, 0.0], [0.5, 0.4, 0.1, 0.0], [0.3, 0.2, 0.3, 0.2]])
    answers = answers_at(groups, p, 0.8)
    assert answers.name.tolist() == ["a1", "a", "all"]
    assert answers.level.tolist() == [0, 1, 2]
    assert_allclose(answers.p, [0.9, 0.9, 1.0])
    assert_array_equal(answers_at(groups, p, np.inf).name, ["any"] * 3)


def test_groups_that_miss_classes_or_do_not_nest_are_refused(model, new):
    X = new.X[:2]
    for ask in (model.predict_at, model.group_proba):
        with pytest.raises(ValueError, match="every class of the model, got none of 5"):
            ask(X, dict.fromkeys(range(5), "all"))
        with pytest.raises(TypeError, match="mapping from class to group"):
            ask(X, "groups")
    with pytest.raises(ValueError, match="groups must nest, got 'low' in several groups"):
        model.predict_at(X, [PARENTS, {c: c % 2 for c in range(6)}])
    with pytest.raises(TypeError, match="at level 2"):
        model.predict_at(X, [PARENTS, ["low"]])
    for coverage in (0, 1.2):
        with pytest.raises(ValueError, match="coverage must be a number above 0 and below 1"):
            model.predict_at(X, PARENTS, coverage)
    uncalibrated = fitted(blobs(6), calibration="platt", coupled_calibration="none")
    with pytest.raises(ValueError, match="no held-out samples"):
        uncalibrated.predict_at(X, PARENTS)
