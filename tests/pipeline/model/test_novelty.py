"""None of these: samples of no class are strange, and as many known ones are rejected as was asked for."""

import numpy as np
import pytest
from fitted_models import UNCALIBRATED, Samples, blobs, fitted
from sklearn.metrics import roc_auc_score

from pairloom import PairwiseSVC
from pairloom.graphs import star
from pairloom.pipeline.completion.couplers import AllPairs, coupler_of
from pairloom.pipeline.model.novelty import novelty_limits


@pytest.fixture(scope="module")
def data():
    """Ten classes, the last three of which no model has seen."""
    return blobs(10, n_features=24, per_class=200, spread=4.0, seed=2)


def of_classes(data, known, half):
    rows = np.flatnonzero(known(data.y))
    rows = rows[rows % 2 == half]
    return Samples(data.X[rows], data.y[rows])


@pytest.fixture(scope="module")
def model(data):
    return fitted(of_classes(data, lambda y: y < 7, 0))


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"kernel": "linear", "shortlist": 4},
        {"graph": "one_vs_rest", "kernel": "linear"},
        {"kernel": "linear", "coupled_calibration": "edges", "graph": "complete"},
    ],
    ids=str,
)
def test_samples_of_other_classes_are_stranger(parameters, data):
    model = fitted(of_classes(data, lambda y: y < 7, 0), **parameters)
    known, strange = of_classes(data, lambda y: y < 7, 1), of_classes(data, lambda y: y >= 7, 1)
    novelty = np.r_[model.novelty(known.X), model.novelty(strange.X)]
    assert roc_auc_score(np.arange(len(novelty)) >= len(known.y), novelty) > 0.75
    # The standard deviation of held-out samples is the unit.
    assert abs(novelty[: len(known.y)].mean()) < 0.5


@pytest.mark.parametrize("by", ["all", "class"])
def test_as_many_known_samples_are_rejected_as_was_asked_for(by, model, data):
    known = of_classes(data, lambda y: y < 7, 1)
    for share in (0.05, 0.2):
        rejected = model.predict(known.X, reject=share, reject_by=by) == -1
        # 700 new and 700 held-out samples: three standard deviations are 0.064 at 20%
        assert rejected.mean() == pytest.approx(share, abs=0.065)
        kept = model.predict(known.X, reject=share, reject_by=by)[~rejected]
        np.testing.assert_array_equal(kept, model.predict(known.X)[~rejected])


def uneven(per_class, seed):
    """Three classes that overlap, of unequal spread, the last of which is rare, and two far from all."""
    random = np.random.default_rng(seed)
    centres, spreads = np.array([[0, 0], [2, 0], [0, 2], [9, 9], [14, 3]]), np.array([0.6, 1.5, 1, 1, 2])
    y = random.permutation(
        np.repeat(np.arange(5), [per_class, per_class, per_class // 5, per_class, per_class])
    )
    return Samples(centres[y] + spreads[y, None] * random.standard_normal((len(y), 2)), y)


@pytest.fixture(scope="module")
def uneven_model():
    return fitted(uneven(400, 0), kernel="rbf")


def test_every_predicted_class_has_the_share_that_was_asked_for(uneven_model):
    scores, new = uneven_model.model_.held_out, uneven(4000, 1)
    limits = novelty_limits(uneven_model.model_, scores, 0.1, "class")
    predicted = uneven_model.predict(new.X)
    rejected = uneven_model.predict(new.X, reject=0.1, reject_by="class") == -1
    for c in range(5):
        alike = scores.of_samples(scores.predicted() == c)
        beyond = alike.weight @ (alike.strangeness > limits[c]) / alike.weight.sum()
        heaviest = alike.weight.max() / alike.weight.sum()
        assert 0.1 - 2 * heaviest < beyond <= 0.1, c
        # Three standard deviations of the held-out samples, whose limit it is, and of the new ones.
        allowed = 3 * np.sqrt(0.1 * 0.9 * (1 / len(alike.classes) + 1 / (predicted == c).sum()))
        assert rejected[predicted == c].mean() == pytest.approx(0.1, abs=allowed), c


def test_names_have_a_name_for_none_of_them(model, data):
    known = of_classes(data, lambda y: y < 7, 0)
    for dtype in (str, object):
        names = np.array([f"c{c}" for c in known.y], dtype=dtype)
        named = fitted(Samples(known.X, names))
        found = named.predict(data.X, reject=0.1)
        assert (found == "none of these").mean() == pytest.approx(
            (model.predict(data.X, reject=0.1) == -1).mean()
        )
        assert (named.predict(data.X, reject=0.1, reject_label="?") == "?").any()


def test_priors_weight_the_samples_that_limits_come_from(uneven_model):
    new = uneven(4000, 1)
    rare = new.X[new.y == 2]

    def share_rejected():
        return (uneven_model.predict(rare, reject=0.1) == -1).mean()

    assert share_rejected() > 0.3
    uneven_model.set_params(priors=np.array([0.0005, 0.0005, 0.998, 0.0005, 0.0005]))
    shifted = share_rejected()
    uneven_model.set_params(priors=None)
    # 80 held-out samples of that class: three standard deviations are 0.1
    assert shifted == pytest.approx(0.1, abs=0.1)


def test_a_saved_model_has_the_same_novelty(model, data, tmp_path):
    model.save(tmp_path / "model")
    loaded = PairwiseSVC.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.novelty(data.X), model.novelty(data.X))
    np.testing.assert_array_equal(loaded.predict(data.X, reject=0.1), model.predict(data.X, reject=0.1))


def test_scores_of_classes_do_not_depend_on_memory():
    random = np.random.default_rng(0)
    coupler = coupler_of(star(6, centre=2))
    logits = random.standard_normal((coupler.n_machines, 9)).astype(np.float32)
    whole = coupler.scored(logits).class_scores()
    in_pieces = AllPairs(logits, coupler.completion, memory_limit=1).class_scores()
    np.testing.assert_allclose(in_pieces, whole, rtol=1e-6)


def test_what_cannot_be_rejected_is_refused(model, data):
    X = data.X[:3]
    for share in (0, 1, 1.2, "0.1", True, float("nan")):
        with pytest.raises(ValueError, match="reject must be a number above 0 and below 1"):
            model.predict(X, reject=share)
    with pytest.raises(ValueError, match="reject_by must be"):
        model.predict(X, reject=0.1, reject_by="sample")
    with pytest.raises(ValueError, match="reject_label must not be a class, got 3"):
        model.predict(X, reject=0.1, reject_label=3)
    booleans = fitted(Samples(data.X, data.y > 4))
    with pytest.raises(ValueError, match="reject_label must be given"):
        booleans.predict(X, reject=0.1)
    for parameters in UNCALIBRATED:
        uncalibrated = fitted(data, **parameters)
        for asked in (PairwiseSVC.novelty, lambda model, X: model.predict(X, reject=0.1)):
            with pytest.raises(ValueError, match="no held-out samples"):
                asked(uncalibrated, X)
