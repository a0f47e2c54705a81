"""Features that know nothing of the labels: the model must not be surer than a coin."""

import numpy as np
import pytest

from pairloom import PairwiseSVC
from pairloom.pipeline.calibration.held_out import mean_log_loss
from pairloom.pipeline.calibration.scale import LOWEST

ROWS, FEATURES, NEW = 40, 64, 2000


def noise(n_classes, seed):
    """Training samples, their labels, new samples and theirs: all drawn without regard to each other."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), ROWS)
    X, X_new = (rng.standard_normal((n, FEATURES)) for n in (len(y), NEW))
    return X, y, X_new, rng.integers(0, n_classes, NEW)


@pytest.mark.quick(
    *("20-complete-platt", "20-complete-distance", "20-hub_neighbours-platt", "20-hub_neighbours-distance")
)
@pytest.mark.parametrize("calibration", ["platt", "distance"])
@pytest.mark.parametrize("graph", ["complete", "hub_neighbours"])
@pytest.mark.parametrize("n_classes", [20, 50, 150])
def test_noise_is_told_from_nothing(n_classes, graph, calibration):
    """The scale is at its lower bound, and says so.

    Not for every draw, so this one has a seed: with all pairs of 20 and 50 classes, 5 draws of 21 were told apart by
    Platt's logits a little better than by guessing, and none by distances. What that costs is in the next test.
    """
    X, y, X_new, y_new = noise(n_classes, seed=2)
    model = PairwiseSVC(graph, calibration=calibration, random_state=0, kernel="linear")
    with pytest.warns(
        UserWarning, match="held-out samples, is at its lower bound: the model does no better than"
    ):
        model.fit(X, y)
    if calibration == "platt":
        assert model.scale_ == pytest.approx(np.exp(LOWEST), rel=0.14)
    assert mean_log_loss(model.predict_proba(X_new), y_new) <= np.log(n_classes) + 0.01


@pytest.mark.filterwarnings("ignore:The scale of the coupled model:UserWarning")
@pytest.mark.quick("0-platt", "1-distance", "9-platt", "9-distance")
@pytest.mark.parametrize("calibration", ["platt", "distance"])
@pytest.mark.parametrize("seed", [0, 1, 9, 10, 11])
def test_whatever_the_draw_it_costs_next_to_nothing(seed, calibration):
    X, y, X_new, y_new = noise(20, seed)
    model = PairwiseSVC("complete", calibration=calibration, random_state=0, kernel="linear").fit(X, y)
    assert mean_log_loss(model.predict_proba(X_new), y_new) <= np.log(20) + 0.01


@pytest.mark.filterwarnings("ignore:The scale of the coupled model:UserWarning")
def test_the_choice_of_a_calibration_is_not_fooled_by_noise():
    X, y, X_new, y_new = noise(20, seed=2)
    model = PairwiseSVC(random_state=0, kernel="linear").fit(X, y)
    assert len(model.candidates_) == 4
    assert [row["calibration"] for row in model.calibrations_[:3]] == ["distance", "slopes", "platt"]
    assert {row["coupling"] for row in model.calibrations_} == {"stratified", "wlw2", "bradley_terry"}
    # Chance alone moves the loss of a candidate by some thousandths.
    assert all(abs(row["log_loss"] - np.log(20)) < 0.02 for row in model.candidates_)
    assert mean_log_loss(model.predict_proba(X_new), y_new) <= np.log(20) + 0.01


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*is at its lower bound:UserWarning")
@pytest.mark.parametrize(("n_classes", "features"), [(10, 16), (20, 64)])
def test_nor_is_the_choice_of_a_kernel(n_classes, features):
    """All that is chosen by default, on noise with more rows per pair than columns, and with fewer."""
    X, y, X_new, y_new = noise(n_classes, seed=2)
    model = PairwiseSVC(random_state=0).fit(X[:, :features], y)
    assert {row["kernel"] for row in model.candidates_} == {"linear", "rbf"}
    assert mean_log_loss(model.predict_proba(X_new[:, :features]), y_new) <= np.log(n_classes) + 0.015
