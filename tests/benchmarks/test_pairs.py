import numpy as np
import pytest
from bench_command import bench

from pairloom.benchmarks import pairs


@pytest.mark.long
def test_every_set_has_both_times_of_every_ratio(tmp_path):
    """Speed is not asserted, but the optimum is LIBSVM's."""
    _, record = bench("pairs", "--small", json_file=tmp_path / "rows.json")
    rows = [row for row in record["rows"] if row["table"] == "sets"]
    assert "overlapping 300 x 30" in [row["data"] for row in rows]
    for row in rows:
        assert row["libsvm_ratio"] == pytest.approx(row["libsvm_s"] / row["ours_s"])
        assert row["folds_ratio"] == pytest.approx(row["libsvm_folds_s"] / row["folds_s"])
        assert row["objective_over_libsvm"] <= 1e-3


def test_the_nearest_classes_are_among_the_pairs():
    X = np.array([[0.0], [0.1], [5.0], [9.0]], np.float32)
    assert pairs.choose_pairs(X, np.arange(4), 2)[0] == (0, 1)


def test_the_objective_is_the_primal_of_a_linear_svm():
    X, y = np.array([[1.0, 0.0], [0.0, 2.0]], np.float32), np.array([1.0, -1.0])
    # margins: 1 * (3 - 1) = 2 and -1 * (-2 - 1) = 3, both outside; then one inside by a half
    assert pairs.primal(X, y, np.array([3.0, -1.0]), -1.0, 10.0) == pytest.approx(5.0)
    assert pairs.primal(X, y, np.array([0.5, -1.0]), 0.0, 10.0) == pytest.approx(0.625 + 5.0)
