import pytest
from bench_command import bench


@pytest.mark.long
def test_possible_classes_are_coupled_and_groups_keep_their_promise(tmp_path):
    _, record = bench("classes-and-groups", "--small", json_file=tmp_path / "groups.json")
    possible = {row["method"]: row for row in record["rows"] if row["table"] == "only these classes"}
    assert list(possible) == ["divided", "coupled", "fitted alone"]
    assert possible["divided"]["differs"] == 0 < possible["coupled"]["differs"]
    assert all(row["accuracy"] > 0.5 for row in possible.values())
    groups = [row for row in record["rows"] if row["table"] == "groups"]
    assert [row["coverage"] for row in groups] == [0.8, 0.9, 0.95, 0.99]
    assert all(row["deviations"] > -4 for row in groups)
    assert all(sum(row["levels"]) == pytest.approx(1) for row in groups)
