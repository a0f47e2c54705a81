import pytest
from bench_command import bench


@pytest.mark.long
def test_the_first_process_compiles_and_of_two_at_once_one(tmp_path):
    printed, record = bench("first-fit", "--small", json_file=tmp_path / "first.json")
    first, second, *at_once = (row for row in record["rows"] if row["table"] == "processes")
    kernels = [row for row in record["rows"] if row["table"] == "kernels"]
    assert first["kernels"] == len(kernels) > 0
    assert second["kernels"] == second["compiling"] == 0
    assert sum(row["kernels"] for row in at_once) == first["kernels"]
    assert "compiled by both of two at once: nothing" in printed
