import pytest
from bench_command import bench


@pytest.mark.long
def test_a_first_unit_of_each_stage_stands_for_the_others(tmp_path):
    """Every stage of a run of many classes gets along with the files that stand for those of later units."""
    options = (
        "--small",
        "--folder",
        tmp_path,
        "--set",
        "run.edges_per_tile=8",
        "--set",
        "run.samples_per_slab=64",
    )
    printed, record = bench("first-tiles", *options, json_file=tmp_path / "tiles.json")
    rows = {row["stage"]: row for row in record["rows"]}
    for stage in (
        "read",
        "plan",
        "features",
        "machines",
        "held_out",
        "calibration",
        "probabilities",
        "report",
    ):
        assert rows[stage]["done"] >= 1
    machines = rows["machines"]
    assert machines["done"] == 1 < machines["units"]
    assert machines["forecast_s"] == pytest.approx(machines["units"] * machines["unit_s"])
    assert rows["features"]["done"] == rows["features"]["units"]
    assert "min on 2 workers" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["tiles.json"]
