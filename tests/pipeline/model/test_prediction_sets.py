"""Prediction sets hold the true class as often as was asked for; the quantile behind them; what has none."""

import numpy as np
import pytest
from fitted_models import UNCALIBRATED, Samples, blobs, fitted
from numpy.testing import assert_allclose, assert_array_equal

from pairloom import PairwiseSVC
from pairloom.pipeline.calibration.held_out_scores import (
    HeldOutScores,
    likeliest,
    true_class_ranks,
    weighted_quantiles,
)
from pairloom.pipeline.calibration.novelty_signals import NoveltyWeights

SAMPLES = blobs(6, per_class=600, spread=4.0, seed=1)


@pytest.fixture(scope="module")
def model():
    return fitted(Samples(SAMPLES.X[:600], SAMPLES.y[:600]), kernel="linear")


@pytest.fixture(scope="module")
def new():
    """Other samples of the same classes."""
    return Samples(SAMPLES.X[600:], SAMPLES.y[600:])


def covered(sets, y, classes):
    return sets.toarray()[np.arange(len(y)), np.searchsorted(classes, y)]


@pytest.mark.parametrize("share", [0.5, 0.8, 0.9, 0.95])
def test_equal_weights_give_the_usual_conformal_quantile(share):
    scores = np.random.default_rng(0).random(57)
    expected = np.append(np.sort(scores), np.inf)[int(np.ceil((57 + 1) * share)) - 1]
    assert weighted_quantiles(scores, np.ones(57), share, np.ones(1))[0] == expected


def test_a_sample_that_stands_for_two_counts_as_two():
    scores = np.random.default_rng(1).random(40)
    weight = np.where(np.arange(40) < 10, 2.0, 1.0)
    twice = np.concatenate([scores, scores[:10]])
    for share in (0.3, 0.7, 0.9):
        weighted = weighted_quantiles(scores, weight, share, np.ones(1))
        assert_array_equal(weighted, weighted_quantiles(twice, np.ones(50), share, np.ones(1)))


def test_ranks_of_the_true_class_are_those_of_a_sorted_list():
    p = np.random.default_rng(2).dirichlet(np.ones(7), 30)
    y = np.random.default_rng(3).integers(7, size=30)
    true, above, rank = true_class_ranks(p, y)
    for r in range(30):
        order = list(likeliest(p, 7)[r])
        place = order.index(y[r])
        assert rank[r] == place + 1
        assert_allclose([true[r], above[r]], [p[r, y[r]], p[r, order[:place]].sum()])


def three_deviations(coverage, *samples):
    """Of a coverage that comes from so many held-out samples and is measured on so many new ones."""
    return 3 * np.sqrt(coverage * (1 - coverage) * sum(1 / n for n in samples))


@pytest.mark.parametrize("score", ["lac", "aps", "raps"])
@pytest.mark.parametrize("by", ["all", "class"])
def test_sets_hold_the_true_class_as_often_as_asked(score, by, model, new):
    for coverage in (0.8, 0.9, 0.95, 0.99):
        sets = model.predict_set(new.X, coverage, score=score, by=by)
        allowed = three_deviations(coverage, 600, len(new.y)) + (0.01 if by == "class" else 0)
        assert covered(sets, new.y, model.classes_).mean() == pytest.approx(coverage, abs=allowed), coverage


def hard_and_easy(per_class, seed):
    """Classes 0 and 1 overlap, 2 and 3 lie far from each other."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.repeat(np.arange(4), per_class))
    centres = np.array([[0, 0], [1.5, 0], [9, 9], [14, 3]])
    return Samples(centres[y] + random.standard_normal((len(y), 2)), y)


def test_every_class_has_the_coverage_that_was_asked_for():
    model, other = fitted(hard_and_easy(400, 0), kernel="rbf"), hard_and_easy(2000, 1)
    missed = {}
    for by in ("all", "class"):
        found = covered(model.predict_set(other.X, 0.8, by=by), other.y, model.classes_)
        missed[by] = np.array([found[other.y == c].mean() for c in range(4)]) - 0.8
    allowed = three_deviations(0.8, 400, 2000)
    assert np.abs(missed["class"]).max() < allowed
    assert np.abs(missed["all"]).max() > 2 * allowed


@pytest.mark.parametrize("score", ["aps", "raps"])
def test_sets_that_are_not_randomised_are_the_likeliest_classes_up_to_the_last_one(score, model, new):
    whole = model.predict_set(new.X, 0.8, score=score, randomised=False)
    assert covered(whole, new.y, model.classes_).mean() > 0.8 - three_deviations(0.8, 600, len(new.y))
    sets = whole.toarray()
    p, sizes = model.predict_proba(new.X), sets.sum(axis=1)
    order = likeliest(p, 6)
    for row in range(0, len(p), 50):
        assert set(np.flatnonzero(sets[row])) == set(order[row, : sizes[row]])
    drawn = [model.predict_set(new.X, 0.8, score=score).toarray() for _ in range(2)]
    assert_array_equal(*drawn)
    assert drawn[0].sum() < sets.sum()


def test_sets_of_a_larger_coverage_hold_those_of_a_smaller(model, new):
    small, large = (model.predict_set(new.X[:200], coverage).toarray() for coverage in (0.7, 0.95))
    assert (small <= large).all()
    assert small.sum() < large.sum()


def test_labels_are_those_of_the_matrix(model, new):
    matrix = model.predict_set(new.X[:50]).toarray()
    for row, labels in zip(matrix, model.predict_set(new.X[:50], output="labels"), strict=True):
        assert_array_equal(labels, model.classes_[row])


def test_a_saved_model_has_the_same_sets(model, new, tmp_path):
    model.save(tmp_path / "model")
    loaded = PairwiseSVC.load(tmp_path / "model")
    mine, theirs = model.model_.held_out, loaded.model_.held_out
    assert_array_equal(mine.table(), theirs.table())
    for ours, others in ((mine.novelty, theirs.novelty), (mine.places, theirs.places)):
        assert all(np.array_equal(*pair) for pair in zip(ours or (), others or (), strict=True))
    assert (loaded.predict_set(new.X) != model.predict_set(new.X)).nnz == 0


def test_rare_classes_weigh_as_much_as_they_are_worth():
    data = blobs(4, per_class=200, spread=6.0)
    kept = (data.y != 0) | (np.cumsum(data.y == 0) <= 20)
    model = PairwiseSVC(random_state=0, calibration_samples=60).fit(data.X[kept], data.y[kept])
    weight = model.model_.held_out.weight_of_class(4)
    assert_allclose(weight[1:] / weight[0], 200 / 20, rtol=1e-6)


def test_classes_with_few_held_out_samples_are_pooled(model):
    pools = fitted(blobs(6, per_class=10, spread=4.0)).pooled_classes(0.95)
    assert sorted(label for labels, _ in pools for label in labels) == list(range(6))
    assert all(count >= 19 for _, count in pools)
    assert [len(labels) for labels, _ in model.pooled_classes(0.95)] == [1] * 6


def test_classes_are_pooled_with_those_that_they_are_most_like():
    """Three pairs of classes that are near each other, with ten rows each: two have the 19 that 95% needs."""
    random, partners = np.random.default_rng(0), {(0, 3), (1, 4), (2, 5)}
    y = random.permutation(np.repeat(np.arange(6), 10))
    X = np.array([[9.0, 0.0], [0.0, 9.0], [-9.0, -9.0]])[y % 3] + random.standard_normal((60, 2))
    for parameters in ({"kernel": "linear"}, {"kernel": "rbf", "gamma": 0.1}):
        pools = fitted(Samples(X, y), **parameters).pooled_classes(0.95)
        assert {tuple(labels.tolist()) for labels, _ in pools} == partners
        assert [count for _, count in pools] == [20, 20, 20]


def test_priors_move_the_thresholds_of_all_classes_together(model, new):
    kept = (new.y < 2) | (np.arange(len(new.y)) % 20 == 0)
    X, y = new.X[kept], new.y[kept]
    shares = np.bincount(y) / len(y)
    shifted = PairwiseSVC(**model.get_params() | {"priors": shares})
    shifted.model_, shifted.n_features_in_ = model.model_, model.n_features_in_
    sets = shifted.predict_set(X, 0.9)
    assert covered(sets, y, model.classes_).mean() == pytest.approx(0.9, abs=0.06)


@pytest.mark.parametrize("coverage", [0, 1, 1.2, -0.5, "0.9", None, float("nan"), True])
def test_a_coverage_that_is_none_is_refused(coverage, model, new):
    for ask in (lambda: model.predict_set(new.X[:1], coverage), lambda: model.pooled_classes(coverage)):
        with pytest.raises(ValueError, match="coverage must be a number above 0 and below 1"):
            ask()


def test_words_that_are_not_known_are_refused(model, new):
    for name in ("score", "by", "output"):
        with pytest.raises(ValueError, match=f"predict_set: {name} must be"):
            model.predict_set(new.X[:1], **{name: "nothing"})


def test_models_without_held_out_samples_say_why():
    data = blobs(4)
    for parameters in UNCALIBRATED:
        uncalibrated = fitted(data, **parameters)
        for ask in (lambda model: model.predict_set(data.X), PairwiseSVC.pooled_classes):
            with pytest.raises(ValueError, match="coupled_calibration='none' scores none"):
                ask(uncalibrated)
    changed = fitted(data).remove_class(0)
    with pytest.raises(ValueError, match="changed since its fit"):
        changed.predict_set(data.X)
    other = fitted(data).set_params(coupling="wlw2")
    with pytest.raises(ValueError, match="coupling must be 'stratified'"):
        other.predict_set(data.X)


def test_a_grown_model_has_the_scores_of_its_own_pairs():
    data = blobs(6, per_class=40, spread=4.0)
    fixed = {"kernel": "linear", "calibration": "distance", "whiten": "none", "C": 1.0}
    fixed["coupling"] = "stratified"
    model = fitted(data, graph="star", **fixed)
    before = model.model_.held_out
    for _ in model.grow(data.X, data.y, plateau="never"):
        pass
    at_once = fitted(data, graph="complete", **fixed).model_.held_out
    assert_array_equal(model.model_.held_out.classes, at_once.classes)
    assert_allclose(model.model_.held_out.p, at_once.p, atol=0.02)
    assert np.abs(before.p - at_once.p).max() > 0.02


def test_a_table_of_scores_that_is_damaged_is_refused():
    p = np.full((3, 4), 0.25)
    novelty = NoveltyWeights(*np.ones((3, 1)))
    scores = HeldOutScores.of(p, np.arange(3), np.ones(3), np.array([0.5, np.nan, 1.0]), novelty)
    read = HeldOutScores.from_table(scores.table(), 4, novelty)
    assert_array_equal(read.strangeness, scores.strangeness)
    with pytest.raises(ValueError, match="columns"):
        HeldOutScores.from_table(scores.table()[:, 1:], 4, novelty)
    wrong = scores.table()
    wrong[0, 0] = 9
    with pytest.raises(ValueError, match="classes of the model"):
        HeldOutScores.from_table(wrong, 4, novelty)
