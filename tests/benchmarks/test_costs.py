import numpy as np
import pytest
from bench_command import bench

from pairloom.benchmarks.costs import AXES, EXPECTED, NOT_HERE, findings, fit_power, rows_of
from pairloom.benchmarks.datasets import synthetic_classes
from pairloom.pipeline.stages import STAGE_NAMES


@pytest.mark.long
def test_every_stage_and_both_methods_have_a_power(tmp_path):
    """Speed is not asserted: a machine that runs tests does other work too."""
    options = ("--small", "--axes", "classes", "--plot", tmp_path / "costs.svg")
    _, record = bench("costs", *options, json_file=tmp_path / "costs.json")
    rows = {row["cost"]: row for row in record["rows"]}
    assert set(rows) == set(EXPECTED)
    assert all(row["sizes"] == [12, 24] for row in rows.values())
    assert all(rows[cost]["values"][-1] > 0 for cost in ("run: candidates", "run: report", "fit", "peak MB"))
    stages = [rows[cost]["values"][0] for cost in rows if cost.startswith("run: ") and cost != "run: whole"]
    assert sum(stages) == pytest.approx(rows["run: whole"]["values"][0])
    assert (tmp_path / "costs.svg").stat().st_size > 0


def test_every_stage_has_an_expected_power_on_every_axis():
    stages = {f"run: {stage}" for stage in STAGE_NAMES if stage not in NOT_HERE}
    assert stages <= set(EXPECTED)
    assert {len(powers) for powers in EXPECTED.values()} == {len(AXES)}


def test_the_power_is_the_slope_of_the_logarithms():
    sizes = (10, 20, 40, 80)
    assert fit_power(sizes, [2.0 * n**1.5 for n in sizes]) == pytest.approx((1.5, 1.5))
    # times that are noise are left out, and the last sizes say what is to come
    power, last = fit_power(sizes, [1e-4, 0.2, 0.4, 1.6])
    assert (power, last) == pytest.approx((1.5, 1.5))
    assert fit_power(sizes, [1e-4, 1e-4, 1e-4, 1.0]) is None


def test_a_cost_that_grows_too_fast_is_named():
    costs = [{"fit": n**2.0, "run: machines": 1.0 * n, "run: whole": 100.0 * n} for n in (1, 2, 4)]
    rows = list(rows_of("classes", (1, 2, 4), costs))
    assert [row.cost for row in rows if row.too_fast] == ["fit"]
    (line,) = findings(rows)
    assert line.startswith("fit grows as classes^2.00 up to 4 classes (4.000, then 16.000); at most 1")
    assert list(findings(rows[1:])) == ["Nothing grows faster than it should."]


def test_synthetic_classes_have_the_sizes_asked_for_and_are_told_apart():
    X, X_new, y, y_new = synthetic_classes(30, rows=20, features=120, tests=300)
    assert (X.shape, X_new.shape) == ((600, 120), (300, 120))
    assert np.bincount(y).tolist() == [20] * 30
    means = np.stack([X[y == c].mean(axis=0) for c in range(30)])
    nearest = ((X_new[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert 0.5 < (nearest == y_new).mean() < 1
