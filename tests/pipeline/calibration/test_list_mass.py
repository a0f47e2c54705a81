"""The mass of the list: numbers for the list and the rest, found on held-out samples."""

import numpy as np
import pytest
from scipy.optimize import minimize

from pairloom import PairwiseSVC, graphs
from pairloom.pipeline.calibration.held_out import mean_log_loss
from pairloom.pipeline.calibration.list_mass import check_mass, choose_mass, samples_stood_for
from pairloom.pipeline.calibration.scale import choose_scale, nearby_scale
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.completion.couplers import PairCoupler
from pairloom.pipeline.completion.shortlist import ONE_SCALE, ListMass

N, LISTED = 12, 4


def listed_samples(noisy_logits, n_samples=600):
    """Shortlists of samples at a scale that is too large, and their classes, some of which are not listed."""
    completion = plan_completion(graphs.complete(N))
    L = noisy_logits(N, n_samples, spread=1.0, noise=1.0)
    samples = PairCoupler(completion).scored((1.7 * L[tuple(completion.edges.T)]).astype(np.float32), LISTED)
    p = PairCoupler(completion).scored(L[tuple(completion.edges.T)]).couple("normal").astype(np.float64)
    draws = np.random.default_rng(1).random((n_samples, 1))
    return samples, np.minimum((p.cumsum(axis=1) < draws).sum(axis=1), N - 1)


def log_loss(samples, y, scale, mass, method, weight=None):
    """With the priors: one sample each."""
    losses = -np.log(samples._replace(mass=mass).couple(method, scale)[np.arange(len(y)), y].astype(float))
    total = losses.sum() if weight is None else weight @ losses
    return total + (np.log(scale) ** 2 + np.log(mass.ranking) ** 2 + mass.offset**2) / 2


@pytest.mark.parametrize("method", ["stratified", "normal"])
@pytest.mark.parametrize("weighted", [False, True])
def test_three_numbers_found_apart_are_the_best_together(noisy_logits, method, weighted):
    samples, y = listed_samples(noisy_logits)
    assert 0.1 < (samples.classes != y[:, None]).all(axis=1).mean() < 0.6
    weight = 0.5 + np.arange(len(y)) % 3 if weighted else None
    choice = choose_scale(samples, y, method, weight=weight)

    def loss(x):
        return log_loss(samples, y, np.exp(x[0]), ListMass(np.exp(x[1]), x[2]), method, weight)

    best = minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-4})
    found = [np.log(choice.scale), np.log(choice.mass.ranking), choice.mass.offset]
    assert loss(found) < best.fun + 0.1, "a tenth of what one sample may say"
    np.testing.assert_allclose(found, best.x, atol=0.04)
    assert loss([found[0], 0, 0]) > best.fun + 1, "or there would be nothing to find"


def test_the_losses_are_those_of_the_whole_model(noisy_logits):
    samples, y = listed_samples(noisy_logits)
    choice = choose_scale(samples, y, "stratified")
    p = samples._replace(mass=choice.mass).couple("stratified", choice.scale)
    assert choice.log_loss == mean_log_loss(p, y)
    np.testing.assert_array_equal(choice.losses, -np.log(p[np.arange(len(y)), y].astype(float)))


def test_the_mass_is_right_on_average(noisy_logits):
    """What the offset is for. With one scale for both it is not."""
    samples, y = listed_samples(noisy_logits)
    choice = choose_scale(samples, y, "stratified")
    check = check_mass(samples._replace(mass=choice.mass), y, choice.scale)
    assert check.size == LISTED
    assert check.found == (samples.classes == y[:, None]).any(axis=1).mean()
    assert check.said == pytest.approx(check.found, abs=1.5 / len(y)), (
        "but for the prior, which is one sample"
    )
    assert abs(check.with_one_scale - check.found) > 0.02
    assert check.with_one_scale == check_mass(samples, y, choice.scale).said


def test_weights_are_repeats(noisy_logits):
    samples, y = listed_samples(noisy_logits)
    times = np.repeat(np.arange(len(y)), 1 + np.arange(len(y)) % 3)
    repeated = samples._replace(classes=samples.classes[times], potentials=samples.potentials[times])
    weighted = choose_mass(samples, y, 0.6, 1.0 + np.arange(len(y)) % 3)
    np.testing.assert_allclose(weighted, choose_mass(repeated, y[times], 0.6), rtol=1e-4)
    assert weighted != pytest.approx(choose_mass(samples, y, 0.6), rel=0.01)


def test_samples_of_large_classes_stand_for_more(noisy_logits):
    """As many are drawn of every class: with the totals of the classes the mass is that of all training samples."""
    samples, y = listed_samples(noisy_logits)
    totals = np.where(np.arange(N) < 3, 1000.0, 10.0)
    mass = choose_mass(samples, y, 0.6, totals=totals)
    weight = totals[y] / np.bincount(y, minlength=N)[y]
    assert mass == choose_mass(samples, y, 0.6, weight * len(y) / weight.sum())
    check = check_mass(samples._replace(mass=mass), y, 0.6, totals=totals)
    assert check.found == pytest.approx(
        np.average((samples.classes == y[:, None]).any(axis=1), weights=weight)
    )
    assert check.said == pytest.approx(check.found, abs=1.5 / len(y))


@pytest.mark.parametrize("weight", [None, np.array([1.0, 3.0, 2.0, 2.0, 2.0])])
def test_classes_that_gave_none_are_stood_for_by_the_smallest(weight):
    y, totals = np.array([0, 0, 1, 2, 4]), np.array([50.0, 10.0, 9.0, 2.0, 20.0, 4.0])
    stood_for = samples_stood_for(y, totals, weight)
    by_class = np.bincount(y, stood_for, 6) / stood_for.sum() * totals.sum()
    np.testing.assert_allclose(by_class, [50, 13, 12, 0, 20, 0])
    assert stood_for.sum() == pytest.approx(5 if weight is None else 10)
    assert stood_for[1] == pytest.approx(stood_for[0] * (1 if weight is None else 3))


def test_without_listed_samples_the_priors_decide(noisy_logits):
    samples, _ = listed_samples(noisy_logits, 30)
    missed = np.array([np.setdiff1d(np.arange(N), classes)[0] for classes in samples.classes])
    choice = choose_scale(samples, missed, "stratified", unit=2.0)
    assert choice.scale == 0.5
    assert choice.mass.offset < -1
    held = np.array([classes[0] for classes in samples.classes])
    choice = choose_scale(samples, held, "stratified")
    assert 0.5 < choice.mass.offset < 5, "all are listed, but they are few"


def test_samples_without_lists_have_none(noisy_logits):
    completion = plan_completion(graphs.complete(N))
    samples = PairCoupler(completion).scored(noisy_logits(N, 20)[tuple(completion.edges.T)])
    y = np.arange(20) % N
    assert choose_scale(samples, y, "stratified").mass == ONE_SCALE
    assert choose_mass(samples, y, 1.0) == ONE_SCALE
    assert check_mass(samples, y, 1.0) is None


def test_a_nearby_scale_is_that_of_the_list(noisy_logits):
    samples, y = listed_samples(noisy_logits)
    best = choose_scale(samples, y, "stratified").scale
    assert nearby_scale(samples, y, "stratified", near=1.3 * best) == pytest.approx(best, rel=0.05)


def test_votes_have_a_mass_but_no_scale(noisy_logits):
    samples, y = listed_samples(noisy_logits)
    choice = choose_scale(samples, y, "vote")
    assert choice.scale == 1.0
    assert choice.mass == choose_mass(samples, y, 1.0) != ONE_SCALE


@pytest.mark.quick("0-slopes", "0-platt", "1-distance")
@pytest.mark.filterwarnings("ignore:The scale of the coupled model:UserWarning")
@pytest.mark.parametrize("calibration", ["slopes", "distance", "platt"])
@pytest.mark.parametrize("seed", [0, 1])
def test_noise_is_told_from_nothing(seed, calibration):
    """Of 60 classes a sixth is listed: neither the list nor its mass may learn from noise."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(60), 12)
    X, X_new = (rng.standard_normal((n, 16)) for n in (len(y), 3000))
    model = PairwiseSVC(calibration=calibration, C="scale", whiten="none", shortlist=10, random_state=0)
    p = model.fit(X, y).predict_proba(X_new)
    assert mean_log_loss(p, rng.integers(0, 60, 3000)) <= np.log(60) + 0.02
