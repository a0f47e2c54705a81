import pytest
from bench_command import bench

from pairloom.benchmarks.prediction_sets import SplitOutcome, _rows


def test_the_table_has_every_coverage(tmp_path):
    printed, record = bench("prediction-sets", "--small", json_file=tmp_path / "sets.json")
    assert [row["coverage"] for row in record["rows"]] == [0.8, 0.9, 0.95, 0.99]
    for row in record["rows"]:
        assert row["held"] > row["coverage"] - 0.1
        assert 0 <= row["inside"] <= row["splits"] == 2
    sizes = [row["size"] for row in record["rows"]]
    assert sizes == sorted(sizes)
    assert printed.splitlines()[-1].startswith("in their interval")


def test_sets_for_every_class_have_pools(tmp_path):
    _, record = bench("prediction-sets", "--small", "--by", "class", json_file=tmp_path / "sets.json")
    by_coverage = {row["coverage"]: row for row in record["rows"]}
    # 75 held-out samples of three classes: 19 of each are enough for 95%, and all together are too few for 99%.
    assert [by_coverage[coverage]["pools"] for coverage in (0.8, 0.95, 0.99)] == [3, 3, 1]
    assert by_coverage[0.8]["pools_inside"] > 0.5


def test_sizes_are_compared_where_sets_hold_as_many():
    """Of a method whose sets for 80% hold 90%, the size at 80% is that of smaller sets."""
    shares = {0.75: 0.8, 0.8: 0.9, 0.9: 0.95, 0.95: 0.99, 0.99: 1.0}
    outcomes = [{c: SplitOutcome(held, True, 10 * held, 1, 1) for c, held in shares.items()}] * 2
    rows = {row.coverage: row for row in _rows("a set", "a peer", outcomes)}
    assert rows[0.8].size == 9
    assert rows[0.8].size_at == pytest.approx(8)
    assert rows[0.95].size_at == pytest.approx(9.5)
