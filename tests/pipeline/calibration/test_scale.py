import numpy as np
import pytest

from pairloom import couple, graphs
from pairloom.pipeline.calibration.coupled_calibration import calibrate_coupled, calibrate_edges
from pairloom.pipeline.calibration.held_out import HeldOutSamples, mean_log_loss, typical_sizes, unit_of
from pairloom.pipeline.calibration.scale import choose_scale, nearby_scale
from pairloom.pipeline.completion.complete import plan_completion
from pairloom.pipeline.completion.couplers import PairCoupler
from pairloom.pipeline.completion.slab import gradient_of_log_probability

METHODS = ["stratified", "wlw2", "normal", "bradley_terry"]


def planted(noisy_logits, method, n_samples=1500, n_classes=5, graph=None):
    """Logits, and classes drawn from their coupled probabilities: the right scale is one."""
    completion = plan_completion(graph if graph is not None else graphs.complete(n_classes))
    L = noisy_logits(n_classes, n_samples, spread=1.5, noise=0.5)
    p = couple(L, method).astype(np.float64)
    draws = np.random.default_rng(0).random((n_samples, 1))
    y = np.minimum((p.cumsum(axis=1) < draws).sum(axis=1), n_classes - 1)
    return L[tuple(completion.edges.T)], y, completion


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("factor", [0.2, 1.0, 5.0])
def test_a_planted_scale_is_found(noisy_logits, method, factor):
    logits, y, completion = planted(noisy_logits, method)
    choice = choose_scale(PairCoupler(completion).scored((logits / factor).astype(np.float32)), y, method)
    assert choice.scale == pytest.approx(factor, rel=0.12)
    p = couple_edges(logits / factor, completion, method)
    assert (
        choice.log_loss <= mean_log_loss(p, y) + 1e-4
    )  # a parabola through three points finds it to some 2%
    if factor != 1:
        assert choice.log_loss < mean_log_loss(p, y) - 0.01


def couple_edges(edge_logits, completion, method):
    n = completion.n_classes
    L = np.zeros((n, n, edge_logits.shape[1]), np.float32)
    i, j = completion.edges.T
    L[i, j], L[j, i] = edge_logits, -edge_logits
    return couple(L, method)


def with_prior(loss, scale, n_samples, unit=1.0):
    """What is minimised: the mean log loss, and the prior of the scale as one sample more."""
    return loss + np.log(scale * unit) ** 2 / 2 / n_samples


@pytest.mark.parametrize("n_samples", [60, 1500])
def test_no_other_scale_is_better(noisy_logits, n_samples):
    logits, y, completion = planted(noisy_logits, "stratified", n_samples)
    choice = choose_scale(PairCoupler(completion).scored(logits), y, "stratified")
    least = with_prior(choice.log_loss, choice.scale, n_samples)
    for scale in choice.scale * np.array([0.3, 0.7, 0.9, 1.1, 1.5, 4.0]):
        loss = mean_log_loss(couple_edges(scale * logits, completion, "stratified"), y)
        assert least <= with_prior(loss, scale, n_samples) + 1e-4
    assert choice.bound == ""
    p = couple_edges(choice.scale * logits, completion, "stratified")
    np.testing.assert_allclose(choice.losses, -np.log(p[np.arange(n_samples), y]), atol=1e-5)
    assert choice.log_loss == pytest.approx(choice.losses.mean(), rel=1e-12)


def separable(noisy_logits, n_samples, size=1.0):
    """Logits that are right about every sample: of any two scales the larger is likelier."""
    logits, _, completion = planted(noisy_logits, "normal", n_samples)
    y = couple_edges(logits, completion, "normal").argmax(axis=1)
    return (size * logits).astype(np.float32), y, completion


@pytest.mark.parametrize("unit", [0.1, 1.0, 10.0])
def test_few_samples_do_not_make_certain(noisy_logits, unit):
    """Fifteen samples, all told apart: the scale is where the prior holds it, in the unit of the logits."""
    logits, y, completion = separable(noisy_logits, 15, size=unit)
    choice = choose_scale(PairCoupler(completion).scored(logits), y, "normal", unit=unit)
    scales = np.exp(np.linspace(-4, 5, 361)) / unit
    losses = [mean_log_loss(couple_edges(scale * logits, completion, "normal"), y) for scale in scales]
    best = scales[np.argmin(with_prior(np.array(losses), scales, 15, unit))]
    assert choice.scale == pytest.approx(best, rel=0.06)
    assert 1 < choice.scale * unit < 20
    assert choice.bound == ""
    assert min(losses) < choice.log_loss  # that is what the prior costs


def test_many_samples_that_are_all_told_apart_reach_the_upper_bound(noisy_logits):
    logits, y, completion = separable(noisy_logits, 2000, size=1e-3)
    choice = choose_scale(PairCoupler(completion).scored(logits), y, "normal")
    assert choice.bound == "upper"
    assert choice.scale == pytest.approx(np.exp(5), rel=0.15)


def test_the_bounds_are_in_the_unit_of_the_logits(noisy_logits):
    """The same samples in another unit: the scale times the unit is the same, at a bound or between them."""
    for logits, y, completion in (planted(noisy_logits, "normal", 500), separable(noisy_logits, 500)):
        one = choose_scale(PairCoupler(completion).scored(logits), y, "normal")
        other = choose_scale(PairCoupler(completion).scored(64 * logits), y, "normal", unit=64.0)
        assert 64 * other.scale == pytest.approx(one.scale, rel=1e-6)
        assert other.bound == one.bound


def test_weights_are_repeats(noisy_logits):
    """Of so many samples that the prior, which is one sample whatever their weights are, is not felt."""
    logits, y, completion = planted(noisy_logits, "normal", 3000)
    weight = 1 + np.arange(3000) % 3
    y = np.where(weight == 3, (y + 1) % 5, y)  # the heaviest samples have wrong labels
    weighted = choose_scale(PairCoupler(completion).scored(logits), y, "normal", weight=weight.astype(float))
    times = np.random.default_rng(0).permutation(np.repeat(np.arange(3000), weight))
    repeated = choose_scale(PairCoupler(completion).scored(logits[:, times]), y[times], "normal")
    assert weighted.scale == pytest.approx(repeated.scale, rel=0.02)
    p = couple_edges(weighted.scale * logits[:, times], completion, "normal")
    assert weighted.log_loss == pytest.approx(mean_log_loss(p, y[times]), rel=1e-6)
    assert choose_scale(PairCoupler(completion).scored(logits), y, "normal").scale > 1.1 * weighted.scale


def test_a_scale_is_found_where_every_fourth_sample_is_of_another_kind(noisy_logits):
    """The search starts on every 4th sample: even if these are misleading, the scale must fit all samples."""
    logits, y, completion = planted(noisy_logits, "normal", 600)
    y[::4] = (y[::4] + 1) % 5
    choice = choose_scale(PairCoupler(completion).scored(logits), y, "normal")
    scales = np.exp(np.linspace(-2, 1, 40))
    losses = [mean_log_loss(couple_edges(scale * logits, completion, "normal"), y) for scale in scales]
    assert choice.log_loss < min(losses) + 1e-3


def test_voting_has_no_scale(noisy_logits):
    logits, y, completion = planted(noisy_logits, "normal", 50)
    assert choose_scale(PairCoupler(completion).scored(logits), y, "vote").scale == 1.0


def test_machines_that_know_nothing(noisy_logits):
    """Nothing is better than guessing: the scale is the least, and the probabilities are nearly even."""
    logits, _, completion = planted(noisy_logits, "stratified")
    y = np.random.default_rng(3).integers(0, 5, logits.shape[1])
    choice = choose_scale(PairCoupler(completion).scored(logits), y, "stratified")
    assert choice.bound == "lower"
    assert choice.scale == pytest.approx(np.exp(-4), rel=0.15)
    assert choice.log_loss == pytest.approx(np.log(5), abs=0.005)


def objective(logits, y, completion, method, scale, choice, shrinkage):
    adjusted = (choice.slope[:, None] * logits + choice.shift[:, None]).astype(np.float32)
    value, _ = gradient_of_log_probability(adjusted, y, completion, method)
    return -value + shrinkage / len(y) * (np.log(choice.slope / scale) ** 2 + choice.shift**2).sum()


@pytest.mark.parametrize("method", METHODS)
def test_platt_is_never_worse_than_the_scale_by_its_own_measure(noisy_logits, method):
    logits, y, completion = planted(noisy_logits, method, 400)
    logits = logits / np.linspace(0.3, 3, len(logits), dtype=np.float32)[:, None]
    scale = choose_scale(PairCoupler(completion).scored(logits), y, method)
    for shrinkage in (0.1, 10.0):
        choice = calibrate_edges(logits, y, PairCoupler(completion), method, scale.scale, shrinkage=shrinkage)
        assert (
            objective(logits, y, completion, method, scale.scale, choice, shrinkage) <= scale.log_loss + 1e-5
        )
        assert choice.log_loss <= scale.log_loss + 1e-5
        assert (choice.slope > 0).all()


def test_platt_finds_slopes_that_differ(noisy_logits):
    """Each edge's logits were divided by another number: with enough samples the slopes are recovered."""
    logits, y, completion = planted(noisy_logits, "normal", 3000)
    factors = np.linspace(0.5, 2, len(logits))
    distorted = (logits / factors[:, None]).astype(np.float32)
    choice = calibrate_edges(distorted, y, PairCoupler(completion), "normal", 1.0, shrinkage=0.1)
    assert np.corrcoef(np.log(choice.slope), np.log(factors))[0, 1] > 0.7
    assert (
        choice.log_loss
        < choose_scale(PairCoupler(completion).scored(distorted), y, "normal").log_loss - 0.005
    )


def test_strong_shrinkage_stays_at_the_scale(noisy_logits):
    logits, y, completion = planted(noisy_logits, "stratified", 200)
    choice = calibrate_edges(logits, y, PairCoupler(completion), "stratified", 1.7, shrinkage=1e7)
    np.testing.assert_allclose(choice.slope, 1.7, rtol=1e-3)
    np.testing.assert_allclose(choice.shift, 0, atol=1e-3)


def test_a_certain_error_counts_no_more_than_a_bound():
    assert mean_log_loss(np.array([[0.0, 1.0]]), np.array([0])) == pytest.approx(-np.log(1e-7))
    assert mean_log_loss(np.array([[0.5, 0.5], [1, 0]]), np.array([0, 0]), [1, 3]) == pytest.approx(
        np.log(2) / 4
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("away", [0.8, 1.0, 1.3])
def test_a_nearby_scale_is_the_best_one(noisy_logits, method, away):
    logits, y, completion = planted(noisy_logits, method)
    best = choose_scale(PairCoupler(completion).scored(logits), y, method).scale
    assert nearby_scale(PairCoupler(completion).scored(logits), y, method, near=away * best) == pytest.approx(
        best, rel=0.05
    )


@pytest.mark.parametrize("away", [0.05, 0.1, 10.0, 50.0])
def test_a_scale_is_followed_however_far_away_it_is(noisy_logits, away):
    logits, y, completion = planted(noisy_logits, "normal")
    samples = PairCoupler(completion).scored(logits)
    best = choose_scale(samples, y, "normal").scale
    assert nearby_scale(samples, y, "normal", near=away * best) == pytest.approx(best, rel=0.05)
    inner = nearby_scale(
        PairCoupler(completion).scored(8 * logits), y, "normal", near=away * best / 8, unit=8.0
    )
    assert 8 * inner == pytest.approx(best, rel=0.05)


def test_a_bound_is_a_warning_that_counts_the_samples(noisy_logits):
    logits, y, completion = separable(noisy_logits, 2000, size=1e-3)
    with pytest.warns(
        UserWarning, match="from 2000 held-out samples, is at its upper bound: the model tells all"
    ):
        calibrate_coupled(
            HeldOutSamples.of_edges(logits, y, PairCoupler(completion)),
            PairCoupler(completion),
            "normal",
            "scale",
        )
    logits, _, completion = planted(noisy_logits, "normal")
    y = np.random.default_rng(3).integers(0, 5, 1500)
    with pytest.warns(
        UserWarning, match="from 1500 held-out samples, is at its lower bound: the model does no better"
    ):
        found = calibrate_coupled(
            HeldOutSamples.of_edges(logits, y, PairCoupler(completion)),
            PairCoupler(completion),
            "normal",
            "scale",
        )
    np.testing.assert_array_equal(found.slope, np.full(len(logits), found.scale))


def test_the_unit_of_distances_is_the_median_of_the_samples_medians(noisy_logits):
    logits, _, _ = planted(noisy_logits, "normal", 300)
    sizes = typical_sizes(logits)
    assert unit_of(sizes, "platt") == 1.0
    assert unit_of(sizes, "distance") == np.median(np.median(np.abs(logits), axis=0))
    assert unit_of(np.zeros(4, np.float32), "distance") == 1.0
    assert unit_of(typical_sizes(np.empty((3, 0), np.float32)), "distance") == 1.0


def test_a_part_of_many_edges_gives_nearly_the_same_size():
    logits = np.random.default_rng(0).normal(0, 3, (20_000, 5)).astype(np.float32)
    np.testing.assert_allclose(typical_sizes(logits), np.median(np.abs(logits), axis=0), rtol=0.1)
