import numpy as np
import pytest
from bench_command import bench

from pairloom.benchmarks.scaling import weak_classes, with_first_classes
from pairloom.cluster.config.config_file import load_config
from pairloom.cluster.drive.driver import load_data


@pytest.mark.long
def test_the_same_run_on_one_worker_and_on_two(tmp_path):
    """Speed is not asserted: a machine that runs tests does other work too."""
    options = ("--small", "--workers", "1,2", "--forecast", "4,16", "--plot", tmp_path / "scaling.png")
    printed, record = bench("scaling", *options, json_file=tmp_path / "scaling.json")
    rows = [row for row in record["rows"] if row["table"] == "runs"]
    assert [(row["mode"], row["workers"]) for row in rows] == [
        ("strong", 1), ("weak", 1), ("strong", 2), ("weak", 2),
    ]  # fmt: skip
    for row in rows:
        assert sum(row["shares"].values()) == pytest.approx(1)
        assert sum(row["stages"].values()) == pytest.approx(row["seconds"])
    assert rows[0]["speedup"] == rows[0]["efficiency"] == 1
    assert rows[2]["speedup"] == pytest.approx(rows[0]["seconds"] / rows[2]["seconds"])
    played = [row for row in record["rows"] if row["table"] == "forecast"]
    assert [(row["workers"], row["measured_s"] is None) for row in played] == [
        (1, False), (2, False), (4, True), (16, True),
    ]  # fmt: skip
    assert all(row["forecast_s"] > 0 for row in played)
    assert [bool(row["busy"]) for row in played] == [False, False, True, True]
    assert all(0 <= share <= 1 for row in played for share in row["busy"].values())
    assert all(row["busy"]["cores"] > 0 for row in played[2:])
    assert "The same bytes on every number of workers." in printed
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_ways_to_keep_the_logits_are_measured_apart(tmp_path):
    options = ("--small", "--workers", "1", "--tensors", "stored,virtual")
    _, record = bench("scaling", *options, json_file=tmp_path / "scaling.json")
    rows = [row for row in record["rows"] if row["table"] == "runs"]
    assert [(row["tensor"], row["mode"]) for row in rows] == [("stored", "strong"), ("virtual", "strong")]
    assert rows[0]["stages"]["logits"] > rows[1]["stages"]["logits"]


@pytest.mark.long
def test_weak_scaling_keeps_the_pairs_per_worker():
    complete = load_config("imagenet50-synthetic")
    sparse = load_config("imagenet50-synthetic", ["graph.family=hub_neighbours"])
    assert [weak_classes(sparse, w, 4) for w in (1, 2, 4)] == [12, 25, 50]
    n = np.array([weak_classes(complete, w, 4) for w in (1, 2, 4)])
    assert n * (n - 1) / 2 / [1, 2, 4] == pytest.approx(306, abs=10)


def test_the_first_classes_are_a_configuration_of_their_own(tmp_path):
    config = load_config("digits")
    whole = load_data(config).load()
    part = load_data(with_first_classes(config, 3, tmp_path, rows=5)).load()
    assert part.classes == whole.classes[:3]
    assert np.bincount(part.y_train).tolist() == [5, 5, 5]
    assert len(part.X_test) == (whole.y_test < 3).sum()
    assert part.X_train[0].tolist() == whole.X_train[whole.y_train == 0][0].tolist()
