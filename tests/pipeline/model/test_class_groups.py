"""Groups of classes: their probabilities are sums, and the deepest group that is sure enough is answered."""

import numpy as np
import pytest
from fitted_models import UNCALIBRATED, Samples, blobs, fitted
from numpy.testing import assert_allclose, assert_array_equal

from pairloom.pipeline.calibration.held_out_scores import HeldOutScores
from pairloom.pipeline.calibration.novelty_signals import NoveltyWeights
from pairloom.pipeline.model.class_groups import answers_at, class_groups, least_probability

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


def right_answers(answers, y):
    parents = np.array([PARENTS[c] for c in y], object)
    truth = np.stack([y.astype(object), parents, np.full(len(y), "any", object)])
    return answers.name == truth[answers.level, np.arange(len(y))]


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.97])
def test_answers_are_right_as_often_as_asked_for(coverage, model, new):
    answers = model.predict_at(new.X, PARENTS, coverage)
    right = right_answers(answers, new.y)
    # 600 held-out samples: three standard deviations are 0.05 at 80%
    assert right.mean() > coverage - 0.05
    assert (right.mean() < coverage + 0.1) or (answers.level == 0).all()


def hard_and_easy(per_class, seed):
    """Classes 0 to 2 overlap, 3 to 5 lie far from each other."""
    random = np.random.default_rng(seed)
    centres = np.array([[0, 0], [1.2, 0], [0, 1.2], [9, 9], [14, 9], [9, 14]])
    y = random.permutation(np.repeat(np.arange(6), per_class))
    return Samples(centres[y] + random.standard_normal((len(y), 2)), y)


@pytest.fixture(scope="module")
def uneven_model():
    return fitted(hard_and_easy(150, 0), kernel="linear")


@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_answers_keep_their_promise_for_other_shares_of_the_classes(coverage, uneven_model):
    new = hard_and_easy(2000, 1)
    kept = (new.y < 3) | (np.arange(len(new.y)) % 50 == 0)
    X, y = new.X[kept], new.y[kept]
    uneven_model.set_params(priors=np.bincount(y) / len(y))
    answers = uneven_model.predict_at(X, PARENTS, coverage)
    uneven_model.set_params(priors=None)
    # 450 held-out samples of the overlapping classes: three standard deviations are 0.057 at 80%
    assert right_answers(answers, y).mean() == pytest.approx(coverage, abs=0.057)


@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_answers_keep_their_promise_for_samples_of_possible_classes(coverage, uneven_model):
    new = hard_and_easy(1000, 1)
    of_possible = np.isin(new.y, [0, 1, 3])
    X, y = new.X[of_possible], new.y[of_possible]
    answers = uneven_model.predict_at(X, PARENTS, coverage, classes=[0, 1, 3])
    # 450 held-out samples. Where nearly all of the answers are classes, more may be right.
    assert coverage - 0.057 < right_answers(answers, y).mean()
    assert right_answers(answers, y).mean() < coverage + 0.057 or answers.level.mean() < 0.1
    assert set(answers.name) <= {0, 1, 3, "low", "high", "any"}
    assert (answers.p > 0).all()


def test_groups_have_the_sums_of_possible_classes(model, new):
    names, p = model.group_proba(new.X[:20], PARENTS, classes=[0, 1, 4])
    leaves = model.predict_proba(new.X[:20], classes=[0, 1, 4])
    assert names.tolist() == ["low", "high"]
    assert_allclose(p, np.stack([leaves[:, :2].sum(axis=1), leaves[:, 4]], axis=1))


def test_possible_classes_without_held_out_samples_promise_the_group_of_all(new):
    data = blobs(6, per_class=100, spread=5.0)
    # Classes of three rows, fewer than folds.
    kept = np.concatenate([np.flatnonzero(data.y == c)[: 3 if c > 3 else None] for c in range(6)])
    answers = fitted(Samples(data.X[kept], data.y[kept])).predict_at(new.X[:50], PARENTS, classes=[4, 5])
    assert set(answers.name) == {"any"}


def test_a_class_that_is_not_possible_is_never_answered():
    groups = class_groups(np.arange(4), {0: "a", 1: "a", 2: "b", 3: "b"}, "test")
    p = np.array([[0.9, 0.06, 0.04, 0.0], [1.0, 0.0, 0.0, 0.0]])
    odds = np.array([0.0, 1.0, 1.0, 0.0])
    scores = HeldOutScores.of(
        np.tile(p, (40, 1)), np.tile([1, 2], 40), np.ones(80), np.zeros(80), NoveltyWeights(*np.ones((3, 1)))
    )
    least = least_probability(groups, scores, 0.4, odds)
    answers = answers_at(groups, p, least, odds)
    assert answers.name[0] == 1
    assert answers.p[0] == pytest.approx(0.6)
    # Nothing is left of the second sample: neither class is more likely.
    assert answers.name[1] == "any"


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


def test_groups_may_have_the_names_of_classes():
    """A level from the groups of the level before is not taken for one from the classes."""
    halves, ends = {c: c // 2 for c in range(6)}, {0: "first", 1: "first", 2: "last"}
    groups = class_groups(np.arange(6), [halves, ends], "test")
    assert groups.names[2].tolist() == ["first", "last"]
    assert groups.of_class[2].tolist() == [0, 0, 0, 0, 1, 1]
    from_classes = class_groups(np.arange(6), [halves, {c: ends[c // 2] for c in range(6)}], "test")
    assert_array_equal(from_classes.of_class, groups.of_class)


def test_groups_that_miss_classes_or_do_not_nest_are_refused(model, new):
    X = new.X[:2]
    for ask in (model.predict_at, model.group_proba):
        with pytest.raises(ValueError, match="every class of the model, got none of 5"):
            ask(X, dict.fromkeys(range(5), "all"))
        for missing in (None, np.nan):
            with pytest.raises(ValueError, match="every class of the model, got none of 2"):
                ask(X, PARENTS | {2: missing})
        with pytest.raises(ValueError, match="every class of the model, got none of 0"):
            ask(X, {})
        with pytest.raises(TypeError, match=r"names of groups must be .* got \['low'\] for 3 at level 1"):
            ask(X, PARENTS | {3: ["low"]})
        with pytest.raises(ValueError, match=r"label must be one of .* got 99"):
            ask(X, PARENTS, classes=[0, 99])
        with pytest.raises(ValueError, match="at least 2 classes, got 1"):
            ask(X, PARENTS, classes=[0])
        with pytest.raises(TypeError, match="mapping from class to group"):
            ask(X, "groups")
    with pytest.raises(ValueError, match="groups must nest, got 'low' in several groups"):
        model.predict_at(X, [PARENTS, {c: c % 2 for c in range(6)}])
    with pytest.raises(ValueError, match="every group of the level before, got none of 'high' at level 2"):
        model.predict_at(X, [PARENTS, {"low": "all"}])
    with pytest.raises(ValueError, match="predict_at: classes must be a list of labels, the same for all"):
        model.predict_at(X, PARENTS, classes=np.ones((2, 6), bool))
    with pytest.raises(TypeError, match="at level 2"):
        model.predict_at(X, [PARENTS, ["low"]])
    with pytest.raises(TypeError, match="mapping from class to group, or a list of these"):
        model.predict_at(X, [])
    for coverage in (0, 1, 1.2, "0.9", None, True, float("nan")):
        with pytest.raises(ValueError, match="coverage must be a number above 0 and below 1"):
            model.predict_at(X, PARENTS, coverage)
    for parameters in UNCALIBRATED:
        uncalibrated = fitted(blobs(6), **parameters)
        with pytest.raises(ValueError, match="no held-out samples"):
            uncalibrated.predict_at(X, PARENTS)
        assert uncalibrated.group_proba(X, PARENTS)[1].shape == (2, 2)
