import numpy as np
import pytest
from bench_command import bench

from pairloom.benchmarks import coupling


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Results that disagree would end it with an error."""
    return bench("coupling", "--small", json_file=tmp_path_factory.mktemp("coupling") / "rows.json")


@pytest.mark.long
def test_every_figure_is_in_the_table(small):
    """Speed is not asserted: a machine that runs tests does other work too."""
    table = [line for line in small.printed.splitlines() if line.endswith((" OK", " missed"))]
    for what, count in {
        "normal, share of a parallel sum's bandwidth": 1,
        "wlw2, times faster than numpy's": 4,
        "stratified, times faster than numpy's": 4,
        "wlw2, times faster than LIBSVM's coupling": 2,
        "stratified, times faster than LIBSVM's coupling": 2,
        "bradley_terry, times the cost of wlw2": 1,
        "normal over K(3, 57), peak of a process beside the tensor": 1,
    }.items():
        assert len([line for line in table if line.startswith(what)]) == count
    assert "u ~ N(0, 3), noise ~ N(0, 1)" in small.printed


@pytest.mark.long
def test_every_ratio_has_both_figures(small):
    rows = small.record["rows"]
    assert len(rows) == 15
    for row in rows:
        if row["unit"] == "s":
            faster = row["theirs"] / row["ours"]
            assert row["figure"] == pytest.approx(faster if row["relation"] == ">=" else 1 / faster)
        assert row["met"] == (row["figure"] >= row["target"]) or row["relation"] == "<="


def test_a_disagreement_is_not_passed_over():
    with pytest.raises(coupling.Disagreement, match="wlw2: probabilities differ by"):
        coupling.check_agreement("wlw2", np.array([[0.5, 0.5]]), np.array([[0.6, 0.4]]), 1e-4)
    with pytest.raises(coupling.Disagreement, match="differ by nan"):
        coupling.check_agreement("wlw2", np.array([[np.nan, 0.5]]), np.array([[0.6, 0.4]]), 1e-4)
