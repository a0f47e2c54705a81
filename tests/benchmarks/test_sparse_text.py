import math

import pytest
from bench_command import bench


@pytest.mark.long
def test_the_table_has_every_classifier_and_the_targets(tmp_path):
    printed, record = bench("sparse-text", "--small", json_file=tmp_path / "text.json")
    rows = {row["classifier"]: row for row in record["rows"]}
    assert list(rows) == ["PairwiseSVC", "LogisticRegression(lbfgs)", "LogisticRegression(saga)"]
    for row in rows.values():
        assert row["note"] == ""
        assert row["accuracy"] > 0.5
        assert row["log_loss"] < math.log(4)
        assert row["ours"] == pytest.approx(rows["PairwiseSVC"]["fit_cpu_s"] / row["fit_cpu_s"])
    assert "target at most 2" in printed.splitlines()[-1]
