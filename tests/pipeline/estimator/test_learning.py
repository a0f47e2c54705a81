"""learn="coupled": the weights of all machines, learned together through the coupling."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.tree import DecisionTreeClassifier

from pairloom import PairwiseSVC
from pairloom.pipeline.calibration import coupled_learning
from pairloom.pipeline.calibration.held_out import mean_log_loss
from pairloom.pipeline.coupling.pairs.gradient import GRADIENTS
from pairloom.pipeline.experiments import curved
from pairloom.pipeline.model import learning


def region_samples(per_region, seed):
    X, y = curved.samples(per_region, np.random.default_rng(seed))
    return X[:, :2], y


@pytest.fixture(scope="module")
def regions():
    """The three-class example of [I]: one class lies in two regions."""
    X, y = region_samples(400, 0)
    X_new, y_new = region_samples(1000, 1)
    return SimpleNamespace(X=X, y=y, X_new=X_new, y_new=y_new)


def fitted(data, **parameters):
    usual = {"graph": "complete", "coupling": "bradley_terry", "kernel": "linear", "random_state": 0}
    return PairwiseSVC(**usual | parameters).fit(data.X, data.y)


@pytest.fixture(scope="module")
def learned(regions):
    return fitted(regions, learn="coupled")


def test_one_class_in_two_regions_is_told_apart_better(regions):
    before, after = (fitted(regions, learn=how) for how in ("machines", "coupled"))
    p, q = (model.predict_proba(regions.X_new) for model in (before, after))
    assert mean_log_loss(q, regions.y_new) < mean_log_loss(p, regions.y_new) - 0.01
    assert after.score(regions.X_new, regions.y_new) > before.score(regions.X_new, regions.y_new) + 0.01
    record = after.learned_
    assert record.iterations > 0
    assert record.log_loss_after < record.log_loss_before
    assert record.held_out_after < record.held_out_before
    assert before.learned_ is None


def test_boundaries_become_curved(regions, learned):
    def bend(model):
        return curved.bend(model.predict(curved.grid()[:, :2]).reshape(curved.GRID, curved.GRID))

    assert bend(learned) > 2 * bend(fitted(regions))


def test_the_machines_stay_as_they_were(regions, learned):
    chosen = {"C": learned.C_, "whiten": learned.whiten_, "calibration": learned.calibration_}
    machines = fitted(regions, **chosen)
    assert (learned.machines_.coef == machines.machines_.coef).all()
    assert learned.scale_ == machines.scale_
    assert learned.pairs_[0, 1].bias != machines.pairs_[0, 1].bias


@pytest.mark.parametrize("method", GRADIENTS)
def test_every_coupling_with_a_gradient_learns_on_a_sparse_graph(method):
    X, y = load_digits(return_X_y=True)
    settings = {"graph": {"family": "bipartite", "hubs": 2}, "coupling": method, "random_state": 0}
    fixed = {"kernel": "linear", "C": "scale", "whiten": "none", "calibration": "distance"}
    before, after = (
        PairwiseSVC(**settings, **fixed, learn=how).fit(X[:900], y[:900]) for how in ("machines", "coupled")
    )
    loss, learned_loss = (mean_log_loss(model.predict_proba(X[900:]), y[900:]) for model in (before, after))
    assert learned_loss < loss


def test_the_bits_do_not_depend_on_the_threads(regions, learned):
    again = fitted(regions, learn="coupled", n_jobs=3)
    assert again.learned_ == learned.learned_
    assert (again.predict_proba(regions.X_new) == learned.predict_proba(regions.X_new)).all()


def test_a_saved_model_predicts_the_same_bits(regions, learned, tmp_path):
    learned.save(tmp_path / "model")
    loaded = PairwiseSVC.load(tmp_path / "model")
    assert loaded.learn == "coupled"
    assert loaded.learned_ == learned.learned_
    assert (loaded.predict_proba(regions.X_new) == learned.predict_proba(regions.X_new)).all()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The scale of the coupled model:UserWarning")
@pytest.mark.quick("0-platt", "1-distance")
@pytest.mark.parametrize("calibration", ["platt", "distance"])
@pytest.mark.parametrize("seed", range(3))
def test_noise_is_told_from_nothing(seed, calibration):
    rng = np.random.default_rng(seed)
    n, rows, features = 20, 40, 64
    y = np.repeat(np.arange(n), rows)
    X, X_new = rng.standard_normal((len(y), features)), rng.standard_normal((2000, features))
    y_new = rng.integers(0, n, 2000)
    model = PairwiseSVC(calibration=calibration, learn="coupled", random_state=0, kernel="linear").fit(X, y)
    assert mean_log_loss(model.predict_proba(X_new), y_new) <= np.log(n) + 0.02


def fitted_on_digits(digits, rows):
    """A model of the first digits as its machines are, and one that was to learn."""
    some = SimpleNamespace(X=digits.X[:rows], y=digits.y[:rows])
    settings = {"coupling": "stratified", "C": "scale", "whiten": "none", "calibration": "distance"}
    return [fitted(some, **settings, learn=how) for how in ("machines", "coupled")]


def test_where_nothing_is_gained_the_machines_predict(digits):
    """Of 700 digits with 64 features the machines are best as they are: every step makes held-out samples worse."""
    before, after = fitted_on_digits(digits, 700)
    record = after.learned_
    assert record.held_out >= coupled_learning.FEW_SAMPLES
    assert record.held_out_after == record.held_out_before
    assert record.iterations == 0
    assert (before.predict_proba(digits.X_new) == after.predict_proba(digits.X_new)).all()


def test_where_the_gain_is_not_clear_the_machines_predict(digits):
    """Of 600 digits, held-out samples gain a little: less than two standard errors of the gain."""
    before, after = fitted_on_digits(digits, 600)
    record = after.learned_
    assert record.held_out >= coupled_learning.FEW_SAMPLES
    assert record.held_out_after < record.held_out_before
    assert record.iterations == 0
    assert record.log_loss_after == record.log_loss_before
    assert (before.predict_proba(digits.X_new) == after.predict_proba(digits.X_new)).all()
    after.remove_class(3)  # as nothing was learned, nothing forbids it


def test_where_few_samples_are_held_out_no_step_is_tried(regions):
    """Steps would lower the loss of these 60 held-out samples, but so few decide nothing."""
    X, y = region_samples(60, 0)
    before, after = (fitted(SimpleNamespace(X=X, y=y), learn=how) for how in ("machines", "coupled"))
    record = after.learned_
    assert record.held_out < coupled_learning.FEW_SAMPLES
    assert record.held_out_after == record.held_out_before
    assert record.iterations == 0
    assert (before.predict_proba(regions.X_new) == after.predict_proba(regions.X_new)).all()


@pytest.mark.long
def test_weights_of_samples_count(regions):
    weight = np.where(regions.y == 1, 5.0, 1.0)
    parameters = {"graph": "complete", "coupling": "bradley_terry", "random_state": 0, "learn": "coupled"}
    model = PairwiseSVC(**parameters, kernel="linear").fit(regions.X, regions.y, sample_weight=weight)
    plain = PairwiseSVC(**parameters, kernel="linear").fit(regions.X, regions.y)
    assert (model.predict(regions.X_new) == 1).sum() > (plain.predict(regions.X_new) == 1).sum()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:PairwiseSVC. 1 of 4 classes have fewer:UserWarning")
def test_a_class_with_few_samples_is_not_unlearned(regions):
    """It is never held out, but the gradient sees its samples."""
    X = np.concatenate([regions.X, [[-3.0, 4.0], [-3.1, 4.1], [-2.9, 4.1]]])
    y = np.concatenate([regions.y, [3, 3, 3]])
    model = fitted(SimpleNamespace(X=X, y=y), learn="coupled")
    assert model.learned_.iterations > 0
    assert model.predict([[-3.0, 4.1]]) == 3


CHANGES = {
    "add_class": lambda model, data: model.add_class(3, data.X[:20] + 5, data.X, data.y),
    "remove_class": lambda model, data: model.remove_class(0),
    "retrain_pairs": lambda model, data: model.retrain_pairs([(0, 1)], data.X, data.y, C=1.0),
    "grow": lambda model, data: list(model.grow(data.X, data.y)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_no_pair_of_a_learned_model_can_be_changed_alone(name, regions, learned):
    with pytest.raises(ValueError, match=rf"^{name}: the weights of all pairs were learned together"):
        CHANGES[name](learned, regions)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"learn": "couple"}, "learn must be one of 'machines', 'coupled', got 'couple'."),
        ({"coupling": "vote"}, "learn='coupled' needs a coupling with a gradient"),
        ({"kernel": "rbf"}, "learn='coupled' needs linear machines"),
        ({"estimator": DecisionTreeClassifier()}, "got estimator=DecisionTreeClassifier()"),
    ],
)
def test_what_cannot_be_learned_is_refused(regions, parameters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        fitted(regions, **({"learn": "coupled"} | parameters))


def test_too_many_weights_are_refused_before_anything_is_trained(regions, monkeypatch):
    monkeypatch.setattr(learning, "MOST_WEIGHTS", 8)
    with pytest.raises(ValueError, match=re.escape("at most 8 weights, (features + 1) x pairs, got 3 x 3")):
        fitted(regions, learn="coupled")
