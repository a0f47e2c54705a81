import pytest
from bench_command import bench


def test_the_table_has_every_coverage(tmp_path):
    printed, record = bench("prediction-sets", "--small", json_file=tmp_path / "sets.json")
    assert [row["coverage"] for row in record["rows"]] == [0.8, 0.9, 0.95, 0.99]
    for row in record["rows"]:
        assert row["held"] == pytest.approx(row["coverage"], abs=0.2)
        assert 0 <= row["inside"] <= row["splits"] == 2
    sizes = [row["size"] for row in record["rows"]]
    assert sizes == sorted(sizes)
    assert printed.splitlines()[-1].startswith("in their interval")
