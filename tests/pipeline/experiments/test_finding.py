"""Verdicts on claims: what an interval decides, and what it leaves open."""

import json
import math

import numpy as np
import pytest

from pairloom.pipeline.experiments.finding import OURS, Finding, compared, within
from pairloom.pipeline.experiments.paired_bootstrap import resampled_means


@pytest.mark.parametrize(
    ("low", "high", "above", "below", "holds"),
    [
        (0.1, 0.3, 0, math.inf, True),
        (-0.3, -0.1, 0, math.inf, False),
        (-0.1, 0.3, 0, math.inf, None),
        (0, 0, 0, math.inf, None),
        (0, 0, -0.005, 0.005, True),
        (-0.01, 0.001, -0.005, 0.005, None),
        (0.006, 0.01, -0.005, 0.005, False),
        (-0.01, -0.006, -0.005, 0.005, False),
        (0.82, 0.9, 0.8, math.inf, True),
        (math.nan, math.nan, 0, math.inf, None),
    ],
)
def test_a_claim_is_decided_by_the_whole_interval(low, high, above, below, holds):
    assert within(low, high, above, below) is holds


def errors(*means):
    rng = np.random.default_rng(0)
    return resampled_means({mean: rng.random((10, 400)) < mean for mean in means})


def test_a_clear_difference_is_decided_and_a_small_one_is_not():
    error = errors(0.1, 0.3, 0.31)
    assert compared(OURS, "errs more", {"": error[0.3] - error[0.1]}, above=0).verdict == "holds"
    assert compared(OURS, "errs more", {"": error[0.1] - error[0.3]}, above=0).verdict == "differs"
    assert compared(OURS, "errs more", {"": error[0.31] - error[0.3]}, above=0).verdict == "undecided"
    assert compared(OURS, "errs more", {"": error[0.3] - error[0.3]}, above=0).verdict == "undecided"


def test_a_claim_on_several_quantities_holds_for_all_and_differs_for_one():
    error = errors(0.1, 0.3, 0.31)
    more, less, same = error[0.3] - error[0.1], error[0.1] - error[0.3], error[0.31] - error[0.3]
    assert compared(OURS, "errs more", {"a": more, "b": more}, above=0).holds is True
    assert compared(OURS, "errs more", {"a": more, "b": same}, above=0).holds is None
    assert compared(OURS, "errs more", {"a": more, "b": same, "c": less}, above=0).holds is False


def test_intervals_of_several_quantities_are_wider():
    error = errors(0.1, 0.3)
    gap = error[0.3] - error[0.1]
    (alone,) = compared(OURS, "errs more", {"": gap}, above=0).comparisons
    first, *_ = compared(OURS, "errs more", {"a": gap, "b": gap, "c": gap}, above=0).comparisons
    assert first.low < alone.low < alone.estimate < alone.high < first.high


def test_a_finding_says_the_estimate_and_its_interval_and_is_json():
    quantity = np.concatenate([[0.02], np.linspace(0.01, 0.03, 2001)])
    finding = compared(OURS, "gains", {"wlw2": quantity}, above=0, aside="of all samples")
    assert finding.here == "wlw2 +2.00% (+1.05% to +2.95%); of all samples"
    record = json.loads(json.dumps(finding.record(), allow_nan=False))
    assert (record["verdict"], record["holds"]) == ("holds", True)
    (comparison,) = record["comparisons"]
    assert comparison["what"] == "wlw2"
    assert (comparison["low"], comparison["estimate"], comparison["high"]) == pytest.approx(
        (0.0105, 0.02, 0.0295)
    )


def test_a_finding_of_one_number_is_undecided_and_one_without_chance_is_not():
    single = compared(OURS, "gains", resampled_means({"": [[0.3]]}), above=0)
    assert single.holds is None
    assert "no interval" in single.here
    json.dumps(single.record(), allow_nan=False)
    assert Finding(OURS, "is straight", "it is", True).verdict == "holds"
