import pytest
from bench_command import bench
from object_stores import program

from pairloom.benchmarks.stores import Row, verdicts


@pytest.mark.long
def test_both_homes_are_measured_and_have_the_same_bytes(tmp_path):
    """Speed is not asserted: a machine that runs tests does other work too."""
    program("weed")
    _, record = bench("stores", "--small", "--workers", 1, json_file=tmp_path / "stores.json")
    folder, store, *targets = record["rows"]
    assert (folder["home"], store["home"]) == ("folder", "store")
    assert folder["digest"] == store["digest"]
    assert folder["requests"] == 0
    assert 300 < store["requests"] < 3000
    assert targets[0]["figure"] == pytest.approx(store["seconds"] / folder["seconds"])
    assert targets[2]["ours"] == store["requests"]


def test_the_fastest_run_of_each_home_counts():
    rows = [Row("folder", 10.0, 8.0, 0, ""), Row("store", 20.0, 9.0, 100, "")]
    rows += [Row("folder", 12.0, 7.0, 0, ""), Row("store", 15.0, 14.0, 90, "")]
    wall, cpu, requests = verdicts(rows)
    assert (wall.ours, wall.theirs, wall.met) == (15.0, 10.0, True)
    assert (cpu.ours, cpu.theirs, cpu.figure) == (9.0, 7.0, 9 / 7)
    assert (requests.ours, requests.met) == (100, True)
