import pytest
from bench_command import bench


def test_the_table_has_every_set_and_the_targets(tmp_path):
    printed, record = bench("few-rows", "--small", json_file=tmp_path / "rows.json")
    assert [row["data"] for row in record["rows"]] == ["wine", "iris", "breast_cancer", "digits"]
    for row in record["rows"]:
        assert row["rows"] == 8
        assert row["ratio"] == pytest.approx(row["ours"] / row["theirs"])
        assert row["certain_errors"] <= row["predictions"]
    assert [line.split()[0] for line in printed.splitlines()[-3:]] == ["ahead", "worst", "certain"]
