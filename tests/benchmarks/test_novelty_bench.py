import numpy as np
import pytest
from bench_command import bench

from pairloom.benchmarks.novelty import _rejection, quality


def test_every_measure_tells_strange_samples_from_known_ones(tmp_path):
    _, record = bench("novelty", "--small", json_file=tmp_path / "novelty.json")
    by_measure = {row["measure"]: row for row in record["rows"]}
    assert by_measure.keys() >= {
        "PairwiseSVC",
        "logistic energy",
        "relative Mahalanobis",
        "1-nearest neighbour",
    }
    assert all(0.4 < row["auroc"] <= 1 for row in record["rows"])
    assert by_measure["PairwiseSVC"]["auroc"] > 0.7
    assert abs(by_measure["PairwiseSVC"]["deviations"]) < 4


def test_deviations_are_those_of_the_mean_of_the_draws():
    draws = [np.array([0.06, 0.0004]), np.array([0.08, 0.0004])]
    share, deviations = _rejection(draws)
    assert share == pytest.approx(0.07)
    assert deviations == pytest.approx(0.02 / np.sqrt(0.0002))


def test_quality_is_that_of_samples_which_are_told_apart():
    assert quality(np.array([0.0, 1.0, 2.0, 3.0]), 2) == (1.0, 0.0)
    assert quality(np.array([0.0, 10.0, 5.0, 6.0]), 2) == (0.5, 1.0)
