"""Intervals of means over repetitions and samples: their coverage, and what is decided by a single number."""

import re

import numpy as np
import pytest
from scipy.stats import binom

from pairloom.pipeline.experiments.paired_bootstrap import interval, resampled_means

STUDIES = 200


def crossed(rng, times, samples, by_time, by_sample, by_entry):
    """Outcomes about zero that vary with the repetition, with the sample and from entry to entry."""
    return (
        by_time * rng.standard_normal((times, 1))
        + by_sample * rng.standard_normal((1, samples))
        + by_entry * rng.standard_normal((times, samples))
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("times", "samples", "spreads"),
    [
        (1, 200, (0, 1, 0)),  # samples alone
        (30, 1, (1, 0, 0)),  # repetitions alone
        (3, 1, (1, 0, 0)),
        (20, 100, (1, 1, 1)),
        (20, 100, (0.1, 1, 1)),
        (5, 100, (1, 0.3, 0.3)),
        (3, 100, (0.05, 1, 0.3)),
    ],
)
def test_intervals_cover_the_truth(times, samples, spreads):
    rng = np.random.default_rng(0)
    covered = 0
    for study in range(STUDIES):
        values = {"a": crossed(rng, times, samples, *spreads)}
        low, high = interval(resampled_means(values, seed=study, replicates=400)["a"])
        covered += low <= 0 <= high
    # Too wide is allowed, and is so where both are resampled; too narrow by chance only.
    assert covered >= binom.ppf(0.001, STUDIES, 0.94)
    assert covered <= (STUDIES - 1 if min(times, samples) == 1 else STUDIES)


def test_a_difference_is_narrower_than_the_means_it_is_of():
    rng = np.random.default_rng(0)
    hard = crossed(rng, 20, 300, 1, 1, 0)
    means = resampled_means({"a": hard, "b": hard + 0.1 + 0.01 * rng.standard_normal(hard.shape)})
    low, high = interval(means["b"] - means["a"])
    assert 0.09 < low < 0.1 < high < 0.11
    assert np.subtract(*interval(means["a"])[::-1]) > 0.1


def test_the_estimate_is_the_mean_of_the_means_of_the_repetitions():
    outcomes = np.array([[0, 1, np.nan, np.nan], [1, 1, 1, 0]])
    means = resampled_means({"some": outcomes, "fixed": [[0, 0, 0, 1]], "times": [[1], [3]]})
    assert means["some"][0] == pytest.approx((1 / 2 + 3 / 4) / 2)
    assert means["fixed"][0] == pytest.approx(1 / 4)
    assert means["times"][0] == pytest.approx(2)


def test_weights_are_drawn_as_one_would_draw_them():
    outcomes = np.random.default_rng(1).random((6, 9))
    outcomes[0, :3] = np.nan
    found = resampled_means({"a": outcomes}, replicates=5000)["a"][1:]
    rng = np.random.default_rng(2)
    drawn = [
        np.nanmean(outcomes[np.ix_(rng.integers(6, size=6), rng.integers(9, size=9))], axis=1).mean()
        for _ in range(1000)
    ]
    # The replicates are the drawn means, stretched: of the same middle, and wider.
    assert np.median(found) == pytest.approx(np.median(drawn), abs=0.02)
    assert 1 < found.std() / np.std(drawn) < 2


def test_few_repetitions_that_agree_do_not_widen_what_samples_decide():
    hard = np.random.default_rng(0).random((1, 500)) < 0.3
    one, three = (interval(resampled_means({"a": np.repeat(hard, times, axis=0)})["a"]) for times in (1, 3))
    assert three == pytest.approx(one, abs=0.01)


def test_one_number_has_no_interval():
    assert np.isnan(interval(resampled_means({"a": [[0.3]]})["a"])).all()


def test_equal_outcomes_have_no_difference():
    wrong = np.random.default_rng(0).random((4, 50)) < 0.3
    means = resampled_means({"a": wrong, "b": wrong})
    assert interval(means["a"] - means["b"]) == (0, 0)


def test_the_seed_decides():
    wrong = {"a": np.random.default_rng(0).random((4, 50))}
    first = resampled_means(wrong)["a"]
    np.testing.assert_array_equal(resampled_means(wrong)["a"], first)
    assert (resampled_means(wrong, seed=1)["a"] != first)[1:].all()


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        (
            {"a": [1.0, 2.0]},
            "outcomes of 'a' must be an array of repetitions and samples, got the shape (2,)",
        ),
        ({"a": np.ones((2, 3)), "b": np.ones((2, 4))}, "outcomes of 'a' must have the shape (2, 4)"),
        ({"a": np.ones((0, 3))}, "outcomes of 'a' must be an array of repetitions and samples"),
    ],
)
def test_other_shapes_are_errors(outcomes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        resampled_means(outcomes)
