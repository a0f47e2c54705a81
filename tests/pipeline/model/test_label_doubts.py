"""Wrong labels are found, by machines that never saw the row; which rows can be judged; what is refused."""

import tracemalloc

import numpy as np
import pytest
from fitted_models import Samples, blobs, fitted
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.naive_bayes import GaussianNB

from pairloom import PairwiseSVC
from pairloom.pipeline.calibration.held_out import draw_samples, every_sample
from pairloom.pipeline.model import label_doubts


def with_wrong_labels(data, share=0.05, seed=1):
    """The samples with a share of the labels replaced by others, and which rows have them."""
    random = np.random.default_rng(seed)
    wrong = random.random(len(data.y)) < share
    n_classes = int(data.y.max()) + 1
    y = np.where(wrong, (data.y + random.integers(1, n_classes, len(data.y))) % n_classes, data.y)
    return Samples(data.X, y), wrong


@pytest.fixture(scope="module")
def noisy():
    """Classes that are far apart, and rows whose labels are wrong."""
    return with_wrong_labels(blobs(8, n_features=6, per_class=60, spread=1.5))


@pytest.fixture(scope="module")
def model(noisy):
    return fitted(noisy[0])


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"kernel": "linear", "whiten": 0.5},
        {"kernel": "linear", "calibration": "platt", "fit_on": "fold", "C": "scale"},
        {"kernel": "linear", "shortlist": 4},
        {"graph": "one_vs_rest", "kernel": "linear"},
    ],
    ids=str,
)
def test_wrong_labels_come_first(parameters, noisy):
    data, wrong = noisy
    doubts = fitted(data, **parameters).label_doubts(data.y, data.X)
    assert_array_equal(np.sort(doubts.row), np.arange(len(wrong)))
    assert wrong[doubts.row[: wrong.sum()]].mean() > 0.9
    assert_array_equal(doubts.label, data.y[doubts.row])
    assert (np.diff(doubts.doubt) <= 0).all()
    assert_array_equal(doubts.doubted, doubts.p_better > doubts.p_label)


def test_the_better_class_is_the_true_one(noisy):
    clean, (data, wrong) = blobs(8, n_features=6, per_class=60, spread=1.5), noisy
    doubts = fitted(data).label_doubts(data.y, data.X)
    first = doubts.row[: wrong.sum()]
    assert (doubts.better[: wrong.sum()] == clean.y[first]).mean() > 0.9


def test_a_row_is_judged_by_the_machines_that_did_not_see_it(model, noisy):
    data, _ = noisy
    doubts, held_out = model.label_doubts(data.y, data.X), model.label_doubts(data.y)
    p = dict(zip(doubts.row.tolist(), doubts.p_label.tolist(), strict=True))
    assert len(held_out.row) == len(model.model_.held_out.classes)
    assert_allclose([p[row] for row in held_out.row.tolist()], held_out.p_label, rtol=1e-3, atol=1e-6)
    for row, label in zip(held_out.row, held_out.label, strict=True):
        assert data.y[row] == label


def test_every_sample_has_the_fold_that_it_is_drawn_with():
    y = np.random.default_rng(0).integers(5, size=200)
    everyone, drawn = every_sample(y, 4, 7), draw_samples(y, 50, 4, 7, whitened=False)
    assert_array_equal(everyone.folds[drawn.rows], drawn.folds)
    assert_array_equal(everyone.parts[drawn.rows], drawn.parts)
    assert_array_equal(everyone.classes[drawn.rows], drawn.classes)


def test_rows_of_small_classes_are_judged_by_the_means_of_the_classes():
    data = blobs(12, n_features=8, per_class=30, spread=1.0, seed=3)
    kept = (data.y < 6) | (np.arange(len(data.y)) % 10 == 0)
    X, y = data.X[kept], data.y[kept].copy()
    assert (np.bincount(y) < 4).any(), "fewer than folds"
    strangers = np.flatnonzero(y == 0)[:3]
    y[strangers] = np.flatnonzero(np.bincount(y, minlength=12) == np.bincount(y).min())[0]
    with pytest.warns(UserWarning, match="fewer than 8 samples"):
        model = PairwiseSVC(random_state=0, kernel="linear", folds=8).fit(X, y)
    doubts = model.label_doubts(y, X)
    small = np.isnan(doubts.p_label)
    assert small.any()
    assert not np.isnan(doubts.doubt).any()
    assert set(strangers.tolist()) <= set(doubts.row[: 2 * len(strangers)].tolist())


def test_pieces_of_any_size_judge_alike(model, noisy, monkeypatch):
    data, _ = noisy
    whole = model.label_doubts(data.y, data.X)
    monkeypatch.setattr(label_doubts, "_READ_ROWS", 37)
    monkeypatch.setattr(label_doubts, "_LOGIT_BYTES", 1)
    cut = model.label_doubts(data.y, data.X)
    assert_array_equal(cut.row, whole.row)
    assert_allclose(cut.doubt, whole.doubt, rtol=1e-4, atol=1e-4)


def test_judging_by_class_means_takes_bounded_memory(monkeypatch):
    data = blobs(300, n_features=4, per_class=10, spread=0.5)
    model = fitted(data, kernel="linear", graph="star", C=1.0, calibration="distance", whiten="none")
    means = label_doubts._ClassMeans.of(model.model_, data.X.__getitem__, data.y)
    better, log_odds = means.log_odds(data.X, data.y)
    monkeypatch.setattr(label_doubts, "_LOGIT_BYTES", 2**17)
    tracemalloc.start()
    in_pieces = means.log_odds(data.X, data.y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert_array_equal(in_pieces[0], better)
    assert_allclose(in_pieces[1], log_odds)
    # The densities of all rows at once are 7 MB.
    assert peak < 2**20


def test_classes_are_counted(model, noisy):
    data, _ = noisy
    doubts = model.label_doubts(data.y, data.X)
    counts = doubts.by_class()
    assert [judged for judged, _ in counts.values()] == np.bincount(data.y).tolist()
    assert sum(doubted for _, doubted in counts.values()) == doubts.doubted.sum() > 0
    assert "another class fits better" in repr(doubts)


def test_a_saved_model_has_the_same_doubts(model, noisy, tmp_path):
    data, _ = noisy
    model.save(tmp_path / "model")
    loaded = PairwiseSVC.load(tmp_path / "model").label_doubts(data.y, data.X)
    assert_array_equal(loaded.row, model.label_doubts(data.y, data.X).row)


def test_what_is_not_of_the_fit_is_refused(model, noisy):
    (X, y), _ = noisy
    with pytest.raises(ValueError, match="y must hold the labels of the fit, got others: 99"):
        model.label_doubts(np.where(np.arange(len(y)) == 3, 99, y))
    with pytest.raises(ValueError, match="row by row, got"):
        model.label_doubts(y[1:])
    with pytest.raises(ValueError, match="one label per training row"):
        model.label_doubts(y[:, None])
    with pytest.raises(ValueError, match="a row for each label"):
        model.label_doubts(y, X[1:])
    with pytest.raises(ValueError, match="in the same order"):
        fitted(noisy[0], kernel="linear").label_doubts(y, X[::-1])
    with pytest.raises(ValueError, match="sample_weight is not stored"):
        PairwiseSVC(random_state=0).fit(X, y, sample_weight=np.ones(len(y))).label_doubts(y)
    undivided = fitted(noisy[0], estimator=GaussianNB(), calibration="none", coupled_calibration="none")
    with pytest.raises(ValueError, match="no training row was held out"):
        undivided.label_doubts(y, X)
    with pytest.raises(ValueError, match="no held-out samples"):
        undivided.label_doubts(y)
